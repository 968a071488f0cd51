"""What every source promises: positions that can be replayed, slices that can be read anywhere, in any order."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

Offset = Mapping[str, Any]
"""A position in a stream, as plain data; `ended` is true once nothing will ever follow."""


@dataclass(frozen=True)
class Slice:
    """A part of a stream that one task reads; the same slice always gives the same rows.

    `rows` is what the part weighs: exact where the source knows it, else a guess.
    """

    place: str
    rows: int
    data: Mapping[str, Any]


@dataclass(frozen=True)
class RawBatch:
    """Rows as they came, before anything was checked.

    Rows are counted from 0 at the start of the place: from `first_row` on without gaps, or as `numbers` says.
    `malformed` says why none of these rows could be told apart into columns; they hold what is left of them.
    """

    batch: pa.RecordBatch
    place: str
    first_row: int = 0
    numbers: NDArray[np.int64] | None = None
    malformed: str = ""

    def number(self, row: int) -> int:
        """The number of a row at its place."""
        return self.first_row + row if self.numbers is None else int(self.numbers[row])


@dataclass(frozen=True)
class BadFile:
    """A file, or the rest of one, that could not be read and that the user asked to pass over."""

    place: str
    reason: str


class Cursor(Protocol):
    """The planning side of a source: finds out how far it reaches and cuts it into slices."""

    def latest(self, start: Offset) -> Offset:
        """How far the next epoch may read; `start` itself when there is nothing new."""

    def slices(self, start: Offset, end: Offset, parallelism: int) -> Sequence[Slice]:
        """The stretch between two offsets, in order, in 1 to `parallelism` slices; the same for every replay."""


class Source(Protocol):
    """Where a stream's events come from; a picklable value."""

    def start(self) -> Offset:
        """The offset before the first event."""

    def cursor(self, directory: str) -> Cursor:
        """A cursor that keeps what it must remember in a durable directory."""

    def read(self, piece: Slice, columns: Sequence[str]) -> Iterator[RawBatch | BadFile]:
        """The rows of a slice, with at least the named columns."""


DRAIN = "drain"
"""File in a cursor's directory whose presence asks it to end: nothing more is taken in."""

_NAMES_SHOWN = 20


def column_fault(given: Sequence[str], wanted: Sequence[str]) -> str:
    """What is wrong with the columns that came, as the rest of a sentence; empty when each wanted one is there once.

    >>> column_fault(["ts", "sped"], ["ts", "speed"])
    "lacks column 'speed'; it has ts, sped"
    """
    faults = [name for name in wanted if given.count(name) != 1]
    if not faults:
        return ""
    lacking = [name for name in faults if name not in given]
    verb, named = ("lacks", lacking) if lacking else ("has more than one", faults)
    more = f" and {len(given) - _NAMES_SHOWN} more" if len(given) > _NAMES_SHOWN else ""
    has = ", ".join(name if name.isprintable() else repr(name) for name in given[:_NAMES_SHOWN]) or "none"
    return f"{verb} column {', '.join(repr(name) for name in named)}; it has {has}{more}"
