"""Graph files in Shoal's own operators: every graph comes back from its text."""

import math
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.expressions import TEXTS
from tests.language.yaml.graph_texts import DATASETS, SHORT, loaded, wrong
from tests.random_graphs import cases

from shoal.errors import GraphError
from shoal.language.python.flow import Flow
from shoal.language.python.stream import Stream
from shoal.language.yaml.document import YamlPart, block
from shoal.language.yaml.graph_file import load_file, load_graph, save_graph
from shoal.model.query.aggregate import (
    approx_distinct,
    count,
    count_distinct,
    max_,
    mean,
    min_,
    stddev,
    sum_,
    top_k,
    user_aggregate,
    variance,
)
from shoal.model.query.expression import col, lit
from shoal.model.query.functions import Function, call, coalesce, if_, is_null, is_same, null, nullif, udf
from shoal.model.query.graph import Graph
from shoal.model.query.lookup import lookup
from shoal.model.query.pattern import prev
from shoal.model.query.schema import not_null
from shoal.model.query.window import hop, rows, sessions, tumbling
from shoal.workloads.traffic.queries import queries

SCHEMA = {
    "ts": "timestamp",
    "road": "int64",
    "kind": "string",
    "speed": "float64",
    "toll": "bool",
    "seen": "timestamp not null",
}
CARS = Stream("cars", SCHEMA, time="ts", lateness_s=1.5, max_ahead_s=None)
BUSES = Stream("buses", {"ts": "timestamp", "road": "int64", "line": "string", "late": "float64"}, time="ts")
COUNTED = CARS.key_by("road").window(tumbling(10)).aggregate(n=count())


class Longest:
    """An aggregate of the user's own."""

    def zero(self) -> list[str]:
        return []

    def add(self, state: list[str], values: list[str]) -> list[str]:
        return [max([*state, *values], key=len)]

    def merge(self, a: list[str], b: list[str]) -> list[str]:
        return [*a, *b]

    def result(self, state: list[str]) -> str:
        return state[0]


@udf("int64")
def cell(speed: Any, road: Any) -> Any:
    return (speed // 1).astype(int) + road


FLOWS = {
    "stream": CARS,
    "filter": CARS.filter((col("speed") > 80.0) & ~col("toll") | col("kind").is_in(["a", "on", "1", ""])),
    "split": CARS.split(col("speed") / 3.6 > 20)[1],
    "select": CARS.select("ts", "road", kmh=col("speed") * 3.6, far=lit(math.inf), none=lit(""), tiny=lit(1e-7)),
    "select that redefines": CARS.select("road", "ts", road=col("road") + 1, speed=col("speed")),
    "select that computes first": CARS.select(twice=col("speed") * 2, speed=col("speed")),
    "with_columns": CARS.with_columns(speed=col("road"), fast=if_(col("speed") > 30, "yes", "no")),
    "functions": CARS.select(up=call("upper", "kind"), rank=lookup("road", {1: 10, 2: 20}, default=-1)),
    "nulls": CARS.filter(~is_null("kind") | is_same("speed", null("float64"))).select(
        "ts",
        kind=nullif("kind", lit("null")),
        speed=coalesce("speed", lit(math.inf)),
        no=if_(col("toll"), 1, null("int64")),
    ),
    "columns that are never null": Stream("n", not_null({"ts": "timestamp", "x": "int64", "s": "string"}), time="ts"),
    "count of values": CARS.key_by("kind").window(tumbling(1)).aggregate(n=count("speed"), seen=count("seen")),
    "user function": CARS.select("ts", cell=cell("speed", col("road") + 1)),
    "retime": CARS.retime("seen").key_by("kind").window(hop(4, 2)).aggregate(n=count()),
    "assign": CARS.assign(hop(4, 2)).key_by("window_end").rank("speed", 3),
    "every aggregate": CARS.key_by("road")
    .window(hop(30, 10))
    .aggregate(
        n=count(),
        sum=sum_("speed"),
        mean=mean("speed"),
        least=min_("seen"),
        most=max_("road"),
        top=top_k("speed", 3),
        var=variance("speed"),
        dev=stddev("speed"),
        different=count_distinct("kind"),
        about=approx_distinct("kind"),
        longest=user_aggregate(Longest, "kind", "string"),
    ),
    "partition_by": CARS.partition_by("road", groups=7).key_by("kind").window(tumbling(1)).aggregate(n=count()),
    "no keys": CARS.window(tumbling(0.5)).aggregate(n=count()),
    "session": CARS.key_by("kind").window(sessions(30)).aggregate(n=count()),
    "rows": CARS.key_by("kind").window(rows(10, 1, partial=True)).aggregate(n=count()),
    "external time": CARS.key_by("kind").window(tumbling(5, on="seen")).aggregate(n=count()),
    "processing time": CARS.key_by("kind").window(tumbling(5, clock="processing")).aggregate(n=count()),
    "two aggregates": COUNTED.key_by("n").window(tumbling(60)).aggregate(roads=count()),
    "rank": COUNTED.partition_by("window_end", groups=2).rank([("n", True), ("road", False)], 2, ties=True, column="r"),
    "deduplicate": CARS.key_by("kind", "road").deduplicate(3.25),
    "deduplicate for ages": CARS.key_by("kind").deduplicate(30_000_000_000.000001),
    "match": CARS.key_by("road").match(
        "A+ (B | C)? !D E{2,3}",
        within_s=60,
        define={"A": col("speed") > prev("speed"), "E": col("toll"), "D": col("road") == 7},
        measures={"began": "first(A.ts)", "n": "count(*)", "a": "count(A)", "mean": "mean(E.speed)", "end": "last(ts)"},
        after="next_row",
        selection="next",
    ),
    "lookup_join": CARS.lookup_join(
        {"kind": ["car", "truck"], "tons": [1.5, 20.0], "axles": [2, 5], "slow": [False, True]},
        on="kind",
        how="left",
        defaults={"axles": 3},
    ),
    "lookup_join on another name": CARS.lookup_join({"id": [1, 2], "key": ["x", "y"]}, on={"road": "id"}),
    "join": CARS.join(
        BUSES,
        on={"road": "road", "kind": "line"},
        within_s=(-2.5, 10),
        band=("speed", "late", None, 3.5),
        where=col("speed") > col("late"),
        suffix="_bus",
        groups=4,
    ),
    "left join": CARS.join(BUSES, on="road", within_s=(0, 5), how="left", defaults={"line": "none"}),
    "full join": CARS.join(BUSES, on="road", within_s=(0, 5), how="full"),
    "union": CARS.select("ts", "road").union(BUSES.select("ts", "road")),
    "union with itself": CARS.select("ts", "road").union(CARS.select("ts", "road")),
    "union of two times": COUNTED.union(
        CARS.key_by("road").window(sessions(9)).aggregate(n=count()).select("road", "window_end", "n")
    ),
}


def same(graph: Graph) -> str:
    """Check that a graph comes back from its text, which is returned."""
    text = save_graph(graph)
    again = loaded(text)
    assert again == graph
    assert again.digest == graph.digest
    assert save_graph(again) == text
    return text


@pytest.mark.parametrize("flow", FLOWS.values(), ids=FLOWS)
def test_what_every_method_makes_comes_back(flow: Flow) -> None:
    same(Graph.of([flow.sink("q", table="results")]))


def test_a_null_is_written_as_one_would_expect() -> None:
    wanted = CARS.filter(is_same("speed", null("float64"))).sink("q")
    text = save_graph(Graph.of([wanted]))
    assert '["null", float64]' in text
    assert loaded(text.replace('"null"', "null")) == Graph.of([wanted])


def test_a_field_may_be_not_null() -> None:
    file = load_file(SHORT.replace("type: double", "type: double not null"), "file.yaml")
    assert file.streams["cars"].stream().schema.nullable == ("road",)
    assert file.graph.queries["busy"].operators[0].parameters["schema"]["speed"] == "float64 not null"


def test_a_cogroup_comes_back() -> None:
    flow = CARS.cogroup(BUSES, tumbling(10), on="road", left={"cars": count()}, right={"late": max_("late")}, groups=3)
    same(Graph.of([flow.sink("q")]))


def test_a_graph_of_many_queries_comes_back_in_order() -> None:
    named = [
        flow.sink(f"on [{name}]: #1", table=f"t {name}") for name, flow in FLOWS.items() if name != "union of two times"
    ]
    same(Graph.of(named))
    same(Graph.of(queries(3)))
    same(Graph())


def test_the_text_is_made_for_people() -> None:
    query = CARS.filter(col("speed") > 80.5).select("ts", "road").key_by("road").window(hop(30, 1)).aggregate(n=count())
    assert (
        same(Graph.of([query.sink("busy")]))
        == """\
spequeries:
  queries:
  - id: 1
    name: busy
    operators:
    - name: source-1
      type: source
      parameters:
        stream: cars
        schema: {ts: timestamp, road: int64, kind: string, speed: float64, toll: bool, seen: timestamp not null}
        time: ts
        lateness_us: 1500000
        max_ahead_us: null
    - name: filter-1
      type: filter
      parameters:
        condition: [gt, [col, speed], [lit, 80.5]]
    - name: select-1
      type: select
      parameters:
        columns: [[ts, [col, ts]], [road, [col, road]]]
    - name: window-1
      type: window
      parameters:
        size_us: 30000000
        slide_us: 1000000
    - name: aggregate-1
      type: aggregate
      parameters:
        keys: [road]
        aggregates: {n: [count, "", 0]}
        types: {ts: timestamp, road: int64}
        time: ts
    - name: sink-1
      type: sink
      parameters:
        query: busy
        table: busy
        columns: {road: int64, window_end: timestamp, n: int64}
    edges:
    - {stream: cars, from: source-1, to: filter-1}
    - {stream: filter-1, from: filter-1, to: select-1}
    - {stream: select-1, from: select-1, to: window-1}
    - {stream: window-1, from: window-1, to: aggregate-1}
    - {stream: busy, from: aggregate-1, to: sink-1}
"""
    )


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.sampled_from(TEXTS),
    lambda inner: st.lists(inner, max_size=30) | st.dictionaries(st.text(), inner, max_size=5),
    max_leaves=60,
)


@settings(max_examples=300, deadline=None)
@given(PLAIN)
def test_whatever_is_plain_data_comes_back_from_yaml(data: Any) -> None:
    again = YamlPart.of("\n".join(block("k", data, 0)), "file.yaml", needs="k").data()["k"]
    assert repr(again) == repr(data)


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 86_400_000_000), st.text(min_size=1), st.text(), st.integers(-(2**63), 2**63 - 1))
def test_any_name_text_number_and_span_comes_back(us: int, name: str, text: str, number: int) -> None:
    flow = CARS.filter((col("kind") == text) | (col("road") == number)).key_by("kind").deduplicate(us / 1e6)
    same(Graph.of([flow.sink(name, table="t")]))


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(cases())
def test_any_graph_comes_back(case: tuple[Graph, Any]) -> None:
    same(case[0])


def test_what_follows_from_the_rest_may_be_left_out() -> None:
    cars = Stream("cars", {"ts": "timestamp", "road": "int64", "speed": "float64"}, time="ts", lateness_s=2)
    flow = cars.filter(col("speed") > 80).key_by("road").window(tumbling(10)).aggregate(n=count())
    assert loaded(SHORT) == Graph.of([flow.sink("busy")])


@pytest.mark.parametrize(("written", "idle_s"), [("30", 30), ("0.5", 0.5), ('"2 h"', 7200), ("null", None)])
def test_a_stream_may_say_when_it_is_idle(written: str, idle_s: float | None) -> None:
    cars = Stream("cars", {"ts": "timestamp", "road": "int64", "speed": "float64"}, time="ts", idle_s=idle_s)
    graph = loaded(wrong("lateness-s: 2", f"idle-s: {written}"))
    assert graph.streams["cars"] == cars.operators[0]
    same(graph)


def test_a_function_can_be_named() -> None:
    functions: dict[str, Function] = {"cell": cell}
    text = SHORT.replace("[gt, [col, speed], [lit, 80]]", "[gt, [udf, cell, [col, speed], [col, road]], [lit, 80]]")
    graph = load_graph(text, "file.yaml", functions)
    assert same(graph).count("test_graphfile:cell") + same(graph).count("pickle:") == 1
    with pytest.raises(GraphError, match=r"line 14: filter 'fast': there is no function 'cell'; there are none"):
        loaded(text)


def test_the_order_of_edges_is_the_order_of_inputs() -> None:
    graph = Graph.of([FLOWS["join"].sink("q")])
    lines = save_graph(graph).splitlines()
    first, second = (at for at, line in enumerate(lines) if "to: join-1" in line)
    lines[first], lines[second] = lines[second], lines[first]
    with pytest.raises(GraphError, match="join on stream 'buses'"):
        loaded("\n".join(lines))


def test_a_file_also_says_where_events_lie() -> None:
    file = load_file(SHORT + DATASETS, "file.yaml")
    assert [(each.file, each.type, each.format, each.stream, each.follow) for each in file.datasets] == [
        ("small.csv", "csv", "", "", False),
        ("cars", "", "parquet", "cars", True),
    ]
    assert file.streams["cars"].id == "7"
