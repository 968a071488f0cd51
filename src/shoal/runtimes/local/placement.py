"""Placements: the divided lanes of a run, whom their instances belong to, and what they do there."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from shoal.model.binding import Binding
from shoal.model.graph import InstanceId
from shoal.model.snapshot import InstanceLoad
from shoal.query.lane import Lane
from shoal.runtimes.local.load import Floats, Ints
from shoal.runtimes.local.moving import MovingLane
from shoal.runtimes.local.node import Node
from shoal.runtimes.local.ownership import Ownership
from shoal.runtimes.local.split import MovingSplit


@dataclass
class DividedLane:
    """A lane with its parts by worker and the splits in front of them; one thread asks for its loads."""

    lane: Lane
    ownership: Ownership
    parts: Sequence[MovingLane]
    splits: Sequence[MovingSplit]
    _before: tuple[Ints, Floats, Ints] | None = field(default=None, init=False)

    def loads(self, state_bytes: int) -> dict[InstanceId, InstanceLoad]:
        """What every instance did since the last time; its state has a share of the lane's by its rows."""
        books = [part.load for part in self.parts]
        events = np.sum([each.events for each in books], axis=0)
        cost_s = np.sum([each.cost_s for each in books], axis=0)
        results = np.sum([each.results for each in books], axis=0)
        rows = np.sum([each.rows for each in books], axis=0)
        waiting = np.sum([split.sent for split in self.splits], axis=0) - events  # what is sent is looked at last
        before = self._before or (np.zeros_like(events), np.zeros_like(cost_s), np.zeros_like(results))
        self._before = (events, cost_s, results)
        row_bytes = state_bytes / max(1, int(rows.sum()))
        columns = (
            (events - before[0]).tolist(),
            (cost_s - before[1]).tolist(),
            (results - before[2]).tolist(),
            (rows * row_bytes).astype(np.int64).tolist(),
            waiting.tolist(),
        )
        return dict(zip(self.lane.instances, map(InstanceLoad, *columns), strict=True))


class Placement:
    """All divided lanes."""

    def __init__(self, nodes: Sequence[Node], binding: Binding) -> None:
        """Find the lanes among the nodes of a run."""
        parts = [node for node in nodes if isinstance(node, MovingLane)]
        splits = [node for node in nodes if isinstance(node, MovingSplit)]
        self._binding = binding
        self._seen: list[list[int]] = []
        self.lanes = [
            DividedLane(
                lane,
                ownership,
                [part for part in parts if part.ownership is ownership],
                [split for split in splits if split.ownership is ownership],
            )
            for ownership, lane in {id(part.ownership): (part.ownership, part.lane) for part in parts}.values()
        ]
        self._place = {i: (lane, n) for lane in self.lanes for n, i in enumerate(lane.lane.instances)}

    def rebind(self, wanted: Binding) -> str:
        """Have workers invite the instances they are to have; says why not if that cannot be."""
        if wanted.workers != self._binding.workers:
            return f"the local runtime cannot change its {self._binding.workers} workers while it runs"
        unknown = [instance for instance in wanted.worker_of if instance not in self._place]
        if unknown:
            return f"the binding names instance {unknown[0]!r}, which the graph does not have"
        for instance, worker in wanted.worker_of.items():
            lane, number = self._place[instance]
            lane.parts[worker].invite(number)
        return ""

    def current(self) -> Binding:
        """Who owns what now."""
        versions = [list(lane.ownership.versions) for lane in self.lanes]  # counted up behind every change of owners
        if versions != self._seen:
            owners = {i: int(lane.ownership.owner[n]) for i, (lane, n) in self._place.items()}
            self._binding = Binding.of({**self._binding.worker_of, **owners}, self._binding.workers)
            self._seen = versions
        return self._binding

    def moved(self) -> tuple[int, int, float]:
        """Instances that have moved so far, the bytes of their state, and the time workers spent on that."""
        owners = [lane.ownership for lane in self.lanes]
        moving_s = sum(part.moving_s for lane in self.lanes for part in lane.parts)
        return sum(sum(each.moves) for each in owners), sum(sum(each.moved_bytes) for each in owners), moving_s

    def loads(self, held: Mapping[Node, int]) -> Mapping[InstanceId, InstanceLoad]:
        """What every instance did since the last time, where nodes hold so many bytes."""
        found: dict[InstanceId, InstanceLoad] = {}
        for lane in self.lanes:
            found |= lane.loads(sum(held[part] for part in lane.parts))
        return found
