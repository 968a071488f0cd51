"""State loading: the state of the instances that are bound to a worker, taken from the segments it lies in."""

import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from shoal.compiler.division import assigned_again
from shoal.compiler.program import Program
from shoal.kernels.columns.parts import assigned
from shoal.kernels.columns.table import Table, Tables
from shoal.model.control.partitioning import operator_of
from shoal.model.query.graph import InstanceId
from shoal.runtimes.spark.state.checkpoint import Plan, StateRef
from shoal.runtimes.spark.state.segment import Part, chosen
from shoal.runtimes.spark.state.store import StateStore
from shoal.runtimes.spark.tasks.reports import StateArrived

MOVED = -(1 << 60)
"""Epoch of state that another worker wrote: always old enough to be written anew here."""


@dataclass(frozen=True)
class LoadedState:
    """State tables per lane, and the epoch each instance's state was written in (never, if for another worker).

    `moved_bytes`: how much of it belongs to instances that another worker had in the epoch before; `late_bytes`: how
    much of that had to be fetched now. `arrived`: the bytes of each of those instances, and how long it was waited for.
    `divided`: per lane the instances that have state divided again, which must be written under its new instances in
    this round.
    """

    tables: Mapping[int, Tables] = field(default_factory=dict)
    origins: Mapping[InstanceId, int] = field(default_factory=dict)
    divided: Mapping[int, frozenset[int]] = field(default_factory=dict)
    moved_bytes: int = 0
    late_bytes: int = 0
    arrived: Mapping[InstanceId, StateArrived] = field(default_factory=dict)

    @property
    def nbytes(self) -> int:
        """How much it is in all."""
        return sum(table.nbytes for tables in self.tables.values() for table in tables.values())


def bound(program: Program, binding: Sequence[int], worker: int, depth: int) -> dict[InstanceId, tuple[int, int]]:
    """The lane and number of every instance of a round that is bound to a worker."""
    return {
        instance: (lane.number, number)
        for lane in program.lanes
        if lane.kernel and lane.depth == depth
        for number, instance in enumerate(lane.instances)
        if binding[program.first_instances[lane.number] + number] == worker
    }


def loaded(program: Program, plan: Plan, worker: int, depth: int, store: StateStore) -> LoadedState:
    """What a worker holds at the beginning of a round."""
    mine = bound(program, plan.binding, worker, depth)
    arrived = {program.instances[position] for position in plan.arrived}
    heirs = _Heirs.of(program, plan, mine)
    found: dict[int, list[Tables]] = defaultdict(list)
    origins: dict[InstanceId, int] = {}
    moves: dict[InstanceId, StateArrived] = {}
    moved = late = 0
    for ref in plan.states:
        if worker not in ref.workers:
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
    """The instances of a worker that may have state that other instances had before they were split or merged.

    `divided`: the instances whose state is divided again. `lane_of` and `declared_of`: the lane of each of their
    operators in this round, and the first of its declared instances. `mine`: per lane, which numbers the worker has;
    `found`: for which of them there were rows.
    """

    program: Program
    divided: frozenset[str]
    lane_of: Mapping[str, int]
    declared_of: Mapping[str, int]
    mine: Mapping[int, frozenset[int]]
    found: dict[int, set[int]] = field(default_factory=lambda: defaultdict(set))

    @classmethod
    def of(cls, program: Program, plan: Plan, mine: Mapping[InstanceId, tuple[int, int]]) -> "_Heirs":
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

    def parts(self, part: Part, valid: Sequence[InstanceId]) -> Iterator[tuple[int, Table]]:
        """The rows of a part that this worker has now, under the instances that have their keys now, lane by lane."""
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
        """Per lane the instances that must be written in this round, whether they change or not."""
        return {lane: frozenset(numbers) for lane, numbers in self.found.items()}


def ahead(plan: Plan, worker: int) -> list[StateRef]:
    """The segments to read now for what a worker will have next.

    What was written in the epoch before is left out: it belongs to busy instances, which are about to be written again.
    """
    rested = [ref for ref in plan.states if int(ref.segment.split("-")[0]) < plan.epoch - 1]
    return [ref for ref in rested if worker in ref.coming]


def concatenated(program: Program, lane: int, tables: list[Tables]) -> Tables:
    """Tables of one lane one under another."""
    kernel = program.lanes[lane].kernel
    return kernel.concatenated(tables) if kernel and tables else {}


def _sizes(table: Table, numbers: Mapping[InstanceId, int]) -> Iterator[tuple[InstanceId, int]]:
    """Size of the rows of each of some instances."""
    if numbers:
        rows = np.bincount(table.instance, minlength=1 + max(numbers.values()))
        for instance, number in numbers.items():
            yield instance, table.nbytes * int(rows[number]) // max(1, len(table))
