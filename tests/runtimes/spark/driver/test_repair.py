"""Runs that resume with repaired functions: the epoch in flight, the state, and what is never loaded."""

import json
import re
from collections.abc import Callable
from itertools import count as count_up
from pathlib import Path
from typing import Any

import pytest
from tests.runtimes.spark.crashing import crashes
from tests.runtimes.spark.small_spark import SmallRun, roots, small_spark
from tests.small_city import city, city_events

from shoal.errors import QueryError, SignatureError
from shoal.kernels.expression import user
from shoal.model.control.messages import AddQuery, Repartition
from shoal.model.control.partitioning import Split
from shoal.model.query import code
from shoal.model.query.aggregate import count, sum_, user_aggregate
from shoal.model.query.expression import col
from shoal.model.query.functions import Function, udf
from shoal.model.query.graph import Graph, Query
from shoal.model.query.window import tumbling
from shoal.runtimes.spark.driver.repair import new_ids
from shoal.runtimes.spark.state.store import hot_directory
from shoal.storage.directory import Directory
from shoal.storage.signature import VARIABLE
from shoal.workloads.traffic.queries import vehicles

__all__ = ["roots", "small_spark"]
ROWS, EPOCHS, BAD_EPOCH = 1_500, 5, 2


def bad_time() -> int:
    """The event time of a row of the epoch that the broken functions fail in."""
    return int(city_events().batch(BAD_EPOCH * ROWS + 700, BAD_EPOCH * ROWS + 701)["ts"].cast("int64")[0].as_py())


def lane_of(fails_at: int | None, offset: int = 0) -> Function:
    """A function that is pickled by value, so that each version of it is another operator."""

    @udf("int64")
    def lane(ts: Any, speed: Any) -> Any:
        if fails_at is not None and (ts == fails_at).any():
            raise ValueError("no lane")
        return (speed // 40).astype("int64") + offset

    return lane


def total(broken: bool) -> type:
    class Total:
        def zero(self) -> float:
            return 0.0

        def add(self, state: float, values: list[float]) -> float:
            return state + len(values)

        def merge(self, one: float, other: float) -> float:
            return one + other

        def result(self, state: float) -> float:
            if broken and state > 200:
                raise ValueError("too much")
            return state

    return Total


def in_a_column(broken: bool) -> Query:
    lane = lane_of(bad_time() if broken else None)
    part = vehicles().with_columns(lane=lane("ts", "speed")).key_by("lane").window(tumbling(11))
    return part.aggregate(n=count(), total=sum_("speed")).sink("lanes")


def in_an_aggregate(broken: bool) -> Query:
    part = vehicles().key_by("vehicle_type").window(tumbling(11))
    return part.aggregate(n=user_aggregate(total(broken), "speed")).sink("lanes")


def graph_with(query: Query) -> Graph:
    return city().job.graph.with_query(query)


@pytest.mark.usefixtures("small_spark")
@pytest.mark.parametrize("query", [in_a_column, in_an_aggregate])
def test_a_restart_with_repaired_code_has_the_results_of_a_run_without_the_mistake(
    query: Callable[[bool], Query], roots: Callable[[], Path]
) -> None:
    right = SmallRun(roots(), EPOCHS, graph=graph_with(query(False)))
    right.go()
    run = SmallRun(right.root.parent / "broken", EPOCHS, graph=graph_with(query(True)))
    for _ in range(2):
        with pytest.raises(QueryError):
            run.go()
    failed = run.next_epoch()
    assert run.checkpoint.has_plan(failed)
    run.graph = graph_with(query(False))
    run.go()
    assert failed > 0
    assert run.digest() == right.digest()
    Directory(hot_directory(run.uri)).clear()


@pytest.mark.usefixtures("small_spark")
def test_a_repair_by_another_query_is_used_in_the_interrupted_epoch(roots: Callable[[], Path]) -> None:
    run = SmallRun(roots(), EPOCHS, graph=graph_with(in_a_column(broken=True)))
    with pytest.raises(QueryError):
        run.go()
    run.graph = graph_with(vehicles().filter(col("speed") > 100).select("ts", "speed").sink("lanes", table="fast"))
    run.go()
    rows = run.sink.table("fast").num_rows
    later = city_events().batch(BAD_EPOCH * ROWS, EPOCHS * ROWS)["speed"].to_numpy()
    assert rows == (later > 100).sum() > 0


@pytest.mark.usefixtures("small_spark")
def test_a_crash_at_any_moment_of_the_repair_leaves_the_same_results(
    roots: Callable[[], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    right = SmallRun(roots(), BAD_EPOCH + 1, graph=Graph.of([in_a_column(broken=False)]))
    right.go()
    for operation in count_up(1, 2):
        run = SmallRun(roots(), BAD_EPOCH + 1, graph=Graph.of([in_a_column(broken=True)]))
        with pytest.raises(QueryError):
            run.go()
        run.graph = right.graph
        if not crashes(run.go, operation, monkeypatch):
            assert operation > 10
            break
        run.go()
        assert run.digest() == right.digest()
        Directory(hot_directory(run.uri)).clear()


@pytest.mark.usefixtures("small_spark")
def test_instances_that_were_split_keep_their_state_when_the_code_changes(roots: Callable[[], Path]) -> None:
    before, after = graph_with(in_a_column(broken=False)), graph_with(_other_lane())
    split = next(i for op in before.queries["lanes"].operators if op.kind == "aggregate" for i in op.instances)
    run = SmallRun(roots(), EPOCHS, graph=before, commands={1: [Repartition((Split(split, 3),))]})
    run.go(until=3)
    run.graph = after
    run.go()
    right = SmallRun(roots(), EPOCHS, graph=before)
    right.go()
    assert run.digest() == right.digest()


def _other_lane() -> Query:
    """The same results by a function with another text."""

    @udf("int64")
    def lane(ts: Any, speed: Any) -> Any:
        return (speed // 40).astype("int64") + 0 * ts

    part = vehicles().with_columns(lane=lane("ts", "speed")).key_by("lane").window(tumbling(11))
    return part.aggregate(n=count(), total=sum_("speed")).sink("lanes")


def test_operators_that_differ_in_more_than_code_are_not_the_same() -> None:
    def lanes(window: int, offset: int) -> Query:
        part = vehicles().with_columns(lane=lane_of(None, offset)("ts", "speed")).key_by("lane")
        return part.window(tumbling(window)).aggregate(n=count()).sink("lanes")

    assert new_ids(Graph.of([lanes(5, 0)]), Graph.of([lanes(5, 0)])) == {}
    assert new_ids(Graph.of([lanes(5, 0)]), Graph.of([lanes(6, 1)])) == {}
    assert len(new_ids(Graph.of([lanes(5, 0)]), Graph.of([lanes(5, 1)]))) == 1


@pytest.mark.usefixtures("small_spark")
def test_old_functions_are_not_loaded_by_a_restart_that_supplies_new_ones(
    roots: Callable[[], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = SmallRun(roots(), EPOCHS, graph=graph_with(in_a_column(broken=True)))
    with pytest.raises(QueryError):
        run.go()
    old = set(_codes(run.graph))
    _as_another_user(monkeypatch, run.root)
    run.graph = graph_with(in_a_column(broken=False))
    loaded: list[str] = []

    def load(text: str) -> Any:
        loaded.append(text)
        return code.load(text)

    monkeypatch.setattr(user, "load", load)
    run.go()
    assert loaded
    assert old.isdisjoint(loaded)


@pytest.mark.usefixtures("small_spark")
def test_functions_that_only_the_checkpoint_has_must_be_signed(
    roots: Callable[[], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = SmallRun(roots(), EPOCHS, commands={1: [AddQuery(in_a_column(broken=False))]})
    run.go(until=2)
    _as_another_user(monkeypatch, run.root)
    with pytest.raises(SignatureError, match="so it is not run"):
        run.go()


def _as_another_user(patched: pytest.MonkeyPatch, root: Path) -> None:
    """Go on as a process with another key, which has no functions of its own yet."""
    patched.setattr(code, "_TRUSTED", set())
    code.load.cache_clear()
    patched.setenv(VARIABLE, str(root / "other" / "key"))


def _codes(graph: Graph) -> list[str]:
    return re.findall(r'"(pickle:[^"]+)"', json.dumps(graph.data()))
