"""What every source promises: positions that can be replayed, slices that can be read anywhere, in any order."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from shoal.connectors.formats.conversion import TimeUnit

Offset = Mapping[str, Any]
"""A position in a stream, as plain data; `ended` is true at the end of the stream.

A source of several partitions names those that may have more rows after the position in `open`, a list.
"""


@dataclass(frozen=True)
class Slice:
    """A part of a stream that one task reads; the same slice always gives the same rows.

    `rows` is exact where the source knows it, else an estimate; `where` names the part for people. `partition` names
    the partition that all of its rows belong to, if the source has several.
    """

    where: str
    rows: int
    data: Mapping[str, Any]
    partition: str = ""


@dataclass(frozen=True)
class RawBatch:
    """Rows as the source delivers them, before admission.

    Rows are counted from 0 at the start of `where`: from `first_row` on without gaps, or as in `numbers`.
    `malformed` says why none of these rows could be split into columns; they then hold the raw text.
    `time_unit`: what integers count where a time is declared. None: nobody has said so; they are taken for
    microseconds, and refused where that gives times in 1970. `oldest_us`: the oldest event time, where rows do not
    have their own (`CoarseTime`).
    """

    batch: pa.RecordBatch
    where: str
    first_row: int = 0
    numbers: NDArray[np.int64] | None = None
    malformed: str = ""
    time_unit: TimeUnit | None = "us"
    oldest_us: int | None = None

    def number(self, row: int) -> int:
        """The number of a row, counted from the start of `where`."""
        return self.first_row + row if self.numbers is None else int(self.numbers[row])


@dataclass(frozen=True)
class BadFile:
    """A file, or the rest of one, that could not be read and that the user asked to skip."""

    where: str
    reason: str


class Cursor(Protocol):
    """The planning side of a source: finds the end of its data and cuts it into slices."""

    def latest(self, start: Offset) -> Offset:
        """The offset up to which the next epoch may read; `start` itself when there is no new data.

        On every runtime watermarks advance at these offsets only, so which rows are late depends on them: the same data
        must give the same offsets.
        """

    def slices(self, start: Offset, end: Offset, parallelism: int) -> Sequence[Slice]:
        """Cut the range between two offsets into 1 to `parallelism` slices, in order, or into one per partition if
        those are more; called again for a replay, also after a restart, it must give the same rows.
        """


@runtime_checkable
class ForesightedCursor(Protocol):
    """A cursor that can say what the epoch after the next one will most likely read."""

    def expected(self, start: Offset, parallelism: int) -> Sequence[Slice]:
        """The slices of the epoch that begins at an offset, by what is known now; none if nothing is.

        Called after `slices`. The epoch may turn out otherwise: nothing may depend on it but when a slice is read.
        """


@runtime_checkable
class ClosableCursor(Protocol):
    """A cursor that holds something to be released, such as a program that it has started."""

    def close(self) -> None:
        """Release it; called when the run ends in any way, perhaps from another thread, perhaps more than once."""


def close_cursor(cursor: Cursor) -> None:
    """Release what a cursor holds, if anything."""
    if isinstance(cursor, ClosableCursor):
        cursor.close()


@dataclass(frozen=True)
class CoarseTime:
    """Event time of which queries see no more than the pane: `column // pane_us`.

    Where all rows of a part lie in one pane, from `from_us` to `until_us`, each of them may be given the largest time
    of the part. Watermarks stay the same if every row of the part gets in: a source may do it only where no value of
    the columns `beside` can be refused, but for texts that are not UTF-8. Who asks must read again without it if a row
    is refused after all.
    """

    column: str
    pane_us: int
    from_us: int
    until_us: int
    beside: pa.Schema

    def covers(self, oldest_us: int, newest_us: int) -> bool:
        """Whether rows between two times need no times of their own.

        >>> hours = CoarseTime("ts", 3_600_000_000, 0, 10**18, pa.schema([]))
        >>> hours.covers(7_200_000_000, 10_799_999_999), hours.covers(7_199_999_999, 7_200_000_000)
        (True, False)
        """
        return (
            self.from_us <= oldest_us <= newest_us <= self.until_us
            and oldest_us // self.pane_us == newest_us // self.pane_us
        )


@dataclass(frozen=True)
class Wanted:
    """What a run wants of a stream: the columns that its queries read, and those that are only checked.

    Whether a row gets in depends on all columns that the stream declares, so that it does not depend on the queries.
    `coarse`: where rows need no times of their own; without it, they all do.
    """

    read: tuple[str, ...]
    checked: pa.Schema
    coarse: CoarseTime | None = None

    @classmethod
    def of(cls, declared: pa.Schema, read: Sequence[str]) -> "Wanted":
        """The columns to read, and the other declared ones."""
        return cls(tuple(read), pa.schema([field for field in declared if field.name not in read]))


class Source(Protocol):
    """Where a stream's events come from; a picklable value."""

    def start(self) -> Offset:
        """The offset before the first event; may be called at any time and must always be the same."""

    def cursor(self, directory: str) -> Cursor:
        """A new cursor, created at every start of a run; what must survive a restart goes to the directory."""

    def read(self, piece: Slice, columns: Sequence[str]) -> Iterator[RawBatch | BadFile]:
        """Yield the rows of a slice, with at least the named columns; called on any worker, it must give the same
        rows every time.
        """


@runtime_checkable
class SelectiveSource(Protocol):
    """A source that knows of some columns that every value in them fits, and need not deliver them to be checked."""

    def read_wanted(self, piece: Slice, wanted: Wanted) -> Iterator[RawBatch | BadFile]:
        """Yield the rows of a slice as `read` does, with the columns to read; of those that are only checked, with all
        that the data has and in which a value may be refused.
        """


def rows_of(source: Source, piece: Slice, wanted: Wanted) -> Iterator[RawBatch | BadFile]:
    """The rows of a slice with the columns that are read or checked."""
    if isinstance(source, SelectiveSource):
        return source.read_wanted(piece, wanted)
    return source.read(piece, (*wanted.read, *wanted.checked.names))


def open_partitions(offset: Offset) -> tuple[str, ...] | None:
    """The partitions that may have more rows after an offset; None if the source is one partition."""
    return tuple(offset["open"]) if "open" in offset else None


DRAIN = "drain"
"""File in a cursor's directory whose presence asks it to end the stream here."""

_NAMES_SHOWN = 20


def column_fault(given: Sequence[str], wanted: Sequence[str]) -> str:
    """What is wrong with the columns given, as the rest of a sentence; empty if each wanted column is there once.

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
