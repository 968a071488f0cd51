"""State on demand, on the worker's side: which state an epoch needs, and how state that comes late catches up."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from shoal.compiler.lane import Lane
from shoal.compiler.program import Program
from shoal.compiler.query_failure import lane_failure, raise_instead
from shoal.errors import RunError
from shoal.kernels.columns.block import Block
from shoal.kernels.columns.parts import split_tables
from shoal.kernels.columns.table import Tables
from shoal.model.control.fragment import NEVER_NEEDED_US
from shoal.model.query.graph import InstanceId
from shoal.runtimes.spark.state.checkpoint import EpochPlan
from shoal.runtimes.spark.state.loading import LoadedState, bound
from shoal.runtimes.spark.state.postponed import Postponed, Rest

Fresh = Mapping[int, Sequence[Tables]]
"""The input of each lane."""


@dataclass(frozen=True)
class OnDemand:
    """The postponed instances of a worker in one round, by lane and instance number.

    `waiting`: those whose state the epoch does not need. `loaded`: all others.
    """

    waiting: Mapping[InstanceId, Postponed] = field(default_factory=dict)
    loaded: Mapping[int, Mapping[int, Postponed]] = field(default_factory=dict)

    @classmethod
    def of(
        cls, program: Program, plan: EpochPlan, worker: int, depth: int, fresh: Fresh, marks_us: Mapping[str, int]
    ) -> "OnDemand":
        """Divide the postponed instances: state is needed if rows of its instance came, or it is due at the new marks.

        The end of a stream closes everything, so that nothing may be left behind.
        """
        postponed = {each.instance: each for each in plan.postponed}
        mine = {i: at for i, at in bound(program, plan.binding, worker, depth).items() if i in postponed}
        busy = {number: _instances(fresh.get(number, ())) for number in {lane for lane, _ in mine.values()}}
        waiting: dict[InstanceId, Postponed] = {}
        loaded: dict[int, dict[int, Postponed]] = defaultdict(dict)
        for instance, (number, place) in mine.items():
            each, lane = postponed[instance], program.lanes[number]
            if each.load or place in busy[number] or each.rest.due_us <= lane.watermark_us(marks_us):
                loaded[number][place] = each
            else:
                waiting[instance] = each
        return cls(waiting, loaded)

    @property
    def names(self) -> tuple[InstanceId, ...]:
        """The instances whose state is loaded."""
        return tuple(each.instance for lane in self.loaded.values() for each in lane.values())

    def ahead(self) -> frozenset[str]:
        """The segments that are to be read in the background."""
        return frozenset(each.segment for each in self.waiting.values() if each.ahead)

    def caught_up(self, program: Program, held: LoadedState, marks_us: Mapping[str, int]) -> LoadedState:
        """Loaded state with the watermarks from before the epoch, which it has missed while it was left alone.

        No result is due from it until then. What has changed must be written, since it no longer equals its segment.
        """
        if not self.loaded:
            return held
        tables, written = dict(held.tables), dict(held.divided)
        for number, placed in self.loaded.items():
            lane, state = program.lanes[number], held.tables.get(number)
            if not state:
                continue
            now_us = lane.watermark_us(marks_us)
            tables[number] = _advanced(program, lane, state, {n: each.rest for n, each in placed.items()}, now_us)
            behind = {place for place, each in placed.items() if each.rest.watermark_us < now_us}
            written[number] = written.get(number, frozenset()) | behind
        return replace(held, tables=tables, divided=written)


def caught_up(program: Program, lane: Lane, state: Tables, watermark_us: int, now_us: int) -> Tables:
    """State at an older watermark, advanced to the present one without input; raises if that gives results."""
    try:
        tables, results = lane.advanced(state, {}, watermark_us, now_us)
    except Exception as error:  # noqa: BLE001  (any failure is one of the lane's queries)
        raise_instead(lane_failure(program, lane, error), error)
    _check_none(lane, results)
    return tables


def _advanced(program: Program, lane: Lane, state: Tables, rests: Mapping[int, Rest], now_us: int) -> Tables:
    """The state of a lane in which some instances are behind, each at its own watermark."""
    behind = sorted({rest.watermark_us for rest in rests.values() if rest.watermark_us < now_us})
    if not behind or lane.kernel is None:
        return state
    group_of = np.zeros(len(lane.instances), np.int64)
    for place, rest in rests.items():
        group_of[place] = behind.index(rest.watermark_us) + 1 if rest.watermark_us < now_us else 0
    present, *parts = split_tables(state, group_of, len(behind) + 1)
    done = [
        caught_up(program, lane, part, watermark_us, now_us)
        for watermark_us, part in zip(behind, parts, strict=True)
        if part
    ]
    return lane.kernel.concatenated([part for part in (present, *done) if part])


def _check_none(lane: Lane, results: Block) -> None:
    if results.length:
        raise RunError(f"state of lane {lane.number} was left alone although {results.length} results were due")


def _instances(tables: Sequence[Tables]) -> frozenset[int]:
    """The instances that have rows in some tables."""
    return frozenset(n for each in tables for table in each.values() for n in np.unique(table.instance).tolist())


def rests(
    lane: Lane, state: Tables, owners: Sequence[int], coming: Sequence[int], mark_us: int
) -> Iterator[tuple[InstanceId, Rest]]:
    """For each instance of a lane that is about to move, and has state: how long that can be left alone."""
    moving = np.asarray(owners) != np.asarray(coming)
    if lane.kernel is None or not moving.any():
        return
    due_us = np.full(len(lane.instances), NEVER_NEEDED_US)
    holds = np.zeros(len(lane.instances), bool)
    for number, table in state.items():
        if len(table):
            np.minimum.at(due_us, table.instance, lane.kernel.due_us(number, table, mark_us))
            holds[table.instance] = True
    for place in np.flatnonzero(moving & holds).tolist():
        yield lane.instances[place], Rest(mark_us, int(due_us[place]))
