"""Merges: when lanes merge new rows into their state as the local runtime does, and how many of both there are.

The part of a lane on one worker collects new rows until results may be due, or until there are as many as its state
has or as a few blocks bring (`kernels/columns/merge_bound.py`). Then a turn merges all of them. The kernels of a
simulated run merge in every step; what that would have cost later is counted here.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from shoal.compiler.lane import Lane
from shoal.kernels.columns.block import Block
from shoal.kernels.columns.effort import Effort
from shoal.kernels.columns.merge_bound import rows_that_may_wait
from shoal.kernels.columns.table import Tables
from shoal.model.control.binding import Binding
from shoal.runtimes.interpreter import Interpreted
from shoal.runtimes.simulated.input.closings import ClosingEpoch
from shoal.runtimes.simulated.input.task_plan import Merged, TaskPlan

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


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


class CountedEpoch(ClosingEpoch, EffortEpoch):
    """One that counts also windows that close, and new rows of every instance: `fresh`, by the number of the lane."""

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

    def by_worker(self, worker: Ints, workers: int, added: Floats) -> "_WorkerRows":
        """Which workers have rows that wait, and which so many that they do not wait for a result to be due."""
        fresh, kept, new = (np.bincount(worker, each, workers) for each in (self.fresh, self.kept, added))
        may_wait = np.array([rows_that_may_wait(int(rows)) for rows in new.tolist()])
        return _WorkerRows(fresh > 0, (new > 0) & (fresh > np.maximum(may_wait, kept)))


@dataclass(frozen=True, eq=False)
class _WorkerRows:
    """Of every worker, whether rows wait, and whether too many do."""

    some: NDArray[np.bool_]
    many: NDArray[np.bool_]


class Merges:
    """What the lanes of a program have merged, and what waits."""

    def __init__(self) -> None:
        """No rows yet."""
        self._rows: dict[int, _LaneRows] = {}
        self._bound: tuple[Binding, dict[int, Ints]] | None = None

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
        binding: Binding,
        stream: str | None = None,
    ) -> Merged:
        """What instances merge after an epoch that has brought the watermarks from some to others.

        `events`: those of every task in it. `stream`: the one that was read.
        """
        rows, merged_events, size, pairs = (np.zeros(plan.number) for _ in range(4))
        for lane in plan.lanes:
            if lane.kernel is None or lane.number not in epoch.fresh:
                continue
            places, none = plan.places(lane), np.zeros(len(lane.instances))
            lane_rows = self._rows.setdefault(lane.number, _LaneRows(none, none, none, none))
            lane_rows.fresh = lane_rows.fresh + epoch.fresh[lane.number]
            lane_rows.events = lane_rows.events + events[places]
            worker = self._worker_of(lane, binding)
            before_us, after_us = lane.watermark_us(before), lane.watermark_us(after)
            by_worker = lane_rows.by_worker(worker, binding.workers, epoch.fresh[lane.number])
            merging = by_worker.many
            if lane.kernel.due(before_us, after_us):
                merging = merging | by_worker.some | (after_us > before_us)
            if not merging.any():
                continue
            held = _rows(lane, epoch.state[lane.number])
            total = sum(table.nbytes for table in epoch.state[lane.number].values())
            now, chosen = lane_rows, merging[worker]
            rows[places], size[places] = np.where(chosen, now.fresh, 0.0), np.where(chosen, now.kept_bytes, 0.0)
            merged_events[places] = np.where(chosen, now.events, 0.0)
            pairs[places] = np.where(chosen, np.square(now.fresh + now.kept), 0.0)
            held_bytes = held * (total / max(1.0, float(held.sum())))
            self._rows[lane.number] = _LaneRows(
                np.where(chosen, 0.0, now.fresh),
                np.where(chosen, 0.0, now.events),
                np.where(chosen, held, now.kept),
                np.where(chosen, held_bytes, now.kept_bytes),
            )
        of_instances = plan.instance_tasks
        bare = self._bare(plan, before, after, binding, stream) if plan.feeds_apart else None
        return Merged(rows[of_instances], merged_events[of_instances], size[of_instances], pairs[of_instances], bare)

    def _bare(
        self, plan: TaskPlan, before: Mapping[str, int], after: Mapping[str, int], binding: Binding, stream: str | None
    ) -> Ints:
        """The first task of every lane on every worker, of lanes that get a watermark.

        As in the local runtime these are the lanes that read the stream, and those behind lanes whose watermark has
        advanced.
        """
        found = [np.zeros(0, np.int64)]
        for lane in plan.lanes:
            origins = [feed.origin for feed in lane.feeds]
            reads = stream is not None and stream in origins
            if lane.kernel is None or not (reads or any(isinstance(each, int) for each in origins)):
                continue
            if reads or lane.watermark_us(after) > lane.watermark_us(before):
                firsts = np.unique(self._worker_of(lane, binding), return_index=True)[1]
                found.append(plan.places(lane).start + firsts)
        return np.concatenate(found)

    def _worker_of(self, lane: Lane, binding: Binding) -> Ints:
        """The worker of every instance of a lane; 0 for one that is not bound, as in `TaskPlan.owners`."""
        if self._bound is None or self._bound[0] is not binding:
            self._bound = binding, {}
        known = self._bound[1]
        if lane.number not in known:
            owners = [int(binding.worker_of.get(instance, 0)) for instance in lane.instances]
            known[lane.number] = np.array(owners, np.int64)
        return known[lane.number]


def _rows(lane: Lane, tables: Tables) -> Floats:
    """Rows of every instance in some tables."""
    found = np.zeros(len(lane.instances))
    for table in tables.values():
        found += np.bincount(table.instance, minlength=len(found))
    return found
