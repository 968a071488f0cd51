"""State loading: read the state of a worker's instances from segments."""

import time
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from shoal.compiler.division import assigned_again
from shoal.compiler.program import Program
from shoal.kernels.columns.parts import assigned
from shoal.kernels.columns.table import Table, Tables
from shoal.model.control.partitioning import operator_of
from shoal.model.query.graph import InstanceId
from shoal.runtimes.spark.state.checkpoint import EpochPlan, StateRef
from shoal.runtimes.spark.state.segment import SegmentPart, chosen
from shoal.runtimes.spark.state.store import StateStore
from shoal.runtimes.spark.tasks.reports import StateArrived

MOVED = -(1 << 60)
"""The epoch of state that another worker wrote; old enough to be written again here."""


@dataclass(frozen=True)
class LoadedState:
    """State tables per lane.

    `origins`: the epoch in which each instance was written, `MOVED` if for another worker. `moved_bytes`: state of
    instances that another worker had in the epoch before, by instance in `arrived`; `late_bytes`: the part that had to
    be fetched now. `divided`: per lane, the instances whose state was partitioned again; they must be written in this
    round.
    """

    tables: Mapping[int, Tables] = field(default_factory=dict)
    origins: Mapping[InstanceId, int] = field(default_factory=dict)
    divided: Mapping[int, frozenset[int]] = field(default_factory=dict)
    moved_bytes: int = 0
    late_bytes: int = 0
    arrived: Mapping[InstanceId, StateArrived] = field(default_factory=dict)

    @property
    def nbytes(self) -> int:
        """The size of all tables."""
        return sum(table.nbytes for tables in self.tables.values() for table in tables.values())


def bound(program: Program, binding: Sequence[int], worker: int, depth: int) -> dict[InstanceId, tuple[int, int]]:
    """The lane and number of every instance of a round that is bound to a worker, by instance."""
    return {
        instance: (lane.number, number)
        for lane in program.lanes
        if lane.kernel and lane.depth == depth
        for number, instance in enumerate(lane.instances)
        if binding[program.first_instances[lane.number] + number] == worker
    }


def loaded(
    program: Program,
    plan: EpochPlan,
    worker: int,
    depth: int,
    store: StateStore,
    left_out: Collection[InstanceId] = frozenset(),
) -> LoadedState:
    """The state of a worker at the beginning of a round, without that of instances that are `left_out`."""
    mine = bound(program, plan.binding, worker, depth)
    for instance in left_out:
        mine.pop(instance, None)
    late_comers = {each.instance: each.segment for each in plan.postponed if each.instance in mine}
    asked = set(late_comers.values())
    arrived = {program.instances[position] for position in plan.arrived}.union(late_comers)
    heirs = _Heirs.of(program, plan, mine)
    found: dict[int, list[Tables]] = defaultdict(list)
    origins: dict[InstanceId, int] = {}
    moves: dict[InstanceId, StateArrived] = {}
    moved = late = 0
    for ref in plan.states:
        if worker not in ref.workers and ref.segment not in asked:
            continue
        is_near = store.is_near(ref.segment)
        current = None if ref.instances is None else set(ref.instances)
        epoch, owner = (int(text) for text in ref.segment.split("-")[:2])
        began = time.perf_counter()
        parts = store.read(ref.segment)
        late_s = 0.0 if is_near else time.perf_counter() - began
        for part in parts:
            valid = [instance for instance in part.instances if current is None or instance in current]
            wanted: dict[int, dict[InstanceId, int]] = defaultdict(dict)
            for instance in valid:
                if instance in mine and instance not in heirs.divided:
                    lane, number = mine[instance]
                    wanted[lane][instance] = number
                    origins[instance] = epoch if owner == worker else MOVED
            for lane, numbers in wanted.items():
                table = chosen(part, numbers)
                found[lane].append({part.table: table})
                for instance, size in _sizes(table, {i: n for i, n in numbers.items() if i in arrived}):
                    moved += size
                    late += 0 if is_near else size
                    known = moves.get(instance, StateArrived(0, 0.0))
                    moves[instance] = StateArrived(known.bytes + size, max(known.late_s, late_s))
            for lane, table in heirs.parts(part, valid):
                found[lane].append({part.table: table})
                moved += table.nbytes
                late += 0 if is_near else table.nbytes
    tables = {lane: concatenated(program, lane, parts) for lane, parts in found.items()}
    return LoadedState(tables, origins, heirs.written(), moved, late, moves)


@dataclass(frozen=True)
class _Heirs:
    """The instances of a worker that take over state of instances that were split or merged.

    `divided`: the instances whose state is partitioned again. `lane_of` and `declared_of`: the lane of each of their
    operators in this round, and the first of its declared instances. `mine`: the instance numbers of the worker, per
    lane; `found`: those of them that got rows.
    """

    program: Program
    divided: frozenset[str]
    lane_of: Mapping[str, int]
    declared_of: Mapping[str, int]
    mine: Mapping[int, frozenset[int]]
    found: dict[int, set[int]] = field(default_factory=lambda: defaultdict(set))

    @classmethod
    def of(cls, program: Program, plan: EpochPlan, mine: Mapping[InstanceId, tuple[int, int]]) -> "_Heirs":
        divided = frozenset(plan.divided)
        operators = {operator_of(InstanceId(instance)) for instance in divided}
        lane_of: dict[str, int] = {}
        declared_of: dict[str, int] = {}
        numbers: dict[int, set[int]] = defaultdict(set)
        for instance, (lane, number) in mine.items():
            if operator_of(instance) in operators:
                numbers[lane].add(number)
        for holder in program.lanes:
            if holder.number in numbers:
                for number, instance in enumerate(holder.instances):
                    lane_of[operator_of(instance)] = holder.number
                    declared_of.setdefault(operator_of(instance), number)
        return cls(program, divided, lane_of, declared_of, {lane: frozenset(each) for lane, each in numbers.items()})

    def parts(self, part: SegmentPart, valid: Sequence[InstanceId]) -> Iterator[tuple[int, Table]]:
        """The rows of a part that now belong to this worker, under their new instances, lane by lane."""
        for instance in valid:
            lane_number = self.lane_of.get(operator_of(instance)) if instance in self.divided else None
            if lane_number is None:
                continue
            lane = self.program.lanes[lane_number]
            rows = chosen(part, {instance: 0})
            numbers = rows.instance
            if lane.kernel is not None and len(rows):
                numbers = assigned_again(lane, part.table, rows, self.declared_of[operator_of(instance)])
            kept = np.isin(numbers, list(self.mine[lane_number]))
            if kept.any():
                self.found[lane_number].update(np.unique(numbers[kept]).tolist())
                yield lane_number, assigned(rows, np.where(kept, numbers, -1))

    def written(self) -> Mapping[int, frozenset[int]]:
        """Per lane, the instances that must be written in this round even if unchanged."""
        return {lane: frozenset(numbers) for lane, numbers in self.found.items()}


def ahead(plan: EpochPlan, worker: int, postponed: Collection[str] = frozenset()) -> list[StateRef]:
    """The segments to read ahead: those of instances that a worker gets in the next epoch, and `postponed` ones.

    Those written in the epoch before are left out of the former: they hold busy instances, which are about to be
    written again.
    """
    rested = [ref for ref in plan.states if int(ref.segment.split("-")[0]) < plan.epoch - 1 and worker in ref.coming]
    return [*rested, *(ref for ref in plan.states if ref.segment in postponed and ref not in rested)]


def concatenated(program: Program, lane: int, tables: list[Tables]) -> Tables:
    """The tables of one lane, concatenated."""
    kernel = program.lanes[lane].kernel
    return kernel.concatenated(tables) if kernel and tables else {}


def _sizes(table: Table, numbers: Mapping[InstanceId, int]) -> Iterator[tuple[InstanceId, int]]:
    """The bytes of the rows of each given instance."""
    if numbers:
        rows = np.bincount(table.instance, minlength=1 + max(numbers.values()))
        for instance, number in numbers.items():
            yield instance, table.nbytes * int(rows[number]) // max(1, len(table))
