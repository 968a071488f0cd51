"""Placements: the divided lanes of a run, whom their instances belong to, and what they do there."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from shoal.compiler.lane import Lane
from shoal.errors import BindingError, PartitioningError
from shoal.model.control.binding import Binding, Move, WorkerId
from shoal.model.control.load_columns import LoadColumns
from shoal.model.control.messages import Repartition
from shoal.model.control.partitioning import Partitioning
from shoal.model.control.snapshot import InstanceLoad
from shoal.model.query.graph import Graph, InstanceId
from shoal.runtimes.local.dataflow.lane_node import LaneNode
from shoal.runtimes.local.dataflow.load import Floats, Ints
from shoal.runtimes.local.dataflow.node import Node
from shoal.runtimes.local.dataflow.split import MovingSplit
from shoal.runtimes.local.migration.live_instances import Columns
from shoal.runtimes.local.migration.moving_lane import MovingLane
from shoal.runtimes.local.migration.ownership import HandOver, Ownership
from shoal.runtimes.local.migration.reassignment import Reassignment
from shoal.runtimes.local.migration.repartition import Repartitions
from shoal.runtimes.local.migration.stop_the_world import StillLane, change_owners


@dataclass
class DividedLane:
    """A lane with its parts by worker and the splits in front of them; one thread asks for its loads."""

    lane: Lane
    ownership: Ownership
    parts: Sequence[MovingLane]
    splits: Sequence[MovingSplit]
    _before: tuple[Ints, Floats, Ints] | None = field(default=None, init=False)

    def loads(self, state_bytes: int) -> tuple[Ints, Floats, Ints, Ints, Ints]:
        """What every instance did since the last time, in columns; its state has a share of the lane's by its rows."""
        books = [part.load for part in self.parts]
        events = np.sum([each.events for each in books], axis=0)
        cost_s = np.sum([each.cost_s for each in books], axis=0)
        results = np.sum([each.results for each in books], axis=0)
        rows = np.sum([each.rows for each in books], axis=0)
        come = events - np.sum([each.relabelled for each in books], axis=0)
        # What is sent is looked at last, so that none is less than nothing; by a turn, where numbers are seen late.
        waiting = np.maximum(np.sum([split.sent for split in self.splits], axis=0) - come, 0)
        before = self._before or (np.zeros_like(events), np.zeros_like(cost_s), np.zeros_like(results))
        self._before = (events, cost_s, results)
        row_bytes = state_bytes / max(1, int(rows.sum()))
        state = (rows * row_bytes).astype(np.int64)
        return events - before[0], cost_s - before[1], results - before[2], state, waiting


@dataclass(frozen=True, eq=False)
class LaneGoal:
    """Where some instances of a lane are to be, and reassignments that are to be gathered and carried out.

    `numbers` are those of the instances; `instances` and `workers` say where each is to be.
    """

    numbers: Mapping[InstanceId, int]
    instances: Ints
    workers: Ints
    orders: tuple[Reassignment, ...] = ()

    def gathering(self, owner: Ints) -> list[tuple[Reassignment, int]]:
        """Reassignments that no part has been given yet, with the worker that is to carry each out."""
        return [(order, int(owner[order.before[0]])) for order in self.orders if not order.given]


class Placement:
    """All divided lanes, who has their instances and who is to have them, and how instances are split and merged.

    Whoever asks for a change or calls `go_on` takes turns with the others; one thread asks for loads.
    """

    def __init__(self, nodes: Sequence[Node], binding: Binding, most_workers: int, graph: Graph) -> None:
        """Find the lanes among the nodes of a run."""
        parts = [node for node in nodes if isinstance(node, MovingLane)]
        splits = [node for node in nodes if isinstance(node, MovingSplit)]
        self.lanes = [
            DividedLane(
                lane,
                ownership,
                [part for part in parts if part.ownership is ownership],
                [split for split in splits if split.ownership is ownership],
            )
            for ownership, lane in {id(part.ownership): (part.ownership, part.lane) for part in parts}.values()
        ]
        slots = [lane.ownership.slots for lane in self.lanes]
        self._repartitions = Repartitions(graph, [lane.lane for lane in self.lanes], slots)
        self._graph = graph
        self._most_workers = most_workers
        self._wanted = binding
        self._goal = self._aim()
        self._current = binding
        self._owners: list[Ints] = []
        self._columns = self._arranged()

    @property
    def asked_partitioning(self) -> Partitioning:
        """The partitioning once all that was asked for is carried out."""
        return self._repartitions.last

    def want(self, binding: Binding) -> str:
        """Have instances where a binding has them; says why not if that cannot be."""
        if binding.workers > self._most_workers:
            most = self._most_workers
            return f"the run may have up to {most} workers; got {binding.workers}; start it with a larger most_workers"
        unknown = [instance for instance in binding.worker_of if instance not in self._wanted.worker_of]
        if unknown:
            return f"the binding names instance {unknown[0]!r}, which the graph does not have"
        try:
            self._wanted = Binding({**self._wanted.worker_of, **binding.worker_of}, binding.workers)
        except BindingError as error:  # an instance that it does not name is on a worker that it does not have
            return str(error)
        self._goal = self._aim()
        return ""

    def repartition(self, command: Repartition) -> str:
        """Split and merge instances, and have them where the command says; says why not if that cannot be."""
        try:
            partitioning = self._repartitions.after(command.changes)
            instances = partitioning.instances(self._graph)
            if unknown := [instance for instance in command.worker_of if instance not in instances]:
                return f"the binding names instance {unknown[0]!r}, which the partitioning does not have"
            wanted = Binding.of({**self._wanted.worker_of, **command.worker_of}, self._wanted.workers)
        except (BindingError, PartitioningError) as error:
            return str(error)
        self._repartitions.ask(partitioning)
        self._wanted = wanted.fitted(instances)
        self.go_on()
        self._goal = self._aim()
        return ""

    def go_on(self) -> bool:
        """Take note of what has been split and merged, and begin what was asked for next; whether there was any."""
        done = self._repartitions.go_on()
        if done:
            self._goal = self._aim()
        return done

    @property
    def reached(self) -> bool:
        """Whether every instance is where it is to be, and all that can be split and merged now is being so."""
        return all(
            np.array_equal(lane.ownership.owner[goal.instances], goal.workers) and all(o.given for o in goal.orders)
            for lane, goal in zip(self.lanes, self._goal, strict=True)
        )

    def invite(self) -> None:
        """Have workers invite the instances they are to have, and split and merge those they have."""
        for lane, goal in zip(self.lanes, self._goal, strict=True):
            owner = lane.ownership.owner
            for place in np.flatnonzero(owner[goal.instances] != goal.workers).tolist():
                lane.parts[goal.workers[place]].invite(int(goal.instances[place]))
            for order, worker in goal.gathering(owner):
                order.given = True
                lane.parts[worker].reassign(order)

    def ask(self, instances: Iterable[InstanceId]) -> None:
        """Have workers invite some of the instances they are to have, in this order."""
        for instance in instances:
            for lane, goal in zip(self.lanes, self._goal, strict=True):
                if instance in goal.numbers:
                    lane.parts[int(self._wanted.worker_of[instance])].invite(goal.numbers[instance])

    @property
    def between(self) -> bool:
        """Whether an instance is on its way between two workers; exact only while nobody does anything."""
        return any(part.between for lane in self.lanes for part in lane.parts)

    def change(self, since_s: float) -> None:
        """Give all instances to the workers that are to have them; only while nobody does anything, as `since_s`.

        Where some are still on their way, nothing is changed: it must be asked for again.
        """
        if self.between:
            return
        for lane, goal in zip(self.lanes, self._goal, strict=True):
            wanted = lane.ownership.owner.copy()
            wanted[goal.instances] = goal.workers
            gathering = goal.gathering(wanted)
            for order, worker in gathering:
                wanted[list(order.before)] = worker
            parts = [part for part in lane.parts if isinstance(part, StillLane)]
            change_owners(lane.ownership, parts, wanted, since_s)
            for order, worker in gathering:
                order.given = True
                lane.parts[worker].reassign(order)

    def moves(self) -> list[Move]:
        """What is not yet where it is to be."""
        found: list[Move] = []
        for lane, goal in zip(self.lanes, self._goal, strict=True):
            owner, names = lane.ownership.owner[goal.instances], tuple(goal.numbers)
            found += [
                Move(names[place], WorkerId(int(owner[place])), WorkerId(int(goal.workers[place])))
                for place in np.flatnonzero(owner != goal.workers).tolist()
            ]
        return found

    def target(self, instance: InstanceId) -> WorkerId | None:
        """The worker that is to have an instance; None if it is to be split or merged first, or is gone."""
        known = any(instance in goal.numbers for goal in self._goal)
        return self._wanted.worker_of[instance] if known else None

    def settled(self) -> Iterator[tuple[InstanceId, HandOver]]:
        """Moves that have been done since the last time, of instances there are; one thread asks."""
        for lane, numbers in zip(self.lanes, self._repartitions.live.numbers, strict=True):
            name_of = {number: name for name, number in numbers.items()}
            for done in lane.ownership.settled:
                while done:
                    hand_over = done.popleft()
                    if hand_over.instance in name_of:
                        yield name_of[hand_over.instance], hand_over

    def _aim(self) -> tuple[LaneGoal, ...]:
        """Where the instances of every lane are to be, but for those that are being split and merged."""
        underway, found = self._repartitions.underway, []
        for place, numbers in enumerate(self._repartitions.live.numbers):
            orders = underway.orders[place] if underway is not None else ()
            concerned = {number for order in orders for number in (*order.before, *order.after)}
            worker_of = self._wanted.worker_of
            there = {i: n for i, n in numbers.items() if n not in concerned and i in worker_of}
            workers = np.array([worker_of[instance] for instance in there], np.int64)
            found.append(LaneGoal(there, np.array([*there.values()], np.int64), workers, orders))
        return tuple(found)

    def _arranged(self) -> Columns:
        sizes = [lane.ownership.owner.size for lane in self.lanes]
        return Columns.arranged(self._repartitions.live, self._graph, sizes)

    def current(self) -> tuple[Binding, Partitioning]:
        """Who owns what now, and which keys that is; workers that are to go count until they own nothing.

        Asked for before the loads of the same instances.
        """
        if same := self._repartitions.live is self._columns.live:
            columns = self._columns
        else:
            columns = self._columns = self._arranged()
        workers, live = self._wanted.workers, columns.live
        owners = [lane.ownership.owner[numbers] for lane, numbers in zip(self.lanes, columns.numbers, strict=True)]
        used = 1 + max((int(each.max()) for each in owners if each.size), default=0)
        if used > workers:
            workers = max(used, self._current.workers)
        unchanged = self._owners and same and all(map(np.array_equal, owners, self._owners))
        if not unchanged or workers != self._current.workers:
            names = [name for numbers in live.numbers for name in numbers]
            owned = map(WorkerId, np.concatenate(owners).tolist()) if owners else ()
            self._current, self._owners = Binding(dict(zip(names, owned, strict=True)), workers), owners
        return self._current, live.partitioning

    def moved(self) -> tuple[int, int, float]:
        """Instances that have moved so far, the bytes of their state, and the time workers spent on that."""
        owners = [lane.ownership for lane in self.lanes]
        moving_s = sum(part.moving_s for lane in self.lanes for part in lane.parts)
        return sum(sum(each.moves) for each in owners), sum(sum(each.moved_bytes) for each in owners), moving_s

    def loads(self, held: Mapping[LaneNode, int]) -> Mapping[InstanceId, InstanceLoad]:
        """What every instance did since the last time, where nodes hold so many bytes."""
        if not self.lanes:
            return {}
        found = [lane.loads(sum(held[part] for part in lane.parts)) for lane in self.lanes]
        events, cost_s, results, state, waiting = map(np.concatenate, zip(*found, strict=True))
        columns = self._columns
        return LoadColumns(columns.names, *(columns.of(each) for each in (events, cost_s, results, state, waiting)))
