"""Expectations: what tasks will take and bring in a step, by what they took and brought before."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from shoal.policies.scheduling.serving import highest_rate_first
from shoal.runtimes.simulated.engine.arrays import TASK
from shoal.runtimes.simulated.engine.simulation import StepInput
from shoal.runtimes.simulated.input.task_plan import Counts, TaskPlan

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Records = NDArray[np.void]


class Expectations:
    """Has steps served by expected results and work; knows what turns have shown until a step is read.

    - Results: those per occasion so far (a window that closed, otherwise an event) times the occasions of the step.
    - Work: the time per event of turns without results times the events of the step, and the rest of the time of turns
      with results, per result.
    - What waits for a task in the same step counts as its own: the results of tasks behind it, and their work. A task
      with several inputs is divided among them.
    - A turn ends with a step of which results may come: they must not wait for the steps after it.
    """

    def __init__(self, plan: TaskPlan) -> None:
        """Nothing has been observed."""
        number = plan.number
        self._sinks, self._levels = plan.sinks, _levels(plan)
        self._before = np.zeros(number, TASK)
        self._plain_s, self._plain_events = np.zeros(number), np.zeros(number)
        self._emitting_s, self._emitted = np.zeros(number), np.zeros(number)

    def served(self, step: StepInput, tasks: Records, counts: Counts, workers: int) -> StepInput:
        """A step that is about to come, with the place of every task, and whether a turn ends with it."""
        self._observe(tasks)
        occasions = counts.events if counts.occasions is None else counts.occasions
        emitted = tasks["results"] / np.maximum(tasks["occasions"], 1) * occasions
        work_s = self._event_s() * counts.events + self._emitting_s / np.maximum(self._emitted, 1) * emitted
        own_s = work_s.copy()
        results, may_emit = emitted * self._sinks, (occasions > 0) & (self._sinks > 0)
        for before, behind, share in self._levels:
            np.add.at(results, before, share * results[behind])
            np.add.at(work_s, before, share * work_s[behind])
            np.logical_or.at(may_emit, before, may_emit[behind])
        return replace(step, places=highest_rate_first(results, work_s, own_s, workers), ends=may_emit)

    def _event_s(self) -> Floats:
        found: Floats = self._plain_s / np.maximum(self._plain_events, 1)
        return found

    def _observe(self, tasks: Records) -> None:
        """Learn from the turns that have ended since the last step."""
        busy_s, events, results = (tasks[name] - self._before[name] for name in ("busy_s", "processed", "results"))
        self._before = tasks.copy()
        plain = results == 0
        self._plain_s += np.where(plain, busy_s, 0.0)
        self._plain_events += np.where(plain, events, 0)
        rest_s = np.maximum(busy_s - self._event_s() * events, 0.0)
        self._emitting_s += np.where(plain, 0.0, rest_s)
        self._emitted += results


def _levels(plan: TaskPlan) -> list[tuple[Ints, Ints, Floats]]:
    """Channels between lanes as (from, to, share of the one behind), those of the deepest lanes first."""
    edges = plan.edges[plan.edges[:, 0] >= len(plan.streams)]
    share = 1.0 / np.maximum(np.bincount(edges[:, 1], minlength=plan.number), 1)[edges[:, 1]]
    depth = np.zeros(plan.number, np.int64)
    for lane in plan.lanes:
        depth[plan.places(lane)] = lane.depth
    levels = depth[edges[:, 0]]
    chosen = [levels == level for level in sorted(set(levels.tolist()), reverse=True)]
    return [(edges[each, 0], edges[each, 1], share[each]) for each in chosen]
