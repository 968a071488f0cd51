"""Divisions: a partitioning in the form that runs, lane by lane.

Rows are always dispatched to declared instances, so fused loops and shared steps do not depend on the partitioning.
A division then gives rows of divided groups the number of the instance that has their slot. Results get the number of
a declared instance again, the only one that downstream lanes and outlets know.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shoal.compiler.cover import DispatchByCell
from shoal.compiler.lane import Lane
from shoal.compiler.steps import DispatchByGroup, group_numbers, mixed_bits
from shoal.errors import PartitioningError
from shoal.kernels.columns.block import Block, Column, take
from shoal.kernels.columns.table import INSTANCE, Tables
from shoal.kernels.kernel import Kernel
from shoal.model.control.partitioning import SLOTS, Partitioning, instance_id, operator_of
from shoal.model.query.graph import InstanceId, OperatorId
from shoal.model.spatial.tiles import painted

Ints = NDArray[np.int64]
BY_KEY = -1
"""Stands for the instance of a group whose slots have several."""
_SECOND = np.uint64(0xD6E8FEB86659FD93)
"""Multiplier of the second hash, so that slots do not follow from groups."""


def slots_of(keys: Sequence[Column], length: int) -> Ints:
    """The slot of every row within its group: the same in every process."""
    mixed = mixed_bits(keys, length)
    mixed = (mixed ^ (mixed >> np.uint64(29))) * _SECOND
    return ((mixed >> np.uint64(40)) % np.uint64(SLOTS)).astype(np.int64)


@dataclass(frozen=True, eq=False)
class Division:
    """Which instance of its lane has each slot.

    `numbers[d, s]`: the instance that has slot s of declared instance d. `declared[n]`: the declared instance whose
    number results of instance n carry. `partition`: the positions, among the kernel's keys, of the columns that
    decide the declared group; empty if the operator has one group. If the lane goes by `cells`, these are the slots,
    and there is one row of numbers for all declared instances.
    """

    numbers: Ints
    declared: Ints
    partition: tuple[int, ...] = ()
    by_cell: bool = False

    @classmethod
    def as_declared(cls, lane: Lane) -> "Division":
        """Every declared instance has its own slots, as after a change that was undone."""
        size = len(lane.instances)
        if (cells := declared_cells(lane)) is not None:
            return cls(cells.reshape(1, -1), np.arange(size), by_cell=True)
        return cls(np.repeat(np.arange(size), SLOTS).reshape(size, SLOTS), np.arange(size), partition_positions(lane))

    @cached_property
    def whole(self) -> Ints:
        """For each declared instance, the instance that has all of its slots, or `BY_KEY`."""
        first = self.numbers[:, 0]
        return np.where((self.numbers == first[:, None]).all(axis=1), first, BY_KEY)

    def assigned(self, declared: Ints, keys: Sequence[Column]) -> Ints:
        """The instance of every row, given its declared one and its keys."""
        if self.by_cell:
            by_cell: Ints = self.numbers[0, keys[0]]
            return by_cell
        numbers: Ints = self.whole[declared]
        rows = np.flatnonzero(numbers == BY_KEY)
        if rows.size:
            slots = slots_of([take(key, rows) for key in keys], rows.size)
            numbers[rows] = self.numbers[declared[rows], slots]
        return numbers

    def divided(self, kernel: Kernel, tables: Tables) -> Tables:
        """Input tables, labelled with declared instances, relabelled with the instances that have their slots."""
        return {
            number: table.with_instances(self.assigned(table.instance, kernel.table_keys(number, table)))
            for number, table in tables.items()
        }

    def reassigned(self, kernel: Kernel, number: int, table: Any, declared: int) -> Ints:
        """The instance of every row of state, which may have been written under another partitioning.

        `declared`: the declared instance of its operator, where that has only one.
        """
        return self.by_keys(kernel.table_keys(number, table), len(table), declared)

    def by_keys(self, keys: Sequence[Column], length: int, declared: int) -> Ints:
        """The instance of every row of one operator, by its keys alone.

        `declared`: the declared instance of the operator, where that has only one.
        """
        if not self.partition:
            return self.assigned(np.full(length, declared, np.int64), keys)
        groups = group_numbers([keys[position] for position in self.partition], length, len(self.numbers))
        return self.assigned(groups, keys)

    def relabelled(self, kernel: Kernel, tables: Tables, concerned: NDArray[np.bool_], declared: int) -> Tables:
        """Tables with the rows of the `concerned` instances, all of one operator, assigned to who has their slots.

        `declared`: the declared instance of the operator, where that has only one.
        """
        found = dict(tables)
        for number, table in tables.items():
            rows = np.flatnonzero(concerned[table.instance])
            if rows.size:
                instances = table.instance.copy()
                instances[rows] = self.reassigned(kernel, number, table.take(rows), declared)
                found[number] = table.with_instances(instances)
        return found

    def labelled(self, results: Block) -> Block:
        """Results with the numbers of declared instances."""
        return Block({**results.columns, INSTANCE: self.declared[results.columns[INSTANCE]]}, results.length)


def assigned_again(lane: Lane, number: int, rows: Any, declared: int) -> Ints:
    """The instance of every row of table `number` of an operator's state, written under any partitioning.

    `declared`: the first declared instance of the operator.
    """
    if lane.kernel is None:
        raise TypeError("a lane without a kernel has no state")
    division = lane.division or Division.as_declared(lane)
    return division.reassigned(lane.kernel, number, rows, declared)


def with_divisions(lanes: Sequence[Lane], partitioning: Partitioning) -> tuple[Lane, ...]:
    """The lanes under a partitioning: those with changed operators have a division and further instances."""
    if not partitioning.changed_operators:
        return tuple(lanes)
    return tuple(_with_division(lane, partitioning) if lane.kernel else lane for lane in lanes)


def _with_division(lane: Lane, partitioning: Partitioning) -> Lane:
    kernel, groups = lane.kernel, lane.instances
    if kernel is None or not any(operator_of(group) in partitioning.changed_operators for group in groups):
        return lane
    if (cells := declared_cells(lane)) is not None:
        return _with_tiles(lane, partitioning, cells.size)
    declared_of = _declared(groups)
    numbered: dict[InstanceId, int] = {group: number for number, group in enumerate(groups)}
    declared = list(range(len(groups)))
    numbers = np.empty((len(groups), SLOTS), np.int64)
    for position, group in enumerate(groups):
        operator = operator_of(group)
        for slot, number in enumerate(partitioning.slots(group)):
            instance = instance_id(operator, number)
            if instance not in numbered:
                numbered[instance] = len(numbered)
                declared.append(declared_of[operator])
            numbers[position, slot] = numbered[instance]
    division = Division(numbers, np.array(declared, np.int64), partition_positions(lane))
    _check_keys(lane, kernel, division)
    return replace(lane, instances=tuple(numbered), division=division)


def declared_cells(lane: Lane) -> Ints | None:
    """The declared instance of every cell, if the lane goes by cells."""
    dispatch = lane.feeds[0].steps[-1] if lane.feeds and lane.feeds[0].steps else None
    return dispatch.numbers if isinstance(dispatch, DispatchByCell) else None


def _with_tiles(lane: Lane, partitioning: Partitioning, cells: int) -> Lane:
    """A lane whose one operator is spatial: declared instances keep their numbers, further ones follow."""
    operator = OperatorId(operator_of(lane.instances[0]))
    numbered: dict[InstanceId, int] = {group: number for number, group in enumerate(lane.instances)}
    tiles = dict(dict(partitioning.layouts)[operator])
    columns = max(tile.right for tile in tiles.values())
    number_of = {number: numbered.setdefault(instance_id(operator, number), len(numbered)) for number in sorted(tiles)}
    owners = painted(columns, cells // columns, {number_of[number]: tile for number, tile in tiles.items()})
    declared = np.zeros(len(numbered), np.int64)
    declared[: len(lane.instances)] = np.arange(len(lane.instances))
    division = Division(owners.reshape(1, -1), declared, by_cell=True)
    return replace(lane, instances=tuple(numbered), division=division)


def _declared(groups: Sequence[InstanceId]) -> Mapping[str, int]:
    """The first declared instance of every operator."""
    found: dict[str, int] = {}
    for position, group in enumerate(groups):
        found.setdefault(operator_of(group), position)
    return found


def partition_positions(lane: Lane) -> tuple[int, ...]:
    """Positions, among the kernel's keys, of the columns that decide the declared group; empty if there is one."""
    feed = lane.feeds[0]
    dispatch = next((step for step in reversed(feed.steps) if isinstance(step, DispatchByGroup)), None)
    if lane.kernel is None or dispatch is None or dispatch.groups == 1:
        return ()
    keys = lane.kernel.keys(feed.port)
    return tuple(keys.index(name) for name in dispatch.columns)


def _check_keys(lane: Lane, kernel: Kernel, division: Division) -> None:
    """Reject a group divided by keys whose rows all have the same key."""
    divided = np.flatnonzero(division.whole == BY_KEY)
    if divided.size and not kernel.keys(lane.feeds[0].port):
        raise PartitioningError(f"instance {lane.instances[divided[0]]} has one key only and cannot be split")
