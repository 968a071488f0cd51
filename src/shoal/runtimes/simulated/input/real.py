"""Real input: the kernels process the rows of every step, so that results are those of any other runtime."""

import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from copy import deepcopy
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from shoal.compiler.watermarks import Reading, advanced
from shoal.connectors.sources.generator import Generator, GeneratorCursor
from shoal.connectors.sources.source import Cursor, Offset, Source
from shoal.errors import ConfigError
from shoal.kernels.columns.table import Tables
from shoal.model.control.messages import RefusedRows
from shoal.model.control.snapshot import InstanceLoad
from shoal.model.query.graph import InstanceId
from shoal.runtimes.arrangement import Arrangement, state_after
from shoal.runtimes.interpreter import Interpreted
from shoal.runtimes.simulated.input.task_plan import Counts, TaskPlan
from shoal.storage.directory import Directory

NEVER_S = float("inf")


@dataclass
class Written:
    """What steps have written since it was taken last: results by table, and refused rows."""

    results: dict[str, list[pa.RecordBatch]] = field(default_factory=dict)
    refusals: dict[str, int] = field(default_factory=dict)
    refused_rows: tuple[RefusedRows, ...] = ()
    rows: int = 0

    def add(self, epoch: Interpreted) -> None:
        """Add what a step has written."""
        for table, batches in epoch.results.items():
            self.results.setdefault(table, []).extend(batches)
        for reason, number in epoch.refused.items():
            self.refusals[reason] = self.refusals.get(reason, 0) + number
        self.refused_rows += epoch.refused_rows
        self.rows += epoch.rows


class RealInput:
    """Reads sources by the simulated clock, and runs every step through the compiled program."""

    def __init__(
        self, sources: Mapping[str, Source], now_s: Callable[[], float], *, block_rows: int, step_s: float, parks: bool
    ) -> None:
        """Open the sources; nothing is read yet."""
        self._sources = {stream: _divided(source, block_rows) for stream, source in sources.items()}
        self._now_s, self._step_s, self._parks = now_s, step_s, parks
        self._offsets: dict[str, Offset] = {stream: source.start() for stream, source in self._sources.items()}
        with ExitStack() as undo:
            directory = undo.enter_context(tempfile.TemporaryDirectory(prefix="shoal-simulated-"))
            self._cursors = {
                stream: _cursor(source, f"{directory}/{number}", now_s)
                for number, (stream, source) in enumerate(self._sources.items())
            }
            self._left_behind = undo.pop_all()
        self._marks: dict[str, int] = {}
        self._state: dict[int, Tables] = {}
        self._flushed = False
        self.stopping = False
        self.written = Written()

    def close(self) -> None:
        """Remove what was left behind."""
        self._left_behind.close()

    def taken(self) -> Written:
        """What was written since the last call."""
        written, self.written = self.written, Written()
        return written

    @property
    def marks(self) -> Mapping[str, int]:
        """The watermarks of all streams."""
        return self._marks

    @property
    def ended(self) -> bool:
        """Whether everything was read, and every window closed."""
        return self._flushed

    def arranged(self, before: Arrangement, after: Arrangement) -> None:
        """Convert the state to another arrangement."""
        self._state = state_after(before, after, self._state)

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
        due_s = self._due_s(stream, offset)
        counts = self._step(plan, source, now, end, due_s)
        if self._finished():
            return counts, self._now_s()
        return counts, NEVER_S if end["ended"] else self._next_s(stream, end)

    def _finished(self) -> bool:
        return self.stopping or all(offset["ended"] for offset in self._offsets.values())

    def _last(self, plan: TaskPlan, source: int, now: Arrangement) -> tuple[Counts | None, float]:
        """The step that closes all windows; the first source to ask has it."""
        if self._flushed:
            return None, NEVER_S
        counts = self._step(plan, source, now, None, self._now_s())
        self._flushed = True
        return counts, NEVER_S

    def _step(self, plan: TaskPlan, source: int, now: Arrangement, end: Offset | None, due_s: float) -> Counts:
        """Read up to an offset, or close all windows, and compute; nothing is changed if a query fails."""
        program, stream = now.program, plan.streams[source]
        now_us = round(self._now_s() * 1e6)
        # recorded rows are in the past by the real clock, wherever the simulated one is
        epoch = Interpreted(program, self._marks, now_us, wall_us=time.time_ns() // 1000)
        readings = list[Reading]()
        if end is None:
            readings += [Reading(name, flush=True) for name in program.inputs]
        else:
            start, cursor = self._offsets[stream], self._cursors[stream]
            readings += epoch.read(stream, self._sources[stream], cursor, start, end)
        marks = advanced(program, self._marks, readings, now_us)
        # user aggregates may change the objects that are their state
        state = deepcopy(self._state) if self._parks else self._state
        loads = epoch.computed(state, marks)
        if end is not None:
            self._offsets[stream] = end
        self._state, self._marks = state, marks
        self.written.add(epoch)
        return _counts(plan, source, epoch, loads, due_s)

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


def _divided(source: Source, block_rows: int) -> Source:
    """The same source; a generator offers at most the rows of one block at a time."""
    if getattr(source, "follow", False):
        raise ConfigError(
            "simulated time cannot wait for files that are still to come; read the directory without follow"
        )
    if not isinstance(source, Generator):
        return source
    return replace(source, rows_per_epoch=min(source.rows_per_epoch, block_rows))


def _cursor(source: Source, directory: str, now_s: Callable[[], float]) -> Cursor:
    """A cursor; that of a generator goes by the simulated clock."""
    if isinstance(source, Generator):
        return GeneratorCursor(source, Directory(directory), now_s)
    return source.cursor(directory)


def _counts(
    plan: TaskPlan, source: int, epoch: Interpreted, loads: Mapping[InstanceId, InstanceLoad], due_s: float
) -> Counts:
    events, results = np.zeros(plan.number, np.int64), np.zeros(plan.number, np.int64)
    found = [loads[instance] for instance in plan.instances]
    events[plan.instance_tasks] = [load.events for load in found]
    results[plan.instance_tasks] = [load.results for load in found]
    events[source] = epoch.rows
    written = {table: sum(batch.num_rows for batch in batches) for table, batches in epoch.results.items()}
    for lane in plan.lanes:
        if lane.kernel is not None:
            continue
        task, origins = plan.first[lane.number], [feed.origin for feed in lane.feeds]
        direct = epoch.rows if plan.streams[source] in origins else 0
        before = (results[plan.places(each)].sum() for each in plan.lanes if each.number in origins)
        events[task] = direct + sum(before)
        results[task] = sum(written.get(outlet.table, 0) for outlet in lane.outlets) if events[task] else 0
    return Counts(source, due_s, epoch.rows, events, results, np.array([float(load.state_bytes) for load in found]))
