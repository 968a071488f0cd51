"""Sections: a graph cut at its operators with state, and the ways that lead into each."""

import pytest

from shoal.compiler.section import Section, sections, sinks
from shoal.compiler.steps import Assign, Attach, Filter, Retime, Select
from shoal.language.python.flow import Flow
from shoal.language.python.stream import Stream
from shoal.model.query.aggregate import count
from shoal.model.query.expression import col
from shoal.model.query.graph import Graph
from shoal.model.query.window import Session, tumbling

SCHEMA = {"ts": "timestamp", "k": "string", "n": "int64", "seen": "timestamp not null"}
LEFT, RIGHT = Stream("left", SCHEMA, time="ts"), Stream("right", SCHEMA, time="ts")
COUNTED = LEFT.key_by("k").window(tumbling(1)).aggregate(rows=count())


def cut(flow: Flow) -> list[Section]:
    return sections(Graph.of([flow.sink("q")]))


@pytest.mark.parametrize(
    ("flow", "wanted"),
    [
        pytest.param(LEFT.filter(col("n") > 1), [], id="none without state"),
        pytest.param(COUNTED, [("aggregate", 1)], id="one aggregate"),
        pytest.param(COUNTED.rank("rows", 1), [("aggregate", 1), ("rank", 2)], id="one behind another"),
        pytest.param(
            LEFT.join(RIGHT, within_s=(0, 1)).rank("n", 1), [("join", 1), ("rank", 2)], id="behind a join of streams"
        ),
        pytest.param(
            COUNTED.rank("rows", 1).join(RIGHT, within_s=(0, 1)),
            [("aggregate", 1), ("rank", 2), ("join", 3)],
            id="a join is behind its deepest side",
        ),
        pytest.param(
            LEFT.cogroup(RIGHT, Session(5), on="k", left={"a": count()}, right={"b": count()}),
            [("aggregate", 1), ("aggregate", 1), ("join", 2)],
            id="two side by side and a join of both",
        ),
    ],
)
def test_a_graph_is_cut_at_its_operators_with_state(flow: Flow, wanted: list[tuple[str, int]]) -> None:
    assert [(part.operator.kind, part.level) for part in cut(flow)] == wanted


def test_a_section_knows_the_window_before_it() -> None:
    [counted, ranked] = cut(COUNTED.rank("rows", 1))
    assert counted.window is not None
    assert counted.window.parameters == {"size_us": 1_000_000, "slide_us": 1_000_000}
    assert ranked.window is None


def test_a_way_has_the_steps_between_in_the_order_of_rows() -> None:
    flow = (
        LEFT.filter((col("n") > 1) & (col("k") == "a"))
        .with_columns(m=col("n") + 1)
        .lookup_join({"n": [1], "zone": ["z"]}, on="n")
        .retime("seen")
        .assign(tumbling(1))
        .rank("m", 1)
    )
    [ranked] = cut(flow)
    [way] = ranked.ways
    assert [type(step) for step in way.steps] == [Filter, Filter, Select, Attach, Retime, Assign]
    assert (way.stream, way.port) == ("left", 0)


def test_the_sides_of_a_join_are_its_ports() -> None:
    [joined] = cut(LEFT.select("ts").join(RIGHT.filter(col("n") > 1), within_s=(0, 1)))
    assert [(way.stream, way.port, len(way.steps)) for way in joined.ways] == [("left", 0, 1), ("right", 1, 1)]


def test_every_flow_of_a_union_is_a_way_into_the_same_port() -> None:
    united = LEFT.filter(col("n") > 1).union(
        RIGHT,
        COUNTED.select("k", ts=col("window_end"), n=col("rows"), seen=col("window_end")).select("ts", "k", "n", "seen"),
    )
    *_, ranked = cut(united.rank("n", 1))
    assert [(way.origin.kind, way.port) for way in ranked.ways] == [("source", 0), ("source", 0), ("aggregate", 0)]
    assert [way.stream for way in ranked.ways] == ["left", "right", ""]


def test_a_union_before_a_join_has_the_port_of_its_side() -> None:
    [joined] = cut(LEFT.join(RIGHT.union(RIGHT), within_s=(0, 1)))
    assert [(way.stream, way.port) for way in joined.ways] == [("left", 0), ("right", 1), ("right", 1)]


def test_a_sink_has_a_way_for_each_flow_of_a_union() -> None:
    graph = Graph.of([LEFT.union(RIGHT).sink("both"), COUNTED.filter(col("rows") > 2).sink("counted")])
    found = [(sink.query.name, sink.way.origin.kind, sink.way.stream, len(sink.way.steps)) for sink in sinks(graph)]
    assert found == [("both", "source", "left", 0), ("both", "source", "right", 0), ("counted", "aggregate", "", 1)]
