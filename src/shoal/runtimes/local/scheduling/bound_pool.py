"""Bound execution: nodes wait in queues, one for all workers, one per processor node, or one per worker.

Each queue is served in the order of event time. A node belongs to the queue of its home worker. A worker serves its own
queue first; with queues per processor node, it takes from the others when its own is empty. A queue without a running
worker is an orphan, which all workers serve like their own.
"""

import math
import threading
from collections.abc import Sequence
from typing import NamedTuple

from shoal.kernels.kernel import NEVER_US
from shoal.policies.scheduling.policy import BLOCK_EVENTS
from shoal.runtimes.local.dataflow.node import Node
from shoal.runtimes.local.scheduling.worker_pool import WorkerPool

QUEUES = {
    "single-queue": "one queue for all workers",
    "node-queue": "a queue per processor node; idle workers take from the others",
    "worker-queue": "a queue per worker, by the binding",
}
Order = tuple[bool, float]
"""Smaller runs first; sources come last."""
LAST: Order = (True, math.inf)
ORPHANS_PER_TURN = 2
"""How many orphaned queues an idle worker checks per turn."""


class _Queue:
    """The nodes of one queue; a node is claimed only under the lock of its queue."""

    def __init__(self) -> None:
        self.indices: list[int] = []
        self.lock = threading.Lock()


class _Service(NamedTuple):
    """The queues that a worker serves: its own, orphans, and those that other workers serve first."""

    own: _Queue
    orphans: Sequence[_Queue]
    others: Sequence[_Queue]


class BoundPool(WorkerPool):
    """Workers that serve queues of nodes."""

    def __init__(self, nodes: Sequence[Node], design: str, node_of_worker: Sequence[int], max_threads: int = 0) -> None:
        """One worker per entry of `node_of_worker`, which is the processor node it runs on; later up to `max_threads`.

        The home of a node may be a worker that has not started yet.
        """
        super().__init__(
            nodes, len(node_of_worker), max(max_threads, 1 + max((node.home for node in nodes), default=0))
        )
        self._design = design
        self._node_of = list(node_of_worker)
        self._queues: dict[int, _Queue] = {}
        self._served: list[_Service] = []
        self._stolen = [0] * self.max_threads
        self._next_orphan = [0] * self.max_threads
        self._assign_queues()

    @property
    def stolen(self) -> int:
        """Turns that workers took from the queues of others."""
        return sum(self._stolen)

    def resize(self, node_of_worker: Sequence[int]) -> None:
        """Have one worker per entry: surplus threads exit after their turn, missing and lost ones are started."""
        with self._threads_lock:
            self._node_of = list(node_of_worker)
            self.threads = len(node_of_worker)
            for node in self.nodes:
                if node.stream is not None:
                    node.home = node.stream % self.threads
            for worker in range(self.threads):
                if worker not in self._running_threads and not self._ended:
                    self._start_thread(worker)
            self._assign_queues()

    def _assign_queues(self) -> None:
        """Put nodes into the queues of their homes, and compute which worker serves which."""
        indices: dict[int, list[int]] = {self._queue_of(worker): [] for worker in range(self.threads)}
        for index, node in enumerate(self.nodes):
            indices.setdefault(self._queue_of(node.home), []).append(index)
        for name in indices:
            self._queues.setdefault(name, _Queue())
        for name, queue in self._queues.items():
            with queue.lock:  # remove a node from its queue before it is added to another
                queue.indices = [index for index in queue.indices if index in indices.get(name, ())]
        for name, queue in self._queues.items():
            with queue.lock:
                queue.indices = indices.get(name, [])
        self._served = [self._service(worker) for worker in range(self.threads)]

    def _queue_of(self, worker: int) -> int:
        """The name of the queue of a worker, running or not."""
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
        started = bool(self._running_threads)
        lost = {*range(self.threads)} - {*self._running_threads} if started else set()
        orphaned = [name for name in self._queues if name != own and (name >= self.threads or name in lost)]
        return _Service(self._queues[own], [self._queues[name] for name in orphaned], ())

    def next_turn(self, worker: int) -> tuple[int, int] | None:
        """The oldest ready node of the worker's own queue and orphans, else of the next queue that has one."""
        if worker >= len(served := self._served):
            return None  # the pool has just been shrunk
        service = served[worker]
        for queue in self._own(worker, service) if service.orphans else (service.own,):
            index = self._oldest(queue, worker)
            if index is not None:
                return index, BLOCK_EVENTS
        for queue in service.others:
            index = self._oldest(queue, worker)
            if index is not None:
                self._stolen[worker] += 1
                return index, BLOCK_EVENTS
        return None

    def _own(self, worker: int, service: _Service) -> Sequence[_Queue]:
        """The worker's own queue and one orphan, the one with the older node first.

        Orphans are mostly empty, so one or two are checked per turn; one with a ready node is checked again next turn.
        """
        own = self._first(service.own)[1]
        for _ in range(1 if own < LAST else ORPHANS_PER_TURN):
            orphan = service.orphans[self._next_orphan[worker] % len(service.orphans)]
            first = self._first(orphan)[1]
            if first < LAST:
                return (orphan, service.own) if first < own else (service.own, orphan)
            self._next_orphan[worker] += 1
        return (service.own,)

    def _oldest(self, queue: _Queue, worker: int) -> int | None:
        with queue.lock:
            best, _ = self._first(queue)
            if best is not None:
                self._claim(best, worker)
            return best

    def _first(self, queue: _Queue) -> tuple[int | None, Order]:
        """The ready node of a queue that is to run first, and its order."""
        best, first = None, LAST
        for index in queue.indices:
            node = self.nodes[index]
            if self.running[index] or not node.ready:
                continue
            order = (node.is_source, self._order_in_queue(index, node))
            if order < first:
                best, first = index, order
        return best, first

    def _order_in_queue(self, index: int, node: Node) -> float:
        """The event time of the rows that wait; for sources, the time of the last turn."""
        if node.is_source:
            return self.last_run_s[index]
        return min((channel.next_us for channel in node.inputs if channel.waiting), default=NEVER_US)
