"""Streams whose rows are pushed by a caller, for runs whose workers are threads of this process."""

import threading
from collections import deque
from collections.abc import Iterator, Sequence
from typing import ClassVar

import pyarrow as pa

from shoal.connectors.sources.source import Offset, RawBatch, Slice
from shoal.errors import SourceError

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

    def waited(self, timeout_s: float) -> bool:
        """Wait until there are rows, or will be none; returns whether there is something to take."""
        with self._changed:
            return self._changed.wait_for(lambda: bool(self._batches) or self._ended or self._closed, timeout_s)

    @property
    def closed(self) -> bool:
        """Whether nobody reads any more."""
        return self._closed


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
