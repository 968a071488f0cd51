"""Metrics of a local run, under the names that Flink uses."""

import time
from collections.abc import Sequence
from typing import Any

from shoal.model.control.histogram import merged
from shoal.runtimes.local.dataflow.node import Node, OutletNode
from shoal.runtimes.local.scheduling.worker_pool import WorkerPool

WINDOW_S = 1.0
"""Rates are those of about the last second."""


class Metrics:
    """Samples the counters of nodes; one thread samples, any may read.

    A node counts as back-pressured for the time between two samples if it is blocked and not running at the second.
    """

    def __init__(self, nodes: Sequence[Node], pool: WorkerPool) -> None:
        """Start to count."""
        self._nodes = list(nodes)
        self._pool = pool
        self._held_s = [0.0] * len(self._nodes)
        self._sampled_s = time.monotonic()
        self._before = self._counters(self._sampled_s)
        self._rates: list[dict[str, float]] = [_rates((0.0,) * 5, (1.0, 0.0, 0.0, 0.0, 0.0)) for _ in self._nodes]

    def sample(self) -> None:
        """Sample every node; once a second, compute rates."""
        now_s = time.monotonic()
        passed_s, self._sampled_s = now_s - self._sampled_s, now_s
        for index, node in enumerate(self._nodes):
            if node.blocked and not self._pool.running[index]:
                self._held_s[index] += passed_s
        if now_s - self._before[0][0] >= WINDOW_S:
            after = self._counters(now_s)
            self._rates = [_rates(*pair) for pair in zip(self._before, after, strict=True)]
            self._before = after

    def data(self) -> list[dict[str, Any]]:
        """One entry per node, in the order of the flow."""
        return [self._node(index, node) for index, node in enumerate(self._nodes)]

    def _counters(self, now_s: float) -> list[tuple[float, ...]]:
        return [
            (now_s, float(node.consumed), float(node.produced), self._pool.busy_s[index], self._held_s[index])
            for index, node in enumerate(self._nodes)
        ]

    def _node(self, index: int, node: Node) -> dict[str, Any]:
        entry: dict[str, Any] = {
            "name": node.name,
            "numRecordsIn": node.consumed,
            "numRecordsOut": node.emitted if isinstance(node, OutletNode) else node.produced,
            **self._rates[index],
            "currentInputWatermark": node.watermark_us // 1000,
            "numLateRecordsDropped": node.results.refused.get("late", 0),
            "inputQueueLength": node.pending,
            "outPoolUsage": max((c.pending / c.capacity for c in node.outputs), default=0.0),
            "stateSize": node.state_bytes,
        }
        if isinstance(node, OutletNode):
            entry["latency"] = merged([node.transit]).summary_ms()
        return entry


def _rates(before: Sequence[float], after: Sequence[float]) -> dict[str, float]:
    """Rates between two samples."""
    span_s = max(after[0] - before[0], 1e-9)
    records_in, records_out, busy_s, held_s = (b - a for a, b in zip(before[1:], after[1:], strict=True))
    busy, held = min(1000.0, busy_s / span_s * 1000), held_s / span_s * 1000
    return {
        "numRecordsInPerSecond": round(records_in / span_s, 1),
        "numRecordsOutPerSecond": round(records_out / span_s, 1),
        "busyTimeMsPerSecond": round(busy, 1),
        "backPressuredTimeMsPerSecond": round(min(held, 1000.0 - busy), 1),
        "idleTimeMsPerSecond": round(max(0.0, 1000.0 - busy - held), 1),
    }
