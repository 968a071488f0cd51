"""A run without threads: a controlled scheduler takes one turn after another, of nodes drawn at random.

A failure can be replayed step by step. After every turn it checks that every instance has exactly one holder.
"""

import random
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from tests.naive import interpret
from tests.runtimes.local.row_source import RowSource
from tests.test_random_graphs import canonical

from shoal.compiler.program import compile_graph
from shoal.connectors.sinks import MemorySink
from shoal.kernels.columns.block import arrow_schema
from shoal.kernels.columns.table import INSTANCE
from shoal.mechanisms.catalog import LOSSY, MECHANISMS
from shoal.mechanisms.transfer import Transfer
from shoal.model.control.binding import Binding, WorkerId
from shoal.model.control.costs import LinkCosts
from shoal.model.query.graph import Graph, InstanceId
from shoal.model.query.schema import Schema
from shoal.policies.binding.static import round_robin, shuffled
from shoal.runtimes.local.dataflow.delivery import Delivery
from shoal.runtimes.local.dataflow.node import Node
from shoal.runtimes.local.dataflow.source_node import SourceNode
from shoal.runtimes.local.dataflow.wiring import Wiring
from shoal.runtimes.local.memory.blocks import ChunkAllocator, Sizes
from shoal.runtimes.local.migration.divided_lanes import DividedLane, DividedLanes
from shoal.runtimes.local.migration.executor import MECHANISMS as LOCAL
from shoal.runtimes.local.migration.moving_lane import MovingLane
from shoal.runtimes.local.migration.ownership import Ownership
from shoal.runtimes.local.migration.part_messages import Arrival, ForwardedRows
from shoal.runtimes.local.migration.way import Ahead, MoveWay, way_of

Row = Mapping[str, Any]
Rows = Mapping[str, Sequence[Row]]
MOST_MOVES = 300
"""Requests per run, so that it ends."""
SPEEDS = (1.0, 1.0, 1.0, 0.01)


def way_named(name: str) -> MoveWay | None:
    """The way of a mechanism between threads; None for a barrier."""
    transfer = Transfer(InstanceId("op/0"), WorkerId(0), WorkerId(1))
    return way_of(MECHANISMS[name].plan([transfer], LinkCosts()))


EXACT_WAYS = [way for name in LOCAL if name not in LOSSY and (way := way_named(name)) is not None]
"""The ways that lose no state."""


def exact_ways(parts: Sequence[MovingLane]) -> list[MoveWay]:
    """The ways that lose no state of some parts: not all state can be recreated from rows."""
    bounded = all(part.lane.kernel is not None and part.lane.kernel.bounded for part in parts)
    return EXACT_WAYS if bounded else [way for way in EXACT_WAYS if way.ahead is not Ahead.ROWS]


def sources_of(graph: Graph, rows: Rows, *, as_given: bool = False) -> dict[str, RowSource]:
    """The rows of every stream, in the order of event time unless they are to come as given."""
    sources = {}
    for stream, operator in graph.streams.items():
        time_column = operator.parameters["time"]
        ordered = rows[stream] if as_given else sorted(rows[stream], key=lambda row: row[time_column])
        sources[stream] = RowSource(ordered, arrow_schema(Schema.of(operator.parameters["schema"])))
    return sources


class Controlled:
    """The nodes of a graph, one turn at a time."""

    def __init__(
        self,
        graph: Graph,
        rows: Rows,
        workers: int,
        sizes: Sizes,
        part: type[MovingLane] = MovingLane,
        most: int = 0,
        *,
        as_given: bool = False,
    ) -> None:
        self.graph = graph
        self.workers = workers
        self.most = max(workers, most)
        self.allocator = ChunkAllocator()
        binding = round_robin(graph, workers)
        wiring = Wiring(compile_graph(graph), sizes, self.allocator, binding=binding, part=part, parts=self.most)
        self.directory = tempfile.TemporaryDirectory()
        self.nodes: list[Node] = wiring.wire(sources_of(graph, rows, as_given=as_given), self.directory.name)
        self.divided_lanes = DividedLanes(self.nodes, binding, self.most, graph)
        self.sink = MemorySink()
        self.delivery = Delivery(self.nodes, self.sink)

    @property
    def parts(self) -> list[MovingLane]:
        return [part for lane in self.divided_lanes.lanes for part in lane.parts]

    def request(self, draw: random.Random) -> None:
        """Some worker requests some instance."""
        if self.parts:
            part = draw.choice(self.parts)
            part.request(draw.choice(live_numbers(part.ownership)))

    def request_in_any_way(self, draw: random.Random) -> None:
        """Some worker requests some instance, whose state may come later."""
        if self.parts:
            part = draw.choice(self.parts)
            part.request(draw.choice(live_numbers(part.ownership)), draw.choice(exact_ways([part])))

    def change(self, draw: random.Random) -> None:
        """Move all instances to workers drawn at random, at a barrier."""
        binding = self.set_target(draw)
        self.divided_lanes.move_at_barrier(time.perf_counter())
        assert self.divided_lanes.reached
        assert self.divided_lanes.current()[0] == binding
        self.check()

    def mix(self, draw: random.Random) -> None:
        """Request instances one by one, or move all at a barrier when nothing is in transit."""
        if draw.random() < 0.7:
            self.pursue(draw)
        elif not self.divided_lanes.in_transit:
            self.change(draw)
        else:
            before = self.divided_lanes.current()
            self.divided_lanes.move_at_barrier(time.perf_counter())
            assert self.divided_lanes.current() == before

    def set_target(self, draw: random.Random) -> Binding:
        """Set a target drawn at random, with a number of workers drawn at random."""
        binding = shuffled(self.graph, draw.randint(1, self.most), draw.randrange(1 << 30))
        assert self.divided_lanes.set_target(binding) == ""
        return binding

    def pursue(self, draw: random.Random) -> None:
        """Sometimes change the target; then request all instances that are not at theirs."""
        if draw.random() < 0.3:
            self.set_target(draw)
        self.divided_lanes.request_all(draw.choice(exact_ways(self.parts)))

    def run(
        self,
        draw: random.Random,
        share: float,
        act: Callable[[random.Random], None] | None = None,
        lazy: Callable[[Node], bool] = lambda node: False,
    ) -> None:
        """Take turns until nothing is ready; before a share of them, act: request an instance.

        Some nodes are slow for a while, so that others get far ahead of them. Lazy ones take a turn only when no other
        node can.
        """
        left, turns, speeds = MOST_MOVES, 0, dict[Node, float]()
        while ready := [node for node in self.nodes if is_ready(node)]:
            if left and draw.random() < share:
                (act or self.request)(draw)
                left -= 1
            if turns % 100 == 0:
                speeds = {node: 1e-9 if lazy(node) else draw.choice(SPEEDS) for node in self.nodes}
            turns += 1
            node = draw.choices(ready, [speeds[each] for each in ready])[0]
            node.turn(draw.choice([1, 2, 5, 100]))
            self.check()
        self.end()

    def drain(self, without: Sequence[Node] = (), asked: int = 0) -> None:
        """Poll sources `asked` times; before and after, run all but some nodes until none is ready."""
        for left in reversed(range(asked + 1)):
            while ready := [node for node in self.nodes if node.ready and not node.is_source and node not in without]:
                ready[0].turn(100)
                self.check()
            for source in self.nodes if left else ():
                if source.is_source and not source.blocked:
                    source.turn(100)

    def end(self) -> None:
        """Nothing may be left."""
        self.delivery.deliver()
        self.allocator.close()
        self.directory.cleanup()
        assert not any(node.waiting for node in self.nodes)
        assert not any(part.busy for part in self.parts)

    def check(self) -> None:
        """Every instance has one holder, and no row is lost or counted twice."""
        for lane in self.divided_lanes.lanes:
            holders = Counter(instance for part in lane.parts for instance in (*part._own, *part._incoming))
            holders.update(message.instance for message in messages_of(lane) if isinstance(message, Arrival))
            assert holders == dict.fromkeys(live_numbers(lane.ownership), 1)
            assert backlog_of(lane) == waiting_rows(lane)

    @property
    def moves(self) -> int:
        return self.divided_lanes.moved()[0]

    def results(self) -> dict[str, list[Row]]:
        return {name: plain(self.sink.table(name).to_pylist()) for name in self.sink.names()}

    def assert_right(self, rows: Rows) -> None:
        """The results are those of a row-at-a-time interpreter."""
        wanted = {table: canonical(each) for table, each in interpret(self.graph, rows).items() if each}
        assert {table: canonical(each) for table, each in self.results().items() if each} == wanted


def live_numbers(ownership: Ownership) -> list[int]:
    """The instances that have any slots."""
    return np.unique(ownership.slots.table(ownership.now.division)).tolist()


def is_ready(node: Node) -> bool:
    """Whether a node can take a turn; a source also if it has just been polled."""
    return node.ready or (isinstance(node, SourceNode) and not node.ended and not node.blocked)


def backlog_of(lane: DividedLane) -> dict[int, int]:
    """Rows per instance that were sent and not processed, by the counters."""
    sent = np.sum([*(split.sent for split in lane.splits), *(part.load.relabelled for part in lane.parts)], axis=0)
    taken = np.sum([part.load.events for part in lane.parts], axis=0)
    return {instance: rows for instance, rows in enumerate((sent - taken).tolist()) if rows}


def waiting_rows(lane: DividedLane) -> dict[int, int]:
    """The same by search: in channels, in messages, and in the buffers of incoming instances."""
    found: Counter[int] = Counter()
    for part in lane.parts:
        for channel in part.inputs:
            for span in channel.spans:
                if span.stop > span.start:
                    found.update(span.columns[INSTANCE][span.start : span.stop].tolist())
        for instance, incoming in part._incoming.items():
            found[instance] += incoming.waiting_rows
    for message in messages_of(lane):
        if isinstance(message, ForwardedRows):
            found[message.instance] += message.block.length
    return {instance: rows for instance, rows in found.items() if rows}


def messages_of(lane: DividedLane) -> list[Any]:
    return [message for boxes in lane.ownership.messages for box in boxes for message in box]


def plain(rows: Sequence[Row]) -> list[Row]:
    """Times as microseconds."""
    return [{k: v if not hasattr(v, "timestamp") else _micros(v) for k, v in row.items()} for row in rows]


def _micros(value: Any) -> int:
    return int(np.datetime64(value, "us").astype(np.int64))
