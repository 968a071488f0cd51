"""Instances move while everything goes on: in every order in which nodes may take their turns, no result changes.

There are no threads here. A controlled scheduler takes one turn after another, of nodes and moves drawn at random, so
that what fails can be run again step by step.
"""

import random
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.naive import interpret
from tests.random_graphs import cases
from tests.runtimes.local.row_source import RowSource
from tests.test_random_graphs import canonical

from shoal.connectors.sinks import MemorySink
from shoal.kernels.block import arrow_schema
from shoal.model.graph import Graph
from shoal.model.schema import Schema
from shoal.policies.static import round_robin
from shoal.query.program import compile_graph
from shoal.runtimes.local.delivery import Delivery
from shoal.runtimes.local.memory import Keeper, Sizes
from shoal.runtimes.local.moving import MovingLane
from shoal.runtimes.local.node import Node
from shoal.runtimes.local.wiring import Wiring

Row = Mapping[str, Any]
MOST_MOVES = 300
"""Moves that are asked for in one run, so that it comes to an end."""


class Controlled:
    """The nodes of a graph, one turn at a time."""

    def __init__(self, graph: Graph, rows: Mapping[str, Sequence[Row]], workers: int, sizes: Sizes) -> None:
        sources = {}
        for stream, operator in graph.streams.items():
            ordered = sorted(rows[stream], key=lambda row: row[operator.parameters["time"]])
            sources[stream] = RowSource(ordered, arrow_schema(Schema.of(operator.parameters["schema"])))
        self.keeper = Keeper()
        binding = round_robin(graph, workers)
        wiring = Wiring(compile_graph(graph), sizes, self.keeper, binding=binding)
        self.place = tempfile.TemporaryDirectory()
        self.nodes: list[Node] = wiring.wire(sources, self.place.name)
        self.lanes = [node for node in self.nodes if isinstance(node, MovingLane)]
        self.sink = MemorySink()
        self.moves = 0

    def invite(self, draw: random.Random) -> None:
        """Some worker asks for some instance."""
        if self.lanes:
            lane = draw.choice(self.lanes)
            if lane.lane.instances:
                lane.invite(draw.randrange(len(lane.lane.instances)))

    def run(self, draw: random.Random, move_share: float) -> None:
        """Take turns until nothing is ready."""
        left = MOST_MOVES
        while ready := [node for node in self.nodes if node.ready]:
            if left and draw.random() < move_share:
                self.invite(draw)
                left -= 1
            draw.choice(ready).turn(draw.choice([1, 2, 5, 100]))
        Delivery(self.nodes, self.sink).deliver()
        self.keeper.close()
        self.place.cleanup()
        assert not any(node.waiting for node in self.nodes)
        assert not any(lane.busy for lane in self.lanes)
        self.moves = sum(sum(lane.ownership.moves) for lane in self.lanes if lane.home == 0)

    def results(self) -> dict[str, list[Row]]:
        return {name: self.sink.table(name).to_pylist() for name in self.sink.names()}


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(cases(), st.integers(1, 3), st.integers(1, 64), st.sampled_from([0.05, 0.3, 0.8]), st.integers(0, 2**32))
def test_any_order_of_turns_and_moves_gives_the_answers_of_no_moves(
    case: tuple[Graph, Mapping[str, Sequence[Row]]], workers: int, block_rows: int, move_share: float, seed: int
) -> None:
    graph, rows = case
    controlled = Controlled(graph, rows, workers, Sizes(block_rows, 2, 2))
    controlled.run(random.Random(seed), move_share)
    wanted = {table: canonical(each) for table, each in interpret(graph, rows).items() if each}
    got = {table: canonical(_plain(each)) for table, each in controlled.results().items() if each}
    assert got == wanted


def _plain(rows: Sequence[Row]) -> list[Row]:
    """Times as microseconds."""
    return [{k: v if not hasattr(v, "timestamp") else _micros(v) for k, v in row.items()} for row in rows]


def _micros(value: Any) -> int:
    return int(np.datetime64(value, "us").astype(np.int64))
