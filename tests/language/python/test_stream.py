"""Writing queries: every step is checked where it is written, and leaves what was before as it was."""

from collections.abc import Callable
from dataclasses import FrozenInstanceError
from typing import Any

import pytest

from shoal.connectors.admission import DEAD_LETTERS
from shoal.errors import GraphError, SchemaError
from shoal.language.python.flow import Flow
from shoal.language.python.stream import Stream
from shoal.model.query.aggregate import count, max_, mean, sum_, top_k
from shoal.model.query.duration import FORMS
from shoal.model.query.expression import col, lit
from shoal.model.query.window import hop, tumbling

SCHEMA = {"ts": "timestamp", "road": "int64", "kind": "string", "speed": "float64", "toll": "bool"}
CARS = Stream("cars", SCHEMA, time="ts")
WINDOWED = CARS.key_by("road").window(tumbling(10))
COUNTED = WINDOWED.aggregate(n=count())


def types(flow: Flow) -> dict[str, str]:
    return flow.schema.types


def test_a_stream_is_the_beginning_of_a_query() -> None:
    stream = Stream("cars", SCHEMA, time="ts", lateness_s=1.5, max_ahead_s=None)
    assert stream.name == "cars"
    assert stream.operators[0].parameters == {
        "stream": "cars",
        "schema": SCHEMA,
        "time": "ts",
        "lateness_us": 1_500_000,
        "max_ahead_us": None,
    }


@pytest.mark.parametrize(
    ("flow", "wanted"),
    [
        pytest.param(CARS.filter(col("toll")), SCHEMA, id="a filter keeps all columns"),
        pytest.param(
            CARS.select("road", kmh=col("speed") * 3.6),
            {"road": "int64", "kmh": "float64"},
            id="a select keeps its own",
        ),
        pytest.param(
            CARS.with_columns(speed=col("road"), fast=col("speed") > 30).select("speed", "fast"),
            {"speed": "int64", "fast": "bool"},
            id="with_columns replaces and adds",
        ),
        pytest.param(
            COUNTED,
            {"road": "int64", "window_end": "timestamp", "n": "int64"},
            id="an aggregate has keys, window end and results",
        ),
        pytest.param(
            CARS.partition_by("kind", groups=4)
            .key_by("road", "toll")
            .window(hop(30, 10))
            .aggregate(avg=mean("road"), top=top_k("speed", 3), last=max_("ts"), total=sum_("speed")),
            {
                "kind": "string",
                "road": "int64",
                "toll": "bool",
                "window_end": "timestamp",
                "avg": "float64",
                "top": "list<float64>",
                "last": "timestamp",
                "total": "float64",
            },
            id="partitioning columns are keys as well",
        ),
        pytest.param(
            COUNTED.filter(col("n") > 1).select("window_end", twice=col("n") * 2),
            {"window_end": "timestamp", "twice": "int64"},
            id="results can be filtered and selected",
        ),
        pytest.param(
            CARS.window(tumbling(1)).key_by("road").aggregate(n=count()),
            {"road": "int64", "window_end": "timestamp", "n": "int64"},
            id="keys may follow the window",
        ),
    ],
)
def test_a_step_leads_to_its_columns(flow: Flow, wanted: dict[str, str]) -> None:
    assert types(flow) == wanted
    assert flow.sink("q").columns == wanted


def test_every_step_leaves_the_flow_before_as_it_was() -> None:
    flow = CARS.filter(col("speed") > 0)
    before = (flow.operators, flow.schema, flow.keys, flow.partition, flow.groups)
    flow.filter(col("toll"))
    flow.select("ts")
    flow.with_columns(x=lit(1))
    flow.key_by("road")
    flow.partition_by("road", groups=3)
    flow.window(tumbling(1)).aggregate(n=count()).sink("q")
    assert (flow.operators, flow.schema, flow.keys, flow.partition, flow.groups) == before
    with pytest.raises(FrozenInstanceError):
        flow.time = "other"  # type: ignore[misc]
    with pytest.raises(FrozenInstanceError):
        CARS.time = "other"  # type: ignore[misc]


def test_keys_are_those_of_the_last_key_by_behind_those_of_partition_by() -> None:
    flow = CARS.partition_by("road", groups=2).key_by("kind").key_by("toll", "road")
    assert flow.keys == ("road", "toll")
    assert flow.partition == ("road",)


def test_a_query_writes_the_table_of_its_own_name_unless_told_otherwise() -> None:
    assert COUNTED.sink("q").table == "q"
    assert COUNTED.sink("q", table="t").table == "t"


@pytest.mark.parametrize(
    ("build", "message"),
    [
        pytest.param(
            lambda: CARS.filter(True),  # type: ignore[arg-type]
            "filter on stream 'cars' needs an expression such as col('speed') > 0; got True",
            id="a filter without an expression",
        ),
        pytest.param(
            lambda: CARS.filter(col("speed") + 1),
            'filter on stream \'cars\' needs a condition; ["add",["col","speed"],["lit",1]] is float64',
            id="a filter that is no condition",
        ),
        pytest.param(
            lambda: CARS.filter(col("sped") > 0),
            "filter on stream 'cars' names unknown column 'sped'; there are ts, road, kind, speed, toll",
            id="a filter on an unknown column",
        ),
        pytest.param(
            lambda: CARS.select("ts").filter(col("speed") > 0),
            "filter on stream 'cars' names unknown column 'speed'; there are ts",
            id="a filter on a dropped column",
        ),
        pytest.param(CARS.select, "select on stream 'cars' must keep at least one column", id="a select of nothing"),
        pytest.param(
            lambda: CARS.select("lane"),
            "select on stream 'cars' names unknown column 'lane'; there are ts, road, kind, speed, toll",
            id="a select of an unknown column",
        ),
        pytest.param(
            lambda: CARS.select(x=col("kind") + "s"),
            "select on stream 'cars': 'add' needs numbers; got string and string in "
            '["add",["col","kind"],["lit","s"]]',
            id="a select of texts added up",
        ),
        pytest.param(
            lambda: CARS.select(col("road")),  # type: ignore[arg-type]
            "select on stream 'cars' needs names of columns; got Column(name='road')",
            id="a select of an expression without a name",
        ),
        pytest.param(
            lambda: CARS.with_columns(ts=col("ts")),
            "select on stream 'cars' must not redefine the event-time column 'ts'",
            id="an event time that is redefined",
        ),
        pytest.param(
            lambda: CARS.select("road").select("road", ts=lit(1)),
            "select on stream 'cars' must not redefine the event-time column 'ts'",
            id="an event time that is made up again",
        ),
        pytest.param(
            lambda: CARS.key_by("lane"),
            "key_by on stream 'cars' names unknown column 'lane'; there are ts, road, kind, speed, toll",
            id="an unknown key",
        ),
        pytest.param(
            lambda: CARS.key_by("speed"),
            "key_by on stream 'cars' needs columns of type int64, string, bool, timestamp; 'speed' is float64",
            id="a float as key",
        ),
        pytest.param(
            lambda: CARS.key_by(col("road")),  # type: ignore[arg-type]
            "key_by on stream 'cars' needs names of columns; got Column(name='road')",
            id="an expression as key",
        ),
        pytest.param(
            lambda: CARS.partition_by(groups=3),
            "partition_by on stream 'cars' needs at least one column",
            id="partitions of nothing",
        ),
        pytest.param(
            lambda: CARS.partition_by("speed", groups=3),
            "partition_by on stream 'cars' needs columns of type int64, string, bool, timestamp; 'speed' is float64",
            id="partitions of a float",
        ),
        pytest.param(
            lambda: CARS.partition_by("road", groups=0),
            "partition_by on stream 'cars' needs between 1 and 65536 groups; got 0",
            id="no groups",
        ),
        pytest.param(
            lambda: CARS.partition_by("road", groups=2.5),  # type: ignore[arg-type]
            "partition_by on stream 'cars' needs between 1 and 65536 groups; got 2.5",
            id="half a group",
        ),
        pytest.param(
            lambda: CARS.window(30),  # type: ignore[arg-type]
            "window on stream 'cars' needs a window such as hop(30, 1); got 30",
            id="a number as window",
        ),
        pytest.param(
            lambda: CARS.select("road").window(tumbling(1)),
            "window on stream 'cars' needs the event-time column 'ts'; there are only road; "
            "keep it in the select before",
            id="a window without event time",
        ),
        pytest.param(
            lambda: CARS.window(hop(30, 7)),
            "window size must be a multiple of its slide; got size 30 s, slide 7 s",
            id="a window that is no multiple of its slide",
        ),
        pytest.param(
            lambda: CARS.window(tumbling(1)).window(tumbling(1)),
            "window on stream 'cars' must not stand between a window and its aggregate",
            id="a window in a window",
        ),
        pytest.param(
            lambda: CARS.window(tumbling(1)).filter(col("toll")),
            "filter on stream 'cars' must not stand between a window and its aggregate",
            id="a filter in a window",
        ),
        pytest.param(
            lambda: CARS.window(tumbling(1)).select("road"),
            "select on stream 'cars' must not stand between a window and its aggregate",
            id="a select in a window",
        ),
        pytest.param(
            lambda: CARS.window(tumbling(1)).sink("q"),
            "sink on stream 'cars' must not stand between a window and its aggregate",
            id="a window without aggregate",
        ),
        pytest.param(
            lambda: CARS.aggregate(n=count()),
            "aggregate on stream 'cars' must follow a window",
            id="an aggregate without window",
        ),
        pytest.param(
            lambda: COUNTED.aggregate(n=count()),
            "aggregate on stream 'cars' must follow a window",
            id="an aggregate of results",
        ),
        pytest.param(
            WINDOWED.aggregate,
            "aggregate on stream 'cars' needs at least one aggregate, e.g. n=count()",
            id="an aggregate of nothing",
        ),
        pytest.param(
            lambda: WINDOWED.aggregate(n=5),  # type: ignore[arg-type]
            "aggregate on stream 'cars': 'n' must be an aggregate like mean('speed'); got 5",
            id="a number as aggregate",
        ),
        pytest.param(
            lambda: WINDOWED.aggregate(avg=mean("lane")),
            "aggregate on stream 'cars' 'avg' names unknown column 'lane'; there are ts, road, kind, speed, toll",
            id="an aggregate of an unknown column",
        ),
        pytest.param(
            lambda: WINDOWED.aggregate(avg=mean("kind")),
            "aggregate on stream 'cars' 'avg': mean('kind') needs a column of type int64 or float64; 'kind' is string",
            id="a mean of texts",
        ),
        pytest.param(
            lambda: WINDOWED.aggregate(road=count()),
            "aggregate on stream 'cars': column 'road' is declared twice",
            id="an aggregate named like a key",
        ),
        pytest.param(
            lambda: WINDOWED.aggregate(window_end=count()),
            "aggregate on stream 'cars': column 'window_end' is declared twice",
            id="an aggregate named like the window end",
        ),
        pytest.param(
            lambda: CARS.key_by("road").select("ts", "kind").window(tumbling(1)).aggregate(n=count()),
            "aggregate on stream 'cars': key 'road' is no longer a column; there are ts, kind",
            id="a key that was dropped",
        ),
        pytest.param(
            lambda: CARS.key_by("road").with_columns(road=col("speed")).window(tumbling(1)).aggregate(n=count()),
            "aggregate on stream 'cars': key 'road' must be int64, string, bool, timestamp; "
            "a select has made it float64",
            id="a key that has become a float",
        ),
        pytest.param(
            lambda: CARS.key_by("road").sink("q"),
            "query 'q' has keys but no aggregate after them; add .window(...).aggregate(...), "
            "or drop key_by and partition_by",
            id="keys without aggregate",
        ),
        pytest.param(
            lambda: COUNTED.key_by("road").sink("q"),
            "query 'q' has keys but no aggregate after them; add .window(...).aggregate(...), "
            "or drop key_by and partition_by",
            id="keys behind the aggregate",
        ),
        pytest.param(
            lambda: CARS.select(query=col("road")).sink("q"),
            "query 'q' must not have a column 'query', which is added to every result; select it as another",
            id="the reserved column",
        ),
        pytest.param(
            lambda: CARS.sink("q", table=DEAD_LETTERS),
            "query 'q' must not write table 'dead_letters', where refused rows go",
            id="the reserved table",
        ),
        pytest.param(
            lambda: CARS.sink(DEAD_LETTERS),
            "query 'dead_letters' must not write table 'dead_letters', where refused rows go",
            id="the reserved table as a name",
        ),
        pytest.param(
            lambda: CARS.sink("q", table="../q"),
            "table of query 'q' must not begin with '.' or contain '/'; got '../q'",
            id="a table that leads out of the sink's directory",
        ),
        pytest.param(lambda: CARS.sink(""), "a query must have a name", id="no name"),
    ],
)
def test_a_wrong_query_cannot_be_written(build: Callable[[], Any], message: str) -> None:
    with pytest.raises(GraphError) as caught:
        build()
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("options", "message"),
    [
        pytest.param({"name": "my cars"}, "stream name must be an identifier; got 'my cars'", id="a name with a space"),
        pytest.param(
            {"time": "when"}, "event time of stream 'cars' must be a timestamp column; got 'when'", id="no such time"
        ),
        pytest.param(
            {"time": "road"},
            "event time of stream 'cars' must be a timestamp column; got 'road'",
            id="a number as time",
        ),
        pytest.param(
            {"schema": {"ts": "timestamp", "tops": "list<int64>"}},
            "column 'tops' of stream 'cars' must be int64, float64, string, bool, timestamp; got list<int64>",
            id="lists",
        ),
        pytest.param({"schema": {}}, "a schema must have at least one column", id="no columns"),
        pytest.param(
            {"lateness_s": -1},
            "lateness_s of stream 'cars' must be between 0 and 31536000000; got -1",
            id="negative lateness",
        ),
        pytest.param(
            {"lateness_s": float("nan")},
            f"lateness_s of stream 'cars' must be {FORMS}; got nan",
            id="a lateness that is no number",
        ),
        pytest.param(
            {"max_ahead_s": float("inf")},
            f"max_ahead_s of stream 'cars' must be {FORMS}; got inf",
            id="infinitely far ahead",
        ),
    ],
)
def test_a_wrong_stream_cannot_be_declared(options: dict[str, Any], message: str) -> None:
    with pytest.raises(SchemaError) as caught:
        Stream(**{"name": "cars", "schema": SCHEMA, "time": "ts", **options})
    assert str(caught.value) == message
