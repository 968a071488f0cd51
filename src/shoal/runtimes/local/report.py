"""Reports: what a local run has done since the last report, for the session and the controller."""

import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence

from shoal.model.control.binding import Binding
from shoal.model.control.histogram import merged
from shoal.model.control.messages import EpochCommitted
from shoal.model.control.partitioning import DECLARED
from shoal.model.control.shedding import NOTHING_SHED, ShedCount, added
from shoal.model.control.snapshot import Snapshot
from shoal.model.control.topology import Topology
from shoal.model.query.graph import Graph
from shoal.runtimes.local.dataflow.delivery import Delivery
from shoal.runtimes.local.dataflow.lane_node import LaneNode
from shoal.runtimes.local.dataflow.node import Node, OutletNode
from shoal.runtimes.local.dataflow.source_node import SourceNode
from shoal.runtimes.local.migration.divided_lanes import DividedLanes
from shoal.runtimes.local.scheduling.worker_pool import WorkerPool


class Reports:
    """Makes reports, one per epoch; one thread asks for them."""

    def __init__(
        self,
        graph: Graph,
        nodes: Sequence[Node],
        pool: WorkerPool,
        delivery: Delivery,
        binding: Binding,
        divided_lanes: DividedLanes | None,
        topology_of: Callable[[int], Topology] | None,
    ) -> None:
        """Start to count; `topology_of` gives the topology of a number of workers, None without numbered workers."""
        self._graph = graph
        self._nodes = list(nodes)
        self._lanes = [node for node in nodes if isinstance(node, LaneNode)]
        self._sources = [node for node in nodes if isinstance(node, SourceNode)]
        self._outlets = [node for node in nodes if isinstance(node, OutletNode)]
        self._shedders = [node.shedder for node in self._sources if node.shedder is not None]
        self._pool = pool
        self._delivery = delivery
        self._binding = binding
        self._divided_lanes = divided_lanes
        self._topology_of = topology_of
        self._epoch = 0
        self._consumed = 0
        self._worked_s = [0.0] * len(pool.worked_s)
        self._deciding_s = 0.0
        self._stopped_s = 0.0
        self._moved = (0, 0, 0.0)
        self._refused: dict[str, int] = {}
        self._shed: Mapping[str, ShedCount] = NOTHING_SHED
        self._reported_s = time.time()

    def due(self, interval_s: float) -> bool:
        """Whether the last report is at least that old."""
        return time.time() - self._reported_s >= interval_s

    def next(self) -> EpochCommitted | None:
        """The report of the time since the last one; None if nothing happened and no rows wait."""
        now_s, delivery = time.time(), self._delivery
        consumed = sum(node.consumed for node in self._sources)
        period_s, self._reported_s = now_s - self._reported_s, now_s
        moved = (0, 0, 0.0) if self._divided_lanes is None else self._divided_lanes.moved()
        idle = consumed == self._consumed and not delivery.results and not delivery.dead_letters
        if idle and moved[0] == self._moved[0] and not any(node.pending for node in self._nodes):
            return None
        moves, moved_bytes, moving_s = (now - before for now, before in zip(moved, self._moved, strict=True))
        worked_s = list(self._pool.worked_s)
        busy_s = [now - before for now, before in zip(worked_s, self._worked_s, strict=True)]
        deciding_s, stopped_s = self._pool.deciding_s, sum(self._pool.stopped_s)
        held = {node: node.state_bytes for node in self._lanes}
        report = EpochCommitted(
            epoch=self._epoch,
            rows=consumed - self._consumed,
            results=delivery.results,
            dead_letters=delivery.dead_letters,
            moves=int(moves),
            state_bytes=sum(held.values()),
            state_bytes_moved=int(moved_bytes),
            duration_s=period_s,
            latency_s=max(delivery.latency.max_s, period_s),
            compute_s=max(0.0, sum(busy_s) - moving_s),
            migration_s=moving_s + stopped_s - self._stopped_s,
            policy_s=deciding_s - self._deciding_s if self._divided_lanes is None else 0.0,
            snapshot=self._snapshot(period_s, busy_s, held),
            refusals=self._new_refusals(),
            refused_rows=delivery.refused_rows,
            latency=delivery.latency,
            markers=merged([node.transit for node in self._outlets]),
            lag_s=max((node.lag_s for node in self._sources if not node.ended), default=0.0),
            shed=self._new_shed(),
            shedding={each.stream: each.shedding for each in self._shedders},
            at_s=now_s,
        )
        self._consumed, self._moved = consumed, moved
        self._worked_s, self._deciding_s, self._stopped_s = worked_s, deciding_s, stopped_s
        self._epoch += 1
        delivery.reset()
        return report

    def _snapshot(self, period_s: float, busy_s: Sequence[float], held: Mapping[LaneNode, int]) -> Snapshot:
        divided_lanes = self._divided_lanes
        binding, partitioning = (self._binding, DECLARED) if divided_lanes is None else divided_lanes.current()
        topology = None if self._topology_of is None else self._topology_of(binding.workers)
        return Snapshot(
            self._epoch,
            binding,
            {} if divided_lanes is None else divided_lanes.loads(held),
            {node.stream_name: node.watermark_us for node in self._sources},
            period_s,
            self._delivery.latency_s,
            () if topology is None else tuple(busy_s[: topology.workers]),
            topology,
            self._graph,
            partitioning,
            {} if divided_lanes is None else divided_lanes.arrivals(),
        )

    def _new_shed(self) -> dict[str, ShedCount]:
        """Rows shed since the last report, by stream."""
        before, total = self._shed, {each.stream: each.count for each in self._shedders}
        self._shed = total
        found = [(stream, count.since(before.get(stream, ShedCount()))) for stream, count in total.items()]
        return added(NOTHING_SHED, found)

    def _new_refusals(self) -> dict[str, int]:
        """Refusals since the last report."""
        total: dict[str, int] = defaultdict(int)
        for node in (*self._sources, *self._lanes):
            for reason, number in list(node.results.refused.items()):
                total[reason] += number
        before, self._refused = self._refused, dict(total)
        return {reason: number - before.get(reason, 0) for reason, number in total.items()}
