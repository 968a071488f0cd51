"""The oracle itself: answers small enough to be checked by eye."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from tests.naive import interpret
from tests.naive_expressions import order_of, value_of
from tests.random_graphs import MOST_OPERATORS, Rows, cases

from shoal.language.python.flow import Flow
from shoal.language.python.stream import Stream
from shoal.model.query.aggregate import (
    Aggregate,
    count,
    count_distinct,
    max_,
    mean,
    min_,
    stddev,
    sum_,
    top_k,
    variance,
)
from shoal.model.query.expression import Expression, col, lit
from shoal.model.query.functions import call, floor, if_, round_
from shoal.model.query.graph import Graph
from shoal.model.query.lookup import lookup
from shoal.model.query.window import AnyWindow, hop, rows, sessions, tumbling

S = 1_000_000
CARS = Stream("cars", {"ts": "timestamp", "k": "int64", "x": "float64"}, time="ts")
TAGS = Stream("tags", {"ts": "timestamp", "k": "int64", "s": "string"}, time="ts")


def car(second: float, k: int = 0, x: float = 0.0) -> dict[str, Any]:
    return {"ts": round(second * S), "k": k, "x": x}


def tag(second: float, k: int = 0, s: str = "a") -> dict[str, Any]:
    return {"ts": round(second * S), "k": k, "s": s}


def answers(flow: Flow, cars: Sequence[Mapping[str, Any]] = (), tags: Sequence[Mapping[str, Any]] = ()) -> list[Any]:
    """The result rows as tuples, in order."""
    (table,) = interpret(Graph.of([flow.sink("q")]), {"cars": cars, "tags": tags}).values()
    assert all(row["query"] == "q" for row in table)
    found = [tuple(value for name, value in row.items() if name != "query") for row in table]
    return sorted(found, key=lambda row: [order_of(value) for value in row])


ROW = {"n": 7, "x": 2.5, "neg": -2.5, "s": "Hello", "flag": True, "ts": 3_723 * S + 5}


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        (col("n") + 1, 8),
        (col("n") / 2, 3.5),
        (col("n") / 0, math.inf),
        (col("neg") / 0, -math.inf),
        (col("neg") // 1, -3.0),
        (col("n") // -2, -4),
        (col("n") % -4, -1),
        (col("ts") - 5, 3_723 * S),
        ((col("n") > 7) | ~(col("s") == "a"), True),
        (col("n").is_in([1, 7]), True),
        (lookup("n", {7: "seven"}, "other"), "seven"),
        (lookup("n", {8: "eight"}, "other"), "other"),
        (call("abs", "neg"), 2.5),
        (floor("neg"), -3),
        (call("ceil", "neg"), -2),
        (round_("x"), 2),
        (round_(col("x") + 1), 4),
        (call("sqrt", lit(9)), 3.0),
        (call("ln", lit(0)), -math.inf),
        (call("exp", lit(0)), 1.0),
        (call("power", lit(2), lit(-1)), 0.5),
        (call("least", "n", "x"), 2.5),
        (call("greatest", "n", "x"), 7.0),
        (if_(col("flag"), 1, 2.0), 1.0),
        (call("upper", "s"), "HELLO"),
        (call("lower", "s"), "hello"),
        (call("length", "s"), 5),
        (call("concat", "s", lit("!")), "Hello!"),
        (call("substring", "s", lit(2), lit(3)), "ell"),
        (call("starts_with", "s", lit("He")), True),
        (call("contains", "s", lit("lo")), True),
        (call("hour", "ts"), 1),
        (call("minute", "ts"), 2),
        (call("second", "ts"), 3),
        (call("as_int64", "flag"), 1),
        (call("as_float64", "n"), 7.0),
        (call("as_string", "flag"), "true"),
        (call("as_string", "n"), "7"),
        (call("as_timestamp", "n"), 7),
    ],
    ids=lambda value: value.text if isinstance(value, Expression) else "",
)
def test_an_expression_has_the_value_that_was_worked_out_by_hand(expression: Expression, expected: Any) -> None:
    found = value_of(expression.data(), ROW)
    assert (found, type(found)) == (expected, type(expected))


@pytest.mark.parametrize(
    "data", [["div", ["lit", 0], ["lit", 0]], ["call", "sqrt", ["lit", -1]], ["call", "ln", ["lit", -1]]]
)
def test_what_is_no_number_is_nan(data: list[Any]) -> None:
    assert math.isnan(value_of(data, ROW))


def test_filter_and_select_work_row_by_row() -> None:
    flow = CARS.filter(col("x") > 1).select("k", twice=col("x") * 2)
    assert answers(flow, [car(1, 1, 1.0), car(2, 2, 1.5)]) == [(2, 3.0)]


def test_a_lookup_join_drops_unknown_keys_or_gives_them_defaults() -> None:
    table = {"k": [1, 2], "name": ["one", "two"]}
    events = [car(0, 1), car(0, 3)]
    assert answers(CARS.lookup_join(table, on="k"), events) == [(0, 1, 0.0, "one")]
    left = CARS.lookup_join(table, on="k", how="left", defaults={"name": "?"})
    assert answers(left, events) == [(0, 1, 0.0, "one", True), (0, 3, 0.0, "?", False)]


def test_a_union_has_the_rows_of_all_its_flows() -> None:
    flow = CARS.select("ts", "k").union(TAGS.select("ts", "k"))
    assert answers(flow, [car(1, 1), car(1, 1)], [tag(2, 2)]) == [(S, 1), (S, 1), (2 * S, 2)]


def test_after_retime_windows_go_by_the_other_column() -> None:
    flow = CARS.with_columns(later=col("ts") + 5 * S).retime("later").window(tumbling(10)).aggregate(n=count())
    assert answers(flow, [car(4), car(5)]) == [(10 * S, 1), (20 * S, 1)]


def test_assign_gives_a_row_for_each_window_and_the_time_of_its_end() -> None:
    assigned = CARS.assign(hop(10, 5))
    assert answers(assigned.select("window_start", "window_end"), [car(7)]) == [(0, 10 * S), (5 * S, 15 * S)]
    assert answers(assigned.window(tumbling(10)).aggregate(n=count()), [car(7)]) == [(10 * S, 1), (20 * S, 1)]


@pytest.mark.parametrize(
    ("aggregate", "expected"),
    [
        (count(), 3),
        (sum_("x"), 0.6),  # 0.1 + 0.2 + 0.3 is 0.6000000000000001
        (sum_("k"), 5),
        (mean("k"), 5 / 3),
        (min_("x"), 0.1),
        (max_("k"), 3),
        (top_k("x", 2), [0.3, 0.2]),
        (variance("k"), 4 / 3),
        (stddev("k"), math.sqrt(4 / 3)),
        (count_distinct("k"), 2),
    ],
    ids=lambda value: f"{value.kind} {value.column}" if isinstance(value, Aggregate) else "",
)
def test_an_aggregate_is_exact(aggregate: Aggregate, expected: Any) -> None:
    events = [car(0, 1, 0.1), car(1, 1, 0.2), car(2, 3, 0.3)]
    assert answers(CARS.window(tumbling(10)).aggregate(a=aggregate), events) == [(10 * S, expected)]


def test_the_variance_of_one_row_is_zero() -> None:
    assert answers(CARS.window(tumbling(10)).aggregate(a=variance("x")), [car(0, 1, 5.0)]) == [(10 * S, 0.0)]


def windowed(window: AnyWindow, events: Sequence[Mapping[str, Any]]) -> list[Any]:
    return answers(CARS.key_by("k").window(window).aggregate(n=count(), total=sum_("x")), events)


def test_a_hopping_window_holds_its_start_but_not_its_end() -> None:
    events = [car(0, 1, 1.0), car(5, 1, 2.0), car(9.5, 2, 4.0)]
    assert windowed(hop(10, 5), events) == [
        (1, 5 * S, 1, 1.0),
        (1, 10 * S, 2, 3.0),
        (1, 15 * S, 1, 2.0),
        (2, 10 * S, 1, 4.0),
        (2, 15 * S, 1, 4.0),
    ]


def test_a_session_ends_where_the_gap_is_reached() -> None:
    events = [car(4.5, 1, 4.0), car(0, 1, 1.0), car(1.5, 1, 2.0), car(3.5, 1, 8.0), car(0, 2, 16.0)]
    assert windowed(sessions(2), events) == [
        (1, 0, 3.5 * S, 2, 3.0),
        (1, 3.5 * S, 6.5 * S, 2, 12.0),
        (2, 0, 2 * S, 1, 16.0),
    ]


def test_windows_of_rows_count_from_the_first_full_one_on() -> None:
    events = [car(second, 1, float(2**second)) for second in (3, 0, 2, 1, 4)]
    assert windowed(rows(3, 1), events) == [(1, 2 * S, 3, 7.0), (1, 3 * S, 3, 14.0), (1, 4 * S, 3, 28.0)]
    assert windowed(rows(3, 2), events) == [(1, 2 * S, 3, 7.0), (1, 4 * S, 3, 28.0)]
    assert windowed(rows(3, 2, partial=True), events) == [(1, 0, 1, 1.0), (1, 2 * S, 3, 7.0), (1, 4 * S, 3, 28.0)]


def test_rows_of_one_time_are_taken_in_the_order_of_their_columns() -> None:
    assert windowed(rows(2), [car(0, 1, 4.0), car(0, 1, 1.0), car(0, 1, 2.0)]) == [(1, 0, 2, 3.0)]


def external(events: Sequence[tuple[float, float]], window: AnyWindow) -> list[Any]:
    """Ends and counts of windows by another time, and when each was closed; events are (event time, other time)."""
    stream = Stream("cars", {"ts": "timestamp", "at": "timestamp not null"}, time="ts")
    flow = stream.window(window).aggregate(n=count())
    given_ = [{"ts": round(ts * S), "at": round(at * S)} for ts, at in events]
    closed = answers(flow.window(tumbling(1)).aggregate(last=max_("window_end"), n=count()), given_)
    return [
        [(end // S, n) for end, n in answers(flow, given_)],
        [(end // S - 1, last // S, n) for end, last, n in closed],
    ]


def test_a_window_by_another_time_closes_with_the_first_row_past_its_end() -> None:
    found, closed = external([(1, 3), (2, 9), (3, 10), (4, 8), (5, 12)], tumbling(10, on="at"))
    assert found == [(10, 2), (20, 2)], "the row at 8 comes when its window is closed"
    assert closed == [(3, 10, 1), (5, 20, 1)], "the end of the input closes the second window"


def test_a_late_row_by_another_time_counts_in_the_windows_that_are_open() -> None:
    found, _ = external([(1, 3), (2, 11), (3, 9)], hop(10, 5, on="at"))
    assert found == [(5, 1), (10, 1), (15, 2), (20, 1)]


def test_a_window_over_window_results_takes_them_at_the_end_of_their_window() -> None:
    inner = CARS.key_by("k").window(tumbling(5)).aggregate(n=count())
    outer = inner.window(tumbling(10)).aggregate(most=max_("n"), groups=count())
    events = [car(0, 1), car(1, 1), car(9.9, 2), car(10, 1)]
    assert answers(outer, events) == [(10 * S, 2, 2), (20 * S, 1, 1)]


def test_a_join_pairs_equal_keys_within_the_time_bounds() -> None:
    flow = CARS.join(TAGS, on="k", within_s=(-1, 2)).select("ts", "ts_right", "s")
    found = answers(flow, [car(5, 1), car(5, 2)], [tag(4, 1, "a"), tag(7, 1, "b"), tag(7.1, 1, "c"), tag(3.9, 1, "d")])
    assert found == [(5 * S, 4 * S, "a"), (5 * S, 7 * S, "b")]


def test_a_joined_row_has_the_later_time() -> None:
    flow = CARS.join(TAGS, on="k", within_s=(-10, 10)).window(tumbling(1)).aggregate(n=count())
    assert answers(flow, [car(5)], [tag(4), tag(7)]) == [(6 * S, 1), (8 * S, 1)]


def test_band_and_where_narrow_a_join() -> None:
    other = CARS.select("ts", "x")
    flow = CARS.join(other, within_s=(0, 0), band=("x", "x", 0.0, 1.0), where=col("x") + col("x_right") > 2)
    events = [car(0, 1, 1.0), car(0, 1, 2.0), car(0, 1, 3.5)]
    assert answers(flow.select("x", "x_right"), events) == [(1.0, 2.0), (2.0, 2.0), (3.5, 3.5)]


def test_a_left_join_keeps_rows_without_partner_once() -> None:
    flow = CARS.join(TAGS, on="k", within_s=(0, 1), how="left", where=col("s") != "b", defaults={"s": "?"})
    found = answers(flow, [car(0, 1), car(0, 2), car(0, 3)], [tag(1, 1), tag(1, 2, "b"), tag(1, 2, "b")])
    assert found == [
        (0, 1, 0.0, S, "a", True),
        (0, 2, 0.0, None, "?", False),
        (0, 3, 0.0, None, "?", False),
    ]


def test_a_full_join_keeps_both_sides() -> None:
    flow = CARS.join(TAGS, on="k", within_s=(0, 1), how="full")
    found = answers(flow, [car(0, 1), car(0, 2)], [tag(1, 1), tag(1, 3, "b")])
    assert found == [
        (None, 3, None, S, "b", False, True),
        (0, 1, 0.0, S, "a", True, True),
        (0, 2, 0.0, None, None, True, False),
    ]


def test_a_cogroup_has_the_windows_of_either_side() -> None:
    flow = CARS.cogroup(TAGS, tumbling(10), on="k", left={"cars": count()}, right={"tags": count()})
    found = answers(flow, [car(0, 1), car(1, 1), car(11, 2)], [tag(5, 1), tag(15, 3)])
    assert found == [
        (1, 10 * S, 2, 1, True, True),
        (2, 20 * S, 1, 0, True, False),
        (3, 20 * S, 0, 1, False, True),
    ]


def test_rank_numbers_the_rows_of_one_time_and_key() -> None:
    events = [car(0, 1, 1.0), car(0, 1, 3.0), car(0, 1, 2.0), car(1, 1, 0.5), car(0, 2, 0.0)]
    assert answers(CARS.key_by("k").rank("x", 2).select("ts", "k", "x", "rank"), events) == [
        (0, 1, 2.0, 2),
        (0, 1, 3.0, 1),
        (0, 2, 0.0, 1),
        (S, 1, 0.5, 1),
    ]


def test_rank_goes_by_columns_where_values_are_equal_unless_ties_are_kept() -> None:
    events = [car(0, 3, 1.0), car(0, 1, 1.0), car(0, 2, 1.0), car(0, 4, 0.5), car(0, 5, 2.0)]
    once = CARS.rank("x", 2).select("k", "rank")
    assert answers(once, events) == [(1, 2), (5, 1)]
    ties = CARS.rank("x", 4, ties=True).select("k", "rank")
    assert answers(ties, events) == [(1, 2), (2, 2), (3, 2), (5, 1)]
    upwards = CARS.rank([("x", False), ("k", True)], 2).select("k", "rank")
    assert answers(upwards, events) == [(3, 2), (4, 1)]


def test_deduplicate_measures_from_the_row_that_was_kept() -> None:
    events = [car(0, 1, 2.0), car(0, 1, 1.0), car(4, 1), car(5, 1), car(9, 1), car(4, 2)]
    flow = CARS.key_by("k").deduplicate(5)
    assert answers(flow, events) == [(0, 1, 1.0), (4 * S, 2, 0.0), (5 * S, 1, 0.0)]


def test_queries_may_share_a_table() -> None:
    graph = Graph.of([CARS.select("k").sink(name, table="both") for name in ("one", "two")])
    assert interpret(graph, {"cars": [car(0, 5)]}) == {"both": [{"k": 5, "query": "one"}, {"k": 5, "query": "two"}]}


def test_processing_time_is_not_interpreted() -> None:
    with pytest.raises(NotImplementedError):
        windowed(tumbling(1, clock="processing"), [car(0)])


PYTHON_TYPES = {"int64": int, "float64": float, "string": str, "bool": bool, "timestamp": int}


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(cases())
def test_any_random_graph_has_an_answer_of_the_declared_types(case: tuple[Graph, dict[str, Rows]]) -> None:
    graph, events = case
    assert len(graph.operators) <= MOST_OPERATORS
    tables = interpret(graph, events)
    for query in graph.queries.values():
        for row in tables[query.table]:
            assert list(row) == [*query.columns, "query"]
            values = [(row[name], PYTHON_TYPES.get(type_, list)) for name, type_ in query.columns.items()]
            assert all(value is None or type(value) is type_ for value, type_ in values)
