"""Queries that fail, on every runtime: named with the function and the row, and parked if asked."""

from collections.abc import Callable

import pytest
from tests.conformance.failing import BAD, CARS, FAILING, ROWS, cars, gear, in_a_column, plain, steady
from tests.small_city import result_tables

from shoal.errors import ConfigError, GraphError, QueryError, RunError
from shoal.model.control.messages import AddQuery, EpochCommitted, RemoveQuery, ReplaceQuery
from shoal.model.query.expression import col
from shoal.model.query.functions import call
from shoal.model.query.graph import Graph, Query
from shoal.policies.binding.static import round_robin
from shoal.runtimes.arrangement import Arrangement
from shoal.runtimes.local.settings import LocalSettings
from shoal.session.job import Job
from shoal.session.run import Run, start

QUICK = [
    pytest.param({"on": "reference"}, id="reference"),
    pytest.param({"on": "local"}, id="local"),
    pytest.param({"on": "local", "policy": "round-robin", "local": LocalSettings(most_workers=2)}, id="local, bound"),
]


def started(broken: Query, options: dict[str, object], **more: object) -> Run:
    job = Job.of("j", [steady(), broken, plain()], {"cars": cars()})
    return start(job, **options, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize("options", QUICK)
@pytest.mark.parametrize(("broken", "reason", "row"), FAILING)
def test_a_query_that_fails_is_named_with_the_function_and_the_row(
    broken: Callable[[], Query], reason: str, row: str, options: dict[str, object]
) -> None:
    with pytest.raises(QueryError) as caught:
        started(broken(), options).wait()
    error = caught.value
    assert error.queries == ("broken",)
    assert error.reason.startswith(reason)
    assert row in error.row
    assert str(error).startswith(f"query 'broken' failed: {reason}")
    assert "\n" not in str(error)


def rows_of(run: Run, table: str) -> list[dict[str, object]]:
    found = result_tables(run).get(table)
    return [] if found is None else sorted(found.to_pylist(), key=str)


@pytest.fixture(scope="module")
def right() -> dict[str, list[dict[str, object]]]:
    run = start(Job.of("j", [steady(), plain()], {"cars": cars()}), on="reference")
    run.wait()
    return {name: rows_of(run, name) for name in ("steady", "plain")}


@pytest.mark.parametrize("options", QUICK)
@pytest.mark.parametrize(("broken", "reason", "row"), FAILING)
def test_a_parked_query_stops_and_the_others_have_the_results_they_have_without_it(
    broken: Callable[[], Query],
    reason: str,
    row: str,
    options: dict[str, object],
    right: dict[str, list[dict[str, object]]],
) -> None:
    run = started(broken(), options, on_query_error="park")
    run.wait()
    (parked,) = run.parked
    assert parked.queries == ("broken",)
    assert parked.reason.startswith(reason)
    assert row in parked.row
    assert {name: rows_of(run, name) for name in right} == right
    assert len(rows_of(run, "broken")) < ROWS // 2 + BAD


@pytest.mark.parametrize("options", QUICK)
def test_queries_that_share_what_failed_are_parked_together(options: dict[str, object]) -> None:
    shared = CARS.select("ts", g=gear("k"))
    first, second = shared.sink("first"), shared.filter(col("g") > 2).sink("second")
    run = start(Job.of("j", [first, steady(), second], {"cars": cars()}), on_query_error="park", **options)  # type: ignore[arg-type]
    run.wait()
    assert {name for each in run.parked for name in each.queries} == {"first", "second"}
    assert len(rows_of(run, "steady")) == ROWS


@pytest.mark.parametrize("options", QUICK)
def test_a_run_without_a_query_left_fails(options: dict[str, object]) -> None:
    job = Job.of("j", [in_a_column()], {"cars": cars()})
    with pytest.raises(RunError, match="no query is left to run; query 'broken' failed: function 'gear' raised"):
        start(job, on_query_error="park", **options).wait()  # type: ignore[arg-type]


def test_a_parked_query_can_be_replaced_while_the_run_goes_on() -> None:
    run = started(in_a_column(), {"on": "reference"}, on_query_error="park")
    repaired = CARS.select("ts", g=call("abs", "k")).sink("broken")

    def repair(run: Run, event: EpochCommitted) -> None:
        if run.parked and "broken" not in run.graph.queries:
            run.replace(repaired)

    run.wait(repair)
    assert run.refused == []
    values = [each["g"] for each in sorted(rows_of(run, "broken"), key=lambda row: str(row["ts"]))]
    assert values == [*(k % 5 for k in range(30)), *range(40, 60)]


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        pytest.param(CARS.select("k").sink("broken"), "must write table 'broken' with the columns that it has, ts, g"),
        pytest.param(CARS.select("ts", g=col("k")).sink("other", table="broken"), ""),
    ],
)
def test_a_replacement_of_a_parked_query_is_checked_like_any_other(query: Query, reason: str) -> None:
    graph = Graph.of([steady(), in_a_column()])
    error = QueryError("", ("broken",), "it raised", "k=1")
    parked = Arrangement(graph, round_robin(graph, 2)).parking(error)
    assert list(parked.graph.queries) == ["steady"]
    assert parked.parked["broken"].reason == "it raised"
    if reason:
        with pytest.raises(GraphError, match=reason):
            parked.after(ReplaceQuery(query), {"cars"})
    else:
        assert set(parked.after(AddQuery(query), {"cars"}).parked) == {"broken"}
    assert parked.after(RemoveQuery("broken"), {"cars"}).parked == {}


def test_an_unknown_way_to_treat_failures_is_refused() -> None:
    with pytest.raises(ConfigError, match="on_query_error must be fail or park; got 'ignore'"):
        started(in_a_column(), {"on": "reference"}, on_query_error="ignore")
