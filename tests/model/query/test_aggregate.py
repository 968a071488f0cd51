"""Aggregates: what may be asked of which column, and of what type the result is."""

import pytest

from shoal.errors import GraphError
from shoal.model.query.aggregate import Aggregate, count, max_, mean, min_, sum_, top_k
from shoal.model.query.schema import Schema

SCHEMA = Schema.of({"i": "int64", "x": "float64", "ts": "timestamp", "s": "string", "b": "bool"})


@pytest.mark.parametrize(
    ("aggregate", "type_"),
    [
        (count(), "int64"),
        (sum_("i"), "int64"),
        (sum_("x"), "float64"),
        (mean("i"), "float64"),
        (mean("x"), "float64"),
        (min_("i"), "int64"),
        (max_("x"), "float64"),
        (min_("ts"), "timestamp"),
        (top_k("i", 3), "list<int64>"),
        (top_k("x", 1024), "list<float64>"),
    ],
)
def test_an_answer_has_the_type_its_column_asks_for(aggregate: Aggregate, type_: str) -> None:
    aggregate.check(SCHEMA, "test")
    assert aggregate.output_type(SCHEMA) == type_


@pytest.mark.parametrize(
    ("kind", "column", "k", "message"),
    [
        pytest.param(
            "median",
            "x",
            0,
            "aggregate must be one of count, sum, mean, min, max, top_k, variance, stddev, count_distinct, "
            "approx_distinct, user; got 'median'",
            id="unknown",
        ),
        pytest.param("sum", "", 0, "aggregate 'sum' needs a column", id="a sum of nothing"),
        pytest.param("top_k", "x", 0, "top_k('x') must keep between 1 and 1024 values; got 0", id="a top of 0 values"),
        pytest.param("top_k", "x", 1025, "top_k('x') must keep between 1 and 1024 values; got 1025", id="too many"),
        pytest.param("sum", "x", 3, "aggregate 'sum' takes no k; got 3", id="a sum with k"),
    ],
)
def test_an_aggregate_that_means_nothing_cannot_be_built(kind: str, column: str, k: int, message: str) -> None:
    with pytest.raises(GraphError) as caught:
        Aggregate(kind, column, k)  # type: ignore[arg-type]
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("aggregate", "message"),
    [
        pytest.param(sum_("z"), "here names unknown column 'z'; there are i, x, ts, s, b", id="unknown column"),
        pytest.param(
            sum_("s"), "here: sum('s') needs a column of type int64 or float64; 's' is string", id="sum of texts"
        ),
        pytest.param(
            mean("ts"),
            "here: mean('ts') needs a column of type int64 or float64; 'ts' is timestamp",
            id="mean time",
        ),
        pytest.param(
            max_("b"),
            "here: max('b') needs a column of type int64 or float64 or timestamp; 'b' is bool",
            id="largest condition",
        ),
        pytest.param(
            top_k("ts", 2),
            "here: top_k('ts') needs a column of type int64 or float64; 'ts' is timestamp",
            id="top time",
        ),
    ],
)
def test_an_aggregate_refuses_a_column_it_cannot_take(aggregate: Aggregate, message: str) -> None:
    with pytest.raises(GraphError) as caught:
        aggregate.check(SCHEMA, "here")
    assert str(caught.value) == message
