"""Costs of all tasks: what a step brings, as seconds of work of every task."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from shoal.runtimes.simulated.delay.model import DelayModel
from shoal.runtimes.simulated.engine.simulation import StepInput, Tasks
from shoal.runtimes.simulated.input.task_plan import Counts, Merged, TaskPlan

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
LEAST_S = 1e-12
"""The least work of a task that has something to do."""


class TaskCosts:
    """The costs of all tasks, in columns; the random part is a function of seed and step alone."""

    def __init__(self, plan: TaskPlan, model: DelayModel, seed: int, factor: float = 1.0, workers: int = 1) -> None:
        """Ask the model for the cost of every task; all costs are multiplied by the factor.

        `workers`: among so many the instances of a lane are divided.
        """
        self._plan, self._seed, self._workers = plan, seed, workers
        costs = [model.stream(stream) for stream in plan.streams]
        for lane in plan.lanes:
            costs += [model.lane(lane)] * plan.width(lane)
        costs += [model.feed(stream, lane) for stream, lane in plan.feeds]
        self.fixed_s = factor * np.array([cost.fixed_s for cost in costs])
        self._event_s = factor * np.array([cost.event_s for cost in costs])
        self._result_s = factor * np.array([cost.result_s for cost in costs])
        of_instances = [costs[task] for task in plan.instance_tasks]
        self._state_byte_s = factor * np.array([cost.state_byte_s for cost in of_instances])
        self._merged_row_s = factor * np.array([cost.merged_row_s for cost in of_instances])
        self._merged_event_s = factor * np.array([cost.merged_event_s for cost in of_instances])
        self._pair_s = factor * np.array([cost.pair_s for cost in of_instances])
        self._rows_per_event = np.array([cost.rows_per_event for cost in of_instances])
        self._effort_s = factor * np.array([cost.effort_s for cost in of_instances])
        self._emit_s = factor * np.array([cost.emit_s for cost in costs])
        self._uncounted_s = factor * np.array([cost.uncounted_s for cost in costs])
        self._spread = np.array([cost.spread for cost in costs])
        self._waits = _rows([cost.waits for cost in costs], 1.0)
        self._closings = _rows([cost.closings for cost in costs], 0.0)
        self._bare = np.array([cost.bare_s / cost.fixed_s if cost.fixed_s else 0.0 for cost in costs])
        self._steps = 0

    def tasks(self) -> Tasks:
        """The tasks for the core."""
        plan = self._plan
        return Tasks(len(plan.streams), plan.unit, plan.group, self.fixed_s, plan.edges, plan.order)

    def step(self, counts: Counts) -> StepInput:
        """A step for the core."""
        counts = replace(counts, events=self._with_feeds(counts))
        work_s = self._event_s * counts.events + self._result_s * counts.results
        active = (counts.events > 0) | (counts.results > 0)
        once_s, chosen = np.zeros_like(work_s), self._plan.instance_tasks
        merged = counts.merged if counts.merged is not None else self._estimated(counts)
        merging_s = self._merged_row_s * merged.rows + self._merged_event_s * merged.events
        work_s[chosen] += merging_s
        once_s[chosen] = self._state_byte_s * merged.state_bytes + self._pair_s * merged.pairs
        active[chosen] |= (once_s[chosen] > 0) | (merging_s > 0)
        if counts.effort is None:
            work_s += self._uncounted_s * counts.events
        else:
            effort_s = (self._effort_s * np.column_stack(counts.effort.columns)).sum(axis=1)
            work_s[chosen] += effort_s
            active[chosen] |= effort_s > 0
        if self._emit_s.any():
            work_s += self._emitting_s(counts.results > 0)
        if self._spread.any():
            random = np.random.default_rng([self._seed, self._steps])
            # the mean of the factor is 1
            varied = np.exp(random.standard_normal(len(work_s)) * self._spread - self._spread**2 / 2)
            work_s *= varied
            once_s *= varied
        if self._closings is not None:
            work_s += self._closing_s(counts.results > 0, self._closings)
        waited = None
        if self._waits is not None:
            random = np.random.default_rng([self._seed, self._steps, 1])
            rows, width = self._waits.shape
            waited = self._waits[np.arange(rows), random.integers(0, width, rows)]
        if merged.bare is not None and len(merged.bare):
            bare = merged.bare[~active[merged.bare] & (self._bare[merged.bare] > 0)]
            waited = np.ones(len(work_s)) if waited is None else waited
            active[bare], waited[bare] = True, -self._bare[bare]
        self._steps += 1
        work_s = np.where(active, np.maximum(work_s, LEAST_S), 0.0)
        size = counts.events * self._plan.row_bytes
        events, results = counts.events, counts.results
        return StepInput(
            counts.source, counts.due_s, counts.rows, work_s, size, events, results, once_s, waited, counts.occasions
        )

    def _with_feeds(self, counts: Counts) -> Ints:
        """The events of all tasks; feeds get those of their source."""
        events, plan = counts.events.copy(), self._plan
        events[plan.feed_tasks[plan.feed_sources == counts.source]] = counts.rows
        return events

    def _estimated(self, counts: Counts) -> Merged:
        """What instances merge if that is not counted: those with results their state, new rows as they come."""
        chosen = self._plan.instance_tasks
        events = counts.events[chosen].astype(float)
        state_bytes = np.where(counts.results[chosen] > 0, counts.state_bytes, 0.0)
        return Merged(self._rows_per_event * events, events, state_bytes, np.zeros(len(chosen)))

    def _emitting_s(self, emitting: NDArray[np.bool_]) -> Floats:
        """What tasks with results cost more: once for those of a lane on one worker, divided among them."""
        found: Floats = np.where(emitting, self._emit_s * self._parts(emitting), 0.0)
        return found

    def _closing_s(self, emitting: NDArray[np.bool_], closings: Floats) -> Floats:
        """The random part of that, which is one for all tasks of a lane."""
        random = np.random.default_rng([self._seed, self._steps, 2])
        drawn = random.integers(0, closings.shape[1], int(self._plan.group.max()) + 1)[self._plan.group]
        found: Floats = np.where(emitting, closings[np.arange(len(closings)), drawn] * self._parts(emitting), 0.0)
        return found

    def _parts(self, emitting: NDArray[np.bool_]) -> Floats:
        """The share of every task in what the tasks with results of a lane on one worker cost once."""
        together = np.bincount(self._plan.group, weights=emitting, minlength=int(self._plan.group.max()) + 1)
        parts: Floats = (np.minimum(together, self._workers) / np.maximum(together, 1))[self._plan.group]
        return parts


def _rows(several: Sequence[tuple[float, ...]], usual: float) -> Floats | None:
    """Random values of every task, a row for each, which is a usual one without values; None if no task has any."""
    width = max(map(len, several), default=0)
    if not width:
        return None
    return np.array([np.resize(np.array(each or (usual,)), width) for each in several])
