"""Any graph over rows with nulls and NaN, through admission, has on the reference runtime what it has row by row."""

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.naive import interpret
from tests.random_graphs import cases
from tests.runtimes.local.row_source import RowSource
from tests.small_city import result_tables
from tests.test_random_graphs import canonical

from shoal.kernels.columns.block import arrow_schema
from shoal.model.query.graph import Graph
from shoal.model.query.schema import Schema
from shoal.session.job import Job
from shoal.session.run import start

Case = tuple[Graph, Mapping[str, Sequence[Mapping[str, Any]]]]


def check(case: Case, at_once: int) -> None:
    graph, rows = case
    sources = {}
    for stream, operator in graph.streams.items():
        time = operator.parameters["time"]
        ordered = sorted(rows[stream], key=lambda row: row[time])
        sources[stream] = RowSource(ordered, arrow_schema(Schema.of(operator.parameters["schema"])), at_once)
    run = start(Job.of("any", list(graph.queries.values()), sources), on="reference")
    tally = run.wait()
    got = {name: canonical(_plain(table)) for name, table in result_tables(run).items() if table.num_rows}
    assert got == {table: canonical(each) for table, each in interpret(graph, rows).items() if each}
    assert tally.dead_letters == 0


def _plain(table: pa.Table) -> list[dict[str, Any]]:
    """Rows with times as microseconds."""
    types = [(f.name, pa.int64() if pa.types.is_timestamp(f.type) else f.type) for f in table.schema]
    return table.cast(pa.schema(types)).to_pylist()


@settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck))
@given(cases(), st.integers(1, 50))
def test_any_graph_has_the_results_it_would_have_row_by_row(case: Case, at_once: int) -> None:
    check(case, at_once)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
@given(cases(), st.integers(1, 50))
def test_three_hundred_graphs_have_the_results_they_would_have_row_by_row(case: Case, at_once: int) -> None:
    check(case, at_once)
