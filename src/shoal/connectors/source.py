"""What every source promises: positions that can be replayed, slices that can be read anywhere, in any order."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa

Offset = Mapping[str, Any]
"""A position in a stream, as plain data; `ended` is true once nothing will ever follow."""


@dataclass(frozen=True)
class Slice:
    """A part of a stream that one task reads; the same slice always gives the same rows."""

    place: str
    rows: int
    data: Mapping[str, Any]


@dataclass(frozen=True)
class RawBatch:
    """Rows as they came, before anything was checked; `first_row` counts from the start of the place."""

    batch: pa.RecordBatch
    place: str
    first_row: int = 0


@dataclass(frozen=True)
class BadFile:
    """A file that could not be read at all and that the user asked to pass over."""

    place: str
    reason: str


class Cursor(Protocol):
    """The planning side of a source: finds out how far it reaches and cuts it into slices."""

    def latest(self, start: Offset) -> Offset:
        """How far the next epoch may read; `start` itself when there is nothing new."""

    def slices(self, start: Offset, end: Offset, parallelism: int) -> Sequence[Slice]:
        """The stretch between two offsets, cut for at most `parallelism` tasks; the same for every replay."""


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
