"""Traces: what happened at a node and when, as a tracepoint, nanoseconds and arguments.

Rows are counted where they pass, one block at a time; blocks within a millisecond are one record. So the cost is that
of a clock and an addition per block, however many rows it has.

>>> trace = Trace(clock=iter([5, 6, 9_000_000]).__next__)
>>> for rows in (10, 5, 1):
...     trace.rows(RECEIVED, "Bid", rows)
>>> [record.line for record in trace.taken()]
['1 5 6 Bid 15', '1 9000000 9000000 Bid 1']
"""

import threading
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass

STARTED, RECEIVED, EMITTED, FINISHED, SET_DONE, DEPLOYED = 0, 1, 6, 100, 200, 221
"""The standard tracepoints: end of warm-up, rows received, results emitted, everything processed, one set done, a query
deployed.
"""
STOPPED = 222
"""Another node has stopped streams; the original experiments have no tracepoint for it."""
MERGED_NS = 1_000_000
"""Blocks of a stream that pass within this time are one record."""


@dataclass(frozen=True)
class TraceRecord:
    """A tracepoint that was passed; for rows also when the last of them passed, and how many."""

    point: int
    at_ns: int
    until_ns: int
    arguments: tuple[str, ...] = ()
    rows: int | None = None

    @property
    def line(self) -> str:
        """The record as one line of text."""
        rows = () if self.rows is None else (str(self.rows),)
        return " ".join((str(self.point), str(self.at_ns), str(self.until_ns), *self.arguments, *rows))


@dataclass
class _Passing:
    """Rows that pass a tracepoint within a short time."""

    since_ns: int
    until_ns: int
    rows: int


class Trace:
    """The records of one node; may be written by several threads."""

    def __init__(self, clock: Callable[[], int] = time.time_ns, *, on: bool = True) -> None:
        """Record all tracepoints, until `activate` names some."""
        self._clock = clock
        self._on = on
        self._active: frozenset[int] | None = None
        self._records: list[TraceRecord] = []
        self._passing: dict[tuple[int, str], _Passing] = {}
        self._lock = threading.Lock()

    def activate(self, points: Collection[int]) -> None:
        """Record only these tracepoints, and those that throughput is computed from."""
        self._active = frozenset((*(self._active or ()), *points, STARTED, RECEIVED, FINISHED, SET_DONE))

    def switch(self, *, on: bool) -> None:
        """Record from now on, or no longer."""
        self._on = on

    def rows(self, point: int, stream: str, rows: int) -> None:
        """Count rows of a stream at a tracepoint."""
        if not self._on or (self._active is not None and point not in self._active):
            return
        now_ns = self._clock()
        key = point, stream
        with self._lock:
            passing = self._passing.get(key)
            if passing is not None and now_ns - passing.since_ns < MERGED_NS:
                passing.until_ns = now_ns
                passing.rows += rows
                return
            self._passing[key] = _Passing(now_ns, now_ns, rows)
            if passing is not None:
                self._keep(key, passing)

    def mark(self, point: int, *arguments: object) -> None:
        """Record that something happened once."""
        if not self._on or (self._active is not None and point not in self._active):
            return
        now_ns = self._clock()
        with self._lock:
            self._settle()
            self._records.append(TraceRecord(point, now_ns, now_ns, tuple(map(str, arguments))))

    def taken(self) -> list[TraceRecord]:
        """All records so far, in order of time."""
        with self._lock:
            self._settle()
            return sorted(self._records, key=lambda record: record.at_ns)

    def _settle(self) -> None:
        for key, passing in self._passing.items():
            self._keep(key, passing)
        self._passing.clear()

    def _keep(self, key: tuple[int, str], passing: _Passing) -> None:
        point, stream = key
        self._records.append(TraceRecord(point, passing.since_ns, passing.until_ns, (stream,), passing.rows))
