"""Repartitions: from one partitioning to the next, in pieces that parts of lanes apply while the run goes on.

The slots of an operator that change their instance fall into pieces, which share no instance with each other. A split
is a piece with one instance before, a merge one with one instance after. The instances of a piece are gathered at one
worker, which reassigns their keys (`reassignment`); afterwards they go to their workers by ordinary moves. An instance
that a piece has before and after keeps its number; others take numbers of their piece, or unused ones.
"""

from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shoal.compiler.division import with_divisions
from shoal.compiler.lane import Lane
from shoal.errors import PartitioningError
from shoal.model.control.partitioning import DECLARED, SLOTS, Change, Partitioning, instance_id, operator_of
from shoal.model.query.graph import Graph, InstanceId, Operator
from shoal.runtimes.local.dataflow.load import Ints
from shoal.runtimes.local.migration.key_slots import Slots
from shoal.runtimes.local.migration.reassignment import Reassignment


@dataclass(frozen=True)
class SlotPiece:
    """Slots of an operator that change together; `target[c]` is the instance that has slot c afterwards.

    Slots are counted through all declared groups of the operator.
    """

    operator: Operator
    before: tuple[InstanceId, ...]
    after: tuple[InstanceId, ...]
    target: Mapping[int, InstanceId]

    @property
    def further(self) -> int:
        """The number of additional instances."""
        return max(0, len(self.after) - len(self.before))

    def numbered(self, number_of: Mapping[InstanceId, int], unused: list[int]) -> dict[InstanceId, int]:
        """The numbers of the instances afterwards; additional ones are removed from `unused`."""
        found = {name: number_of[name] for name in self.after if name in self.before}
        left = [number_of[name] for name in self.before if name not in found]
        for name in self.after:
            if name not in found:
                found[name] = left.pop(0) if left else unused.pop(0)
        return found


def pieces(operator: Operator, before: Partitioning, after: Partitioning) -> list[SlotPiece]:
    """The pieces in which the slots of an operator change.

    >>> from shoal.model.control.partitioning import Regroup
    >>> from shoal.workloads.traffic.queries import vehicles
    >>> from shoal.model.query.aggregate import count
    >>> from shoal.model.query.window import tumbling
    >>> counted = vehicles().partition_by("vehicle", groups=2).window(tumbling(1)).aggregate(n=count())
    >>> graph = Graph.of([counted.sink("counted")])
    >>> operator = graph.operators[operator_of(graph.stateful_instances[0])]
    >>> doubled = DECLARED.after(Regroup(operator.id, 4), graph)
    >>> [(len(piece.before), len(piece.after)) for piece in pieces(operator, DECLARED, doubled)]
    [(1, 2), (1, 2)]
    """
    old, new = before.table(operator), after.table(operator)
    leader = {number: number for number in old}

    def led(number: int) -> int:
        while leader[number] != number:
            number = leader[number]
        return number

    first: dict[int, int] = {}
    for was, is_ in zip(old, new, strict=True):
        leader[led(was)] = led(first.setdefault(is_, was))
    slots: dict[int, list[int]] = defaultdict(list)
    for slot, was in enumerate(old):
        slots[led(was)].append(slot)
    return [
        SlotPiece(
            operator,
            tuple(instance_id(operator.id, number) for number in dict.fromkeys(old[slot] for slot in each)),
            tuple(instance_id(operator.id, number) for number in dict.fromkeys(new[slot] for slot in each)),
            {slot: instance_id(operator.id, new[slot]) for slot in each},
        )
        for each in slots.values()
        if any(old[slot] != new[slot] for slot in each)
    ]


@dataclass(frozen=True, eq=False)
class LivePartitioning:
    """The partitioning in force, and the number of each of its instances, lane by lane.

    `strays` are numbers of each lane that no live instance has, each with the instance that their load counts for:
    those of instances that do not exist yet, or that have been merged.
    """

    partitioning: Partitioning
    numbers: tuple[Mapping[InstanceId, int], ...]
    strays: tuple[Mapping[int, InstanceId], ...]


@dataclass(frozen=True, eq=False)
class LiveInstances:
    """The instances of a run in one order, and their positions among the concatenated numbers of all lanes.

    `numbers` are those of each lane, in the order of `live`. The load of `strays` counts for the instances at the
    positions `heirs`.
    """

    live: LivePartitioning
    numbers: tuple[Ints, ...]
    names: tuple[InstanceId, ...]
    order: Ints
    strays: Ints
    heirs: Ints

    @classmethod
    def arranged(cls, live: LivePartitioning, graph: Graph, sizes: Sequence[int]) -> "LiveInstances":
        """The instances in force; `sizes` is how many numbers each lane has."""
        starts = np.cumsum([0, *sizes]).tolist()[:-1]
        at = {name: start + n for start, of in zip(starts, live.numbers, strict=True) for name, n in of.items()}
        names = tuple(name for name in live.partitioning.instances(graph) if name in at)
        place_of = {name: place for place, name in enumerate(names)}
        strays = [
            (start + n, place_of[i]) for start, of in zip(starts, live.strays, strict=True) for n, i in of.items()
        ]
        pairs = np.array(strays, np.int64).reshape(-1, 2)
        numbers = tuple(np.array([*of.values()], np.int64) for of in live.numbers)
        order = np.array([at[name] for name in names], np.int64)
        return cls(live, numbers, names, order, pairs[:, 0], pairs[:, 1])

    def of(self, column: NDArray[Any]) -> NDArray[Any]:
        """Turn a column over the numbers of all lanes into one over the instances."""
        found = column[self.order]
        if self.strays.size:
            np.add.at(found, self.heirs, column[self.strays])
        return found


@dataclass(eq=False)
class Transition:
    """A change in progress: the reassignments of every lane, and what is in force afterwards."""

    orders: tuple[tuple[Reassignment, ...], ...]
    after: LivePartitioning

    @property
    def settled(self) -> bool:
        """Whether all reassignments are settled."""
        return all(order.settled for orders in self.orders for order in orders)


class Repartitions:
    """The changes of one run, one after another; callers hold a lock, but any thread may read `live`."""

    def __init__(self, graph: Graph, lanes: Sequence[Lane], slots: Sequence[Slots]) -> None:
        """Everything is as declared."""
        self._graph = graph
        self._lanes = list(zip(lanes, slots, strict=True))
        self._queued: deque[Partitioning] = deque()
        self.underway: Transition | None = None
        self.last = DECLARED
        numbers = tuple({name: number for number, name in enumerate(lane.instances)} for lane in lanes)
        self.live = LivePartitioning(DECLARED, numbers, tuple({} for _ in lanes))

    def after(self, changes: Sequence[Change]) -> Partitioning:
        """The partitioning after changes to the last one queued; raises if they cannot be made."""
        found = self.last
        for change in changes:
            found = found.after(change, self._graph)
        with_divisions([lane for lane, _ in self._lanes], found)  # which rejects groups that have one key only
        for lane, slots in self._lanes:
            names = sum(len(self.last.instances_of(operator)) for operator in self._operators(lane))
            most = names + sum(piece.further for piece in self._pieces(lane, self.last, found))
            if most > slots.declared.size:
                raise PartitioningError(
                    f"lane {lane.number} has room for {slots.declared.size} instances, of which "
                    f"{len(lane.instances)} are declared; got {most}; merge some first"
                )
        return found

    def ask(self, partitioning: Partitioning) -> None:
        """Queue a partitioning returned by `after`; it starts when those before it are in force."""
        self._queued.append(partitioning)
        self.last = partitioning

    def advance(self) -> bool:
        """Put a settled change in force and start the next; returns whether there was any. Called periodically."""
        done = False
        while True:
            if self.underway is not None and self.underway.settled:
                self.live, self.underway = self.underway.after, None
            elif self.underway is None and self._queued:
                self._begin(self._queued.popleft())
            else:
                return done
            done = True

    def _operators(self, lane: Lane) -> list[Operator]:
        return [self._graph.operators[id_] for id_ in dict.fromkeys(map(operator_of, lane.instances))]

    def _pieces(self, lane: Lane, before: Partitioning, after: Partitioning) -> list[SlotPiece]:
        changed = before.changed_operators | after.changed_operators
        several = [operator for operator in self._operators(lane) if operator.id in changed]
        return [piece for operator in several for piece in pieces(operator, before, after)]

    def _begin(self, after: Partitioning) -> None:
        """Number the instances of a partitioning, and compute the reassignments of their slots."""
        begun = [self._lane_begun(index, after) for index in range(len(self._lanes))]
        now = LivePartitioning(after, tuple(each.numbers for each in begun), tuple(each.strays for each in begun))
        self.underway = Transition(tuple(tuple(each.orders) for each in begun), now)
        self.live = replace(self.live, strays=tuple(each.coming for each in begun))

    def _lane_begun(self, index: int, after: Partitioning) -> "_LaneBegun":
        lane, slots = self._lanes[index]
        before = self.live.numbers[index]
        begun = _LaneBegun(dict(before), dict(self.live.strays[index]))
        found = self._pieces(lane, self.live.partitioning, after)
        used = {*before.values()}
        unused = [number for number in range(slots.declared.size) if number not in used]
        for name in (name for piece in found for name in piece.before):
            del begun.numbers[name]
        for piece in found:
            numbers = piece.numbered(before, unused)
            declared = [lane.instances.index(group) for group in piece.operator.instances]
            slots.declared[[number for number in numbers.values() if number not in used]] = declared[0]
            begun.add(piece, before, numbers, declared)
        slots.divided = slots.divided or bool(begun.orders)
        return begun


@dataclass(eq=False)
class _LaneBegun:
    """A lane in a transition: its numbers afterwards, strays during it (`coming`) and after it, and reassignments."""

    numbers: dict[InstanceId, int]
    coming: dict[int, InstanceId]
    strays: dict[int, InstanceId] = field(init=False)
    orders: list[Reassignment] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Start with the present strays."""
        self.strays = dict(self.coming)

    def add(
        self,
        piece: SlotPiece,
        before: Mapping[InstanceId, int],
        after: Mapping[InstanceId, int],
        declared: Sequence[int],
    ) -> None:
        """Add a piece, whose operator has these declared numbers."""
        self.numbers |= after
        old = {before[name]: name for name in piece.before}
        for number in {*after.values()}.difference(old):
            self.coming[number] = piece.before[0]
            self.strays.pop(number, None)
        for number in [n for n, name in self.strays.items() if name in piece.before]:
            self.strays[number] = piece.after[0]
        for number in {*old}.difference(after.values()):
            self.strays[number] = piece.after[0]
        if len(piece.before) > 1 or len(piece.after) > 1:
            self.orders.append(_order(piece, tuple(old), after, declared))


def _order(
    piece: SlotPiece, before: tuple[int, ...], number_of: Mapping[InstanceId, int], declared: Sequence[int]
) -> Reassignment:
    """A piece as a reassignment of numbers of its lane; cells of a grid are counted as they are."""
    slots = piece.target
    places = slots if piece.operator.grid else (declared[slot // SLOTS] * SLOTS + slot % SLOTS for slot in slots)
    return Reassignment(
        before,
        tuple(number_of.values()),
        np.array([*places], np.int64),
        np.array([number_of[name] for name in piece.target.values()], np.int64),
        declared[0],
    )
