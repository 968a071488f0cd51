"""No query changes another's answer: each has the results among others that it has alone, over any dirty rows."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.runtimes.local.row_source import RowSource
from tests.test_random_graphs import canonical

from shoal.language.python.flow import Flow
from shoal.language.python.stream import Stream
from shoal.model.query.aggregate import count, count_distinct, max_, mean, sum_
from shoal.model.query.expression import col
from shoal.model.query.functions import coalesce, is_null
from shoal.model.query.graph import Query
from shoal.model.query.window import rows, sessions, tumbling
from shoal.session.job import Job
from shoal.session.run import start

S = 1_000_000
CARS = Stream(
    "cars",
    {"ts": "timestamp", "k": "int64", "n": "int64", "x": "float64 not null", "s": "string", "at": "timestamp"},
    time="ts",
    lateness_s=60,
)
NUMBERS = [("ts", pa.int64()), ("k", pa.int64()), ("x", pa.float64())]
RAW = pa.schema([*NUMBERS, ("n", pa.string()), ("s", pa.string()), ("at", pa.timestamp("us"))])
"""What the source delivers: numbers as texts, some of which are none."""
FLOWS: Mapping[str, Callable[[], Flow]] = {
    "plain": lambda: CARS.select("k"),
    "nullable filter": lambda: CARS.filter(col("n") > 1).select("ts", "s"),
    "unknown": lambda: CARS.filter(is_null("s")).select("k", m=coalesce("n", 7)),
    "aggregate": lambda: CARS.key_by("k").window(tumbling(5)).aggregate(n=count("n"), m=mean("x")),
    "by text": lambda: CARS.key_by("s").window(tumbling(5)).aggregate(rows=count(), most=max_("n")),
    "session": lambda: CARS.key_by("k").window(sessions(3)).aggregate(kinds=count_distinct("s")),
    "rows": lambda: CARS.key_by("k").window(rows(2)).aggregate(total=sum_("n")),
    "first": lambda: CARS.key_by("k").deduplicate(4).select("x"),
    "first texts": lambda: CARS.key_by("k").deduplicate(4).select("s"),
    "both": lambda: CARS.select("ts", "k", "x").join(CARS.select("ts", "k", "n"), on="k", within_s=(0, 2)).select("n"),
    "left": lambda: CARS.join(CARS.filter(col("x") > 1), on="n", within_s=(0, 2), how="left").select("s", "x_right"),
    "match": lambda: CARS.key_by("k").match(
        "A B", within_s=9, measures={"first": "first(A.s)"}, define={"B": col("n") > 1}
    ),
    "rank": lambda: CARS.key_by("s").window(tumbling(5)).aggregate(m=max_("n")).rank("m", 1),
}

dirty = st.fixed_dictionaries(
    {
        "ts": st.none() | st.integers(0, 40).map(lambda s: s * S + 2**50),
        "k": st.none() | st.integers(0, 2),
        "n": st.sampled_from([None, "0", "1", "2", "oops", "1.5"]),
        "x": st.sampled_from([None, 0.0, 1.5, float("nan"), float("inf")]),
        "s": st.sampled_from([None, "", "a", "b"]),
        "at": st.none() | st.integers(0, 2**50),
    }
)


def results(queries: Sequence[Query], events: Sequence[Mapping[str, Any]]) -> dict[str, list[str]]:
    run = start(Job.of("company", list(queries), {"cars": RowSource(events, RAW, 4)}), on="reference")
    run.wait()
    tables = {query.name: run.sink.table(query.table) for query in queries}  # type: ignore[attr-defined]
    return {name: [] if table is None else canonical(table.to_pylist()) for name, table in tables.items()}


def check(names: Sequence[str], events: Sequence[Mapping[str, Any]]) -> None:
    queries = [FLOWS[name]().sink(name.replace(" ", "_")) for name in names]
    together = results(queries, events)
    for query in queries:
        assert results([query], events)[query.name] == together[query.name]


some = st.lists(st.sampled_from(sorted(FLOWS)), min_size=2, max_size=4, unique=True)


@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(some, st.lists(dirty, max_size=30))
def test_a_query_has_the_results_among_others_that_it_has_alone(names: list[str], events: list[dict[str, Any]]) -> None:
    check(names, events)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@settings(max_examples=400, deadline=None, suppress_health_check=list(HealthCheck))
@given(some, st.lists(dirty, max_size=60))
def test_many_queries_have_the_results_among_others_that_they_have_alone(
    names: list[str], events: list[dict[str, Any]]
) -> None:
    check(names, events)
