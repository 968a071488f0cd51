"""Streams whose rows are pushed by a caller: in memory for threads of this process, in files for other processes."""

import threading
from collections import deque
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa

from shoal.connectors.sources.live_cursor import LiveCursor, read_pieces
from shoal.connectors.sources.source import Offset, RawBatch, Slice, Wanted
from shoal.errors import SourceError
from shoal.storage.directory import Directory

MOST_ROWS = 200_000
"""Rows that may wait before a caller has to."""


class Inbox:
    """Rows that were pushed and not yet read; `put` waits while they are too many."""

    def __init__(self, stream: str, most_rows: int = MOST_ROWS) -> None:
        """Empty."""
        self.stream = stream
        self._most_rows = most_rows
        self._changed = threading.Condition()
        self._batches: deque[pa.RecordBatch] = deque()
        self._rows = 0
        self._ended = self._closed = False

    def put(self, rows: pa.RecordBatch) -> bool:
        """Add rows when there is room; returns False if nobody will read them."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed or self._rows < self._most_rows)
            if self._closed:
                return False
            self._batches.append(rows)
            self._rows += rows.num_rows
            self._changed.notify_all()
            return True

    def end(self) -> None:
        """No more rows will be put."""
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def close(self) -> None:
        """Nobody reads any more; whoever waits goes on."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def taken(self) -> tuple[list[pa.RecordBatch], bool]:
        """Take all rows, and whether these are the last."""
        with self._changed:
            batches, self._batches, self._rows = list(self._batches), deque(), 0
            self._changed.notify_all()
            return batches, self._ended

    def next(self) -> pa.RecordBatch | None:
        """Take a batch, waiting for one; None after the last."""
        with self._changed:
            self._changed.wait_for(lambda: bool(self._batches) or self._ended or self._closed)
            if self._closed or not self._batches:
                return None
            batch = self._batches.popleft()
            self._rows -= batch.num_rows
            self._changed.notify_all()
            return batch


class PushedRows:
    """A source of the rows in an inbox, for runs whose workers are threads of this process.

    It can be read once: rows are kept until the run asks for those after them.
    """

    live: ClassVar[bool] = True

    def __init__(self, inbox: Inbox) -> None:
        """Read nothing yet."""
        self.place = f"stream {inbox.stream}"
        self._inbox = inbox
        self._kept: dict[int, tuple[pa.RecordBatch, int]] = {}
        self._number = self._rows = 0

    def start(self) -> Offset:
        """Before the first batch."""
        return {"batch": 0, "ended": False}

    def cursor(self, directory: str) -> "PushedRows":  # noqa: ARG002  (the protocol's)
        """The source itself, since there is one reader."""
        return self

    def latest(self, start: Offset) -> Offset:
        """Everything that was pushed; batches before `start` have been read and are dropped."""
        if start["ended"]:
            return start
        for number in range(min(self._kept, default=0), start["batch"]):
            self._kept.pop(number, None)
        batches, ended = self._inbox.taken()
        for batch in batches:
            self._kept[self._number] = batch, self._rows
            self._number, self._rows = self._number + 1, self._rows + batch.num_rows
        return {"batch": self._number, "ended": ended}

    def slices(self, start: Offset, end: Offset, parallelism: int) -> Sequence[Slice]:  # noqa: ARG002
        """One slice: threads of one process gain nothing from more."""
        first, stop = start["batch"], end["batch"]
        rows = sum(self._kept[number][0].num_rows for number in range(first, stop))
        return [Slice(self.place, rows, {"first": first, "stop": stop})]

    def read(self, piece: Slice, columns: Sequence[str]) -> Iterator[RawBatch]:
        """The batches of a slice."""
        for number in range(piece.data["first"], piece.data["stop"]):
            if number not in self._kept:
                raise SourceError(f"rows of {self.place} can be read once; batch {number} was dropped")
            batch, first_row = self._kept[number]
            yield RawBatch(batch.select(list(columns)), self.place, first_row)


class InboxFeed:
    """The rows of an inbox as the steps of a live program."""

    def __init__(self, inbox: Inbox) -> None:
        """Nothing taken yet."""
        self._inbox = inbox

    def steps(self, replayed: int) -> Generator[pa.RecordBatch, None, None]:
        """The batches; those of an earlier process are gone."""
        if replayed:
            raise SourceError(f"stream {self._inbox.stream!r} is pushed by a caller and cannot be replayed")
        while (batch := self._inbox.next()) is not None:
            yield batch

    def close(self) -> None:
        """Let go of whoever waits."""
        self._inbox.close()


INBOXES: dict[str, Inbox] = {}
"""The inboxes of this process by name: a source is pickled to workers, where it only reads files."""


@dataclass(frozen=True)
class StoredRows:
    """A source of the rows in the inbox of this name, stored as files: workers are processes of their own."""

    live: ClassVar[bool] = True

    inbox: str
    rows_per_epoch: int = 1_000_000

    @property
    def place(self) -> str:
        """What row numbers count in, for people."""
        return f"stream {self.inbox.rpartition('/')[2]}"

    def start(self) -> Offset:
        """Before the first batch."""
        return {"step": 0, "ended": False}

    def cursor(self, directory: str) -> LiveCursor:
        """A cursor that stores what is pushed; it must be made in the process that has the inbox."""
        if self.inbox not in INBOXES:
            raise SourceError(f"{self.place} is pushed in another process, or its session has been stopped")
        return LiveCursor(lambda: InboxFeed(INBOXES[self.inbox]), Directory(directory), self.rows_per_epoch, self.place)

    def read(self, piece: Slice, columns: Sequence[str]) -> Iterator[RawBatch]:
        """The rows of stored batches."""
        return self.read_wanted(piece, Wanted(tuple(columns), pa.schema([])))

    def read_wanted(self, piece: Slice, wanted: Wanted) -> Iterator[RawBatch]:
        """The same, with those of the columns that are only checked."""
        return read_pieces(piece, wanted, self.place)
