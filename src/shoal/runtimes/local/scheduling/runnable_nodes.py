"""Runnable nodes: the candidates of a scheduling policy.

They are looked up at every decision, so as few nodes as possible are asked, and each is asked little: operators only if
one of their queues has something, sources only if the policy has found no turn among the operators.
"""

from collections.abc import Sequence

from shoal.policies.scheduling.policy import Candidate
from shoal.runtimes.local.dataflow.node import Node


class RunnableNodes:
    """The candidates among some nodes; `priorities` and `costs_s` have an entry per node and are set by the scheduler.

    `running`, `last_run_s` and `turns` are those of the pool. `by_age`: somebody reads how long input has waited.
    """

    def __init__(
        self,
        nodes: Sequence[Node],
        running: Sequence[bool],
        last_run_s: Sequence[float],
        turns: Sequence[int],
        *,
        by_age: bool = True,
    ) -> None:
        """Find the queues of which one must have something before a node can be ready."""
        self._by_age = by_age
        self.priorities = [0.0] * len(nodes)
        self.costs_s = [0.0] * len(nodes)
        self._nodes = list(nodes)
        self._running = running
        self._last_run_s = last_run_s
        self._turns = turns
        plain = {index for index, node in enumerate(nodes) if _runs_by_its_queues(node)}
        self._queues = [(channel.spans, index) for index in sorted(plain) for channel in nodes[index].inputs]
        self._asked = [index for index, node in enumerate(nodes) if index not in plain and not node.is_source]
        self._sources = [index for index, node in enumerate(nodes) if index not in plain and node.is_source]

    def operators(self, now_s: float) -> list[Candidate]:
        """Those that are no sources, in the order of the nodes."""
        nodes, running = self._nodes, self._running
        found = [self._candidate(index, now_s) for index in self._asked if not running[index] and nodes[index].ready]
        before = -1
        for index in [index for queue, index in self._queues if queue]:
            if index != before and not running[index] and not nodes[index].blocked:
                found.append(self._candidate(index, now_s))
            before = index
        return found

    def sources(self, now_s: float) -> list[Candidate]:
        """The sources, and helpers of sources, in the order of the nodes."""
        nodes, running = self._nodes, self._running
        return [self._candidate(index, now_s) for index in self._sources if not running[index] and nodes[index].ready]

    def _candidate(self, index: int, now_s: float) -> Candidate:
        node, pending, holds_back = self._nodes[index], 0, False
        for channel in node.inputs:
            waits = channel.pending
            pending += waits
            if waits >= channel.capacity:
                holds_back = True
        return Candidate(
            index,
            pending,
            self.priorities[index],
            self.costs_s[index],
            self._waited_s(node, now_s) if self._by_age else 0.0,
            now_s - self._last_run_s[index],
            self._turns[index],
            node.is_source,
            holds_back,
        )

    @staticmethod
    def _waited_s(node: Node, now_s: float) -> float:
        """How long the oldest event has waited."""
        due_s = [channel.oldest_s for channel in node.inputs]
        return now_s - min((each for each in due_s if each is not None), default=now_s)


def _runs_by_its_queues(node: Node) -> bool:
    """Whether a node can only be ready if one of its inputs has something."""
    return bool(node.inputs) and type(node).ready is Node.ready and type(node).waiting is Node.waiting
