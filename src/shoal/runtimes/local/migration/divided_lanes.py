"""Divided lanes: which worker owns their instances, which is to own them, and the load of each."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from shoal.compiler.lane import Lane
from shoal.compiler.spatial.lane_arrivals import merged_arrivals, spatial_operator
from shoal.errors import BindingError, PartitioningError
from shoal.kernels.kernel import Kernel
from shoal.model.control.binding import Binding, Move, WorkerId
from shoal.model.control.load_columns import LoadColumns
from shoal.model.control.messages import Repartition
from shoal.model.control.partitioning import Partitioning
from shoal.model.control.snapshot import Arrivals, InstanceLoad
from shoal.model.query.graph import Graph, InstanceId
from shoal.runtimes.local.dataflow.lane_node import LaneNode
from shoal.runtimes.local.dataflow.load import Floats, Ints
from shoal.runtimes.local.dataflow.node import Node
from shoal.runtimes.local.dataflow.split import MovingSplit
from shoal.runtimes.local.migration.moving_lane import MovingLane
from shoal.runtimes.local.migration.ownership import Ownership
from shoal.runtimes.local.migration.part_messages import HandOver
from shoal.runtimes.local.migration.reassignment import Reassignment
from shoal.runtimes.local.migration.repartition import LiveInstances, Repartitions
from shoal.runtimes.local.migration.stop_the_world import BarrierShedding, OwnerChange, PausedLane
from shoal.runtimes.local.migration.way import AT_ONCE, MoveWay
from shoal.runtimes.migration.key_sample import KeySample


@dataclass
class DividedLane:
    """A lane with its parts by worker and the splits upstream; one thread asks for its loads."""

    lane: Lane
    ownership: Ownership
    parts: Sequence[MovingLane]
    splits: Sequence[MovingSplit]
    _before: tuple[Ints, Floats, Ints] | None = field(default=None, init=False)

    def loads(self, state_bytes: int) -> tuple[Ints, Floats, Ints, Ints, Ints]:
        """The load of every instance since the last call, in columns; state bytes are shared out by rows."""
        counters = [part.load for part in self.parts]
        events = np.sum([each.events for each in counters], axis=0)
        cost_s = np.sum([each.cost_s for each in counters], axis=0)
        results = np.sum([each.results for each in counters], axis=0)
        rows = np.sum([each.rows for each in counters], axis=0)
        received = events - np.sum([each.relabelled for each in counters], axis=0)
        # Rows sent are read last, so that the backlog is not negative; counters may be one turn old.
        waiting = np.maximum(np.sum([split.sent for split in self.splits], axis=0) - received, 0)
        before = self._before or (np.zeros_like(events), np.zeros_like(cost_s), np.zeros_like(results))
        self._before = (events, cost_s, results)
        row_bytes = state_bytes / max(1, int(rows.sum()))
        state = (rows * row_bytes).astype(np.int64)
        return events - before[0], cost_s - before[1], results - before[2], state, waiting

    def arrivals(self) -> Arrivals:
        """What came to the tiles of the lane since the last call, if its keys are cells."""
        taken = [part.load.places.taken() for part in self.parts if part.load.places is not None]
        return merged_arrivals({spatial_operator(self.lane): came} for came in taken)


@dataclass(frozen=True, eq=False)
class LaneGoal:
    """The target workers of some instances of a lane, and the reassignments to apply.

    `numbers` are those of the instances; `workers[i]` is the target of `instances[i]`.
    """

    numbers: Mapping[InstanceId, int]
    instances: Ints
    workers: Ints
    orders: tuple[Reassignment, ...] = ()

    def gathering(self, owner: Ints) -> list[tuple[Reassignment, int]]:
        """Reassignments that no part has yet, each with the worker that is to apply it."""
        return [(order, int(owner[order.before[0]])) for order in self.orders if not order.assigned]


class DividedLanes:
    """All divided lanes of a run, with the target binding, and the splits and merges of their instances.

    Callers that ask for a change or call `advance` hold a lock; one thread asks for loads.
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
        self._target = binding
        self._goals = self._current_goals()
        self._current = binding
        self._owners: list[Ints] = []
        self._live = self._arranged()

    @property
    def asked_partitioning(self) -> Partitioning:
        """The partitioning after all queued changes."""
        return self._repartitions.last

    @property
    def target_binding(self) -> Binding:
        """The binding that is the target."""
        return self._target

    def set_target(self, binding: Binding) -> str:
        """Make a binding the target; returns the reason if that is impossible, else an empty text."""
        if binding.workers > self._most_workers:
            most = self._most_workers
            return f"the run may have up to {most} workers; got {binding.workers}; start it with a larger most_workers"
        unknown = [instance for instance in binding.worker_of if instance not in self._target.worker_of]
        if unknown:
            return f"the binding names instance {unknown[0]!r}, which the graph does not have"
        try:
            self._target = Binding({**self._target.worker_of, **binding.worker_of}, binding.workers)
        except BindingError as error:  # an instance that it does not name is on a removed worker
            return str(error)
        self._goals = self._current_goals()
        return ""

    def repartition(self, command: Repartition) -> str:
        """Split and merge instances, and set their targets; returns the reason if that is impossible."""
        try:
            partitioning = self._repartitions.after(command.changes)
            instances = partitioning.instances(self._graph)
            if unknown := [instance for instance in command.worker_of if instance not in instances]:
                return f"the binding names instance {unknown[0]!r}, which the partitioning does not have"
            wanted = Binding.of({**self._target.worker_of, **command.worker_of}, self._target.workers)
        except (BindingError, PartitioningError) as error:
            return str(error)
        self._repartitions.ask(partitioning)
        self._target = wanted.fitted(instances)
        self.advance()
        self._goals = self._current_goals()
        return ""

    def advance(self) -> bool:
        """Put settled changes in force and start the next; returns whether there was any."""
        done = self._repartitions.advance()
        if done:
            self._goals = self._current_goals()
        return done

    @property
    def reached(self) -> bool:
        """Whether every instance is at its target, and all current reassignments have been assigned to a part."""
        return all(
            np.array_equal(lane.ownership.owner[goal.instances], goal.workers) and all(o.assigned for o in goal.orders)
            for lane, goal in zip(self.lanes, self._goals, strict=True)
        )

    def request_all(self, way: MoveWay = AT_ONCE) -> None:
        """Have workers request all instances that they are to own, and apply reassignments."""
        for lane, goal in zip(self.lanes, self._goals, strict=True):
            owner = lane.ownership.owner
            for place in np.flatnonzero(owner[goal.instances] != goal.workers).tolist():
                lane.parts[goal.workers[place]].request(int(goal.instances[place]), way)
            for order, worker in goal.gathering(owner):
                order.assigned = True
                lane.parts[worker].reassign(order)

    def request(self, instances: Iterable[InstanceId], way: MoveWay = AT_ONCE) -> None:
        """Have workers request some of the instances that they are to own, in this order."""
        for instance in instances:
            for lane, goal in zip(self.lanes, self._goals, strict=True):
                if instance in goal.numbers:
                    lane.parts[int(self._target.worker_of[instance])].request(goal.numbers[instance], way)

    @property
    def repartitioning(self) -> bool:
        """Whether instances are being split or merged, or are to be."""
        return (
            self._repartitions.underway is not None
            or self._repartitions.last is not self._repartitions.live.partitioning
        )

    def kernel_of(self, instance: InstanceId) -> Kernel:
        """The kernel of a live instance."""
        for lane, numbers in zip(self.lanes, self._repartitions.live.numbers, strict=True):
            if instance in numbers and lane.lane.kernel is not None:
                return lane.lane.kernel
        raise KeyError(instance)

    def sample_keys(self) -> None:
        """Have all parts sample their input, for kernels that learn from it; called before the run begins."""
        for lane in self.lanes:
            kernel = lane.lane.kernel
            if kernel is not None and kernel.learns:
                for part in lane.parts:
                    part.sample = KeySample(kernel)

    @property
    def in_transit(self) -> bool:
        """Whether an instance is between two workers; exact only while all workers are stopped."""
        return any(part.in_transit for lane in self.lanes for part in lane.parts)

    def move_at_barrier(self, since_s: float, shedding: BarrierShedding | None = None) -> bool:
        """Move all instances to their targets; only while all workers are stopped, as they are `since_s`.

        `shedding`: which state is kept; all of it by default. Returns False if an instance is in transit: then nothing
        changes, and the caller must retry.
        """
        if self.in_transit:
            return False
        changes, gathered = list[OwnerChange](), list[tuple[DividedLane, list[tuple[Reassignment, int]]]]()
        for lane, goal in zip(self.lanes, self._goals, strict=True):
            wanted = lane.ownership.owner.copy()
            wanted[goal.instances] = goal.workers
            gathering = goal.gathering(wanted)
            for order, worker in gathering:
                wanted[list(order.before)] = worker
            parts = [part for part in lane.parts if isinstance(part, PausedLane)]
            changes.append(OwnerChange(lane.ownership, parts, wanted))
            gathered.append((lane, gathering))
        for change in changes:
            change.release(settled=shedding is not None)
        if shedding is not None:
            shedding.shed([lane.lane for lane in self.lanes], changes)
        for change, (lane, gathering) in zip(changes, gathered, strict=True):
            change.finish(since_s)
            for order, worker in gathering:
                order.assigned = True
                lane.parts[worker].reassign(order)
        return True

    def moves(self) -> list[Move]:
        """The moves that are left."""
        found: list[Move] = []
        for lane, goal in zip(self.lanes, self._goals, strict=True):
            owner, names = lane.ownership.owner[goal.instances], tuple(goal.numbers)
            found += [
                Move(names[place], WorkerId(int(owner[place])), WorkerId(int(goal.workers[place])))
                for place in np.flatnonzero(owner != goal.workers).tolist()
            ]
        return found

    def target(self, instance: InstanceId) -> WorkerId | None:
        """The target of an instance; None if it is split or merged first, or no longer exists."""
        known = any(instance in goal.numbers for goal in self._goals)
        return self._target.worker_of[instance] if known else None

    def finished_moves(self) -> Iterator[tuple[InstanceId, HandOver]]:
        """Moves of live instances that have finished since the last call; one thread asks."""
        for lane, numbers in zip(self.lanes, self._repartitions.live.numbers, strict=True):
            name_of = {number: name for name, number in numbers.items()}
            for done in lane.ownership.finished_moves:
                while done:
                    hand_over = done.popleft()
                    if hand_over.instance in name_of:
                        yield name_of[hand_over.instance], hand_over

    def _current_goals(self) -> tuple[LaneGoal, ...]:
        """The targets of the instances of every lane, except those that are being split or merged."""
        underway, found = self._repartitions.underway, []
        for index, numbers in enumerate(self._repartitions.live.numbers):
            orders = underway.orders[index] if underway is not None else ()
            concerned = {number for order in orders for number in (*order.before, *order.after)}
            worker_of = self._target.worker_of
            there = {i: n for i, n in numbers.items() if n not in concerned and i in worker_of}
            workers = np.array([worker_of[instance] for instance in there], np.int64)
            found.append(LaneGoal(there, np.array([*there.values()], np.int64), workers, orders))
        return tuple(found)

    def _arranged(self) -> LiveInstances:
        sizes = [lane.ownership.owner.size for lane in self.lanes]
        return LiveInstances.arranged(self._repartitions.live, self._graph, sizes)

    def current(self) -> tuple[Binding, Partitioning]:
        """The present binding and partitioning; a removed worker counts until it owns nothing.

        Call this before `loads`, which then covers the same instances.
        """
        if same := self._repartitions.live is self._live.live:
            columns = self._live
        else:
            columns = self._live = self._arranged()
        workers, live = self._target.workers, columns.live
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
        """Instances moved so far, the bytes of their state, and the time that workers spent on it."""
        owners = [lane.ownership for lane in self.lanes]
        moving_s = sum(part.moving_s for lane in self.lanes for part in lane.parts)
        return sum(sum(each.moves) for each in owners), sum(sum(each.moved_bytes) for each in owners), moving_s

    def loads(self, held: Mapping[LaneNode, int]) -> Mapping[InstanceId, InstanceLoad]:
        """The load of every instance since the last call; `held` are the bytes of every node."""
        if not self.lanes:
            return {}
        found = [lane.loads(sum(held[part] for part in lane.parts)) for lane in self.lanes]
        events, cost_s, results, state, waiting = map(np.concatenate, zip(*found, strict=True))
        columns = self._live
        return LoadColumns(columns.names, *(columns.of(each) for each in (events, cost_s, results, state, waiting)))

    def arrivals(self) -> Arrivals:
        """What came to the tiles of spatial operators since the last call."""
        return merged_arrivals(lane.arrivals() for lane in self.lanes)
