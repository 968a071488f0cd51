"""The scheduler: worker threads that run the nodes that a policy chooses, each node on one worker at a time."""

import math
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass

from shoal.policies.scheduling.policy import OperatorCost, SchedulingPolicy, Turn, latency_weight
from shoal.runtimes.local.dataflow.node import Node, OutletNode
from shoal.runtimes.local.scheduling.concurrency import Concurrency
from shoal.runtimes.local.scheduling.runnable_nodes import RunnableNodes
from shoal.runtimes.local.scheduling.worker_pool import WorkerPool

TURN_S = 0.0005
"""About how long a turn takes, if there is enough input."""
MEASURE_S = 0.05
"""How often costs, selectivities and priorities are computed again."""
LATENCY_S = 0.1
"""How often the latency of queries is compared with that of the window before."""
STAND_BY_S = 0.005
"""How often a worker that stands by looks whether the others are stuck, unless it is called."""
STUCK_S = 0.03
"""If no worker has asked for a turn for so long, those that stand by take turns meanwhile."""


@dataclass
class _NodeStats:
    """What the scheduler knows of a node; changed only under its lock."""

    node: Node
    downstream: tuple[int, ...]
    cost_s: float = 0.0
    selectivity: float = 1.0
    weight: float = 1.0
    _observed: tuple[float, int, int] = (0.0, 0, 0)

    def measure(self, cpu_s: float) -> None:
        """Update cost and selectivity from the events since the last call; keep them if there were none."""
        node, (before_s, consumed, produced) = self.node, self._observed
        events = node.produced - produced if node.is_source else node.consumed - consumed
        if events > 0:
            self.cost_s = (cpu_s - before_s) / events
            self.selectivity = 1.0 if node.is_source else (node.produced - produced) / events
        self._observed = (cpu_s, node.consumed, node.produced)

    def costs(self) -> OperatorCost:
        """The input of `SchedulingPolicy.priorities` for this node."""
        return OperatorCost(self.cost_s, self.selectivity, self.downstream, self.weight)


@dataclass
class _Latency:
    """The latency at one outlet, window by window, measured by markers."""

    outlet: OutletNode
    index: int
    mean_s: float | None = None
    _observed: tuple[int, float] = (0, 0.0)

    def gradient(self) -> float | None:
        """The relative change of the mean since the window before; None if there is nothing to compare."""
        arrived, waited_s = self.outlet.transit.total, self.outlet.transit.sum_s
        markers = arrived - self._observed[0]
        if not markers:
            return None
        mean_s, before_s = (waited_s - self._observed[1]) / markers, self.mean_s
        self.mean_s, self._observed = mean_s, (arrived, waited_s)
        return None if not before_s else (mean_s - before_s) / before_s


class Scheduler(WorkerPool):
    """Workers that ask a policy for every turn; with a target latency only as many as keep up with the sources."""

    def __init__(
        self, nodes: Sequence[Node], policy: SchedulingPolicy, workers: int, target_s: float | None = None
    ) -> None:
        """Find the readers of every node."""
        super().__init__(nodes, workers)
        self._target_s = target_s
        self.policy = policy
        reader = {id(channel): index for index, node in enumerate(nodes) for channel in node.inputs}
        self._stats = [
            _NodeStats(node, tuple(dict.fromkeys(reader[id(channel)] for channel in node.outputs))) for node in nodes
        ]
        self._runnable = RunnableNodes(self.nodes, self.running, self.last_run_s, self.turns, by_age=policy.by_age)
        self._latencies = [_Latency(node, index) for index, node in enumerate(nodes) if isinstance(node, OutletNode)]
        self._measured_s = 0.0
        self._compared_s = 0.0
        self._deciding = threading.Lock()
        paced = target_s is not None and all(source.paced for source in self._sources)
        self._concurrency = Concurrency(workers, 1 if paced else workers)
        self._asked_s = time.perf_counter()
        self._needed = threading.Condition()

    @property
    def active_workers(self) -> int:
        """How many workers take turns at present."""
        return self._concurrency.active

    def next_turn(self, worker: int) -> tuple[int, int] | None:
        """The node that the policy chooses; while no other worker is busy, also one that is not worth a turn yet.

        Such a node waits for more events, so that turns are fewer. Nobody gains by that if all workers wait.
        """
        with self._deciding:
            self._asked_s = time.perf_counter()
            turn = self._decide(time.time())
            if turn is None:
                return None
            self._claim(turn.position, worker)
            return turn.position, turn.events

    def _decide(self, now_s: float) -> Turn | None:
        """The turn of the policy; it is asked about sources only if it may choose one."""
        if now_s - self._measured_s >= MEASURE_S:
            self._measure(now_s)
        policy, candidates = self.policy, self._runnable.operators(now_s)
        turn = policy.choose(candidates, TURN_S) if candidates and policy.sources_last else None
        if turn is not None:
            return turn
        sources = self._runnable.sources(now_s)
        if sources or not policy.sources_last:
            candidates = sources + candidates
            turn = policy.choose(candidates, TURN_S) if candidates else None
        if turn is None and candidates and not any(self.running):
            turn = policy.choose([each._replace(idle_s=math.inf) for each in candidates], TURN_S)
        return turn

    def _measure(self, now_s: float) -> None:
        for stats, cpu_s in zip(self._stats, self.cpu_s, strict=True):
            stats.measure(cpu_s)
        if now_s - self._compared_s >= LATENCY_S:
            self._compare_latencies()
            self._compared_s = now_s
        self._runnable.costs_s = [stats.cost_s for stats in self._stats]
        self._runnable.priorities = self.policy.priorities([stats.costs() for stats in self._stats])
        self._measured_s = now_s
        if self._target_s is not None and self.threads > 1:
            self._adapt(self._target_s)

    def _adapt(self, target_s: float) -> None:
        """Have more or fewer workers take turns, by how far sources are behind."""
        before = self._concurrency.active
        self._concurrency = self._concurrency.observed(self._behind_s / target_s)
        if self._concurrency.active > before:
            with self._needed:
                self._needed.notify_all()

    @property
    def _behind_s(self) -> float:
        """How far the slowest source is behind."""
        return max((each.behind_s for each in self._sources), default=0.0)

    def _stands_by(self, worker: int) -> bool:
        if worker < self.active_workers:
            return False
        others = sum(each < worker for each in list(self._running_threads))  # some may be lost
        return others >= self.active_workers and time.perf_counter() < self._asked_s + STUCK_S

    def _stand_by(self) -> None:
        with self._needed:
            self._needed.wait(STAND_BY_S)

    def _compare_latencies(self) -> None:
        """Weight operators by the latency of the queries they serve, and adapt the policy to it."""
        gradients = {each.index: gradient for each in self._latencies if (gradient := each.gradient()) is not None}
        if not gradients:
            return
        self.policy = self.policy.adapted(max(gradients.values()))
        for index in reversed(range(len(self._stats))):  # readers before writers
            stats = self._stats[index]
            downstream = [self._stats[next_].weight for next_ in stats.downstream]
            own = [latency_weight(gradients[index])] if index in gradients else []
            stats.weight = max([*own, *downstream], default=1.0)
