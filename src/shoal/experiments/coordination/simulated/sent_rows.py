"""Rows that tasks send while a simulation goes on, each with the simulated second in which it is due."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from shoal.connectors.sources.generator import Generator, Played


class SendSchedule:
    """The rows of a stream that have been sent, or will be, in the order in which they are due.

    >>> rows = SendSchedule(pa.schema({"n": pa.int64()}))
    >>> end = rows.send(pa.table({"n": [1, 2]}), np.array([5.0, 6.0]))
    >>> rows.index_at(5.5), rows.seconds_at(1), end
    (1, 6.0, 2)
    >>> rows.hold(5.5)
    >>> rows.index_at(9.0)
    1
    """

    def __init__(self, schema: pa.Schema) -> None:
        """No rows yet."""
        self._rows = schema.empty_table()
        self._due_s: NDArray[np.float64] = np.zeros(0)
        self._held_at: int | None = None
        self.read = 0
        """The rows that the run has taken."""

    @property
    def sent(self) -> int:
        """The rows that tasks have given so far."""
        return self._due_s.size

    def send(self, rows: pa.Table, due_s: NDArray[np.float64]) -> int:
        """Add rows; returns how many there are then. Those that are not read yet are sorted by when they are due."""
        self._rows = pa.concat_tables([self._rows, rows.cast(self._rows.schema)])
        self._due_s = np.concatenate([self._due_s, due_s])
        left = self._due_s[self.read :]
        if left.size and (np.diff(left) < 0).any():
            order = np.argsort(left, kind="stable")
            self._due_s = np.concatenate([self._due_s[: self.read], left[order]])
            tail = self._rows.slice(self.read).take(pa.array(order))
            self._rows = pa.concat_tables([self._rows.slice(0, self.read), tail])
        return self.sent

    def due_by(self, seconds: float) -> int:
        """The number of rows that are due at a time, held or not."""
        return int(np.searchsorted(self._due_s, seconds, side="right"))

    @property
    def held(self) -> bool:
        """Whether rows are kept."""
        return self._held_at is not None

    def hold(self, now_s: float) -> None:
        """Keep all rows that are due later until the stream goes on."""
        if self._held_at is None:
            self._held_at = self.index_at(now_s)

    def resume(self) -> None:
        """Let rows go on; those that were due meanwhile are sent at once."""
        self._held_at = None

    def batch(self, start: int, stop: int) -> pa.RecordBatch:
        """Rows number start .. stop - 1, which are read by this."""
        self.read = max(self.read, stop)
        part = self._rows.slice(start, stop - start).combine_chunks()
        return part.to_batches()[0] if part.num_rows else pa.RecordBatch.from_pylist([], part.schema)

    def index_at(self, seconds: float) -> int:
        """The number of rows that may have left at a time."""
        return self.due_by(seconds) if self._held_at is None else min(self.due_by(seconds), self._held_at)

    def seconds_at(self, index: int) -> float:
        """When a row is due; 0 for rows that nobody has sent, so that the source is asked again and again."""
        return float(self._due_s[index]) if index < self.sent else 0.0


@dataclass(frozen=True)
class _Live(Played):
    """The pace of rows that are still to be sent: by the clock of the run."""

    def due(self, elapsed_s: float) -> int:
        """The number of rows due after a time."""
        return self.events.index_at(elapsed_s)

    def when(self, event: int) -> float:
        """When a row is due."""
        return self.events.seconds_at(event)


class SentRows(Generator):
    """A source of rows that are sent while the run goes on; it ends when the run is drained."""

    def pace(self, base: int = 0) -> Played:  # noqa: ARG002  (the clock of the run begins at 0)
        """When rows are due."""
        if not isinstance(self.made_by, SendSchedule):
            raise TypeError("rows that are sent have a schedule")
        return _Live(self.made_by)
