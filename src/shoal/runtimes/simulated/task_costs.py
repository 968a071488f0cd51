"""Costs of all tasks: what a step brings, as seconds of work of every task."""

import numpy as np
from numpy.typing import NDArray

from shoal.runtimes.simulated.delay.model import DelayModel
from shoal.runtimes.simulated.engine.simulation import StepInput, Tasks
from shoal.runtimes.simulated.input.task_plan import Counts, TaskPlan

Floats = NDArray[np.float64]
LEAST_S = 1e-12
"""The least work of a task that has something to do."""


class TaskCosts:
    """The costs of all tasks, in columns; the random part is a function of seed and step alone."""

    def __init__(self, plan: TaskPlan, model: DelayModel, seed: int, factor: float = 1.0) -> None:
        """Ask the model for the cost of every task; all costs are multiplied by the factor."""
        self._plan, self._seed = plan, seed
        costs = [model.stream(stream) for stream in plan.streams]
        for lane in plan.lanes:
            costs += [model.lane(lane)] * plan.width(lane)
        self.fixed_s = factor * np.array([cost.fixed_s for cost in costs])
        self._event_s = factor * np.array([cost.event_s for cost in costs])
        self._result_s = factor * np.array([cost.result_s for cost in costs])
        self._state_byte_s = factor * np.array([cost.state_byte_s for cost in costs])[plan.instance_tasks]
        self._spread = np.array([cost.spread for cost in costs])
        self._steps = 0

    def tasks(self) -> Tasks:
        """The tasks for the core."""
        plan = self._plan
        return Tasks(len(plan.streams), plan.unit, plan.group, self.fixed_s, plan.edges)

    def step(self, counts: Counts) -> StepInput:
        """A step for the core."""
        work_s = self._event_s * counts.events + self._result_s * counts.results
        active = (counts.events > 0) | (counts.results > 0)
        busy = active[self._plan.instance_tasks]
        work_s[self._plan.instance_tasks] += np.where(busy, self._state_byte_s * counts.state_bytes, 0.0)
        if self._spread.any():
            random = np.random.default_rng([self._seed, self._steps])
            # the mean of the factor is 1
            work_s *= np.exp(random.standard_normal(len(work_s)) * self._spread - self._spread**2 / 2)
        self._steps += 1
        work_s = np.where(active, np.maximum(work_s, LEAST_S), 0.0)
        size = counts.events * self._plan.row_bytes
        return StepInput(counts.source, counts.due_s, counts.rows, work_s, size, counts.events, counts.results)
