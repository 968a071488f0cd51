"""The result buffer: results and dead letters on their way from nodes to the sink, bounded by their bytes.

It is where a slow sink meets the rest of the run. While it is full no node takes a turn, so channels fill no further
and sources stop reading. The thread that empties it waits for nobody but the sink, so the run cannot deadlock.
"""

import threading
from collections import deque
from typing import NamedTuple

import pyarrow as pa

from shoal.errors import ConfigError

SINK_BUFFER_BYTES = 64 << 20
"""Bytes of results that may wait for the sink, unless the settings say otherwise."""


class Waiting(NamedTuple):
    """Rows that wait for the sink: of a result table, or dead letters if there is no table.

    `taken_s` is when the oldest event behind results was due.
    """

    table: str | None
    rows: pa.RecordBatch
    taken_s: float
    nbytes: int


class ResultBuffer:
    """Any node may put rows in; one thread takes them out, and reports when the sink has them.

    `full` is a plain attribute: every node reads it before every turn. `arrived` is set while rows wait.

    >>> buffer = ResultBuffer(most_bytes=80)
    >>> buffer.put("t", pa.record_batch({"n": [1, 2, 3, 4, 5]}), taken_s=0.0)
    >>> buffer.put("t", pa.record_batch({"n": [6, 7, 8, 9, 10]}), taken_s=0.0)
    >>> buffer.full
    True
    >>> taken = buffer.take()
    >>> [each.rows.num_rows for each in taken], buffer.full
    ([5], True)
    >>> buffer.release(taken)
    >>> buffer.full, buffer.nbytes
    (False, 40)
    """

    __slots__ = ("_lock", "_most_bytes", "_waiting", "arrived", "full", "nbytes")

    def __init__(self, most_bytes: int = SINK_BUFFER_BYTES) -> None:
        """Empty; it is full from `most_bytes` on, and a turn that has begun may exceed that by what it emits."""
        if most_bytes < 1:
            raise ConfigError(f"sink_buffer_bytes must be at least 1; got {most_bytes}")
        self._most_bytes = most_bytes
        self._waiting: deque[Waiting] = deque()
        self._lock = threading.Lock()
        self.arrived = threading.Event()
        self.nbytes = 0
        self.full = False

    def put(self, table: str | None, rows: pa.RecordBatch, taken_s: float) -> None:
        """Add rows; never waits."""
        nbytes = rows.get_total_buffer_size()
        self._count(nbytes)
        self._waiting.append(Waiting(table, rows, taken_s, nbytes))
        if not self.arrived.is_set():
            self.arrived.set()

    def take(self) -> list[Waiting]:
        """The oldest rows, up to half of what may wait, so that the other half can come in while the sink writes."""
        self.arrived.clear()
        taken: list[Waiting] = []
        left = self._most_bytes // 2
        while self._waiting and (not taken or self._waiting[0].nbytes <= left):
            taken.append(self._waiting.popleft())
            left -= taken[-1].nbytes
        if self._waiting:
            self.arrived.set()
        return taken

    def release(self, taken: list[Waiting]) -> None:
        """Free the room of rows that the sink has now."""
        self._count(-sum(each.nbytes for each in taken))

    @property
    def behind(self) -> bool:
        """Whether more waits than the next `take` may have."""
        return self.nbytes > self._most_bytes // 2

    @property
    def empty(self) -> bool:
        """Whether nothing waits."""
        return not self._waiting

    def _count(self, nbytes: int) -> None:
        with self._lock:
            self.nbytes += nbytes
            self.full = self.nbytes >= self._most_bytes
