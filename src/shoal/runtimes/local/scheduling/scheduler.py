"""The scheduler: worker threads that run operators, one worker per operator at a time, as a policy says."""

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass

from shoal.policies.scheduling.policy import Candidate, OperatorCost, SchedulingPolicy, Turn, latency_weight
from shoal.runtimes.local.dataflow.node import Node, OutletNode
from shoal.runtimes.local.scheduling.worker_pool import EPOCH_S, Crew

MEASURE_S = 0.05
"""How often costs, selectivities and priorities are computed anew."""
LATENCY_S = 0.1
"""How often the latency of queries is compared with what it was before."""


@dataclass
class _Post:
    """What the scheduler knows of a node; changed under its lock only."""

    node: Node
    downstream: tuple[int, ...]
    cost_s: float = 0.0
    selectivity: float = 1.0
    weight: float = 1.0
    _seen: tuple[float, int, int] = (0.0, 0, 0)

    def measure(self, cpu_s: float) -> None:
        """Cost and selectivity since the last time; kept where nothing happened."""
        node, (before_s, consumed, produced) = self.node, self._seen
        events = node.produced - produced if node.is_source else node.consumed - consumed
        if events > 0:
            self.cost_s = (cpu_s - before_s) / events
            self.selectivity = 1.0 if node.is_source else (node.produced - produced) / events
        self._seen = (cpu_s, node.consumed, node.produced)

    def costs(self) -> OperatorCost:
        """The node as priorities see it."""
        return OperatorCost(self.cost_s, self.selectivity, self.downstream, self.weight)


@dataclass
class _Latency:
    """The latency of what comes to one outlet, window by window, as its markers tell."""

    outlet: OutletNode
    place: int
    mean_s: float | None = None
    _seen: tuple[int, float] = (0, 0.0)

    def gradient(self) -> float | None:
        """The change of the mean since the window before, as a share of it; None where there is nothing to compare."""
        arrived, waited_s = self.outlet.transit.total, self.outlet.transit.sum_s
        markers = arrived - self._seen[0]
        if not markers:
            return None
        mean_s, before_s = (waited_s - self._seen[1]) / markers, self.mean_s
        self.mean_s, self._seen = mean_s, (arrived, waited_s)
        return None if not before_s else (mean_s - before_s) / before_s


class Scheduler(Crew):
    """Workers that ask a policy for every turn."""

    def __init__(self, nodes: Sequence[Node], policy: SchedulingPolicy, workers: int) -> None:
        """Find out who reads from whom."""
        super().__init__(nodes, workers)
        self.policy = policy
        reader = {id(channel): place for place, node in enumerate(nodes) for channel in node.inputs}
        self._posts = [
            _Post(node, tuple(dict.fromkeys(reader[id(channel)] for channel in node.outputs))) for node in nodes
        ]
        self._latencies = [_Latency(node, place) for place, node in enumerate(nodes) if isinstance(node, OutletNode)]
        self._priorities: list[float] = []
        self._measured_s = 0.0
        self._compared_s = 0.0
        self._deciding = threading.Lock()

    def next_turn(self, worker: int) -> tuple[int, int] | None:
        """What the policy says."""
        with self._deciding:
            turn = self._decide(time.time())
            if turn is None:
                return None
            self._mark(turn.position, worker)
            return turn.position, turn.events

    def _decide(self, now_s: float) -> Turn | None:
        if now_s - self._measured_s >= MEASURE_S or not self._priorities:
            self._measure(now_s)
        running, candidates = self.running, []
        for place, post in enumerate(self._posts):
            if not running[place] and post.node.ready:
                candidates.append(self._candidate(place, post, now_s))
        return self.policy.choose(candidates, EPOCH_S) if candidates else None

    def _candidate(self, place: int, post: _Post, now_s: float) -> Candidate:
        """A node as a choice sees it."""
        pending, oldest_s, holds_back = 0, now_s, False
        for channel in post.node.inputs:
            pending += channel.pending
            holds_back = holds_back or channel.full
            oldest_s = min(oldest_s, channel.oldest_s or now_s)
        return Candidate(
            place,
            pending,
            self._priorities[place],
            post.cost_s,
            now_s - oldest_s,
            now_s - self.last_run_s[place],
            self.turns[place],
            post.node.is_source,
            holds_back,
        )

    def _measure(self, now_s: float) -> None:
        for post, cpu_s in zip(self._posts, self.cpu_s, strict=True):
            post.measure(cpu_s)
        if now_s - self._compared_s >= LATENCY_S:
            self._compare_latencies()
            self._compared_s = now_s
        self._priorities = self.policy.priorities([post.costs() for post in self._posts])
        self._measured_s = now_s

    def _compare_latencies(self) -> None:
        """Weigh operators by the latency of the queries they serve, and let the policy follow it."""
        gradients = {each.place: gradient for each in self._latencies if (gradient := each.gradient()) is not None}
        if not gradients:
            return
        self.policy = self.policy.adapted(max(gradients.values()))
        for place in reversed(range(len(self._posts))):  # readers before writers
            post = self._posts[place]
            behind = [self._posts[next_].weight for next_ in post.downstream]
            own = [latency_weight(gradients[place])] if place in gradients else []
            post.weight = max([*own, *behind], default=1.0)
