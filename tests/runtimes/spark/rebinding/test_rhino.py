"""Moves that are announced: the binding changes an epoch later, and what will be needed is read before."""

import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from pyspark.sql import SparkSession
from tests.runtimes.spark.crashing import Crash, crash_at, through_crashes
from tests.runtimes.spark.driver.test_snapshot import committed
from tests.runtimes.spark.small_spark import SmallRun, roots, small_spark
from tests.small_city import city

from shoal.compiler.program import compile_graph
from shoal.connectors.sinks import MemorySink
from shoal.errors import ConfigError
from shoal.model.control.binding import Binding
from shoal.model.control.messages import AddQuery, Command, EpochCommitted, Rebind, RemoveQuery, RunEnded
from shoal.model.query.aggregate import count
from shoal.model.query.expression import col
from shoal.model.query.window import tumbling
from shoal.policies.binding.static import round_robin, shuffled
from shoal.runtimes.spark.driver.position import Position, changed
from shoal.runtimes.spark.driver.runtime import SparkRuntime, SparkSetup
from shoal.runtimes.spark.rebinding.migration import Limits, advanced
from shoal.runtimes.spark.rebinding.rebinding import RESTARTED
from shoal.runtimes.spark.state.checkpoint import EpochPlan, StateRef
from shoal.runtimes.spark.state.loading import ahead, loaded
from shoal.runtimes.spark.state.store import StateStore, hot_directory
from shoal.session.digest import differences
from shoal.workloads.traffic.queries import vehicles

__all__ = ["roots", "small_spark"]
GRAPH = city().job.graph
FIRST, OTHER = GRAPH.stateful_instances[0], GRAPH.stateful_instances[1]


def announced(root: Path, epochs: int = 6, **options: Any) -> SmallRun:
    return SmallRun(root, epochs=epochs, mechanism="rhino", **options)


@pytest.mark.usefixtures("small_spark")
def test_a_binding_is_used_one_epoch_after_it_was_asked_for(roots: Callable[[], Path]) -> None:
    wanted = shuffled(GRAPH, 3, seed=1)
    run = announced(roots(), commands={2: [Rebind(wanted)]})
    events = committed(run.go())
    used = [event.snapshot.binding.worker_of == wanted.worker_of for event in events]
    assert used == [False] * 3 + [True] * 4
    assert [event.moves > 0 for event in events] == [False] * 3 + [True] + [False] * 3
    assert [event.snapshot.binding.workers for event in events] == [2, 2, 2, 3, 3, 3, 3]


@pytest.mark.usefixtures("small_spark")
def test_results_are_those_of_moves_that_are_not_announced(roots: Callable[[], Path]) -> None:
    plain = SmallRun(roots(), shuffle=True, workers=3)
    plain.go()
    run = announced(roots(), shuffle=True, workers=3)
    assert committed(run.go())[-2].moves > 0
    assert run.digest() == plain.digest()


@pytest.mark.usefixtures("small_spark")
def test_the_plan_says_what_is_coming_and_a_replay_does_the_same(
    roots: Callable[[], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = shuffled(GRAPH, 2, seed=3)
    run = announced(roots(), commands={2: [Rebind(wanted)]})
    run.go(until=2)
    with monkeypatch.context() as patched:
        crash_at(6, patched)  # the plan of epoch 2 is written, and some of its state
        with pytest.raises(Crash):
            run.go()
    compiled = compile_graph(GRAPH)
    numbers = tuple(int(wanted.worker_of[instance]) for instance in compiled.instances)
    plan = run.checkpoint.plan(2)
    assert (plan.coming, plan.coming_workers) == (numbers, 2)
    assert plan.binding != numbers
    events = committed(run.go())
    assert [event.epoch for event in events][:2] == [2, 3]
    assert events[0].replayed
    assert [event.snapshot.binding.worker_of == wanted.worker_of for event in events] == [False] + [True] * 4
    assert [event.moves > 0 for event in events] == [False, True, False, False, False]


@pytest.mark.usefixtures("small_spark")
def test_crashes_while_bindings_are_announced_change_no_result(
    roots: Callable[[], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    part = vehicles().filter(col("region") == 2).key_by("vehicle_type")
    extra = part.window(tumbling(2)).aggregate(n=count()).sink("extra")
    commands: dict[int, list[Command]] = {
        1: [Rebind(shuffled(GRAPH, 2, seed=1)), RemoveQuery("avg_speed[1]")],
        2: [AddQuery(extra)],
        3: [RemoveQuery("vehicle_count[0]"), AddQuery(GRAPH.queries["avg_speed[1]"])],
    }
    quiet = SmallRun(roots(), epochs=5, commands={**commands, 1: commands[1][1:]})
    quiet.go()
    draw = random.Random(2)
    for _ in range(15):
        run = announced(roots(), epochs=5, commands=commands)
        through_crashes(run.go, draw, monkeypatch)
        assert run.digest() == quiet.digest()


@pytest.mark.usefixtures("small_spark")
def test_what_leaves_is_written_apart_and_not_again_by_who_gets_it(roots: Callable[[], Path]) -> None:
    target = Binding.of(dict.fromkeys(GRAPH.stateful_instances, 1), 2)
    run = announced(roots(), epochs=8, rows_per_epoch=300, commands={4: [Rebind(target)]})
    run.go(until=5)
    states = run.checkpoint.manifest(4).states
    written = {ref.segment.split("-")[1] for ref in states if ref.segment.startswith(f"{4:010d}")}
    assert written == {"1"}
    run.go(until=6)
    plan = run.checkpoint.plan(5)
    assert plan.binding == (1,) * len(plan.binding)
    assert all(ref.workers == (1,) for ref in plan.states)


def rebound(**workers: int) -> Rebind:
    return Rebind(Binding.of({{"first": FIRST, "other": OTHER}[name]: n for name, n in workers.items()}, 3))


def announce(position: Position, command: Rebind) -> Position:
    return advanced(changed(position, command, set(), "rhino"), Limits(1))


def test_announced_bindings_add_up_and_fit_a_graph_that_changes() -> None:
    position = Position(GRAPH, round_robin(GRAPH, 3))
    position = changed(position, rebound(first=2), set(), "rhino")
    position = announce(position, rebound(other=0))
    assert position.binding == round_robin(GRAPH, 3)
    removed = next(name for name, query in GRAPH.queries.items() if query.operators[-2].id in FIRST)
    position = changed(position, RemoveQuery(removed), {"vehicles"})
    assert position.coming is not None
    assert FIRST not in position.coming.worker_of
    arrived = position.arrived()
    assert arrived.coming is None
    assert arrived.binding.worker_of[OTHER] == 0
    assert set(arrived.binding.worker_of) == set(position.graph.stateful_instances)


def test_a_restart_with_another_number_of_workers_forgets_what_was_announced() -> None:
    position = announce(Position(GRAPH, round_robin(GRAPH, 3)), rebound(first=2))
    assert position.with_graph(GRAPH, round_robin(GRAPH, 3)).coming is not None
    assert position.with_graph(GRAPH, round_robin(GRAPH, 3)).rebinding is not None
    other = position.with_graph(GRAPH, round_robin(GRAPH, 2))
    assert (other.coming, other.rebinding) == (None, None)
    assert [(each.instance, each.aborted) for each in other.closed[0].reports] == [(FIRST, RESTARTED)]


def test_only_rested_segments_of_what_comes_are_read_ahead() -> None:
    def ref(epoch: int, *coming: int) -> StateRef:
        return StateRef(f"{epoch:010d}-0-x.seg", 10, None, (0,), coming)

    states = (ref(5, 1), ref(8, 1, 2), ref(9, 1), ref(3, 2), ref(2))
    plan = EpochPlan(epoch=10, graph="graph", workers=3, binding=(), watermarks_us={}, states=states, now_us=0)
    assert ahead(plan, 1) == [states[0], states[1]]
    assert ahead(plan, 2) == [states[1], states[3]]
    assert ahead(plan, 0) == []


@pytest.mark.usefixtures("small_spark")
def test_bytes_moved_and_bytes_fetched_late_are_counted(roots: Callable[[], Path]) -> None:
    run = SmallRun(roots(), commands={2: [Rebind(Binding.of({FIRST: 1, OTHER: 0}, 2))]})
    events = committed(run.go(until=4))
    assert [event.state_bytes_moved > 0 for event in events] == [False, False, True, False]
    assert [event.state_bytes_late for event in events] == [0, 0, 0, 0]  # one process has it all
    compiled, states = compile_graph(GRAPH), run.checkpoint.manifest(3).states
    arrived = replace(run.checkpoint.plan(3), states=states, arrived=(compiled.instances.index(FIRST),))
    far = StateStore(run.uri)
    fetched = loaded(compiled, arrived, 1, 1, far)
    assert fetched.late_bytes == fetched.moved_bytes > 0
    again = loaded(compiled, arrived, 1, 1, far)
    assert (again.late_bytes, again.moved_bytes) == (0, fetched.moved_bytes)
    assert loaded(compiled, arrived, 0, 1, far).moved_bytes == 0


@pytest.mark.parametrize("hot", [True, False], ids=["with shared memory", "without"])
def test_on_spark_announced_moves_change_no_result(hot: bool, spark: SparkSession, tmp_path: Path) -> None:
    ready, sink = city(rows_per_epoch=1_000), MemorySink()
    setup = SparkSetup(spark, str(tmp_path), ready.job.sources, sink, mechanism="rhino", hot=hot)
    runtime = SparkRuntime(setup)
    runtime.start(GRAPH, round_robin(GRAPH, 3))
    moves = []
    for event in runtime.events():
        assert not isinstance(event, RunEnded) or event.error is None
        if isinstance(event, EpochCommitted):
            moves.append(event.moves)
            runtime.apply(Rebind(shuffled(GRAPH, 3, seed=event.epoch)))
    assert sum(moves) > 0
    assert differences({name: sink.table(name) for name in sink.names()}, ready.expected(runtime.consumed)) == []
    assert Path(hot_directory(str(tmp_path))).exists() is False


def test_a_mechanism_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"mechanism must be one of megaphone, all-at-once, rhino, .*; got 'psychic'"):
        SparkSetup(cast(Any, None), "checkpoint", {}, MemorySink(), mechanism="psychic")
