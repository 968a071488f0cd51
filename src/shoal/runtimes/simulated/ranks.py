"""Ranks of tasks: the priorities of a scheduling policy, from what operators have cost so far."""

import numpy as np
from numpy.typing import NDArray

from shoal.policies.scheduling.policy import OperatorCost, SchedulingPolicy
from shoal.runtimes.simulated.engine.simulation import Simulation
from shoal.runtimes.simulated.input.task_plan import TaskPlan


class Ranks:
    """Ranks the tasks of a plan; an operator is a source or a lane, and its tasks have one rank.

    Only the priorities of a policy count. Its thresholds, which let an operator wait until a turn is worth it, do not:
    a simulated worker is never idle beside work.
    """

    def __init__(self, policy: SchedulingPolicy, plan: TaskPlan) -> None:
        """Find out which operators read from which."""
        self._policy = policy
        numbers, self._operator = np.unique(plan.group, return_inverse=True)
        self._downstream: list[tuple[int, ...]] = [()] * len(numbers)
        for source, target in np.unique(self._operator[plan.edges], axis=0).tolist():
            self._downstream[source] += (target,)

    def of(self, simulation: Simulation) -> NDArray[np.float64]:
        """The rank of every task by the costs and selectivities up to now; 1 result per event before the first."""
        tasks, number = simulation.world.tasks, len(self._downstream)
        busy_s, events, results = (
            np.bincount(self._operator, tasks[name], number) for name in ("busy_s", "processed", "results")
        )
        counted = np.maximum(events, 1)
        costs, shares = busy_s / counted, np.where(events > 0, results / counted, 1.0)
        operators = [
            OperatorCost(cost_s, share, downstream)
            for cost_s, share, downstream in zip(costs.tolist(), shares.tolist(), self._downstream, strict=True)
        ]
        ranks: NDArray[np.float64] = np.array(self._policy.priorities(operators))[self._operator]
        return ranks
