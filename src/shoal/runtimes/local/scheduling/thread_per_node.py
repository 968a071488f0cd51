"""A thread per operator: what the operating system makes of scheduling, for comparison."""

from collections.abc import Sequence

from shoal.policies.scheduling.policy import BLOCK_EVENTS
from shoal.runtimes.local.dataflow.node import Node
from shoal.runtimes.local.scheduling.worker_pool import Crew


class ThreadPerNode(Crew):
    """Runs every node on a thread of its own."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        """As many threads as nodes."""
        super().__init__(nodes, len(nodes))

    def next_turn(self, worker: int) -> tuple[int, int] | None:
        """Its own node, whenever there is something to do."""
        if not self.nodes[worker].ready:
            return None
        self._mark(worker, worker)
        return worker, BLOCK_EVENTS

    def _can_go_on(self) -> bool:
        """Nobody else runs the node of a thread."""
        return False
