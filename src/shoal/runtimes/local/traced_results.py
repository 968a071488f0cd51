"""Traced results of a local run: its turns, what they emitted, and when the sink had it.

Tracing costs a few microseconds per turn, so that results take a little longer than in usual runs.
"""

import time
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import pyarrow as pa

from shoal.runtimes.local.dataflow.delivery import Delivery
from shoal.runtimes.local.dataflow.lane_node import LaneNode
from shoal.runtimes.local.dataflow.node import Node, OutletNode
from shoal.runtimes.local.runtime import LocalSetup
from shoal.runtimes.local.trace import TracedRuntime
from shoal.runtimes.measured.result_path import Emission, PlaceTurns, ResultTimes, result_times


class _Emitted(NamedTuple):
    """Rows that a node emitted, on the clock of turns."""

    place: int
    at_s: float
    rows: int
    due_s: float


class ResultTracedRuntime(TracedRuntime):
    """A traced run that records emissions and deliveries as well, by the clock of the turns."""

    def __init__(self, setup: LocalSetup) -> None:
        """Prepare a run; nothing starts yet."""
        super().__init__(setup)
        self._emitted: list[_Emitted] = []
        self._delivered_s: list[float] = []
        self._ahead_s = time.time() - time.perf_counter()

    def result_times(self) -> ResultTimes:
        """Where the time of results went, on the clock of the run."""
        before = writers_of(self.nodes)
        found = result_times(self._emissions(), self._turns(before), before)
        return ResultTimes(found.seconds, found.at_s + self._ahead_s, found.results)

    def _emissions(self) -> Iterator[Emission]:
        for place, at_s, rows, due_s in self._emitted:
            delivered = bisect_right(self._delivered_s, at_s)
            if delivered < len(self._delivered_s):
                yield Emission(place, at_s, rows, due_s, self._delivered_s[delivered])

    def _turns(self, before: Sequence[Sequence[int]]) -> list[PlaceTurns]:
        found = list[PlaceTurns]()
        for trace, places in zip(self.traces, before, strict=True):
            keeps = isinstance(trace.node, LaneNode) or any(found[place].keeps for place in places)
            found.append(PlaceTurns(keeps))
            for turn in trace.turns:
                if not turn.empty:
                    found[-1].add(turn.began_s, turn.began_s + turn.wall_s, turn.cpu_s)
        return found

    def _delivery_of(self) -> Delivery:
        delivery = super()._delivery_of()
        plain = delivery.deliver

        def deliver() -> None:
            plain()
            self._delivered_s.append(time.perf_counter())

        delivery.deliver = deliver  # type: ignore[method-assign]
        for place, node in enumerate(self.nodes):
            if isinstance(node, OutletNode):
                self._watch(place, node)
        return delivery

    def _watch(self, place: int, node: OutletNode) -> None:
        plain = node.results.emit

        def emit(table: str, rows: pa.RecordBatch, taken_s: float) -> None:
            plain(table, rows, taken_s)
            self._emitted.append(_Emitted(place, time.perf_counter(), rows.num_rows, taken_s - self._ahead_s))

        node.results.emit = emit  # type: ignore[method-assign]


def writers_of(nodes: Sequence[Node]) -> list[list[int]]:
    """The places of the nodes that write to each node."""
    writers = {id(channel): place for place, node in enumerate(nodes) for channel in node.outputs}
    return [[writers[id(channel)] for channel in node.inputs] for node in nodes]
