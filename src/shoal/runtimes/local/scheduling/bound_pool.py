"""Bound execution: nodes wait in queues, one for all workers, one per processor node, or one per worker.

Each queue is served in the order of event time. A node belongs to the queue of its home; a worker serves the queues it
may in a fixed order, its own first: with queues per processor node, it takes from the others when its own is empty. A
queue whose worker is gone, or is not there yet, is served by all the others as if it were theirs.
"""

import math
import threading
from collections.abc import Sequence
from typing import NamedTuple

from shoal.kernels.kernel import NEVER_US
from shoal.policies.scheduling.policy import BLOCK_EVENTS
from shoal.runtimes.local.dataflow.node import Node
from shoal.runtimes.local.scheduling.worker_pool import Crew

QUEUES = {
    "single-queue": "one queue for all workers",
    "node-queue": "a queue per processor node; idle workers take from the others",
    "worker-queue": "a queue per worker, by the binding",
}
Order = tuple[bool, float]
"""Sources come behind everything else; what is smaller comes first."""
LAST: Order = (True, math.inf)
LOOKS = 2
"""How many queues without a worker are looked at by one who has nothing to do."""


class _Queue:
    """The nodes of one queue; only who holds its lock marks one as running."""

    def __init__(self) -> None:
        self.places: list[int] = []
        self.lock = threading.Lock()


class _Service(NamedTuple):
    """The queues a worker serves: its own, those that have no worker, and those that are for others first."""

    own: _Queue
    orphans: Sequence[_Queue]
    others: Sequence[_Queue]


class BoundCrew(Crew):
    """Workers that serve queues of nodes."""

    def __init__(self, nodes: Sequence[Node], design: str, node_of_worker: Sequence[int], most: int = 0) -> None:
        """One worker per entry of `node_of_worker`, which names the processor node that it runs on; later up to `most`.

        Homes of nodes that are beyond the workers have none yet.
        """
        super().__init__(nodes, len(node_of_worker), max(most, 1 + max((node.home for node in nodes), default=0)))
        self._design = design
        self._node_of = list(node_of_worker)
        self._queues: dict[int, _Queue] = {}
        self._served: list[_Service] = []
        self._stolen = [0] * self.most
        self._looks = [0] * self.most
        self._share_out()

    @property
    def stolen(self) -> int:
        """Turns that workers took from queues of others."""
        return sum(self._stolen)

    def resize(self, node_of_worker: Sequence[int]) -> None:
        """Have as many workers as there are entries; those that are too many end after their turn, lost ones return."""
        with self._roster:
            self._node_of = list(node_of_worker)
            self.threads = len(node_of_worker)
            for node in self.nodes:
                if node.stream is not None:
                    node.home = node.stream % self.threads
            for worker in range(self.threads):
                if worker not in self._present:
                    self._hire(worker)
            self._share_out()

    def _share_out(self) -> None:
        """Put nodes into the queues of their homes, and find out who serves which."""
        places: dict[int, list[int]] = {self._queue_of(worker): [] for worker in range(self.threads)}
        for place, node in enumerate(self.nodes):
            places.setdefault(self._queue_of(node.home), []).append(place)
        for name in places:
            self._queues.setdefault(name, _Queue())
        for name, queue in self._queues.items():
            with queue.lock:  # a node leaves its queue before it comes to another
                queue.places = [place for place in queue.places if place in places.get(name, ())]
        for name, queue in self._queues.items():
            with queue.lock:
                queue.places = places.get(name, [])
        self._served = [self._service(worker) for worker in range(self.threads)]

    def _queue_of(self, worker: int) -> int:
        """The name of the queue of a worker, also of one that is not there."""
        if self._design == "single-queue":
            return 0
        return self._node_of[worker % self.threads] if self._design == "node-queue" else worker

    def _service(self, worker: int) -> _Service:
        own = self._queue_of(worker)
        if self._design == "node-queue":
            others = sorted(self._queues, key=lambda name: (name - own) % (1 + max(self._queues)))
            return _Service(self._queues[own], (), [self._queues[name] for name in others[1:]])
        if self._design == "single-queue":
            return _Service(self._queues[own], (), ())
        lost = {*range(self.threads)} - {*self._present} if self._present else set()  # nobody is, before it begins
        orphaned = [name for name in self._queues if name != own and (name >= self.threads or name in lost)]
        return _Service(self._queues[own], [self._queues[name] for name in orphaned], ())

    def next_turn(self, worker: int) -> tuple[int, int] | None:
        """The oldest node of its own queues, or of the first of the others that has one ready."""
        if worker >= len(served := self._served):
            return None  # there are fewer workers since a moment ago
        service = served[worker]
        for queue in self._own(worker, service) if service.orphans else (service.own,):
            place = self._oldest(queue, worker)
            if place is not None:
                return place, BLOCK_EVENTS
        for queue in service.others:
            place = self._oldest(queue, worker)
            if place is not None:
                self._stolen[worker] += 1
                return place, BLOCK_EVENTS
        return None

    def _own(self, worker: int, service: _Service) -> Sequence[_Queue]:
        """Its own queue and one of those without a worker, the older first.

        Most of those have nothing most of the time, so that a look at one or two per turn is enough; one that has
        something is looked at again at the next turn.
        """
        own = self._first(service.own)[1]
        for _ in range(1 if own < LAST else LOOKS):
            orphan = service.orphans[self._looks[worker] % len(service.orphans)]
            first = self._first(orphan)[1]
            if first < LAST:
                return (orphan, service.own) if first < own else (service.own, orphan)
            self._looks[worker] += 1
        return (service.own,)

    def _oldest(self, queue: _Queue, worker: int) -> int | None:
        with queue.lock:
            best, _ = self._first(queue)
            if best is not None:
                self._mark(best, worker)
            return best

    def _first(self, queue: _Queue) -> tuple[int | None, Order]:
        """The node of a queue that is to run first, if one is ready."""
        best, first = None, LAST
        for place in queue.places:
            node = self.nodes[place]
            if self.running[place] or not node.ready:
                continue
            order = (node.is_source, self._order_in_queue(place, node))
            if order < first:
                best, first = place, order
        return best, first

    def _order_in_queue(self, place: int, node: Node) -> float:
        """Event time of what waits; sources come behind everything else, and each in its turn."""
        if node.is_source:
            return self.last_run_s[place]
        return min((channel.next_us for channel in node.inputs if channel.waiting), default=NEVER_US)
