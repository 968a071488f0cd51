"""Utilities that queries define for their state."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from shoal.compiler.lane import Lane
from shoal.compiler.program import compile_graph
from shoal.compiler.shedding.state_utility import fragments_of
from shoal.errors import GraphError
from shoal.kernels.columns.block import Block
from shoal.kernels.columns.table import INSTANCE
from shoal.kernels.kernel import State
from shoal.language.python.flow import Flow
from shoal.language.python.stream import Stream
from shoal.language.yaml.graph_file import load_graph, save_graph
from shoal.model.query.aggregate import count
from shoal.model.query.expression import Expression, col
from shoal.model.query.graph import Graph, Query
from shoal.model.query.window import tumbling

TYPES = {"ts": "timestamp", "vip": "int64", "city": "string", "paid": "float64"}
RIDES, CALLS = Stream("rides", TYPES, time="ts"), Stream("calls", TYPES, time="ts")


def counted(*keys: str) -> Flow:
    return RIDES.key_by(*keys).window(tumbling(60)).aggregate(rides=count())


def lane_of(*queries: Query) -> Lane:
    (lane,) = (lane for lane in compile_graph(Graph.of(queries)).lanes if lane.kernel is not None)
    return lane


def filled(lane: Lane, vips: list[int | None], instance: int = 0) -> State:
    """A state with one event of each key."""
    kernel: Any = lane.kernel
    number = len(vips)
    columns = {"ts": pa.array(range(number), pa.timestamp("us")), "vip": pa.array(vips, pa.int64())}
    columns |= {"city": pa.array(["oslo"] * number), "paid": pa.array([1.0] * number)}
    block = Block.from_arrow(pa.RecordBatch.from_pydict(columns))
    state: State = kernel.open()
    kernel.process(state, Block({**block.columns, INSTANCE: np.full(number, instance)}, number))
    return state


@pytest.mark.parametrize("utility", ["vip * 10 + 1", col("vip") * 10 + 1], ids=["text", "expression"])
def test_fragments_have_the_utility_that_a_query_defines(utility: str | Expression) -> None:
    lane = lane_of(counted("vip", "city").sink("rides", utility=utility))
    assert sorted(fragments_of(lane, filled(lane, [0, 1, 3])).utility.tolist()) == [1.0, 11.0, 31.0]


def test_without_a_definition_fragments_have_the_utility_of_their_kernel() -> None:
    lane = lane_of(counted("vip").sink("rides"))
    state = filled(lane, [0, 1])
    kernel: Any = lane.kernel
    assert fragments_of(lane, state).utility.tolist() == kernel.fragments(state).utility.tolist()


def test_a_utility_that_is_null_or_negative_counts_as_none() -> None:
    lane = lane_of(counted("vip").sink("rides", utility="vip"))
    assert sorted(fragments_of(lane, filled(lane, [None, -4, 2])).utility.tolist()) == [0.0, 0.0, 2.0]


def test_a_utility_that_divides_by_zero_counts_as_none() -> None:
    lane = lane_of(counted("vip").sink("rides", utility="1.0 / vip"))
    assert sorted(fragments_of(lane, filled(lane, [0, 2])).utility.tolist()) == [0.0, 0.5]


def test_state_of_two_queries_is_worth_what_both_say_together() -> None:
    flow = counted("vip")
    lane = lane_of(flow.sink("one", utility="vip"), flow.filter(col("rides") > 1).sink("two", utility="100"))
    assert sorted(fragments_of(lane, filled(lane, [1, 2])).utility.tolist()) == [101.0, 102.0]


def test_rows_of_both_sides_of_a_join_have_the_utility_of_their_key() -> None:
    flow = RIDES.select("ts", "vip").join(
        CALLS.select("ts", caller=col("vip")), on={"vip": "caller"}, within_s=(-60, 60)
    )
    lane = lane_of(flow.sink("both", utility="vip + 1"))
    state = filled(lane, [1, 7])
    kernel: Any = lane.kernel
    calls = Block({"ts": np.array([9]), "caller": np.array([7]), INSTANCE: np.array([0])}, 1)
    kernel.process(state, calls, 1)
    assert sorted(fragments_of(lane, state).utility.tolist()) == [2.0, 8.0, 8.0]


def test_rows_of_a_pattern_that_wait_share_the_utility_of_their_key() -> None:
    flow = RIDES.key_by("vip").match("A B", within_s=60, define={"B": col("paid") > 1}, measures={"end": "last(ts)"})
    lane = lane_of(flow.sink("pairs", utility="vip"))
    assert sorted(fragments_of(lane, filled(lane, [6, 6, 6, 9])).utility.tolist()) == [2.0, 2.0, 2.0, 9.0]


def test_queries_that_differ_in_a_constant_have_each_its_own_utility() -> None:
    flows = {city: RIDES.filter(col("city") == city).key_by("city", "vip") for city in ("oslo", "bergen")}
    queries = [
        flow.window(tumbling(60)).aggregate(rides=count()).sink(city, utility=f"vip * {factor}")
        for factor, (city, flow) in zip((1, 5), flows.items(), strict=True)
    ]
    lane = lane_of(*queries)
    found = {n: fragments_of(lane, filled(lane, [3], n)).utility.tolist() for n in range(len(lane.instances))}
    assert sorted(found.values()) == [[3.0], [15.0]]


def test_a_utility_does_not_change_which_state_a_query_has() -> None:
    plain, valued = counted("vip").sink("rides"), counted("vip").sink("rides", utility="vip")
    assert [each.id for each in plain.operators[:-1]] == [each.id for each in valued.operators[:-1]]


def test_a_utility_comes_back_from_yaml() -> None:
    graph = Graph.of([counted("vip").sink("rides", utility="vip * 10 + 1")])
    text = save_graph(graph)
    assert load_graph(text, "rides.yaml") == graph
    assert "utility:" in text


def test_yaml_takes_a_utility_as_text() -> None:
    text = save_graph(Graph.of([counted("vip").sink("rides")]))
    changed = text.replace("        table: rides\n", '        table: rides\n        utility: "vip * 10 + 1"\n')
    assert load_graph(changed, "rides.yaml") == Graph.of([counted("vip").sink("rides", utility="vip * 10 + 1")])


@pytest.mark.parametrize(
    ("flow", "utility", "message"),
    [
        pytest.param(
            counted("vip"),
            "paid",
            "utility of query 'rides' must be computed from the keys of an operator with state; "
            "they are aggregate: vip; got columns paid",
            id="not a key",
        ),
        pytest.param(RIDES.filter(col("vip") > 1), "vip", "they are none, since it keeps no state", id="no state"),
        pytest.param(counted("city"), "city", "utility of query 'rides' must be a number; got string", id="a text"),
        pytest.param(counted("vip"), "vip, vip", "must be one column or expression; got 'vip, vip'", id="two"),
        pytest.param(counted("vip"), "vip +", "utility of query 'rides'", id="not an expression"),
    ],
)
def test_a_utility_that_cannot_be_computed_is_refused(flow: Flow, utility: str, message: str) -> None:
    with pytest.raises((GraphError, ValueError), match=message):
        flow.sink("rides", utility=utility)
