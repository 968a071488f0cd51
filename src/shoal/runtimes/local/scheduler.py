"""The scheduler: worker threads that run operators, one worker per operator at a time, as a policy says."""

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from shoal.policies.scheduling import Candidate, OperatorCost, SchedulingPolicy, Turn, latency_weight
from shoal.runtimes.local.node import Node, OutletNode, SourceNode

MEASURE_S = 0.05
"""How often costs, selectivities and priorities are computed anew."""
LATENCY_S = 0.1
"""How often the latency of queries is compared with what it was before."""
EPOCH_S = 0.001
"""How long a worker that finds nothing to do waits before it looks again."""


@dataclass
class _Post:
    """What the scheduler knows of a node; changed under its lock only."""

    node: Node
    is_source: bool
    downstream: tuple[int, ...]
    running: bool = False
    turns: int = 0
    busy_s: float = 0.0
    last_run_s: float = 0.0
    cost_s: float = 0.0
    selectivity: float = 1.0
    weight: float = 1.0
    _seen: tuple[float, int, int] = (0.0, 0, 0)

    def measure(self) -> None:
        """Cost and selectivity since the last time; kept where nothing happened."""
        busy, consumed, produced = self._seen
        events = self.node.consumed - consumed if not self.is_source else self.node.produced - produced
        if events > 0:
            self.cost_s = (self.busy_s - busy) / events
            self.selectivity = 1.0 if self.is_source else (self.node.produced - produced) / events
        self._seen = (self.busy_s, self.node.consumed, self.node.produced)

    def costs(self) -> OperatorCost:
        """The node as priorities see it."""
        return OperatorCost(self.cost_s, self.selectivity, self.downstream, self.weight)

    def candidate(self, place: int, priority: float, now_s: float) -> Candidate:
        """The node as a choice sees it."""
        node = self.node
        oldest = min((c.oldest_s for c in node.inputs if c.oldest_s is not None), default=now_s)
        idle_s = now_s - self.last_run_s
        return Candidate(place, node.pending, priority, self.cost_s, now_s - oldest, idle_s, self.turns, self.is_source)


@dataclass
class _Latency:
    """The latency of one outlet's results, window by window."""

    outlet: OutletNode
    place: int
    mean_s: float | None = None
    _seen: tuple[int, float] = (0, 0.0)

    def gradient(self) -> float | None:
        """The change of the mean since the window before, as a share of it; None where there is nothing to compare."""
        answered, waited_s = self.outlet.answered, self.outlet.waited_s
        results = answered - self._seen[0]
        if not results:
            return None
        mean_s, before_s = (waited_s - self._seen[1]) / results, self.mean_s
        self.mean_s, self._seen = mean_s, (answered, waited_s)
        return None if not before_s else (mean_s - before_s) / before_s


@dataclass
class Scheduler:
    """Runs nodes on workers until every source has ended and nothing waits anywhere."""

    nodes: Sequence[Node]
    policy: SchedulingPolicy
    workers: int
    decisions: int = 0
    deciding_s: float = 0.0
    error: Exception | None = None
    _posts: list[_Post] = field(default_factory=list)
    _priorities: list[float] = field(default_factory=list)
    _latencies: list[_Latency] = field(default_factory=list)
    _measured_s: float = 0.0
    _compared_s: float = 0.0
    _changed: threading.Condition = field(default_factory=threading.Condition)

    def __post_init__(self) -> None:
        """Find out who reads from whom."""
        reader = {id(channel): place for place, node in enumerate(self.nodes) for channel in node.inputs}
        for node in self.nodes:
            downstream = tuple(dict.fromkeys(reader[id(channel)] for channel in node.outputs))
            self._posts.append(_Post(node, isinstance(node, SourceNode), downstream))
        outlets = [(place, node) for place, node in enumerate(self.nodes) if isinstance(node, OutletNode)]
        self._latencies = [_Latency(node, place) for place, node in outlets]

    def start(self) -> list[threading.Thread]:
        """Start the workers."""
        threads = [
            threading.Thread(target=self._work, name=f"shoal-worker-{number}", daemon=True)
            for number in range(self.workers)
        ]
        for thread in threads:
            thread.start()
        return threads

    def busy_s(self) -> float:
        """Time all operators have worked."""
        return sum(post.busy_s for post in self._posts)

    def _work(self) -> None:
        while (turn := self._next()) is not None:
            post = self._posts[turn.place]
            began = time.perf_counter()
            try:
                post.node.turn(turn.events)
            except Exception as error:  # noqa: BLE001  (whatever it is, the run must hear of it)
                self._fail(error)
            self._done(post, time.perf_counter() - began)

    def _next(self) -> Turn | None:
        with self._changed:
            while not self._finished():
                began = time.perf_counter()
                turn = self._decide(time.time())
                self.deciding_s += time.perf_counter() - began
                if turn is not None:
                    self.decisions += 1
                    self._posts[turn.place].running = True
                    return turn
                self._changed.wait(EPOCH_S)
            self._changed.notify_all()
            return None

    def _decide(self, now_s: float) -> Turn | None:
        if now_s - self._measured_s >= MEASURE_S or not self._priorities:
            for post in self._posts:
                post.measure()
            if now_s - self._compared_s >= LATENCY_S:
                self._compare_latencies()
                self._compared_s = now_s
            self._priorities = self.policy.priorities([post.costs() for post in self._posts])
            self._measured_s = now_s
        candidates = [
            post.candidate(place, self._priorities[place], now_s)
            for place, post in enumerate(self._posts)
            if not post.running and post.node.ready
        ]
        return self.policy.choose(candidates, EPOCH_S) if candidates else None

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

    def _done(self, post: _Post, spent_s: float) -> None:
        with self._changed:
            post.running = False
            post.turns += 1
            post.busy_s += spent_s
            post.last_run_s = time.time()
            self._changed.notify_all()

    def _fail(self, error: Exception) -> None:
        with self._changed:
            self.error = self.error or error
            self._changed.notify_all()

    def _finished(self) -> bool:
        if self.error is not None:
            return True
        sources = [post.node for post in self._posts if isinstance(post.node, SourceNode)]
        if not all(source.ended for source in sources):
            return False
        return not any(post.running or any(c.waiting for c in post.node.inputs) for post in self._posts)
