"""Parked queries on Spark: the others go on, restarts remember them, a replacement or a repair brings them back."""

from collections.abc import Callable
from itertools import count as count_up
from pathlib import Path

import pyarrow as pa
import pytest
from tests.runtimes.spark.crashing import crashes
from tests.runtimes.spark.driver.test_repair import BAD_EPOCH, EPOCHS, bad_time, graph_with, in_a_column, lane_of
from tests.runtimes.spark.small_spark import SmallRun, roots, small_spark
from tests.small_city import city

from shoal.errors import QueryError, RunError
from shoal.model.control.messages import AddQuery, QueriesParked, RemoveQuery, ReplaceQuery
from shoal.model.query.aggregate import count, user_aggregate
from shoal.model.query.graph import Graph, Query
from shoal.model.query.window import tumbling
from shoal.runtimes.spark.driver.runtime import SparkRuntime
from shoal.runtimes.spark.rebinding.kept_run import SparkRun
from shoal.runtimes.spark.rebinding.mailbox import MailboxClient
from shoal.runtimes.spark.state.store import hot_directory
from shoal.session.digest import result_digest
from shoal.storage.directory import Directory
from shoal.workloads.traffic.queries import vehicles

__all__ = ["roots", "small_spark"]
pytestmark = pytest.mark.usefixtures("small_spark")


def broken() -> Query:
    return in_a_column(broken=True)


def digest(run: SmallRun) -> str:
    """The results of all queries but `lanes`."""
    tables = {name: run.sink.table(name) for name in run.sink.names() if name != "lanes"}
    return result_digest(tables)


@pytest.fixture
def right(roots: Callable[[], Path]) -> str:
    run = SmallRun(roots(), EPOCHS)
    run.go()
    return digest(run)


def parked(runtime: SparkRuntime) -> list[QueriesParked]:
    put = runtime._events._queue.queue
    return [event for event in put if isinstance(event, QueriesParked)]


def test_the_others_have_the_results_they_have_without_the_parked_query(roots: Callable[[], Path], right: str) -> None:
    run = SmallRun(roots(), EPOCHS, graph=graph_with(broken()), parks=True)
    runtime = run.go()
    (event,) = parked(runtime)
    assert event.queries == ("lanes",)
    assert event.reason == "function 'lane' raised ValueError: no lane"
    assert "speed=" in event.row
    assert digest(run) == right
    (kept,) = SparkRun(run.uri).parked(EPOCHS)
    assert (kept.name, kept.reason, kept.row) == ("lanes", event.reason, event.row)


def test_a_parked_query_stays_parked_after_a_restart(roots: Callable[[], Path], right: str) -> None:
    run = SmallRun(roots(), EPOCHS, graph=graph_with(broken()), parks=True)
    run.go(until=BAD_EPOCH + 1)
    run.parks = False
    runtime = run.go()
    assert [event.queries for event in parked(runtime)] == [("lanes",)]
    assert "lanes" not in runtime._runner.position.graph.queries
    assert digest(run) == right


def test_a_run_that_failed_can_be_resumed_with_the_query_parked(roots: Callable[[], Path], right: str) -> None:
    run = SmallRun(roots(), EPOCHS, graph=graph_with(broken()))
    with pytest.raises(QueryError):
        run.go()
    run.parks = True
    assert [event.queries for event in parked(run.go())] == [("lanes",)]
    assert digest(run) == right


def test_a_restart_with_repaired_code_brings_a_parked_query_back(roots: Callable[[], Path], right: str) -> None:
    run = SmallRun(roots(), EPOCHS, graph=graph_with(broken()), parks=True)
    run.go(until=BAD_EPOCH + 1)
    before = _rows(run)
    run.graph = graph_with(in_a_column(broken=False))
    runtime = run.go()
    assert parked(runtime) == []
    assert _rows(run) > before
    assert digest(run) == right


@pytest.mark.parametrize("kind", [AddQuery, ReplaceQuery])
def test_a_parked_query_is_replaced_by_a_command_of_another_process(
    kind: type[AddQuery | ReplaceQuery], roots: Callable[[], Path], right: str
) -> None:
    run = SmallRun(roots(), EPOCHS, graph=graph_with(broken()), parks=True)
    run.go(until=BAD_EPOCH + 1)
    number = MailboxClient(run.uri).ask(kind(in_a_column(broken=False)))
    runtime = run.go()
    reply = MailboxClient(run.uri).reply(number)
    assert reply is not None
    assert reply.epoch == BAD_EPOCH + 1
    assert "lanes" in runtime._runner.position.graph.queries
    assert runtime._runner.position.parked == ()
    assert digest(run) == right


def test_a_parked_query_can_be_removed(roots: Callable[[], Path]) -> None:
    commands = {BAD_EPOCH + 1: [RemoveQuery("lanes")]}
    run = SmallRun(roots(), EPOCHS, graph=graph_with(broken()), parks=True, commands=commands)
    assert run.go()._runner.position.parked == ()
    assert run.started()._runner.position.parked == ()


def test_a_crash_at_any_moment_of_parking_changes_no_result(
    roots: Callable[[], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    small = Graph.of([query for name, query in city().job.graph.queries.items() if name.endswith("[1]")])
    right = SmallRun(roots(), BAD_EPOCH + 2, graph=small)
    right.go()
    for operation in count_up(1, 5):
        run = SmallRun(roots(), BAD_EPOCH + 2, graph=small.with_query(broken()), parks=True)
        run.go(until=BAD_EPOCH)
        if not crashes(run.go, operation, monkeypatch):
            assert operation > 10
            break
        run.go()
        assert digest(run) == digest(right)
        Directory(hot_directory(run.uri)).clear()


class Listed:
    """An aggregate that changes its state in place, as users do."""

    def zero(self) -> list[int]:
        return []

    def add(self, state: list[int], values: list[float]) -> list[int]:
        state.append(len(values))
        return state

    def merge(self, one: list[int], other: list[int]) -> list[int]:
        one.extend(other)
        return one

    def result(self, state: list[int]) -> float:
        return float(sum(state))


def test_an_epoch_that_is_run_again_counts_nothing_twice(roots: Callable[[], Path]) -> None:
    listed = (
        vehicles().key_by("region").window(tumbling(11)).aggregate(n=user_aggregate(Listed, "speed")).sink("listed")
    )
    late = vehicles().window(tumbling(11)).aggregate(n=count(), x=user_aggregate(Listed, "speed"))
    fails = late.with_columns(bad=lane_of(_second_window())("window_end", "x")).sink("fails")
    run = SmallRun(roots(), EPOCHS, graph=Graph.of([listed, fails]), parks=True)
    assert [event.queries for event in parked(run.go())] == [("fails",)]
    alone = SmallRun(roots(), EPOCHS, graph=Graph.of([listed]))
    alone.go()
    assert _sorted(run.sink.table("listed")) == _sorted(alone.sink.table("listed"))


def _second_window() -> int:
    size_us = 11_000_000
    return (bad_time() // size_us) * size_us


def test_a_run_whose_last_query_fails_ends_with_an_error(roots: Callable[[], Path]) -> None:
    run = SmallRun(roots(), EPOCHS, graph=Graph.of([broken()]), parks=True)
    with pytest.raises(RunError, match="no query is left to run; query 'lanes' failed: function 'lane' raised"):
        run.go()


def _rows(run: SmallRun) -> int:
    return run.sink.table("lanes").num_rows if "lanes" in run.sink.names() else 0


def _sorted(table: pa.Table) -> list[dict[str, object]]:
    return sorted(table.to_pylist(), key=str)
