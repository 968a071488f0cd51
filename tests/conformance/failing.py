"""Queries over a few cars of which some fail, each in another place and on a known row."""

from typing import Any

import pytest
from tests.runtimes.local.row_source import RowSource

from shoal.kernels.columns.block import arrow_schema
from shoal.language.python.stream import Stream
from shoal.model.query.aggregate import count, sum_, user_aggregate
from shoal.model.query.expression import col
from shoal.model.query.functions import call, udf
from shoal.model.query.graph import Query
from shoal.model.query.schema import Schema
from shoal.model.query.window import tumbling

SECOND_US = 1_000_000
COLUMNS = {"ts": "timestamp", "k": "int64", "name": "string"}
CARS = Stream("cars", COLUMNS, time="ts")
BAD = 37
"""The row that fails; the only one with this `k`, and with a name that is no number."""
ROWS = 60


def cars() -> RowSource:
    """A row per second."""
    rows = [{"ts": i * SECOND_US, "k": i, "name": "none" if i == BAD else str(i)} for i in range(ROWS)]
    return RowSource(rows, arrow_schema(Schema.of(COLUMNS)), 10)


@udf("int64")
def gear(k: Any) -> Any:
    """Raises for one row."""
    if (k == BAD).any():
        raise ZeroDivisionError("no gear")
    return k % 5


class Fussy:
    """A sum whose methods raise for one value, as a subclass says."""

    def zero(self) -> float:
        return 0.0

    def add(self, state: float, values: list[int]) -> float:
        return state + sum(values)

    def merge(self, one: float, other: float) -> float:
        return one + other

    def result(self, state: float) -> float:
        return state


class FussyAdd(Fussy):
    def add(self, state: float, values: list[int]) -> float:
        if BAD in values:
            raise LookupError("it\nis bad")
        return state + sum(values)


class FussyResult(Fussy):
    def result(self, state: float) -> float:
        raise LookupError("no result")


def steady(name: str = "steady") -> Query:
    """A query that does not fail."""
    return CARS.key_by("k").window(tumbling(10)).aggregate(n=count(), total=sum_("k")).sink(name)


def plain() -> Query:
    """Another query that does not fail, without state."""
    return CARS.filter(col("k") > 20).select("ts", "k").sink("plain")


def in_a_column() -> Query:
    return CARS.select("ts", g=gear("k")).sink("broken")


def in_a_condition() -> Query:
    return CARS.filter(gear("k") == 1).window(tumbling(10)).aggregate(n=count()).sink("broken")


def behind_an_aggregate() -> Query:
    ten = CARS.key_by("k").window(tumbling(10)).aggregate(n=count())
    return ten.select("window_end", g=gear("k")).sink("broken")


def in_a_built_in() -> Query:
    return CARS.select("ts", n=call("as_int64", "name")).sink("broken")


def in_add() -> Query:
    return CARS.window(tumbling(10)).aggregate(x=user_aggregate(FussyAdd, "k")).sink("broken")


def in_result() -> Query:
    return CARS.window(tumbling(10)).aggregate(x=user_aggregate(FussyResult, "k")).sink("broken")


ROW = "ts=1970-01-01T00:00:37Z, k=37"
FAILING = [
    pytest.param(in_a_column, "function 'gear' raised ZeroDivisionError: no gear", ROW, id="a function in a column"),
    pytest.param(in_a_condition, "function 'gear' raised ZeroDivisionError: no gear", "k=37", id="one in a condition"),
    pytest.param(behind_an_aggregate, "function 'gear' raised ZeroDivisionError: no gear", "k=37", id="one on results"),
    pytest.param(in_a_built_in, "as_int64 needs texts of digits: ", "name='none'", id="a built-in function"),
    pytest.param(in_add, "aggregate 'FussyAdd' raised LookupError: it is bad in add", "k=37", id="an aggregate's add"),
    pytest.param(in_result, "aggregate 'FussyResult' raised LookupError: no result in result", "", id="its result"),
]
"""A query named `broken`, why it fails, and what its row shows."""
