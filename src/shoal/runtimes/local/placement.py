"""Placements: the divided lanes of a run, whom their instances belong to, and what they do there."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from shoal.errors import BindingError
from shoal.model.binding import Binding, Move, WorkerId
from shoal.model.columns import LoadColumns
from shoal.model.graph import InstanceId
from shoal.model.snapshot import InstanceLoad
from shoal.query.lane import Lane
from shoal.runtimes.local.load import Floats, Ints
from shoal.runtimes.local.moving import MovingLane
from shoal.runtimes.local.node import Node
from shoal.runtimes.local.ownership import HandOver, Ownership
from shoal.runtimes.local.split import MovingSplit
from shoal.runtimes.local.standstill import StillLane, change_owners
from shoal.runtimes.local.state import LaneNode


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
        # What is sent is looked at last, so that none is less than nothing; by a turn, where numbers are seen late.
        waiting = np.maximum(np.sum([split.sent for split in self.splits], axis=0) - events, 0)
        before = self._before or (np.zeros_like(events), np.zeros_like(cost_s), np.zeros_like(results))
        self._before = (events, cost_s, results)
        row_bytes = state_bytes / max(1, int(rows.sum()))
        state = (rows * row_bytes).astype(np.int64)
        return events - before[0], cost_s - before[1], results - before[2], state, waiting


class Placement:
    """All divided lanes, who has their instances and who is to have them.

    Any thread may say who is to have them, and ask for that.
    """

    def __init__(self, nodes: Sequence[Node], binding: Binding, most_workers: int) -> None:
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
        place_of = {instance: n for n, instance in enumerate(i for lane in self.lanes for i in lane.lane.instances)}
        self._found = {i: (lane, n) for lane in self.lanes for n, i in enumerate(lane.lane.instances)}
        self._known = frozenset(place_of)
        self._bound = tuple(instance for instance in binding.worker_of if instance in place_of)
        self._order = np.array([place_of[instance] for instance in self._bound], np.int64)
        self._most_workers = most_workers
        self._wanted = binding
        self._targets = self._owners_of(binding)
        self._current = binding
        self._owners: list[Ints] = []

    def want(self, binding: Binding) -> str:
        """Have instances where a binding has them; says why not if that cannot be."""
        if binding.workers > self._most_workers:
            most = self._most_workers
            return f"the run may have up to {most} workers; got {binding.workers}; start it with a larger most_workers"
        unknown = [instance for instance in binding.worker_of if instance not in self._known]
        if unknown:
            return f"the binding names instance {unknown[0]!r}, which the graph does not have"
        try:
            self._wanted = Binding({**self._wanted.worker_of, **binding.worker_of}, binding.workers)
        except BindingError as error:  # an instance that it does not name is on a worker that it does not have
            return str(error)
        self._targets = self._owners_of(self._wanted)
        return ""

    @property
    def reached(self) -> bool:
        """Whether every instance is where it is to be."""
        pairs = zip(self.lanes, self._targets, strict=True)
        return all(np.array_equal(lane.ownership.owner, wanted) for lane, wanted in pairs)

    def invite(self) -> None:
        """Have workers invite the instances they are to have."""
        for lane, wanted in zip(self.lanes, self._targets, strict=True):
            for instance in np.flatnonzero(lane.ownership.owner != wanted).tolist():
                lane.parts[wanted[instance]].invite(instance)

    def ask(self, instances: Iterable[InstanceId]) -> None:
        """Have workers invite some of the instances they are to have, in this order."""
        for instance in instances:
            lane, number = self._found[instance]
            lane.parts[int(self._wanted.worker_of[instance])].invite(number)

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
        for lane, wanted in zip(self.lanes, self._targets, strict=True):
            change_owners(lane.ownership, [part for part in lane.parts if isinstance(part, StillLane)], wanted, since_s)

    def moves(self) -> list[Move]:
        """What is not yet where it is to be."""
        found: list[Move] = []
        for lane, wanted in zip(self.lanes, self._targets, strict=True):
            owner = lane.ownership.owner
            found += [
                Move(lane.lane.instances[number], WorkerId(int(owner[number])), WorkerId(int(wanted[number])))
                for number in np.flatnonzero(owner != wanted).tolist()
            ]
        return found

    def target(self, instance: InstanceId) -> WorkerId:
        """The worker that is to have an instance."""
        return self._wanted.worker_of[instance]

    def settled(self) -> Iterator[tuple[InstanceId, HandOver]]:
        """Moves that have been done since the last time; one thread asks."""
        for lane in self.lanes:
            for done in lane.ownership.settled:
                while done:
                    hand_over = done.popleft()
                    yield lane.lane.instances[hand_over.instance], hand_over

    def _owners_of(self, binding: Binding) -> list[Ints]:
        """The workers of the instances of every lane."""
        worker_of = binding.worker_of
        return [np.array([worker_of[instance] for instance in lane.lane.instances], np.int64) for lane in self.lanes]

    def current(self) -> Binding:
        """Who owns what now; workers that are to go count until they own nothing."""
        workers, owners = self._wanted.workers, [lane.ownership.owner for lane in self.lanes]
        used = 1 + max((int(each.max()) for each in owners if each.size), default=0)
        if used > workers:
            workers = max(used, self._current.workers)
        unchanged = self._owners and all(map(np.array_equal, owners, self._owners))
        if not unchanged or workers != self._current.workers:
            found = dict(self._wanted.worker_of)
            for lane, numbers in zip(self.lanes, owners, strict=True):
                found.update(zip(lane.lane.instances, map(WorkerId, numbers.tolist()), strict=True))
            self._current, self._owners = Binding(found, workers), owners
        return self._current

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
        order = self._order
        return LoadColumns(self._bound, events[order], cost_s[order], results[order], state[order], waiting[order])
