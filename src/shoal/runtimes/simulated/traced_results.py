"""Traced results of a simulated run: the same parts of their time as in a real one, from the turns of the engine.

A place is a group of tasks, a stream or a lane, on one worker: there it is one node. Its turn is that of all its tasks
that follow each other in a step.
"""

from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shoal.model.control.messages import EpochCommitted
from shoal.runtimes.measured.result_path import Emission, PlaceTurns, ResultTimes, result_times
from shoal.runtimes.simulated.input.task_plan import TaskPlan
from shoal.runtimes.simulated.runtime import SimulatedRuntime

Ints = NDArray[np.int64]
JUST_BEFORE_S = 1e-9
"""Results are made at the end of a turn, when the next may begin."""


class ResultTracedSimulation(SimulatedRuntime):
    """A simulated run of traced turns, whose graph must not change meanwhile."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Prepare a run; nothing starts yet."""
        super().__init__(*args, **kwargs)
        self._trace: list[NDArray[np.void]] = []
        self._written: list[tuple[NDArray[np.void], NDArray[np.float64]]] = []

    def _committed(self) -> EpochCommitted:
        report = super()._committed()
        self._trace.append(self._simulated.take_trace())
        self._written.append((self._reports.written, self._reports.due_s))
        return report

    def result_times(self) -> ResultTimes:
        """Where the time of results went."""
        places = _Places(self._plan, self.settings.machine.workers)
        return result_times(self._emissions(places), places.turns(np.concatenate(self._trace)), places.before)

    def _emissions(self, places: "_Places") -> list[Emission]:
        """What was written, once for each place and moment."""
        found = []
        for written, due_s in self._written:
            of = places.of(written["task"], written["worker"])
            columns = (of, written["at_s"] - JUST_BEFORE_S, written["results"], due_s, due_s + written["latency_s"])
            found += [Emission(*each) for each in zip(*(column.tolist() for column in columns), strict=True)]
        return found


class _Places:
    """The places of a plan: group by group, worker by worker."""

    def __init__(self, plan: TaskPlan, workers: int) -> None:
        self._group, self._workers = plan.group, workers
        writers: list[list[int]] = [[] for _ in range(int(plan.group.max()) + 1)]
        for source, target in np.unique(plan.group[plan.edges], axis=0).tolist():
            writers[target].append(source)
        keeps = [False] * len(writers)
        for lane in plan.lanes:
            group = int(plan.group[plan.first[lane.number]])
            keeps[group] = lane.kernel is not None or any(keeps[each] for each in writers[group])
        self._keeps = keeps
        self.before: Sequence[Sequence[int]] = [
            list(chain.from_iterable(range(each * workers, (each + 1) * workers) for each in of_group))
            for of_group in writers
            for _ in range(workers)
        ]

    def of(self, task: Ints, worker: Ints) -> Ints:
        """The places of tasks on workers."""
        found: Ints = self._group[task] * self._workers + worker
        return found

    def turns(self, trace: NDArray[np.void]) -> list[PlaceTurns]:
        """The turns at every place; tasks of a group that follow each other without a fixed part share one."""
        found = [PlaceTurns(keeps) for keeps in self._keeps for _ in range(self._workers)]
        places = self.of(trace["task"], trace["worker"]).tolist()
        columns = (trace["begins"], trace["began_s"], trace["ended_s"], trace["work_s"])
        for place, begins, began_s, ended_s, work_s in zip(
            places, *(column.tolist() for column in columns), strict=True
        ):
            if begins or not found[place].ends:
                found[place].add(began_s, ended_s, work_s)
            else:
                found[place].extend(ended_s, work_s)
        return found
