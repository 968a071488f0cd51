"""Flows that join, rank, match and look up: the columns they have, and how wrong times and ranks are refused."""

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from tests.language.python.left_and_right import (
    LEFT,
    LISTS,
    NO_TIME,
    RIGHT,
    SCHEMA,
    SHORT,
    TIMELESS,
    WHERE,
    WINDOWED,
    ZONES,
    refused,
)
from tests.naive_expressions import value_of

from shoal.language.python.flow import Flow
from shoal.language.python.stream import Stream
from shoal.model.query.aggregate import count, sum_
from shoal.model.query.expression import col
from shoal.model.query.pattern import prev
from shoal.model.query.schema import Schema
from shoal.model.query.window import rows, sessions, tumbling


@pytest.mark.parametrize(
    ("flow", "wanted"),
    [
        pytest.param(LEFT.retime("seen"), SCHEMA, id="another time changes no column"),
        pytest.param(
            SHORT.assign(tumbling(1)),
            {"ts": "timestamp", "n": "int64", "window_start": "timestamp", "window_end": "timestamp"},
            id="assign adds the window",
        ),
        pytest.param(
            LEFT.key_by("k").window(sessions(1)).aggregate(rows=count()),
            {"k": "string", "window_start": "timestamp", "window_end": "timestamp", "rows": "int64"},
            id="a session has a start",
        ),
        pytest.param(
            LEFT.key_by("k").window(rows(5)).aggregate(rows=count()),
            {"k": "string", "window_end": "timestamp", "rows": "int64"},
            id="a window of rows has an end",
        ),
        pytest.param(
            SHORT.rank("n", 3, column="place"),
            {"ts": "timestamp", "n": "int64", "place": "int64"},
            id="rank adds its column",
        ),
        pytest.param(SHORT.key_by("n").deduplicate(1), {"ts": "timestamp", "n": "int64"}, id="deduplicate adds none"),
        pytest.param(
            LEFT.key_by("k").match("A B", within_s=1, measures={"first": "first(A.ts)", "avg": "mean(x)"}),
            {"k": "string", "first": "timestamp", "avg": "float64"},
            id="match has keys and measures",
        ),
        pytest.param(
            SHORT.join(RIGHT.select("ts", "n", "x"), on="n", within_s=(0, 1)),
            {"ts": "timestamp", "n": "int64", "ts_right": "timestamp", "x": "float64"},
            id="a key of both sides stands once, other names get a suffix",
        ),
        pytest.param(
            SHORT.join(RIGHT.select("ts", z=col("n")), on={"n": "z"}, within_s=(0, 1), how="left", suffix="_other"),
            {"ts": "timestamp", "n": "int64", "ts_other": "timestamp", "z": "int64", "has_right": "bool"},
            id="a left join tells whether there is a right side",
        ),
        pytest.param(
            SHORT.join(RIGHT.select("ts", "n"), on=("ts", "n"), within_s=(0, 0), how="full"),
            {"ts": "timestamp", "n": "int64", "has_left": "bool", "has_right": "bool"},
            id="a full join tells both",
        ),
        pytest.param(
            SHORT.lookup_join(ZONES, on="n"),
            {"ts": "timestamp", "n": "int64", "zone": "string", "rate": "float64"},
            id="a lookup adds the table's columns",
        ),
        pytest.param(
            SHORT.lookup_join({"id": [1], "since": pa.array([0], pa.timestamp("s"))}, on={"n": "id"}, how="left"),
            {"ts": "timestamp", "n": "int64", "since": "timestamp", "has_right": "bool"},
            id="a left lookup tells whether there was a row",
        ),
        pytest.param(SHORT.union(RIGHT.select("ts", "n")), {"ts": "timestamp", "n": "int64"}, id="a union adds none"),
        pytest.param(
            LEFT.cogroup(RIGHT, tumbling(1), on="k", left={"a": count()}, right={"b": sum_("x")}, groups=2),
            {
                "k": "string",
                "window_end": "timestamp",
                "a": "int64",
                "b": "float64",
                "has_left": "bool",
                "has_right": "bool",
            },
            id="a cogroup has the aggregates of both",
        ),
    ],
)
def test_a_flow_has_columns(flow: Flow, wanted: dict[str, str]) -> None:
    assert flow.schema.types == Schema.of(wanted).types
    assert flow.sink("q").columns == Schema.of(wanted).types


def test_a_split_has_every_row_in_one_of_two_flows() -> None:
    stream = Stream("s", {"ts": "timestamp", "n": "int64", "m": "int64 not null"}, time="ts")
    some: list[dict[str, Any]] = [
        {"ts": at, "n": n, "m": m} for at, (n, m) in enumerate([(None, 7), (7, 3), (3, 9), (None, 1)])
    ]
    for condition in (col("n") > 5, col("m") > 5, (col("n") > 5) | (col("m") > 5), ~(col("n") > 5)):
        parts = [[row for row in some if holds(flow, row)] for flow in stream.split(condition)]
        assert sorted(row["ts"] for part in parts for row in part) == [0, 1, 2, 3]


def holds(flow: Flow, row: dict[str, Any]) -> bool:
    """Whether the last filter of a flow keeps a row."""
    return value_of(flow.operators[-1].parameters["condition"], row) is True


def test_a_split_by_what_is_never_null_is_a_filter_and_its_opposite() -> None:
    yes, no = Stream("s", {"ts": "timestamp", "n": "int64 not null"}, time="ts").split(col("n") > 5)
    assert yes.operators[-1].parameters == {"condition": ["gt", ["col", "n"], ["lit", 5]]}
    assert no.operators[-1].parameters == {"condition": ["not", ["gt", ["col", "n"], ["lit", 5]]]}


@pytest.mark.parametrize(
    ("build", "message"),
    [
        pytest.param(
            lambda: LEFT.filter(col("n") > prev("n")),
            f"filter {WHERE} cannot read the previous row; prev is for the conditions of a match",
            id="a filter that looks at the row before",
        ),
        pytest.param(
            lambda: LEFT.with_columns(last=prev("n")),
            f"select {WHERE} cannot read the previous row; prev is for the conditions of a match",
            id="a column that looks at the row before",
        ),
        pytest.param(
            lambda: LEFT.split(col("n")),
            f'filter {WHERE} needs a condition; ["col","n"] is int64',
            id="a split by number",
        ),
        pytest.param(
            lambda: LEFT.retime("n"), f"retime {WHERE} needs a timestamp column; 'n' is int64", id="a number as time"
        ),
        pytest.param(
            lambda: LEFT.retime("when"),
            f"retime {WHERE} names unknown column 'when'; there are ts, k, n, x, seen",
            id="an unknown time",
        ),
        pytest.param(
            lambda: WINDOWED.retime("seen"),
            f"retime {WHERE} must not stand between a window and its aggregate",
            id="another time in a window",
        ),
        pytest.param(
            lambda: LEFT.window(tumbling(1, on="n")),
            f"window {WHERE} needs a timestamp column; 'n' is int64",
            id="a number as external time",
        ),
        pytest.param(lambda: TIMELESS.window(rows(3)), f"window {WHERE} {NO_TIME}", id="rows without event time"),
        pytest.param(lambda: TIMELESS.assign(tumbling(1)), f"assign {WHERE} {NO_TIME}", id="assign without event time"),
        pytest.param(
            lambda: LEFT.assign(sessions(1)),  # type: ignore[arg-type]
            f"assign {WHERE} needs a window over event time; got Session(gap_us=1000000)",
            id="assign of sessions",
        ),
        pytest.param(
            lambda: LEFT.assign(tumbling(1, clock="processing")),
            f"assign {WHERE} needs a window over event time such as tumbling(10); got tumbling 1 s of processing time",
            id="assign of processing time",
        ),
        pytest.param(
            lambda: LEFT.assign(tumbling(1)).assign(tumbling(1)),
            f"assign {WHERE}: column 'window_start' is declared twice",
            id="assign twice",
        ),
    ],
)
def test_a_wrong_time_is_refused(build: Callable[[], Any], message: str) -> None:
    refused(build, message)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        pytest.param(lambda: TIMELESS.rank("n", 1), f"rank {WHERE} {NO_TIME}", id="rank without event time"),
        pytest.param(
            lambda: WINDOWED.rank("n", 1),
            f"rank {WHERE} must not stand between a window and its aggregate",
            id="rank in a window",
        ),
        pytest.param(
            lambda: LEFT.rank("y", 1),
            f"rank {WHERE} names unknown column 'y'; there are ts, k, n, x, seen",
            id="rank by an unknown column",
        ),
        pytest.param(
            lambda: LISTS.rank("top", 1), f"rank {WHERE} cannot order by 'top', which holds lists", id="rank by lists"
        ),
        pytest.param(
            lambda: LEFT.rank("n", 0),
            f"rank {WHERE} needs a column to order by and a positive k; got k 0",
            id="a rank of 0 rows",
        ),
        pytest.param(
            lambda: LEFT.rank([], 3),
            f"rank {WHERE} needs a column to order by and a positive k; got k 3",
            id="rank by nothing",
        ),
        pytest.param(
            lambda: LEFT.rank("n", 1, column="k"),
            f"rank {WHERE}: column 'k' is declared twice",
            id="a rank with the name of a column",
        ),
        pytest.param(
            lambda: LEFT.key_by("k").select("ts", "n").rank("n", 1),
            f"key_by {WHERE}: key 'k' is no longer a column; there are ts, n",
            id="rank by a key that was dropped",
        ),
        pytest.param(
            lambda: LEFT.deduplicate(1),
            f"deduplicate {WHERE} needs key_by or partition_by before it",
            id="deduplicate without keys",
        ),
        pytest.param(
            lambda: LEFT.key_by("k").deduplicate(0),
            f"deduplicate {WHERE} needs a positive number of seconds; got 0",
            id="deduplicate within no time",
        ),
        pytest.param(
            lambda: TIMELESS.key_by("k").deduplicate(1),
            f"deduplicate {WHERE} {NO_TIME}",
            id="deduplicate without event time",
        ),
    ],
)
def test_a_wrong_rank_or_deduplicate_is_refused(build: Callable[[], Any], message: str) -> None:
    refused(build, message)
