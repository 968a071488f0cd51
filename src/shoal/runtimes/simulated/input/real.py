"""Real input: the kernels process the rows of every step, so that results are those of any other runtime."""

import time
from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from shoal.compiler.watermarks import Reading, advanced
from shoal.connectors.sources.generator import Generator
from shoal.connectors.sources.source import Offset, Source
from shoal.errors import ConfigError
from shoal.kernels.columns.table import Tables
from shoal.model.control.snapshot import InstanceLoad
from shoal.model.query.graph import InstanceId
from shoal.runtimes.arrangement import Arrangement, state_after
from shoal.runtimes.interpreter import Interpreted, held_bytes
from shoal.runtimes.shedder import after_reading
from shoal.runtimes.simulated.input.closings import occasions
from shoal.runtimes.simulated.input.merges import CountedEpoch, Merges
from shoal.runtimes.simulated.input.task_plan import Counts, TaskPlan
from shoal.runtimes.simulated.input.timed import TimedInput

Floats = NDArray[np.float64]


class RealInput(TimedInput):
    """Runs every step through the compiled program."""

    def __init__(
        self, sources: Mapping[str, Source], now_s: Callable[[], float], *, block_rows: int, step_s: float, parks: bool
    ) -> None:
        """Open the sources; nothing is read yet."""
        divided = {stream: divided_source(source, block_rows) for stream, source in sources.items()}
        super().__init__(divided, now_s, step_s)
        self._parks = parks
        self._state: dict[int, Tables] = {}
        self._merges = Merges()

    def planned(self, plan: TaskPlan) -> None:
        """Nothing: the state of the kernels is all there is."""

    def arranged(self, before: Arrangement, after: Arrangement) -> None:
        """Convert the state to another arrangement."""
        self._state = state_after(before, after, self._state)
        self._merges.forget()

    def state_bytes(self, plan: TaskPlan) -> Floats:
        """The size of the state of every instance."""
        found = np.zeros(plan.number)
        for lane in plan.lanes:
            found[plan.places(lane)] = held_bytes(self._state.get(lane.number, {}), plan.width(lane))
        return found[plan.instance_tasks]

    def _step(self, plan: TaskPlan, source: int, now: Arrangement, end: Offset | None, due_s: float) -> Counts:
        """Read up to an offset, or close all windows, and compute; nothing is changed if a query fails."""
        program, stream = now.program, plan.streams[source]
        now_us = round(self._now_s() * 1e6)
        # recorded rows are in the past by the real clock, wherever the simulated one is
        epoch = CountedEpoch(program, self._marks, now_us, time.time_ns() // 1000, self._shedding)
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
        before = self._marks
        if end is not None:
            self._offsets[stream] = end
        self._state, self._marks = state, marks
        self._shedding = after_reading(self._shedding, readings)
        self.written.add(epoch)
        counts = counts_of(plan, source, epoch, loads, due_s)
        read = None if end is None else stream
        merged = self._merges.after(plan, epoch, counts.events, before, marks, now.binding, read)
        found = occasions(plan, epoch.closings, counts.events)
        return replace(counts, merged=merged, effort=epoch.effort, occasions=found)


def divided_source(source: Source, block_rows: int) -> Source:
    """The same source; a generator offers at most the rows of one block at a time."""
    if getattr(source, "follow", False):
        raise ConfigError(
            "simulated time cannot wait for files that are still to come; read the directory without follow"
        )
    if getattr(source, "live", False):
        raise ConfigError("simulated time cannot wait for a program that runs; use --on local, reference or spark")
    if not isinstance(source, Generator):
        return source
    return replace(source, rows_per_epoch=min(source.rows_per_epoch, block_rows))


def counts_of(
    plan: TaskPlan, source: int, epoch: Interpreted, loads: Mapping[InstanceId, InstanceLoad], due_s: float
) -> Counts:
    """What every task did in an epoch of the interpreter."""
    events, results = np.zeros(plan.number, np.int64), np.zeros(plan.number, np.int64)
    found = [loads[instance] for instance in plan.instances]
    events[plan.instance_tasks] = [load.events for load in found]
    results[plan.instance_tasks] = [load.results for load in found]
    events[source] = epoch.rows
    written = {table: sum(batch.num_rows for batch in batches) for table, batches in epoch.results.items()}
    shed = sum(count.rows for count in epoch.shed.values())
    for lane in plan.lanes:
        if lane.kernel is not None:
            continue
        task, origins = plan.first[lane.number], [feed.origin for feed in lane.feeds]
        direct = epoch.rows - shed if plan.streams[source] in origins else 0
        before = (results[plan.places(each)].sum() for each in plan.lanes if each.number in origins)
        events[task] = direct + sum(before)
        results[task] = sum(written.get(outlet.table, 0) for outlet in lane.outlets) if events[task] else 0
    return Counts(source, due_s, epoch.rows, events, results, np.array([float(load.state_bytes) for load in found]))
