"""Families: which operators share a lane, how deep it lies, and what it waits for."""

import pytest

from shoal.compiler.lane import Lane
from shoal.compiler.program import Program, compile_graph
from shoal.compiler.steps import DispatchByGroup, DispatchByOrigin, DispatchByValue
from shoal.compiler.watermarks import ENDED, NOW
from shoal.kernels.join import JoinKernel
from shoal.kernels.kernel import FOREVER_US, NEVER_US
from shoal.language.python.flow import Flow
from shoal.language.python.stream import Stream
from shoal.model.query.aggregate import count
from shoal.model.query.expression import col
from shoal.model.query.graph import Graph, Query
from shoal.model.query.schema import not_null
from shoal.model.query.window import rows, sessions, tumbling

SCHEMA = {"ts": "timestamp", "k": "string", "n": "int64", "x": "float64"}
LEFT, RIGHT = Stream("left", SCHEMA, time="ts"), Stream("right", SCHEMA, time="ts")
FULL = Stream("full", not_null(SCHEMA), time="ts")
MEASURES = {"rows": "count(*)"}


def compiled(*queries: Query) -> Program:
    return compile_graph(Graph.of(queries))


def counted(flow: Flow) -> Flow:
    return flow.window(tumbling(1)).aggregate(rows=count())


def by_number(flow: Flow, number: int) -> Flow:
    return flow.filter(col("n") == number)


@pytest.mark.parametrize(
    ("queries", "lanes"),
    [
        pytest.param([LEFT.filter(col("n") == n).rank("x", 1).sink(f"q{n}") for n in range(3)], 1, id="ranks"),
        pytest.param([by_number(FULL, n).rank("x", 1).sink(f"q{n}") for n in range(3)], 1, id="columns without nulls"),
        pytest.param(
            [by_number(LEFT, n).key_by("k").deduplicate(1).sink(f"q{n}") for n in range(3)], 1, id="deduplicates"
        ),
        pytest.param(
            [by_number(LEFT, n).window(sessions(1)).aggregate(m=count()).sink(f"q{n}") for n in range(3)],
            1,
            id="sessions",
        ),
        pytest.param(
            [by_number(LEFT, n).window(rows(5)).aggregate(m=count()).sink(f"q{n}") for n in range(3)],
            1,
            id="windows of rows",
        ),
        pytest.param(
            [by_number(LEFT, n).match("A", within_s=1, measures=MEASURES).sink(f"q{n}") for n in range(3)],
            1,
            id="matches",
        ),
        pytest.param(
            [counted(by_number(LEFT, n)).rank("rows", 1).sink(f"q{n}") for n in range(3)],
            2,
            id="what follows operators that share a lane",
        ),
        pytest.param([LEFT.rank("x", k).sink(f"q{k}") for k in (1, 2)], 2, id="not operators with other parameters"),
        pytest.param(
            [by_number(LEFT, n).join(RIGHT, within_s=(0, 1)).sink(f"q{n}") for n in range(3)], 3, id="not joins"
        ),
        pytest.param(
            [by_number(LEFT, n).union(RIGHT).rank("x", 1).sink(f"q{n}") for n in range(3)], 3, id="not behind unions"
        ),
        pytest.param(
            [counted(by_number(LEFT, n)).partition_by("rows", groups=2).rank("rows", 1).sink(f"q{n}") for n in (1, 2)],
            3,
            id="not key groups behind other operators",
        ),
    ],
)
def test_operators_of_one_shape_share_a_lane(queries: list[Query], lanes: int) -> None:
    program = compiled(*queries)
    assert len(program.lanes) == lanes
    assert sorted(program.instances) == sorted(program.graph.stateful_instances)


def test_a_lane_is_as_deep_as_the_operators_before_it() -> None:
    program = compiled(counted(LEFT).rank("rows", 1).join(RIGHT, within_s=(0, 1)).sink("q"))
    assert [(lane.depth, sorted(lane.streams)) for lane in program.lanes] == [
        (1, ["left"]),
        (2, ["left"]),
        (3, ["left", "right"]),
    ]
    assert program.depth == 3


def test_rows_find_their_instance_by_value_by_group_and_by_origin() -> None:
    program = compiled(*(counted(by_number(LEFT, n)).rank("rows", 1).sink(f"q{n}") for n in (7, 9)))
    first, second = (lane.feeds for lane in program.lanes)
    assert first[0].steps[0] == DispatchByValue("n", (7, 9))
    assert (second[0].origin, second[0].steps[0]) == (0, DispatchByOrigin((0, 1)))
    [lane] = compiled(LEFT.join(RIGHT, on={"n": "n"}, within_s=(0, 1), groups=4).sink("q")).lanes
    assert [(feed.port, feed.steps[-1]) for feed in lane.feeds] == [
        (0, DispatchByGroup(("n",), 4)),
        (1, DispatchByGroup(("n",), 4)),
    ]
    assert len(lane.instances) == 4


def test_a_query_that_filters_the_same_operator_feeds_from_it_once() -> None:
    shared = counted(LEFT)
    program = compiled(shared.rank("rows", 1).sink("a"), shared.rank("rows", 1).sink("b"), shared.sink("c"))
    assert len(program.instances) == 2
    tables = [[outlet.table for outlet in lane.outlets] for lane in program.lanes]
    assert tables == [["c"], ["a", "b"]]


def last_lane(flow: Flow) -> Lane:
    return compiled(flow.sink("q")).lanes[-1]


@pytest.mark.parametrize(
    ("flow", "hold_us"),
    [
        pytest.param(counted(LEFT), 0, id="a stream's rows are never behind the watermark"),
        pytest.param(counted(LEFT).rank("rows", 1), 0, id="nor a window's results"),
        pytest.param(
            LEFT.join(RIGHT, within_s=(-2e-6, 5e-6), how="left").rank("n", 1), 5, id="a row that stayed alone is"
        ),
        pytest.param(
            LEFT.match("A", within_s=7e-6, measures=MEASURES).rank("rows", 1), 8, id="a match that was waited for is"
        ),
        pytest.param(
            LEFT.match("A", within_s=7e-6, measures=MEASURES)
            .join(RIGHT.select("ts"), within_s=(0, 3e-6), how="left")
            .rank("rows", 1),
            11,
            id="and both add up",
        ),
        pytest.param(
            counted(LEFT).join(LEFT.match("A", within_s=7e-6, measures={"m": "count(*)"}), within_s=(0, 0)),
            8,
            id="the slowest side counts",
        ),
    ],
)
def test_a_lane_knows_how_far_its_input_lies_behind(flow: Flow, hold_us: int) -> None:
    lane = last_lane(flow)
    assert lane.hold_us == hold_us
    marks = dict.fromkeys(lane.streams, 100)
    assert lane.watermark_us(marks) == 100 - hold_us


def test_the_slowest_stream_that_has_not_ended_tells_the_watermark() -> None:
    lane = last_lane(LEFT.join(RIGHT, within_s=(0, 0)))
    assert isinstance(lane.kernel, JoinKernel)
    assert lane.watermark_us({"left": 5}) == NEVER_US
    assert lane.watermark_us({"left": 5, "right": 9}) == 5
    assert lane.watermark_us({"left": 5, "right": 9, ENDED + "left": 1}) == 9
    assert lane.watermark_us({"left": 5, "right": 9, ENDED + "left": 1, ENDED + "right": 1}) == FOREVER_US


def test_processing_time_goes_by_its_own_mark() -> None:
    lane = last_lane(LEFT.window(tumbling(1, clock="processing")).aggregate(m=count()))
    assert lane.processing
    assert lane.watermark_us({"left": 5}) == NEVER_US
    assert lane.watermark_us({"left": 5, NOW: 77}) == 77
