"""Expectations: what tasks will take and bring in a step, by what they took and brought before."""

import numpy as np
from numpy.typing import NDArray

from shoal.policies.scheduling.ties import highest_rate_first
from shoal.runtimes.simulated.engine.arrays import TASK
from shoal.runtimes.simulated.input.task_plan import Counts, TaskPlan

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Records = NDArray[np.void]


class Expectations:
    """Orders the tasks of every step by expected results and work; knows what turns have shown until the step is read.

    - Results: those per occasion so far (a window that closed, otherwise an event) times the occasions of the step.
    - Work: the time per event of turns without results times the events of the step, and the rest of the time of turns
      with results, per result.
    - What waits for a task in the same step counts as its own: the results of tasks behind it, and their work. A task
      with several inputs is divided among them.
    """

    def __init__(self, plan: TaskPlan) -> None:
        """Nothing has been observed."""
        number = plan.number
        self._sinks, self._levels = plan.sinks, _levels(plan)
        self._before = np.zeros(number, TASK)
        self._plain_s, self._plain_events = np.zeros(number), np.zeros(number)
        self._emitting_s, self._emitted = np.zeros(number), np.zeros(number)

    def places(self, tasks: Records, counts: Counts) -> Ints:
        """The place of every task among those of the step that is about to come."""
        self._observe(tasks)
        occasions = counts.events if counts.occasions is None else counts.occasions
        emitted = tasks["results"] / np.maximum(tasks["occasions"], 1) * occasions
        work_s = self._event_s() * counts.events + self._emitting_s / np.maximum(self._emitted, 1) * emitted
        results = emitted * self._sinks
        for before, behind, share in self._levels:
            np.add.at(results, before, share * results[behind])
            np.add.at(work_s, before, share * work_s[behind])
        return highest_rate_first(results, work_s)

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
