"""Flows that join, look up and unite: what they share, and how what is wrong is refused."""

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from tests.language.python.left_and_right import (
    LEFT,
    LISTS,
    NO_TIME,
    RIGHT,
    SHORT,
    TIMELESS,
    WHERE,
    WINDOWED,
    ZONES,
    refused,
)

from shoal.model.query.expression import col


def test_a_join_keeps_what_both_sides_share_once() -> None:
    common = LEFT.filter(col("n") > 0)
    joined = common.select("ts", "k").join(common.select("ts", "n"), within_s=(0, 1))
    kinds = [operator.kind for operator in joined.sink("q").operators]
    assert kinds == ["source", "filter", "select", "select", "join", "sink"]


def test_a_union_of_a_flow_with_itself_has_every_row_twice() -> None:
    united = LEFT.union(LEFT)
    assert len(united.operators[-1].inputs) == 2
    assert united.sink("q").streams == ("left",)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        pytest.param(
            lambda: LEFT.key_by("k").join(RIGHT, within_s=(0, 1)),
            f"join {WHERE} does not go by key_by or partition_by; got keys k; "
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
            f"join {WHERE} must not stand between a window and its aggregate",
            id="a window on the other side",
        ),
        pytest.param(lambda: TIMELESS.join(RIGHT, within_s=(0, 1)), f"join {WHERE} {NO_TIME}", id="no event time"),
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
            f"join {WHERE} names unknown column 'y'; there are ts, k, n, x, seen",
            id="an unknown key",
        ),
        pytest.param(
            lambda: LEFT.join(RIGHT, on="x", within_s=(0, 1)),
            f"join {WHERE} needs columns of type int64, string, bool, timestamp; 'x' is float64",
            id="a float as key",
        ),
        pytest.param(
            lambda: LEFT.join(RIGHT, on={"k": "n"}, within_s=(0, 1)),
            f"join {WHERE} needs keys of one type; 'k' is string and 'n' is int64",
            id="keys of different types",
        ),
        pytest.param(
            lambda: LEFT.join(RIGHT, within_s=(0, 1), groups=4),
            f"join {WHERE} needs keys to be cut into 4 groups; name them in on=",
            id="groups without keys",
        ),
        pytest.param(
            lambda: LEFT.join(RIGHT, on="k", within_s=(0, 1), groups=0),
            f"join {WHERE} needs between 1 and 65536 groups; got 0",
            id="no groups",
        ),
        pytest.param(
            lambda: LEFT.join(RIGHT, within_s=(0, 1), band=("n", "n", None, None)),
            f"join {WHERE} needs band=(column here, column there, least, most) with a bound; "
            "got ('n', 'n', None, None)",
            id="a band without bounds",
        ),
        pytest.param(
            lambda: SHORT.join(RIGHT.select("ts", "k"), within_s=(0, 1), band=("n", "k", 0, 1)),
            f"join {WHERE}: band needs a column of numbers or times; got 'k' of {{'ts': 'timestamp', 'k': 'string'}}",
            id="a band of texts",
        ),
        pytest.param(
            lambda: LEFT.join(RIGHT, within_s=(0, 1), band=("n", "x", 0, 1)),
            f"join {WHERE}: band needs two columns of one type; convert one of 'n' and 'x' before",
            id="a band of integers and floats",
        ),
        pytest.param(
            lambda: LEFT.join(RIGHT, within_s=(0, 1), where=col("n") + 1),
            f'join {WHERE} needs a condition for where; got ["add",["col","n"],["lit",1]]',
            id="a number as condition",
        ),
        pytest.param(
            lambda: SHORT.join(RIGHT.select("ts", "n"), on="n", within_s=(0, 1), where=col("k") == ""),
            f"join {WHERE} where names unknown column 'k'; there are ts, n, ts_right",
            id="a condition on an unknown column",
        ),
        pytest.param(
            lambda: LEFT.join(RIGHT, within_s=(0, 1), defaults={"n": 1}),
            f"join {WHERE}: an inner join misses nothing and takes no defaults",
            id="defaults of an inner join",
        ),
        pytest.param(
            lambda: SHORT.join(RIGHT.select("ts", "k"), within_s=(0, 1), how="left", defaults={"n": 1}),
            f"join {WHERE} has a default for 'n', which is never missing; there are ts_right, k",
            id="a default for what is never missing",
        ),
        pytest.param(
            lambda: SHORT.join(RIGHT.select("ts", "k"), within_s=(0, 1), how="left", defaults={"k": 1}),
            f"join {WHERE} 'k': default must be string; got 1",
            id="a default of another type",
        ),
        pytest.param(
            lambda: SHORT.join(LISTS, within_s=(0, 1), how="left", defaults={"top": ["a"]}),
            f"join {WHERE} 'top': default must be list<int64>; got ['a']",
            id="a list of others as default",
        ),
        pytest.param(
            lambda: SHORT.join(SHORT, within_s=(0, 1)).join(SHORT, within_s=(0, 1)),
            f"join {WHERE}: column 'ts_right' is declared twice; select columns or choose another suffix",
            id="a suffix that is taken",
        ),
    ],
)
def test_a_wrong_join_is_refused(build: Callable[[], Any], message: str) -> None:
    refused(build, message)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        pytest.param(LEFT.union, f"union {WHERE} needs at least one other flow", id="a union with nothing"),
        pytest.param(
            lambda: LEFT.union(RIGHT.key_by("k")),
            "union on stream 'right' does not go by key_by or partition_by; got keys k; "
            "leave them out, or name them in on= of a join",
            id="a union with keys before it",
        ),
        pytest.param(
            lambda: WINDOWED.union(RIGHT),
            f"union {WHERE} must not stand between a window and its aggregate",
            id="a union in a window",
        ),
        pytest.param(
            lambda: SHORT.union(RIGHT.select("n", "ts")),
            f"union {WHERE} needs flows with the same columns; got {{'ts': 'timestamp', 'n': 'int64'}} "
            "and {'n': 'int64', 'ts': 'timestamp'}",
            id="a union of other columns",
        ),
        pytest.param(
            lambda: LEFT.lookup_join(ZONES, on={"n": "n", "k": "zone"}),
            f"lookup_join {WHERE} goes by one column; got {{'n': 'n', 'k': 'zone'}}",
            id="a lookup by two columns",
        ),
        pytest.param(
            lambda: LEFT.lookup_join(ZONES, on="n", how="full"),
            f"lookup_join {WHERE} must be inner or left; got 'full'",
            id="a full lookup",
        ),
        pytest.param(
            lambda: LEFT.lookup_join(ZONES, on="k"),
            f"lookup_join {WHERE}: the table has no column 'k'; there are n, zone, rate",
            id="a table without the key",
        ),
        pytest.param(
            lambda: LEFT.lookup_join(ZONES, on={"k": "n"}),
            f"lookup_join {WHERE} needs an int64 or string key on both sides; 'k' is string, 'n' of the table int64",
            id="a key of another type",
        ),
        pytest.param(
            lambda: LEFT.lookup_join({"seen": pa.array([0], pa.timestamp("us"))}, on="seen"),
            f"lookup_join {WHERE} needs an int64 or string key on both sides; 'seen' is timestamp, "
            "'seen' of the table timestamp",
            id="a time as key",
        ),
        pytest.param(
            lambda: LEFT.lookup_join({"n": [1, 1], "zone": ["a", "b"]}, on="n"),
            f"lookup_join {WHERE} needs a table with every 'n' once, and none of them null",
            id="a key that is there twice",
        ),
        pytest.param(
            lambda: LEFT.lookup_join({"n": [1, None], "zone": ["a", "b"]}, on="n"),
            f"lookup_join {WHERE} needs a table with every 'n' once, and none of them null",
            id="a key that is null",
        ),
        pytest.param(
            lambda: LEFT.lookup_join({"n": [1], "parts": [[1, 2]]}, on="n"),
            f"lookup_join {WHERE} 'parts' must be of a type a stream can have; got list<item: int64>",
            id="a table of lists",
        ),
        pytest.param(
            lambda: LEFT.lookup_join({"n": [1], "x": [0.5]}, on="n"),
            f"lookup_join {WHERE}: column 'x' is declared twice",
            id="a column that is there already",
        ),
        pytest.param(
            lambda: LEFT.lookup_join(ZONES, on="n", defaults={"zone": "c"}),
            f"lookup_join {WHERE}: an inner join misses nothing and takes no defaults",
            id="defaults of an inner lookup",
        ),
        pytest.param(
            lambda: LEFT.lookup_join(ZONES, on="n", how="left", defaults={"zone": 3}),
            f"lookup_join {WHERE} 'zone': default must be string; got 3",
            id="a default of another type",
        ),
        pytest.param(
            lambda: LEFT.lookup_join(ZONES, on="n", how="left", defaults={"zones": "c"}),
            f"lookup_join {WHERE} has a default for 'zones'; the table adds zone, rate",
            id="a default for another column",
        ),
        pytest.param(
            lambda: LEFT.lookup_join({"n": range(1_000_001)}, on="n"),
            f"lookup_join {WHERE} takes tables of at most 1000000 rows; got 1000001",
            id="a large table",
        ),
    ],
)
def test_a_wrong_union_or_lookup_is_refused(build: Callable[[], Any], message: str) -> None:
    refused(build, message)
