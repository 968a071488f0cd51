"""Timed input: sources that are read by the simulated clock, whatever a step then does with the rows."""

import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field

import pyarrow as pa

from shoal.compiler.spatial.lane_arrivals import merged_arrivals
from shoal.connectors.sources.generator import Generator, GeneratorCursor
from shoal.connectors.sources.source import Cursor, Offset, Source
from shoal.model.control.messages import RefusedRows
from shoal.model.control.shedding import NO_SHEDDING, ShedCount, StreamShedding, added
from shoal.model.control.snapshot import Arrivals
from shoal.runtimes.arrangement import Arrangement
from shoal.runtimes.interpreter import Interpreted
from shoal.runtimes.shedder import switched
from shoal.runtimes.simulated.input.task_plan import Counts, TaskPlan
from shoal.storage.directory import Directory

NEVER_S = float("inf")
WAITS = 100
"""A source that waits for another is polled so many times as often as one that waits for rows."""


@dataclass
class Written:
    """What steps have written since it was taken last: results by table, refused rows, and what was shed."""

    results: dict[str, list[pa.RecordBatch]] = field(default_factory=dict)
    refusals: dict[str, int] = field(default_factory=dict)
    refused_rows: tuple[RefusedRows, ...] = ()
    rows: int = 0
    shed: dict[str, ShedCount] = field(default_factory=dict)
    shedding: Mapping[str, StreamShedding] = field(default_factory=dict)
    arrivals: Arrivals = field(default_factory=dict)

    def add(self, epoch: Interpreted) -> None:
        """Add what a step has written."""
        for table, batches in epoch.results.items():
            self.results.setdefault(table, []).extend(batches)
        for reason, number in epoch.refused.items():
            self.refusals[reason] = self.refusals.get(reason, 0) + number
        self.refused_rows += epoch.refused_rows
        self.rows += epoch.rows
        self.shed = added(self.shed, list(epoch.shed.items()))
        if epoch.arrivals:
            self.arrivals = merged_arrivals([self.arrivals, epoch.arrivals])


class TimedInput(ABC):
    """The input of a simulated run: when each source is polled, and how far it was read.

    `read` is called whenever a source is polled. Set `stopping` to read no more: the next `read` then closes all
    windows, after which `ended` is true. If it is `aligned`, a source waits for those that are behind it in event time.
    """

    aligned = False

    def __init__(self, sources: Mapping[str, Source], now_s: Callable[[], float], step_s: float) -> None:
        """Open the sources; nothing is read yet."""
        self._sources, self._now_s, self._step_s = dict(sources), now_s, step_s
        self._offsets: dict[str, Offset] = {stream: source.start() for stream, source in sources.items()}
        with ExitStack() as undo:
            directory = undo.enter_context(tempfile.TemporaryDirectory(prefix="shoal-simulated-"))
            self._cursors = {
                stream: _cursor(source, f"{directory}/{number}", now_s)
                for number, (stream, source) in enumerate(sources.items())
            }
            self._left_behind = undo.pop_all()
        self._marks: dict[str, int] = {}
        self._flushed = False
        self.stopping = False
        self.written = Written()
        self._shedding: Mapping[str, StreamShedding] = NO_SHEDDING

    @abstractmethod
    def planned(self, plan: TaskPlan) -> None:
        """Prepare to count for a plan; called before its first step, at the start and after every rearrangement."""

    @abstractmethod
    def arranged(self, before: Arrangement, after: Arrangement) -> None:
        """Convert the state to another arrangement; called while no step is on its way."""

    @abstractmethod
    def _step(self, plan: TaskPlan, source: int, now: Arrangement, end: Offset | None, due_s: float) -> Counts:
        """Take the rows of a source up to an offset, or close all windows; nothing is changed if a query fails."""

    def close(self) -> None:
        """Remove what was left behind."""
        self._left_behind.close()

    def taken(self) -> Written:
        """What was written since the last call."""
        written, self.written = self.written, Written()
        written.shedding = self._shedding
        return written

    def shed(self, shedding: Mapping[str, StreamShedding]) -> None:
        """Shed rows of these streams from now on."""
        self._shedding = shedding

    @property
    def shedding(self) -> Mapping[str, StreamShedding]:
        """The streams of which rows may be shed."""
        return self._shedding

    def switch(self, *, active: bool) -> None:
        """Begin or end to shed rows that are still to come."""
        self._shedding = switched(self._shedding, active=active)

    @property
    def marks(self) -> Mapping[str, int]:
        """The watermarks of all streams."""
        return self._marks

    @property
    def ended(self) -> bool:
        """Whether everything was read, and every window closed."""
        return self._flushed

    def read(self, plan: TaskPlan, source: int, now: Arrangement) -> tuple[Counts | None, float]:
        """The next step of a source, if something is due, and when to ask again."""
        stream = plan.streams[source]
        offset = self._offsets[stream]
        if self._finished():
            return self._last(plan, source, now)
        if offset["ended"]:
            return None, NEVER_S
        end = self._cursors[stream].latest(offset)
        if end == offset:
            return None, self._next_s(stream, offset)
        if self.aligned and self._is_ahead(stream):
            return None, self._now_s() + self._step_s / WAITS
        due_s = self._due_s(stream, offset)
        counts = self._step(plan, source, now, end, due_s)
        if self._finished():
            return counts, self._now_s()
        if end["ended"]:
            return counts, NEVER_S
        # a block was full: the rest must not wait for a step
        has_more = self._due_s(stream, end) < self._now_s() and self._cursors[stream].latest(end) != end
        return counts, self._now_s() if has_more else self._next_s(stream, end)

    def _is_ahead(self, stream: str) -> bool:
        """Whether another source that is read as fast as it can be is behind this one in event time."""
        mark = self._marks.get(stream)
        others = [each for each, offset in self._offsets.items() if each != stream and not offset["ended"]]
        return mark is not None and any(self._marks.get(each, mark) < mark for each in others if self._is_free(each))

    def _is_free(self, stream: str) -> bool:
        """Whether a source has no rate."""
        cursor = self._cursors[stream]
        return not isinstance(cursor, GeneratorCursor) or cursor.due_s(self._offsets[stream]) is None

    def _finished(self) -> bool:
        return self.stopping or all(offset["ended"] for offset in self._offsets.values())

    def _last(self, plan: TaskPlan, source: int, now: Arrangement) -> tuple[Counts | None, float]:
        """The step that closes all windows; the first source to ask has it."""
        if self._flushed:
            return None, NEVER_S
        counts = self._step(plan, source, now, None, self._now_s())
        self._flushed = True
        return counts, NEVER_S

    def _next_s(self, stream: str, offset: Offset) -> float:
        """When a source has its next event, at the earliest after the time between two polls."""
        cursor = self._cursors[stream]
        later_s = self._now_s() + self._step_s
        if not isinstance(cursor, GeneratorCursor):
            return self._now_s()
        next_s = cursor.due_s(offset)
        return self._now_s() if next_s is None else max(later_s, next_s)

    def _due_s(self, stream: str, offset: Offset) -> float:
        """When the first event after an offset was due."""
        cursor = self._cursors[stream]
        due_s = cursor.due_s(offset) if isinstance(cursor, GeneratorCursor) else None
        return self._now_s() if due_s is None else min(due_s, self._now_s())


def _cursor(source: Source, directory: str, now_s: Callable[[], float]) -> Cursor:
    """A cursor; that of a generator goes by the simulated clock."""
    if isinstance(source, Generator):
        return GeneratorCursor(source, Directory(directory), now_s)
    return source.cursor(directory)
