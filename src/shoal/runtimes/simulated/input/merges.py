"""Merges: when lanes merge new rows into their state as the local runtime does, and how many of both there are.

A lane collects new rows until results may be due, or until there are as many as its state has. Then a turn merges all
of them. The kernels of a simulated run merge in every step; what that would have cost later is counted here.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from shoal.compiler.lane import Lane
from shoal.kernels.columns.block import Block
from shoal.kernels.columns.effort import Effort
from shoal.kernels.columns.table import Tables
from shoal.runtimes.interpreter import Interpreted
from shoal.runtimes.simulated.input.task_plan import Merged, TaskPlan

Floats = NDArray[np.float64]
FEW_ROWS = 1 << 16
"""Rows that may wait in the part of a lane on one worker, or as many as its state has, if that is more."""


class EffortEpoch(Interpreted):
    """An epoch of the interpreter that counts what kernels do beside rows and results, by the number of the lane."""

    def __init__(self, *args: object, **kwargs: object) -> None:
        """Nothing read yet."""
        super().__init__(*args, **kwargs)  # type: ignore[arg-type]
        self._effort: dict[int, Effort] = {}

    def _advanced(
        self, lane: Lane, state: Tables, fresh: Tables, before_us: int, after_us: int
    ) -> tuple[Tables, Block]:
        found = super()._advanced(lane, state, fresh, before_us, after_us)
        if lane.kernel is not None:
            effort = lane.kernel.effort(state, fresh, found[0], after_us, len(lane.instances))
            if effort is not None:
                self._effort[lane.number] = effort
        return found

    @property
    def effort(self) -> Effort | None:
        """That of all instances, in the order of the program's; None if no kernel counts any."""
        if not self._effort:
            return None
        lanes = [lane for lane in self._program.lanes if lane.kernel is not None]
        return Effort.joined(self._effort.get(each.number, Effort.none(len(each.instances))) for each in lanes)


class CountedEpoch(EffortEpoch):
    """One that counts also the new rows of every instance: `fresh`, by the number of the lane."""

    def __init__(self, *args: object, **kwargs: object) -> None:
        """Nothing read yet."""
        super().__init__(*args, **kwargs)
        self.fresh: dict[int, Floats] = {}
        self.state: dict[int, Tables] = {}

    def _advanced(
        self, lane: Lane, state: Tables, fresh: Tables, before_us: int, after_us: int
    ) -> tuple[Tables, Block]:
        self.fresh[lane.number] = _rows(lane, fresh)
        found = super()._advanced(lane, state, fresh, before_us, after_us)
        self.state[lane.number] = found[0]
        return found


@dataclass
class _LaneRows:
    """Of every instance of a lane, rows and events that wait, and rows and bytes of the state as it was merged last."""

    fresh: Floats
    events: Floats
    kept: Floats
    kept_bytes: Floats


class Merges:
    """What the lanes of a program have merged, and what waits."""

    def __init__(self) -> None:
        """No rows yet."""
        self._rows: dict[int, _LaneRows] = {}

    def forget(self) -> None:
        """Begin again, with other instances."""
        self._rows.clear()

    def after(
        self,
        plan: TaskPlan,
        epoch: CountedEpoch,
        events: NDArray[np.int64],
        before: Mapping[str, int],
        after: Mapping[str, int],
        workers: int,
    ) -> Merged:
        """What instances merge after an epoch that has brought the watermarks from some to others.

        `events`: those of every task in it.
        """
        rows, merged_events, size, pairs = (np.zeros(plan.number) for _ in range(4))
        for lane in plan.lanes:
            if lane.kernel is None or lane.number not in epoch.fresh:
                continue
            places, none = plan.places(lane), np.zeros(len(lane.instances))
            lane_rows = self._rows.setdefault(lane.number, _LaneRows(none, none, none, none))
            lane_rows.fresh = lane_rows.fresh + epoch.fresh[lane.number]
            lane_rows.events = lane_rows.events + events[places]
            before_us, after_us = lane.watermark_us(before), lane.watermark_us(after)
            changed = after_us > before_us or lane_rows.fresh.any()
            many = lane_rows.fresh.sum() > max(FEW_ROWS * workers, lane_rows.kept.sum())
            if (changed and lane.kernel.due(before_us, after_us)) or many:
                rows[places], size[places] = lane_rows.fresh, lane_rows.kept_bytes
                merged_events[places] = lane_rows.events
                pairs[places] = np.square(lane_rows.fresh + lane_rows.kept)
                held = _rows(lane, epoch.state[lane.number])
                total = sum(table.nbytes for table in epoch.state[lane.number].values())
                self._rows[lane.number] = _LaneRows(none, none, held, held * (total / max(1.0, float(held.sum()))))
        chosen = plan.instance_tasks
        return Merged(rows[chosen], merged_events[chosen], size[chosen], pairs[chosen])


def _rows(lane: Lane, tables: Tables) -> Floats:
    """Rows of every instance in some tables."""
    found = np.zeros(len(lane.instances))
    for table in tables.values():
        found += np.bincount(table.instance, minlength=len(found))
    return found
