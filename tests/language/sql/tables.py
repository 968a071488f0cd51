"""The tables and functions that the SQL tests read, and graphs to compare."""

from typing import Any

import pytest

from shoal.errors import SqlError
from shoal.language.python.flow import Flow
from shoal.language.python.stream import Stream
from shoal.language.sql.script import parse_script
from shoal.model.query.functions import Function
from shoal.model.query.graph import Graph, Query

CARS = Stream(
    "cars", {"ts": "timestamp", "road": "int64", "kind": "string", "speed": "float64", "toll": "bool"}, time="ts"
)
BIDS = Stream("bids", {"ts": "timestamp", "auction": "int64", "price": "float64", "bidder": "int64"}, time="ts")
AUCTIONS = Stream("auctions", {"opened": "timestamp", "id": "int64", "reserve": "float64"}, time="opened")
TRIPS = Stream("trips", {"ts": "timestamp", "road": "int64", "length": "float64", "people": "int64"}, time="ts")
STREAMS = {stream.name: stream for stream in (CARS, BIDS, AUCTIONS, TRIPS)}
CELL = Function("cell", "math:floor", "int64")


def query(sql: str) -> Query:
    """The one query of a SQL text."""
    (found,) = parse_script(sql, streams=STREAMS, functions={"cell": CELL}).queries
    return found


def kinds(sql: str) -> list[str]:
    """The kinds of a query's operators."""
    return [operator.kind for operator in query(sql).operators]


def columns(sql: str) -> dict[str, str]:
    """The columns of a query's results."""
    return dict(query(sql).columns)


def parameters(sql: str, kind: str) -> dict[str, Any]:
    """The parameters of a query's one operator of a kind; of the last select, since others only prune."""
    *others, found = (operator for operator in query(sql).operators if operator.kind == kind)
    assert not others or kind == "select"
    return dict(found.parameters)


def assert_same(sql: str, flow: Flow) -> None:
    """A SQL query and a flow make the same graph."""
    found = Graph.of([query(sql)])
    wanted = Graph.of([flow.sink("query_1")])
    assert found.data() == wanted.data()
    assert found.digest == wanted.digest


def refused(sql: str, *said: str) -> None:
    """A SQL text is refused with a message that says all of this, in one line."""
    with pytest.raises(SqlError) as error:
        query(sql)
    for part in said:
        assert part in str(error.value)
    assert "\n" not in str(error.value)
