"""Instances that are split and merged between epochs, while others move and the process dies."""

import random
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.runtimes.spark.crashing import Crash, crash_at, through_crashes
from tests.runtimes.spark.small_spark import SmallRun, roots, small_spark  # noqa: F401
from tests.small_city import city

from shoal.model.control.messages import Command, CommandRefused, Rebind, Repartition, RunEnded
from shoal.model.control.partitioning import DECLARED, Merge, Regroup, Split, operator_of
from shoal.model.query.aggregate import count, max_
from shoal.model.query.expression import col
from shoal.model.query.graph import Graph, InstanceId
from shoal.model.query.window import hop, sessions, tumbling
from shoal.policies.binding.static import shuffled
from shoal.session.digest import differences
from shoal.session.partitions import changed, random_changes
from shoal.workloads.traffic.queries import vehicles

pytestmark = pytest.mark.usefixtures("small_spark")


def mixed_graph() -> Graph:
    """The city's queries and some with key groups, rows as state, and operators behind one another."""
    counted = vehicles().partition_by("vehicle", groups=4).window(hop(4, 1)).aggregate(n=count(), top=max_("speed"))
    queries = [
        *city().job.graph.queries.values(),
        counted.sink("counted"),
        counted.filter(col("n") > 1).key_by("vehicle").window(tumbling(4)).aggregate(m=count()).sink("twice"),
        vehicles().key_by("vehicle").window(sessions(2)).aggregate(n=count()).sink("sessions"),
        vehicles().partition_by("region", groups=2).key_by("vehicle").deduplicate(3).sink("first"),
    ]
    return Graph.of(queries)


def commands(graph: Graph, epochs: int, seed: int, workers: int = 3) -> dict[int, list[Command]]:
    """Random changes and moves for every epoch but the first."""
    draw, partitioning = random.Random(seed), DECLARED
    asked: dict[int, list[Command]] = {}
    for epoch in range(1, epochs):
        changes = random_changes(graph, partitioning, draw)
        partitioning = changed(partitioning, changes, graph)
        asked[epoch] = [
            Repartition(changes),
            Rebind(shuffled(graph, workers, draw.getrandbits(32), partitioning)),
        ]
    return asked


@pytest.mark.parametrize("seed", range(3))
def test_random_splits_merges_and_moves_change_no_result(roots: Callable[[], Path], seed: int) -> None:  # noqa: F811
    graph = mixed_graph()
    quiet = SmallRun(roots(), epochs=4, graph=graph, workers=3)
    quiet.go()
    asked = commands(graph, 4, seed)
    run = SmallRun(roots(), epochs=4, graph=graph, workers=3, commands=asked)
    runtime = run.go()
    assert sum(len(each[0].changes) for each in asked.values() if isinstance(each[0], Repartition)) > 5
    assert runtime._runner.position.partitioning.version > 5
    assert [event for event in drained(runtime) if isinstance(event, CommandRefused)] == []
    assert run.digest() == quiet.digest()
    results = {name: run.sink.table(name) for name in run.sink.names()}
    assert differences(results, city().expected(6_000)) == []


@pytest.mark.parametrize("seed", range(3))
def test_state_that_no_row_touches_is_divided_with_the_rest(roots: Callable[[], Path], seed: int) -> None:  # noqa: F811
    """Three events per epoch: most instances are quiet in the epoch that divides their state."""
    graph = mixed_graph()
    quiet = SmallRun(roots(), epochs=12, rows_per_epoch=3, graph=graph, workers=3)
    quiet.go()
    asked = commands(graph, 12, seed)
    run = SmallRun(roots(), epochs=12, rows_per_epoch=3, graph=graph, workers=3, commands=asked)
    run.go()
    assert run.digest() == quiet.digest()


def test_a_crash_at_any_file_operation_changes_no_result(
    roots: Callable[[], Path],  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    graph = mixed_graph()
    asked = commands(graph, 3, seed=5)
    quiet = SmallRun(roots(), epochs=3, rows_per_epoch=300, graph=graph, workers=3, commands=asked)
    with monkeypatch.context() as patched:
        operations = crash_at(0, patched)
        quiet.go()
    for operation in range(1, operations() + 1, 3):
        run = SmallRun(roots(), epochs=3, rows_per_epoch=300, graph=graph, workers=3, commands=asked)
        with monkeypatch.context() as patched:
            crash_at(operation, patched)
            with pytest.raises(Crash):
                run.go()
        run.go()
        assert run.digest() == quiet.digest(), f"crash at file operation {operation}"


def test_crashes_at_random_moments_change_no_result(
    roots: Callable[[], Path],  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    graph = mixed_graph()
    asked = commands(graph, 5, seed=9)
    quiet = SmallRun(roots(), epochs=5, rows_per_epoch=300, graph=graph, workers=3, commands=asked)
    quiet.go()
    draw = random.Random(2)
    for _ in range(5):
        run = SmallRun(roots(), epochs=5, rows_per_epoch=300, graph=graph, workers=3, commands=asked)
        through_crashes(run.go, draw, monkeypatch)
        assert run.digest() == quiet.digest()


def test_only_instances_that_change_are_written_again(roots: Callable[[], Path]) -> None:  # noqa: F811
    graph = mixed_graph()
    split = next(i for i in graph.stateful_instances if i.endswith("/3"))
    run = SmallRun(roots(), epochs=4, graph=graph, rows_per_epoch=600, commands={2: [Repartition((Split(split, 3),))]})
    run.go(until=2)
    before = run.started()._runner.position
    run.go(until=3)
    after = run.started()._runner.position
    assert set(after.instances) - set(before.instances) == {
        InstanceId(f"{operator_of(split)}/4"),
        InstanceId(f"{operator_of(split)}/5"),
    }
    assert after.held == after.partitioning != DECLARED
    assert before.heirs == after.heirs == {}


def test_a_change_that_makes_no_sense_is_refused_and_the_run_goes_on(roots: Callable[[], Path]) -> None:  # noqa: F811
    graph = city().job.graph
    by_region = graph.queries["vehicle_count[0]"].operators[-2]
    first = graph.stateful_instances[0]
    unknown = Repartition((Split(first),), {InstanceId("nobody/0"): 0})
    asked: dict[int, list[Command]] = {
        1: [
            Repartition((Split(InstanceId(f"{by_region.id}/0")),)),
            Repartition((Regroup(by_region.id, 0),)),
            Repartition((Merge((first, InstanceId("other/0"))),)),
            unknown,
        ]
    }
    run = SmallRun(roots(), epochs=3, commands=asked)
    runtime = run.go()
    reasons = [event.reason for event in drained(runtime) if isinstance(event, CommandRefused)]
    assert "has one key only and cannot be split" in reasons[0]
    assert "can have 1 to 64 instances" in reasons[1]
    assert "merge needs two or more different instances of one operator" in reasons[2]
    assert "the binding names instance 'nobody/0'" in reasons[3]
    assert runtime._runner.position.partitioning == DECLARED


def drained(runtime: object) -> list[object]:
    """What a runtime that has stopped has said."""
    runtime._events.put(RunEnded(at_s=0.0))  # type: ignore[attr-defined]
    return list(runtime.events())  # type: ignore[attr-defined]
