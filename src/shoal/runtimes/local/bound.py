"""Bound execution: nodes wait in queues, one for all workers, one per processor node, or one per worker.

Each queue is served in the order of event time. A node belongs to the queue of its home; a worker serves the queues it
may in a fixed order, its own first: with queues per processor node, it takes from the others when its own is empty.
"""

import math
import threading
from collections.abc import Sequence

from shoal.kernels.kernel import NEVER_US
from shoal.policies.scheduling import BLOCK_EVENTS
from shoal.runtimes.local.crew import Crew
from shoal.runtimes.local.node import Node

QUEUES = {
    "single-queue": "one queue for all workers",
    "node-queue": "a queue per processor node; idle workers take from the others",
    "worker-queue": "a queue per worker, by the binding",
}


class _Queue:
    """The nodes of one queue; only who holds its lock marks one as running."""

    def __init__(self) -> None:
        self.places: list[int] = []
        self.lock = threading.Lock()


class BoundCrew(Crew):
    """Workers that serve queues of nodes."""

    def __init__(self, nodes: Sequence[Node], design: str, node_of_worker: Sequence[int]) -> None:
        """One worker per entry of `node_of_worker`, which names the processor node that it runs on."""
        super().__init__(nodes, len(node_of_worker))
        names = {
            "single-queue": [0] * self.threads,
            "node-queue": list(node_of_worker),
            "worker-queue": list(range(self.threads)),
        }[design]
        queues = {name: _Queue() for name in sorted(set(names))}
        for place, node in enumerate(self.nodes):
            queues[names[node.home]].places.append(place)
        self._served = [self._order(design, queues, names[worker]) for worker in range(self.threads)]
        self._stolen = [0] * self.threads

    @property
    def stolen(self) -> int:
        """Turns that workers took from queues of others."""
        return sum(self._stolen)

    @staticmethod
    def _order(design: str, queues: dict[int, _Queue], own: int) -> list[_Queue]:
        others = [queue for name, queue in queues.items() if name != own] if design == "node-queue" else []
        return [queues[own], *others]

    def next_turn(self, worker: int) -> tuple[int, int] | None:
        """The oldest node of the first queue that has one ready."""
        for number, queue in enumerate(self._served[worker]):
            place = self._oldest(queue, worker)
            if place is not None:
                self._stolen[worker] += number > 0
                return place, BLOCK_EVENTS
        return None

    def _oldest(self, queue: _Queue, worker: int) -> int | None:
        with queue.lock:
            best, first = None, (True, math.inf)
            for place in queue.places:
                node = self.nodes[place]
                if self.running[place] or not node.ready:
                    continue
                order = (node.is_source, self._order_in_queue(place, node))
                if order < first:
                    best, first = place, order
            if best is not None:
                self._mark(best, worker)
            return best

    def _order_in_queue(self, place: int, node: Node) -> float:
        """Event time of what waits; sources come behind everything else, and each in its turn."""
        if node.is_source:
            return self.last_run_s[place]
        return min((channel.next_us for channel in node.inputs if channel.waiting), default=NEVER_US)
