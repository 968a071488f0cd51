"""Partitionings: which instance of an operator has each key. A binding then says which worker has each instance.

An operator is declared with key groups, one unless `partition_by` asks for more. Within its group a key falls into one
of `SLOTS` slots by a second hash, and a partitioning gives every slot to an instance. As declared, an instance has all
slots of its group; splitting gives some of them to another instance, merging gives those of several to one.

The keys of a spatial operator are the cells of a grid. Its instances have rectangles of cells instead of slots, which
together cover the grid: splitting cuts a rectangle, and merging joins rectangles that form one.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import count, islice

import numpy as np

from shoal.errors import PartitioningError
from shoal.model.query.graph import STATEFUL, Graph, InstanceId, Operator, OperatorId
from shoal.model.spatial.tiles import Axis, Tile, halves, halvings, joined, painted

SLOTS = 64
"""Slots of a declared key group, and so the largest number of instances that can share one."""


@dataclass(frozen=True)
class Split:
    """Divide the slots of an instance among `parts` instances, itself included."""

    instance: InstanceId
    parts: int = 2


@dataclass(frozen=True)
class Merge:
    """Give the slots of several instances of one operator to the first of them."""

    instances: tuple[InstanceId, ...]


@dataclass(frozen=True)
class Regroup:
    """Divide all slots of an operator evenly among `groups` instances."""

    operator: OperatorId
    groups: int


@dataclass(frozen=True)
class Cut:
    """Cut the rectangle of an instance in two, before a column or row of the grid.

    The part in which the column or row is becomes a new instance; with `keeps_last`, the other one does.
    """

    instance: InstanceId
    axis: Axis
    at: int
    keeps_last: bool = False


@dataclass(frozen=True)
class Retile:
    """Give an operator another set of rectangles, which must cover its grid; the n-th is that of instance n."""

    operator: OperatorId
    tiles: tuple[Tile, ...]


Change = Split | Merge | Regroup | Cut | Retile
Layout = tuple[tuple[int, Tile], ...]
"""The rectangle of every instance of an operator, by number."""


def operator_of(instance: InstanceId) -> OperatorId:
    """The operator that an instance belongs to.

    >>> operator_of(InstanceId("ab12/3"))
    'ab12'
    """
    return OperatorId(instance.rpartition("/")[0])


def number_of(instance: InstanceId) -> int:
    """The number of an instance within its operator."""
    return int(instance.rpartition("/")[2])


def instance_id(operator: OperatorId, number: int) -> InstanceId:
    """An instance by its operator and its number."""
    return InstanceId(f"{operator}/{number}")


@dataclass(frozen=True)
class Partitioning:
    """Slot -> instance, for the declared key groups that were changed; `version` counts changes.

    `entries`: for every such group, named by its declared instance, the number of the instance that has each of its
    slots. `layouts`: for every spatial operator that was changed, the rectangles of its instances. Operators without
    either are as declared.
    """

    version: int = 0
    entries: tuple[tuple[InstanceId, tuple[int, ...]], ...] = ()
    layouts: tuple[tuple[OperatorId, Layout], ...] = ()

    def __post_init__(self) -> None:
        """Reject groups with a wrong number of slots."""
        for group, numbers in self.entries:
            if len(numbers) != SLOTS or min(numbers) < 0:
                raise PartitioningError(f"group {group!r} must name an instance for each of its {SLOTS} slots")

    @cached_property
    def changed_groups(self) -> Mapping[InstanceId, tuple[int, ...]]:
        """The entries by group."""
        return dict(self.entries)

    @cached_property
    def changed_operators(self) -> frozenset[OperatorId]:
        """The operators that are not as declared."""
        return frozenset([*(operator_of(group) for group, _ in self.entries), *(id_ for id_, _ in self.layouts)])

    def tiles(self, operator: Operator) -> dict[int, Tile]:
        """The rectangle of each instance of a spatial operator, by number."""
        changed = dict(self.layouts).get(operator.id)
        return declared_tiles(operator) if changed is None else dict(changed)

    def slots(self, group: InstanceId) -> tuple[int, ...]:
        """The number of the instance that has each slot of a declared group."""
        return self.changed_groups.get(group) or (number_of(group),) * SLOTS

    def instances_of(self, operator: Operator) -> tuple[InstanceId, ...]:
        """The instances of an operator, in the order of their numbers."""
        if operator.id not in self.changed_operators:
            return tuple(operator.instances)
        numbers = self.tiles(operator) if operator.grid else _numbers(self.table(operator))
        return tuple(instance_id(operator.id, number) for number in sorted(numbers))

    def instances(self, graph: Graph) -> tuple[InstanceId, ...]:
        """All instances of a graph that hold state."""
        if not self.changed_operators:
            return graph.stateful_instances
        stateful = (operator for operator in graph.operators.values() if operator.kind in STATEFUL)
        return tuple(instance for operator in stateful for instance in self.instances_of(operator))

    def after(self, change: Change, graph: Graph) -> "Partitioning":
        """The partitioning after a change; an impossible change is rejected.

        >>> from shoal.workloads.traffic.queries import queries
        >>> graph = Graph.of(queries(1))
        >>> first = graph.stateful_instances[0]
        >>> halves = Partitioning().after(Split(first), graph)
        >>> [number_of(instance) for instance in halves.instances_of(graph.operators[operator_of(first)])]
        [0, 1]
        """
        operator = _operator(change, graph)
        if operator.grid:
            return self._with_tiles(operator, _tiles_after(self.tiles(operator), change, operator.grid))
        table = self.table(operator)
        if isinstance(change, Cut | Retile):
            raise PartitioningError(f"{operator.kind} {operator.id} goes by keys and has no rectangles")
        if isinstance(change, Split):
            table = _split(table, change)
        elif isinstance(change, Merge):
            table = _merged(table, change)
        else:
            table = _regrouped(table, change)
        return self._with(operator, table)

    def fitted(self, graph: Graph) -> "Partitioning":
        """The partitioning for a changed graph, without operators that are gone."""
        kept = tuple(entry for entry in self.entries if operator_of(entry[0]) in graph.operators)
        tiled = tuple(layout for layout in self.layouts if layout[0] in graph.operators)
        unchanged = len(kept) == len(self.entries) and len(tiled) == len(self.layouts)
        return self if unchanged else Partitioning(self.version + 1, kept, tiled)

    def heirs(self, after: "Partitioning", graph: Graph) -> dict[InstanceId, tuple[InstanceId, ...]]:
        """For each instance that gains or loses slots under `after`: the instances that then have its slots."""
        found: dict[InstanceId, dict[InstanceId, None]] = {}
        for id_ in sorted(self.changed_operators | after.changed_operators):
            operator = graph.operators.get(id_)
            if operator is None:
                continue
            both = np.unique(np.stack([self.table(operator), after.table(operator)], axis=1), axis=0)
            pairs: list[tuple[int, int]] = list(map(tuple, both.tolist()))
            for before, now in pairs:
                found.setdefault(instance_id(id_, before), {})[instance_id(id_, now)] = None
        heirs = {instance: tuple(several) for instance, several in found.items()}
        taken = {now for before, several in heirs.items() for now in several if now != before}
        return {i: several for i, several in heirs.items() if several != (i,) or i in taken}

    def table(self, operator: Operator) -> tuple[int, ...]:
        """The instance of every slot of an operator, group by group, or of every cell of its grid."""
        if operator.grid:
            return tuple(painted(*operator.grid, self.tiles(operator)).tolist())
        return tuple(number for group in operator.instances for number in self.slots(group))

    def _with(self, operator: Operator, table: tuple[int, ...]) -> "Partitioning":
        entries = {group: numbers for group, numbers in self.entries if operator_of(group) != operator.id}
        for place, group in enumerate(operator.instances):
            numbers = table[place * SLOTS : (place + 1) * SLOTS]
            if numbers != (place,) * SLOTS:
                entries[group] = numbers
        return replace(self, version=self.version + 1, entries=tuple(sorted(entries.items())))

    def _with_tiles(self, operator: Operator, tiles: dict[int, Tile]) -> "Partitioning":
        layouts = {id_: layout for id_, layout in self.layouts if id_ != operator.id}
        if tiles != declared_tiles(operator):
            layouts[operator.id] = tuple(sorted(tiles.items()))
        return replace(self, version=self.version + 1, layouts=tuple(sorted(layouts.items())))


DECLARED = Partitioning()
"""Every operator as it was declared."""


def declared_tiles(operator: Operator) -> dict[int, Tile]:
    """The rectangles of a spatial operator as declared: its grid, halved again and again."""
    if operator.grid is None:
        raise PartitioningError(f"{operator.kind} {operator.id} goes by keys and has no rectangles")
    return dict(enumerate(halvings(*operator.grid, operator.groups)))


def _numbers(table: tuple[int, ...]) -> frozenset[int]:
    return frozenset(table)


def _operator(change: Change, graph: Graph) -> Operator:
    """The operator of a change, which must have keys."""
    if isinstance(change, Merge):
        operators = {operator_of(instance) for instance in change.instances}
        if len(change.instances) < 2 or len(operators) != 1 or len(set(change.instances)) != len(change.instances):
            given = ", ".join(change.instances) or "none"
            raise PartitioningError(f"merge needs two or more different instances of one operator; got {given}")
        id_ = next(iter(operators))
    else:
        id_ = operator_of(change.instance) if isinstance(change, Split | Cut) else change.operator
    operator = graph.operators.get(id_)
    if operator is None or operator.kind not in STATEFUL:
        raise PartitioningError(f"there is no operator {id_!r} that holds state; `shoal instances` lists them")
    if not operator.parameters.get("keys"):
        raise PartitioningError(f"{operator.kind} {id_} has no keys, so that its state cannot be divided")
    return operator


def _tiles_after(tiles: dict[int, Tile], change: Change, grid: tuple[int, int]) -> dict[int, Tile]:
    if isinstance(change, Regroup):
        return dict(enumerate(halvings(*grid, change.groups)))
    if isinstance(change, Retile):
        painted(*grid, dict(enumerate(change.tiles)))  # which rejects what does not cover the grid
        return dict(enumerate(change.tiles))
    concerned = change.instances if isinstance(change, Merge) else (change.instance,)
    numbers = [number_of(instance) for instance in concerned]
    if unknown := [each for each, number in zip(concerned, numbers, strict=True) if number not in tiles]:
        raise PartitioningError(f"there is no instance {unknown[0]!r}; `shoal instances` lists them")
    after = {number: tile for number, tile in tiles.items() if number not in numbers}
    first, tile = numbers[0], tiles[numbers[0]]
    if isinstance(change, Merge):
        return after | {first: joined([tiles[number] for number in numbers])}
    parts = halves(tile, change.parts) if isinstance(change, Split) else tile.cut(change.axis, change.at)
    if isinstance(change, Split) and change.parts < 2:
        raise PartitioningError(f"instance {change.instance!r} must be split into 2 or more parts; got {change.parts}")
    if isinstance(change, Cut) and change.keeps_last:
        parts = (parts[1], parts[0])
    free = islice((number for number in count() if number not in tiles), len(parts) - 1)
    return after | dict(zip([first, *free], parts, strict=True))


def _slots_of(table: tuple[int, ...], instance: InstanceId) -> list[int]:
    slots = [slot for slot, number in enumerate(table) if number == number_of(instance)]
    if not slots:
        raise PartitioningError(f"there is no instance {instance!r}; `shoal instances` lists them")
    return slots


def _free(table: tuple[int, ...]) -> Iterator[int]:
    used = _numbers(table)
    return (number for number in count() if number not in used)


def _split(table: tuple[int, ...], change: Split) -> tuple[int, ...]:
    slots = _slots_of(table, change.instance)
    if not 2 <= change.parts <= len(slots):
        raise PartitioningError(
            f"instance {change.instance!r} has {len(slots)} slots and can be split into 2 to {len(slots)} parts; "
            f"got {change.parts}"
        )
    numbers = [number_of(change.instance), *islice(_free(table), change.parts - 1)]
    after = list(table)
    for position, slot in enumerate(slots):
        after[slot] = numbers[position % change.parts]
    return tuple(after)


def _merged(table: tuple[int, ...], change: Merge) -> tuple[int, ...]:
    merged = {slot for instance in change.instances for slot in _slots_of(table, instance)}
    first = number_of(change.instances[0])
    return tuple(first if slot in merged else number for slot, number in enumerate(table))


def _regrouped(table: tuple[int, ...], change: Regroup) -> tuple[int, ...]:
    if not 1 <= change.groups <= len(table):
        raise PartitioningError(
            f"operator {change.operator} can have 1 to {len(table)} instances, {SLOTS} for each key group it was "
            f"declared with; got {change.groups}"
        )
    return tuple(slot * change.groups // len(table) for slot in range(len(table)))
