"""Streams that end at different times: what is open in one of them still meets what comes from the other."""

import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.naive import interpret
from tests.runtimes.local.row_source import RowSource
from tests.small_city import result_tables
from tests.test_random_graphs import canonical

from shoal.kernels.columns.block import arrow_schema
from shoal.language.python.flow import Flow
from shoal.language.python.stream import Stream
from shoal.model.query.aggregate import count, sum_
from shoal.model.query.graph import Graph
from shoal.model.query.schema import Schema, not_null
from shoal.model.query.window import hop, sessions, tumbling
from shoal.session.job import Job
from shoal.session.run import start

S = 1_000_000
TYPES = not_null({"ts": "timestamp", "k": "int64"})
LEFT, RIGHT = Stream("left", TYPES, time="ts"), Stream("right", TYPES, time="ts")
Rows = Sequence[Mapping[str, Any]]


def counted(flow: Flow, name: str) -> Flow:
    return flow.key_by("k").window(tumbling(10)).aggregate(**{name: count()})


FLOWS: Mapping[str, Callable[[], Flow]] = {
    "cogroup": lambda: LEFT.cogroup(RIGHT, tumbling(10), on="k", left={"a": count()}, right={"b": count()}),
    "windows joined": lambda: counted(LEFT, "a").join(counted(RIGHT, "b"), on=("k", "window_end"), within_s=(-9, 9)),
    "left join": lambda: counted(LEFT, "a").join(RIGHT, on="k", within_s=(-5, 25), how="left"),
    "sessions in a union": lambda: LEFT.union(RIGHT).key_by("k").window(sessions(8)).aggregate(n=count()),
    "windows of windows": lambda: (
        counted(LEFT, "n").union(counted(RIGHT, "n")).key_by("k").window(hop(30, 10)).aggregate(total=sum_("n"))
    ),
}


@st.composite
def streams(draw: st.DrawFn) -> tuple[Rows, Rows, int, int]:
    """Rows of both streams in the order of time, of which one may end long before the other, and rows per poll."""

    def events(until: int) -> Rows:
        times = sorted(draw(st.lists(st.integers(0, until), max_size=12)))
        return [{"ts": time * S, "k": draw(st.integers(0, 1))} for time in times]

    return events(60), events(draw(st.sampled_from([10, 60]))), draw(st.integers(1, 5)), draw(st.integers(1, 5))


@pytest.mark.parametrize("on", ["reference", "local"])
@pytest.mark.parametrize("make", [pytest.param(make, id=name) for name, make in FLOWS.items()])
@settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
@given(both=streams())
def test_results_are_those_of_all_rows_at_once(make: Callable[[], Flow], on: str, both: Any) -> None:
    left, right, of_left, of_right = both
    query = make().sink("q")
    wanted = interpret(Graph.of([query]), {"left": left, "right": right})["q"]
    schema = arrow_schema(Schema.of(TYPES))
    sources = {"left": RowSource(left, schema, of_left), "right": RowSource(right, schema, of_right)}
    run = start(Job.of("j", [query], sources), on=on)
    tally = run.wait()
    got = result_tables(run).get("q")
    assert not tally.dead_letters
    assert canonical([] if got is None else _plain(got.to_pylist())) == canonical(wanted)


def _plain(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Times as microseconds, as the interpreter has them."""
    return [{name: _number(value) for name, value in row.items()} for row in rows]


def _number(value: Any) -> Any:
    return round(value.replace(tzinfo=dt.UTC).timestamp() * S) if isinstance(value, dt.datetime) else value
