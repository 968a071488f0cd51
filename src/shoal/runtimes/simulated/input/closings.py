"""Closings: how many windows a step closes, and what the results of every task come with.

A watermark says before a step runs which windows it closes, and state says which of them have rows. So the number of
results can be expected from how many each window had before.
"""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from shoal.compiler.lane import Lane
from shoal.kernels.columns.block import Block
from shoal.kernels.columns.table import Tables
from shoal.runtimes.interpreter import Interpreted
from shoal.runtimes.simulated.input.task_plan import TaskPlan

Ints = NDArray[np.int64]


class ClosingEpoch(Interpreted):
    """An epoch of the interpreter that counts the windows that close: `closings`, by the number of the lane."""

    def __init__(self, *args: object, **kwargs: object) -> None:
        """Nothing read yet."""
        super().__init__(*args, **kwargs)  # type: ignore[arg-type]
        self.closings: dict[int, int] = {}

    def _advanced(
        self, lane: Lane, state: Tables, fresh: Tables, before_us: int, after_us: int
    ) -> tuple[Tables, Block]:
        if lane.kernel is not None:
            closings = lane.kernel.closings([state, fresh], before_us, after_us)
            if closings is not None:
                self.closings[lane.number] = closings
        return super()._advanced(lane, state, fresh, before_us, after_us)


def occasions(plan: TaskPlan, closings: Mapping[int, int], events: Ints) -> Ints:
    """What the results of every task come with: the windows that close, of lanes that have them, otherwise events."""
    found = events.copy()
    for lane in plan.lanes:
        if lane.number in closings:
            found[plan.places(lane)] = closings[lane.number]
    return found
