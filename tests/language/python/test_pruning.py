"""Pruning: queries keep only what they need, and have the same results as without."""

from collections.abc import Callable
from typing import Any, Literal

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from tests.naive import interpret
from tests.random_graphs import cases
from tests.test_random_graphs import canonical

from shoal.language.python.flow import Flow
from shoal.language.python.pruning import pruned
from shoal.language.python.stream import Stream
from shoal.model.query.aggregate import count, max_, sum_
from shoal.model.query.expression import col, lit
from shoal.model.query.graph import Graph, Operator, Query
from shoal.model.query.schema import TIME, Schema, not_null
from shoal.model.query.window import rows, tumbling

SCHEMA = not_null({"ts": "timestamp", "k": "int64", "a": "int64", "b": "int64", "at": "timestamp", "name": "string"})
LEFT, RIGHT = Stream("left", SCHEMA, time="ts"), Stream("right", SCHEMA, time="ts")
TABLE = {"key": [0, 1, 2], "value": [5, 6, 7]}
S = 1_000_000
Make = Callable[[], Flow]
FLOWS: list[tuple[str, Make, list[set[str]]]] = [
    ("deduplicate", lambda: LEFT.key_by("k").deduplicate(3).select("a"), [{"ts", "k", "a"}]),
    ("rank", lambda: LEFT.key_by("k").rank("a", 2).select("b", "rank"), [set(SCHEMA)]),
    (
        "match",
        lambda: LEFT.key_by("k").match(
            "A B", within_s=9, measures={"n": "sum(A.b)"}, define={"B": col("a") > 2}, selection="next"
        ),
        [{"ts", "k", "a", "b"}],
    ),
    ("count window", lambda: LEFT.key_by("k").window(rows(2)).aggregate(n=sum_("a")), [set(SCHEMA)]),
    ("external time", lambda: LEFT.window(tumbling(2, on="at")).aggregate(n=max_("a")), [set(SCHEMA)]),
    (
        "join",
        lambda: LEFT.join(RIGHT, on="k", within_s=(-3, 3), where=col("a") < col("b_right")).select("name_right"),
        [{"ts", "k", "a", "b", "name"}, {"ts", "k", "b", "name"}],
    ),
    (
        "band",
        lambda: LEFT.join(RIGHT, within_s=(-3, 3), band=("a", "b", 0, 1), how="left").select("a", "has_right"),
        [{"ts", "a", "b"}, {"ts", "b"}],
    ),
    (
        "union of a select",
        lambda: (
            LEFT.select("ts", "k", "a", twice=col("b") * 2)
            .union(RIGHT.select("ts", "k", "a", twice=col("b")))
            .key_by("k")
            .deduplicate(2)
            .select("a")
        ),
        [{"ts", "k", "a"}],
    ),
    (
        "lookup behind a join",
        lambda: (
            LEFT.join(RIGHT, on="k", within_s=(-3, 3), how="full")
            .select("k", "a", "b", "has_left", "has_right")
            .lookup_join(TABLE, on={"a": "key"})
            .filter(col("has_right"))
            .select("k", "has_left", "value")
        ),
        [{"ts", "k", "a"}, {"ts", "k"}],
    ),
    (
        "behind a window",
        lambda: LEFT.key_by("k", "name").window(tumbling(2)).aggregate(n=count(), m=max_("a")).rank("n", 1).select("k"),
        [{"k", "name", "window_end", "n", "m"}],
    ),
]


def unpruned(flow: Flow) -> Query:
    parameters = {"query": "q", "table": "q", "columns": flow.schema.types}
    return Query("q", (*flow.operators, Operator("sink", parameters, (flow.operators[-1].id,))))


@st.composite
def events(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Rows of different times, so that no order among equals decides anything."""
    times = draw(st.lists(st.integers(0, 30), unique=True, max_size=12))
    small = st.integers(0, 3)
    return [
        {
            "ts": time * S,
            "k": draw(small),
            "a": draw(small),
            "b": draw(small),
            "at": time * S,
            "name": draw(st.text("ab")),
        }
        for time in sorted(times)
    ]


def kept(query: Query) -> list[set[str]]:
    """The columns of the input of every operator that keeps rows."""
    found: list[set[str]] = []
    for operator in query.operators:
        types = operator.parameters.get("types", [])
        sides = types if isinstance(types, list) else [types]
        found += [set(side) for side in sides]
    return found


@pytest.mark.parametrize(("make", "columns"), [pytest.param(*rest, id=name) for name, *rest in FLOWS])
def test_an_operator_keeps_what_is_needed_behind_it(make: Make, columns: list[set[str]]) -> None:
    assert kept(make().sink("q"))[-len(columns) :] == columns


@pytest.mark.parametrize("make", [pytest.param(make, id=name) for name, make, _ in FLOWS if name != "behind a window"])
@settings(max_examples=20, deadline=None)
@given(left=events(), right=events())
def test_pruning_changes_no_result(make: Make, left: list[dict[str, Any]], right: list[dict[str, Any]]) -> None:
    flow = make()
    answers = [
        sorted(map(repr, interpret(Graph.of([query]), {"left": left, "right": right})["q"]))
        for query in (unpruned(flow), flow.sink("q"))
    ]
    assert answers[0] == answers[1]


def again(query: Query) -> Flow:
    """The flow of a query, before its sink."""
    (last,) = query.sink.inputs
    operators = tuple(sorted(query.operators[:-1], key=lambda each: each.id == last))
    return Flow(operators, Schema.of(query.columns), TIME)


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(cases())
def test_what_is_pruned_stays_as_it_is(case: tuple[Graph, Any]) -> None:
    for query in case[0].queries.values():
        flow = again(query)
        assert pruned(flow).operators == flow.operators


def check_random(data: st.DataObject) -> None:
    """Interpret a random graph without pruning, then with it; where equal times decide, all columns do, so no such."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("shoal.language.python.pruning.pruned", lambda flow: flow)
        graph, events = data.draw(cases(15))
    assume(not {"deduplicate", "match"} & {each.kind for each in graph.operators.values()})
    queries = [again(query).sink(query.name, table=query.table) for query in graph.queries.values()]
    wanted = {table: canonical(found) for table, found in interpret(graph, events).items()}
    assert {table: canonical(found) for table, found in interpret(Graph.of(queries), events).items()} == wanted


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_pruning_changes_no_result_of_any_graph(data: st.DataObject) -> None:
    check_random(data)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@settings(max_examples=600, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_pruning_changes_no_result_of_six_hundred_graphs(data: st.DataObject) -> None:
    check_random(data)


def test_a_union_of_which_no_column_is_needed_keeps_one() -> None:
    timed = RIGHT.select("k", "a", at=col("ts") + 5).retime("at")
    for other in (timed.select("k", twice=col("a") * 2), timed.select("k", "at").select("k", twice=lit(1))):
        ours = LEFT.retime("at").select("k", twice=col("a") + 1)
        united = ours.union(other).window(tumbling(5)).aggregate(n=count()).sink("q")
        assert [operator.kind for operator in united.operators].count("union") == 1


def test_a_select_of_which_only_what_is_added_behind_it_is_needed_keeps_a_column() -> None:
    ended = LEFT.retime("at").select("k", "a").assign(tumbling(5)).select("window_end").sink("q")
    assert [operator.kind for operator in ended.operators] == ["source", "retime", "select", "assign", "select", "sink"]
    assert ended.operators[2].parameters["columns"] == [["k", ["col", "k"]]]


@pytest.mark.parametrize("how", ["left", "full"])
def test_has_right_of_a_join_stays_behind_a_lookup_that_adds_none(how: Literal["left", "full"]) -> None:
    joined = LEFT.join(RIGHT, on="k", within_s=(0, 0), how=how).select("k", "has_right")
    query = joined.lookup_join(TABLE, on={"k": "key"}).sink("q")
    selects = [operator.parameters["columns"] for operator in query.operators if operator.kind == "select"]
    assert ["has_right", ["col", "has_right"]] in selects[-1]
    assert set(query.columns) == {"k", "has_right", "value"}


def test_a_lookup_that_adds_has_right_needs_none_before_it() -> None:
    wide = LEFT.select("ts", "k", "a", "b").key_by("k").deduplicate(3)
    query = wide.lookup_join(TABLE, on={"k": "key"}, how="left").select("has_right").sink("q")
    assert kept(query) == [{"ts", "k"}]
