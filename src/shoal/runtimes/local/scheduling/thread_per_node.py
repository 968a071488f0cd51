"""A thread per operator: scheduling by the operating system, for comparison."""

from collections.abc import Sequence

from shoal.policies.scheduling.policy import BLOCK_EVENTS
from shoal.runtimes.local.dataflow.node import Node
from shoal.runtimes.local.scheduling.worker_pool import WorkerPool


class ThreadPerNode(WorkerPool):
    """Runs every node on a thread of its own."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        """One thread per node."""
        super().__init__(nodes, len(nodes))

    def next_turn(self, worker: int) -> tuple[int, int] | None:
        """The worker's own node, if it is ready."""
        if not self.nodes[worker].ready:
            return None
        self._claim(worker, worker)
        return worker, BLOCK_EVENTS

    def _can_continue(self) -> bool:
        """No other thread can run the node of a lost one."""
        return False
