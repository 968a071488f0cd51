"""Flows that join, rank, match and look up: the columns they have, and how what is wrong is refused."""

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from shoal.errors import GraphError
from shoal.model.aggregate import count, sum_, top_k
from shoal.model.expression import col
from shoal.model.pattern import prev
from shoal.model.window import rows, sessions, tumbling
from shoal.query.flow import Flow
from shoal.query.stream import Stream

SCHEMA = {"ts": "timestamp", "k": "string", "n": "int64", "x": "float64", "seen": "timestamp"}
LEFT, RIGHT = Stream("left", SCHEMA, time="ts"), Stream("right", SCHEMA, time="ts")
TIMELESS = LEFT.select("k", "n")
WINDOWED = LEFT.window(tumbling(1))
LISTS = LEFT.window(tumbling(1)).aggregate(top=top_k("n", 2))
SHORT = LEFT.select("ts", "n")
ZONES = {"n": [1, 2], "zone": ["a", "b"], "rate": [0.5, 1.0]}
COUNT = {"rows": "count(*)"}


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
    assert flow.schema.as_dict() == wanted
    assert flow.sink("q").columns == wanted


def test_a_split_has_every_row_in_one_of_two_flows() -> None:
    yes, no = LEFT.split(col("n") > 5)
    assert yes.operators[-1].parameters == {"condition": ["gt", ["col", "n"], ["lit", 5]]}
    assert no.operators[-1].parameters == {"condition": ["not", ["gt", ["col", "n"], ["lit", 5]]]}


def test_a_join_keeps_what_both_sides_share_once() -> None:
    common = LEFT.filter(col("n") > 0)
    joined = common.select("ts", "k").join(common.select("ts", "n"), within_s=(0, 1))
    kinds = [operator.kind for operator in joined.sink("q").operators]
    assert kinds == ["source", "filter", "select", "select", "join", "sink"]


def test_a_union_of_a_flow_with_itself_has_every_row_twice() -> None:
    united = LEFT.union(LEFT)
    assert len(united.operators[-1].inputs) == 2
    assert united.sink("q").streams == ("left",)


PLACE = "on stream 'left'"
NO_TIME = "needs the event-time column 'ts'; there are only k, n; keep it in the select before"


@pytest.mark.parametrize(
    ("build", "message"),
    [
        pytest.param(
            lambda: LEFT.filter(col("n") > prev("n")),
            f"filter {PLACE} cannot look at the row before; prev is for the conditions of a match",
            id="a filter that looks at the row before",
        ),
        pytest.param(
            lambda: LEFT.with_columns(last=prev("n")),
            f"select {PLACE} cannot look at the row before; prev is for the conditions of a match",
            id="a column that looks at the row before",
        ),
        pytest.param(
            lambda: LEFT.split(col("n")),
            f'filter {PLACE} needs a condition; ["col","n"] is int64',
            id="a split by number",
        ),
        pytest.param(
            lambda: LEFT.retime("n"), f"retime {PLACE} needs a timestamp column; 'n' is int64", id="a number as time"
        ),
        pytest.param(
            lambda: LEFT.retime("when"),
            f"retime {PLACE} names unknown column 'when'; there are ts, k, n, x, seen",
            id="an unknown time",
        ),
        pytest.param(
            lambda: WINDOWED.retime("seen"),
            f"retime {PLACE} must not stand between a window and its aggregate",
            id="another time in a window",
        ),
        pytest.param(
            lambda: LEFT.window(tumbling(1, on="n")),
            f"window {PLACE} needs a timestamp column; 'n' is int64",
            id="a number as external time",
        ),
        pytest.param(lambda: TIMELESS.window(rows(3)), f"window {PLACE} {NO_TIME}", id="rows without event time"),
        pytest.param(lambda: TIMELESS.assign(tumbling(1)), f"assign {PLACE} {NO_TIME}", id="assign without event time"),
        pytest.param(
            lambda: LEFT.assign(sessions(1)),  # type: ignore[arg-type]
            f"assign {PLACE} needs a window over event time; got Session(gap_us=1000000)",
            id="assign of sessions",
        ),
        pytest.param(
            lambda: LEFT.assign(tumbling(1, clock="processing")),
            f"assign {PLACE} needs a window over event time such as tumbling(10); got tumbling 1 s of processing time",
            id="assign of processing time",
        ),
        pytest.param(
            lambda: LEFT.assign(tumbling(1)).assign(tumbling(1)),
            f"assign {PLACE}: column 'window_start' is declared twice",
            id="assign twice",
        ),
    ],
)
def test_a_wrong_time_is_refused(build: Callable[[], Any], message: str) -> None:
    refused(build, message)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        pytest.param(lambda: TIMELESS.rank("n", 1), f"rank {PLACE} {NO_TIME}", id="rank without event time"),
        pytest.param(
            lambda: WINDOWED.rank("n", 1),
            f"rank {PLACE} must not stand between a window and its aggregate",
            id="rank in a window",
        ),
        pytest.param(
            lambda: LEFT.rank("y", 1),
            f"rank {PLACE} names unknown column 'y'; there are ts, k, n, x, seen",
            id="rank by an unknown column",
        ),
        pytest.param(
            lambda: LISTS.rank("top", 1), f"rank {PLACE} cannot order by 'top', which holds lists", id="rank by lists"
        ),
        pytest.param(
            lambda: LEFT.rank("n", 0),
            f"rank {PLACE} needs a column to order by and a positive k; got k 0",
            id="no places",
        ),
        pytest.param(
            lambda: LEFT.rank([], 3),
            f"rank {PLACE} needs a column to order by and a positive k; got k 3",
            id="rank by nothing",
        ),
        pytest.param(
            lambda: LEFT.rank("n", 1, column="k"),
            f"rank {PLACE}: column 'k' is declared twice",
            id="a rank with the name of a column",
        ),
        pytest.param(
            lambda: LEFT.key_by("k").select("ts", "n").rank("n", 1),
            f"key_by {PLACE}: key 'k' is no longer a column; there are ts, n",
            id="rank by a key that was dropped",
        ),
        pytest.param(
            lambda: LEFT.deduplicate(1),
            f"deduplicate {PLACE} needs key_by or partition_by before it",
            id="deduplicate without keys",
        ),
        pytest.param(
            lambda: LEFT.key_by("k").deduplicate(0),
            f"deduplicate {PLACE} needs a positive number of seconds; got 0",
            id="deduplicate within no time",
        ),
        pytest.param(
            lambda: TIMELESS.key_by("k").deduplicate(1),
            f"deduplicate {PLACE} {NO_TIME}",
            id="deduplicate without event time",
        ),
    ],
)
def test_a_wrong_rank_or_deduplicate_is_refused(build: Callable[[], Any], message: str) -> None:
    refused(build, message)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        pytest.param(
            lambda: LEFT.key_by("k").join(RIGHT, within_s=(0, 1)),
            f"join {PLACE} does not go by key_by or partition_by; got keys k; "
            "leave them out, or name them in on= of a join",
            id="keys before it",
        ),
        pytest.param(
            lambda: LEFT.join(RIGHT.partition_by("k", groups=2), within_s=(0, 1)),
            "join on stream 'right' does not go by key_by or partition_by; got keys k; "
            "leave them out, or name them in on= of a join",
            id="keys before the other side",
        ),
        pytest.param(
            lambda: LEFT.join(WINDOWED, within_s=(0, 1)),
            f"join {PLACE} must not stand between a window and its aggregate",
            id="a window on the other side",
        ),
        pytest.param(lambda: TIMELESS.join(RIGHT, within_s=(0, 1)), f"join {PLACE} {NO_TIME}", id="no event time"),
        pytest.param(
            lambda: LEFT.join(RIGHT, within_s=(0, 1), how="outer"),
            "a join must be inner, left, full; got 'outer'",
            id="another way to join",
        ),
        pytest.param(
            lambda: LEFT.join(RIGHT, within_s=(1, 0)),
            "a join's time bounds must be (least, most) seconds; got within_s=(1, 0)",
            id="bounds the wrong way round",
        ),
        pytest.param(
            lambda: LEFT.join(RIGHT, within_s=(0, 1e12)),
            "a join's time bounds must be (least, most) seconds; got within_s=(0, 1000000000000.0)",
            id="longer than there are times",
        ),
        pytest.param(
            lambda: LEFT.join(RIGHT, on="y", within_s=(0, 1)),
            f"join {PLACE} names unknown column 'y'; there are ts, k, n, x, seen",
            id="an unknown key",
        ),
        pytest.param(
            lambda: LEFT.join(RIGHT, on="x", within_s=(0, 1)),
            f"join {PLACE} needs columns of type int64, string, bool, timestamp; 'x' is float64",
            id="a float as key",
        ),
        pytest.param(
            lambda: LEFT.join(RIGHT, on={"k": "n"}, within_s=(0, 1)),
            f"join {PLACE} needs keys of one type; 'k' is string and 'n' is int64",
            id="keys of different types",
        ),
        pytest.param(
            lambda: LEFT.join(RIGHT, within_s=(0, 1), groups=4),
            f"join {PLACE} needs keys to be cut into 4 groups; name them in on=",
            id="groups without keys",
        ),
        pytest.param(
            lambda: LEFT.join(RIGHT, on="k", within_s=(0, 1), groups=0),
            f"join {PLACE} needs between 1 and 65536 groups; got 0",
            id="no groups",
        ),
        pytest.param(
            lambda: LEFT.join(RIGHT, within_s=(0, 1), band=("n", "n", None, None)),
            f"join {PLACE} needs band=(column here, column there, least, most) with a bound; "
            "got ('n', 'n', None, None)",
            id="a band without bounds",
        ),
        pytest.param(
            lambda: SHORT.join(RIGHT.select("ts", "k"), within_s=(0, 1), band=("n", "k", 0, 1)),
            f"join {PLACE}: band needs a column of numbers or times; got 'k' of {{'ts': 'timestamp', 'k': 'string'}}",
            id="a band of texts",
        ),
        pytest.param(
            lambda: LEFT.join(RIGHT, within_s=(0, 1), band=("n", "x", 0, 1)),
            f"join {PLACE}: band needs two columns of one type; convert one of 'n' and 'x' before",
            id="a band of integers and floats",
        ),
        pytest.param(
            lambda: LEFT.join(RIGHT, within_s=(0, 1), where=col("n") + 1),
            f'join {PLACE} needs a condition for where; got ["add",["col","n"],["lit",1]]',
            id="a number as condition",
        ),
        pytest.param(
            lambda: SHORT.join(RIGHT.select("ts", "n"), on="n", within_s=(0, 1), where=col("k") == ""),
            f"join {PLACE} where names unknown column 'k'; there are ts, n, ts_right",
            id="a condition on an unknown column",
        ),
        pytest.param(
            lambda: LEFT.join(RIGHT, within_s=(0, 1), defaults={"n": 1}),
            f"join {PLACE}: an inner join misses nothing and takes no defaults",
            id="defaults of an inner join",
        ),
        pytest.param(
            lambda: SHORT.join(RIGHT.select("ts", "k"), within_s=(0, 1), how="left", defaults={"n": 1}),
            f"join {PLACE} has a default for 'n', which is never missing; there are ts_right, k",
            id="a default for what is never missing",
        ),
        pytest.param(
            lambda: SHORT.join(RIGHT.select("ts", "k"), within_s=(0, 1), how="left", defaults={"k": 1}),
            f"join {PLACE} 'k': default must be string; got 1",
            id="a default of another type",
        ),
        pytest.param(
            lambda: SHORT.join(LISTS, within_s=(0, 1), how="left"),
            f"join {PLACE}: column 'top' holds lists, which cannot be missing; leave it out before",
            id="lists that may be missing",
        ),
        pytest.param(
            lambda: SHORT.join(SHORT, within_s=(0, 1)).join(SHORT, within_s=(0, 1)),
            f"join {PLACE}: column 'ts_right' is declared twice; select columns or choose another suffix",
            id="a suffix that is taken",
        ),
    ],
)
def test_a_wrong_join_is_refused(build: Callable[[], Any], message: str) -> None:
    refused(build, message)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        pytest.param(LEFT.union, f"union {PLACE} needs at least one other flow", id="a union with nothing"),
        pytest.param(
            lambda: LEFT.union(RIGHT.key_by("k")),
            "union on stream 'right' does not go by key_by or partition_by; got keys k; "
            "leave them out, or name them in on= of a join",
            id="a union with keys before it",
        ),
        pytest.param(
            lambda: WINDOWED.union(RIGHT),
            f"union {PLACE} must not stand between a window and its aggregate",
            id="a union in a window",
        ),
        pytest.param(
            lambda: SHORT.union(RIGHT.select("n", "ts")),
            f"union {PLACE} needs flows with the same columns; got {{'ts': 'timestamp', 'n': 'int64'}} "
            "and {'n': 'int64', 'ts': 'timestamp'}",
            id="a union of other columns",
        ),
        pytest.param(
            lambda: LEFT.lookup_join(ZONES, on={"n": "n", "k": "zone"}),
            f"lookup_join {PLACE} goes by one column; got {{'n': 'n', 'k': 'zone'}}",
            id="a lookup by two columns",
        ),
        pytest.param(
            lambda: LEFT.lookup_join(ZONES, on="n", how="full"),
            f"lookup_join {PLACE} must be inner or left; got 'full'",
            id="a full lookup",
        ),
        pytest.param(
            lambda: LEFT.lookup_join(ZONES, on="k"),
            f"lookup_join {PLACE}: the table has no column 'k'; there are n, zone, rate",
            id="a table without the key",
        ),
        pytest.param(
            lambda: LEFT.lookup_join(ZONES, on={"k": "n"}),
            f"lookup_join {PLACE} needs an int64 or string key on both sides; 'k' is string, 'n' of the table int64",
            id="a key of another type",
        ),
        pytest.param(
            lambda: LEFT.lookup_join({"seen": pa.array([0], pa.timestamp("us"))}, on="seen"),
            f"lookup_join {PLACE} needs an int64 or string key on both sides; 'seen' is timestamp, "
            "'seen' of the table timestamp",
            id="a time as key",
        ),
        pytest.param(
            lambda: LEFT.lookup_join({"n": [1, 1], "zone": ["a", "b"]}, on="n"),
            f"lookup_join {PLACE} needs a table without nulls and with every 'n' once",
            id="a key that is there twice",
        ),
        pytest.param(
            lambda: LEFT.lookup_join({"n": [1, 2], "zone": ["a", None]}, on="n"),
            f"lookup_join {PLACE} needs a table without nulls and with every 'n' once",
            id="a value that is not there",
        ),
        pytest.param(
            lambda: LEFT.lookup_join({"n": [1], "parts": [[1, 2]]}, on="n"),
            f"lookup_join {PLACE} 'parts' must be of a type a stream can have; got list<item: int64>",
            id="a table of lists",
        ),
        pytest.param(
            lambda: LEFT.lookup_join({"n": [1], "x": [0.5]}, on="n"),
            f"lookup_join {PLACE}: column 'x' is declared twice",
            id="a column that is there already",
        ),
        pytest.param(
            lambda: LEFT.lookup_join(ZONES, on="n", defaults={"zone": "c"}),
            f"lookup_join {PLACE}: an inner join misses nothing and takes no defaults",
            id="defaults of an inner lookup",
        ),
        pytest.param(
            lambda: LEFT.lookup_join(ZONES, on="n", how="left", defaults={"zone": 3}),
            f"lookup_join {PLACE} 'zone': default must be string; got 3",
            id="a default of another type",
        ),
        pytest.param(
            lambda: LEFT.lookup_join(ZONES, on="n", how="left", defaults={"zones": "c"}),
            f"lookup_join {PLACE} has a default for 'zones'; the table adds zone, rate",
            id="a default for another column",
        ),
        pytest.param(
            lambda: LEFT.lookup_join({"n": range(1_000_001)}, on="n"),
            f"lookup_join {PLACE} takes tables of at most 1000000 rows; got 1000001",
            id="a large table",
        ),
    ],
)
def test_a_wrong_union_or_lookup_is_refused(build: Callable[[], Any], message: str) -> None:
    refused(build, message)


def matched(pattern: str = "A B", flow: Flow = LEFT, **terms: Any) -> Flow:
    return flow.match(pattern, **{"within_s": 1, "measures": COUNT, **terms})


@pytest.mark.parametrize(
    ("build", "message"),
    [
        pytest.param(lambda: matched(flow=TIMELESS), f"match {PLACE} {NO_TIME}", id="no event time"),
        pytest.param(
            lambda: matched(flow=WINDOWED),
            f"match {PLACE} must not stand between a window and its aggregate",
            id="a match in a window",
        ),
        pytest.param(lambda: matched("A*"), "pattern 'A*' must demand at least one row", id="a pattern of nothing"),
        pytest.param(
            lambda: matched(after="last_row"),
            f"match {PLACE} goes on past_last_row or next_row and selects strict or next; got 'last_row', 'strict'",
            id="another way to go on",
        ),
        pytest.param(
            lambda: matched(selection="any"),
            f"match {PLACE} goes on past_last_row or next_row and selects strict or next; got 'past_last_row', 'any'",
            id="another selection",
        ),
        pytest.param(
            lambda: matched("A !C B"),
            f"match {PLACE}: a negated element needs selection='next'; with 'strict' nothing lies in between",
            id="a negation where nothing is passed over",
        ),
        pytest.param(
            lambda: matched(define={"C": col("n") > 1}),
            f"match {PLACE} defines 'C'; the pattern has A, B",
            id="a condition for another variable",
        ),
        pytest.param(
            lambda: matched(define={"A": True}),
            f"match {PLACE} needs a condition for 'A', such as col('speed') > 0; got True",
            id="a condition that is no expression",
        ),
        pytest.param(
            lambda: matched(define={"A": col("n")}),
            f'match {PLACE} needs a condition for \'A\'; ["col","n"] is int64',
            id="a number as condition",
        ),
        pytest.param(
            lambda: matched(define={"A": prev("y") > 1}),
            f"match {PLACE} 'A' names unknown column 'y'; there are ts, k, n, x, seen",
            id="an unknown column of the row before",
        ),
        pytest.param(
            lambda: matched(measures={}),
            f"match {PLACE} needs at least one measure, e.g. measures={{'n': 'count(*)'}}",
            id="no measures",
        ),
        pytest.param(
            lambda: matched(measures={"it": "sum(A.k)"}),
            f"match {PLACE} 'it': sum needs numbers; 'k' is string",
            id="a sum of texts",
        ),
        pytest.param(
            lambda: matched(flow=LEFT.key_by("k"), measures={"k": "count(*)"}),
            f"match {PLACE}: measure 'k' has the name of a key",
            id="a measure with the name of a key",
        ),
        pytest.param(
            lambda: matched(within_s=-1),
            f"match {PLACE} needs a positive number of seconds; got -1",
            id="less than no time",
        ),
    ],
)
def test_a_wrong_match_is_refused(build: Callable[[], Any], message: str) -> None:
    refused(build, message)


def refused(build: Callable[[], Any], message: str) -> None:
    with pytest.raises(GraphError) as caught:
        build()
    assert str(caught.value) == message
