"""State on demand: instances move at once, and their state is read when it is needed, or in the background."""

import random
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from tests.runtimes.spark.crashing import through_crashes
from tests.runtimes.spark.small_spark import SmallRun, roots, small_spark

from shoal.compiler.program import Program
from shoal.errors import PartitioningError
from shoal.model.control.binding import Binding
from shoal.model.control.messages import (
    AddQuery,
    Command,
    EpochCommitted,
    Event,
    MovesFinished,
    Rebind,
    RemoveQuery,
    Repartition,
    RunEnded,
)
from shoal.model.control.partitioning import Split
from shoal.model.query.aggregate import count
from shoal.model.query.expression import col
from shoal.model.query.graph import Graph, InstanceId
from shoal.model.query.window import Rows, hop, sessions, tumbling
from shoal.policies.binding.static import round_robin, shuffled
from shoal.runtimes.spark.driver.position import Position, changed
from shoal.runtimes.spark.driver.runtime import SparkRuntime
from shoal.runtimes.spark.rebinding import throttle
from shoal.runtimes.spark.rebinding.migration import Limits, advanced
from shoal.runtimes.spark.rebinding.throttle import Throttle
from shoal.runtimes.spark.state.checkpoint import Checkpoint
from shoal.runtimes.spark.state.loading import LoadedState
from shoal.runtimes.spark.state.postponed import Postponed, Rest
from shoal.runtimes.spark.tasks.on_demand import OnDemand
from shoal.workloads.traffic.queries import vehicles

pytestmark = pytest.mark.usefixtures("small_spark")
__all__ = ["roots", "small_spark"]
ON_DEMAND = ("meces", "lazy-latency")
GROUPS = 12
COUNTED = vehicles().partition_by("vehicle", groups=GROUPS).window(tumbling(1000)).aggregate(n=count())
LONG = Graph.of([COUNTED.sink("counted")])
"""Windows that do not close while a run goes on, so that only rows need state."""
EPOCHS = 30
MANY = 20


def one_by_one(patched: pytest.MonkeyPatch) -> None:
    """Let one instance after another be read in the background."""
    patched.setattr(throttle, "LEAST_BYTES", 1)
    patched.setattr(Throttle, "learn", lambda self, event: None)


def to_one(graph: Graph) -> Binding:
    return Binding.of(dict.fromkeys(graph.stateful_instances, 1), 2)


def events_of(runtime: SparkRuntime) -> list[Event]:
    runtime._events.put(RunEnded(at_s=0.0))
    return list(runtime.events())


def finished(events: list[Event]) -> list[MovesFinished]:
    return [event for event in events if isinstance(event, MovesFinished)]


def unread(checkpoint: Checkpoint, epoch: int) -> set[InstanceId]:
    return {each.instance for each in checkpoint.manifest(epoch).postponed}


@pytest.mark.parametrize("name", ON_DEMAND)
def test_instances_move_at_once_and_their_state_follows(
    name: str, roots: Callable[[], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    one_by_one(monkeypatch)
    quiet = SmallRun(roots(), EPOCHS, rows_per_epoch=2, graph=LONG)
    quiet.go()
    run = SmallRun(roots(), EPOCHS, rows_per_epoch=2, graph=LONG, commands={12: [Rebind(to_one(LONG), name, "asked")]})
    run.go(until=14)
    assert set(run.checkpoint.plan(12).binding) == {0, 1}
    plan = run.checkpoint.plan(13)
    assert set(plan.binding) == {1}
    assert len(plan.postponed) == GROUPS // 2
    assert sum(each.ahead for each in plan.postponed) == 1
    left, reports = [unread(run.checkpoint, 13)], []
    for epoch in range(14, 20):
        reports += finished(events_of(run.go(until=epoch + 1)))
        left.append(unread(run.checkpoint, epoch))
    assert all(after <= before for before, after in pairwise(left))
    assert len(left[0]) > len(left[1]) > len(left[2])
    assert left[-1] == set()
    (report,) = reports
    assert (report.rebind, report.aborted, report.resumed) == ("asked", (), True)
    run.go()
    assert run.digest() == quiet.digest()


def test_all_moves_are_reported_when_the_last_state_has_been_read(
    roots: Callable[[], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    one_by_one(monkeypatch)
    run = SmallRun(
        roots(), EPOCHS, rows_per_epoch=2, graph=LONG, commands={12: [Rebind(to_one(LONG), "meces", "asked")]}
    )
    events = events_of(run.go(until=25))
    (report,) = finished(events)
    assert {move.instance for move in report.moves} == set(LONG.stateful_instances[::2])
    assert not report.resumed
    assert all(move.state_bytes > 0 and (move.seconds or 0) > 0 for move in report.moves)
    moved = [event.state_bytes_moved for event in events if isinstance(event, EpochCommitted)]
    assert sum(moved) == sum(move.state_bytes for move in report.moves)
    assert max(moved) < sum(moved) / 2


def mixed() -> Graph:
    """Every kind of operator with state, and operators behind one another; a row takes 3 ms."""
    cars = vehicles()
    near = cars.select("ts", "vehicle", "region")
    fast = cars.filter(col("speed") > 10).select("ts", "vehicle", "speed")
    terms: dict[str, Any] = {"on": "vehicle", "within_s": (0.0, 0.4), "groups": 8}
    by_vehicle = cars.partition_by("vehicle", groups=8)
    run: dict[str, Any] = {"within_s": 0.5, "measures": {"n": "count(A)"}, "define": {"B": col("speed") > 12}}
    hopping = by_vehicle.window(hop(0.2, 0.1)).aggregate(n=count())
    return Graph.of(
        [
            hopping.sink("hopping"),
            hopping.partition_by("n", groups=4).window(tumbling(0.3)).aggregate(m=count()).sink("twice"),
            by_vehicle.window(sessions(0.1)).aggregate(n=count()).sink("sessions"),
            by_vehicle.deduplicate(0.2).sink("once"),
            near.join(fast, **terms).sink("pairs"),
            near.join(fast, **terms, how="left", defaults={"speed": 0.0}).sink("all pairs"),
            by_vehicle.match("A B", **run).sink("runs"),
            by_vehicle.window(Rows(3, 1)).aggregate(n=count()).sink("threes"),
            by_vehicle.rank("speed", 1).sink("fastest"),
            COUNTED.sink("long"),
        ]
    )


def disturbed(graph: Graph, seed: int, names: Sequence[str], epochs: int) -> dict[int, list[Command]]:
    """Random rebindings in about every fourth epoch."""
    draw = random.Random(seed)
    return {
        epoch: [Rebind(shuffled(graph, draw.randint(1, 3), draw.getrandbits(32)), draw.choice(names))]
        for epoch in range(1, epochs)
        if draw.random() < 0.25
    }


SEEDS = [1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 8))]
"""One for every day, and more for the nights."""


@pytest.mark.parametrize("seed", SEEDS)
def test_state_that_comes_on_demand_changes_no_result(
    seed: int, roots: Callable[[], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    one_by_one(monkeypatch)
    graph = mixed()
    quiet = SmallRun(roots(), MANY, rows_per_epoch=3, graph=graph)
    quiet.go()
    names = (*ON_DEMAND, *ON_DEMAND, "megaphone", "all-at-once", "rhino")[: 4 if seed % 2 else 7]
    asked = disturbed(graph, seed, names, MANY)
    run = SmallRun(roots(), MANY, rows_per_epoch=3, graph=graph, commands=asked)
    left: list[int] = []
    caught_up = OnDemand.caught_up

    def counted(self: OnDemand, program: Program, held: LoadedState, marks_us: Mapping[str, int]) -> LoadedState:
        left.append(len(self.waiting))
        return caught_up(self, program, held, marks_us)

    monkeypatch.setattr(OnDemand, "caught_up", counted)
    run.go()
    assert sum(left) > 10
    assert run.digest() == quiet.digest()


@pytest.mark.parametrize("seed", SEEDS)
def test_crashes_while_state_is_not_read_yet_change_no_result(
    seed: int, roots: Callable[[], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    one_by_one(monkeypatch)
    graph = mixed()
    quiet = SmallRun(roots(), 10, rows_per_epoch=3, graph=graph)
    quiet.go()
    draw, asked = random.Random(seed), disturbed(graph, seed, ON_DEMAND, 10)
    for _ in range(1 if seed == 1 else 4):
        run = SmallRun(roots(), 10, rows_per_epoch=3, graph=graph, commands=asked)
        through_crashes(run.go, draw, monkeypatch)
        assert run.digest() == quiet.digest()


def test_queries_come_and_go_while_state_is_not_read_yet(
    roots: Callable[[], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    one_by_one(monkeypatch)
    graph = mixed()
    changes: dict[int, list[Command]] = {
        3: [RemoveQuery("all pairs")],
        4: [RemoveQuery("long")],
        9: [AddQuery(graph.queries["all pairs"])],
    }
    quiet = SmallRun(roots(), 10, rows_per_epoch=3, graph=graph, commands=changes)
    quiet.go()
    moving: dict[int, list[Command]] = {
        **changes,
        1: [Rebind(shuffled(graph, 3, 1), "meces")],
        4: [*changes[4], Rebind(shuffled(graph, 2, 5), "meces")],
    }
    run = SmallRun(roots(), 10, rows_per_epoch=3, graph=graph, commands=moving)
    run.go()
    assert run.digest() == quiet.digest()


def waiting_position(name: str, due_us: Sequence[int]) -> Position:
    """Instances on worker 1 whose state is still to be read, in segments of their own."""
    instances = LONG.stateful_instances[: len(due_us)]
    homes = {instance: f"s{number}" for number, instance in enumerate(instances)}
    sizes = dict.fromkeys(homes.values(), 100)
    return Position(
        LONG,
        to_one(LONG),
        homes=homes,
        segment_bytes=sizes,
        segment_sizes=dict.fromkeys(homes.values(), 1),
        postponed={i: Postponed(i, homes[i], 0, name, Rest(0, due)) for i, due in zip(instances, due_us, strict=True)},
    )


@pytest.mark.parametrize(("name", "first"), [("meces", [0, 1]), ("lazy-latency", [2, 1])])
def test_state_is_read_in_the_order_of_the_mechanism_within_the_throttle(name: str, first: list[int]) -> None:
    due_us = [50, 20, 10, 30]
    there = advanced(waiting_position(name, due_us), Limits(200))
    ahead = [number for number, each in enumerate(there.postponed.values()) if each.ahead]
    assert sorted(ahead) == sorted(first)
    later = there.arrived()
    assert [number for number, each in enumerate(later.postponed.values()) if each.load] == ahead
    assert sum(each.ahead for each in advanced(later, Limits(200)).postponed.values()) == 2


def test_an_instance_whose_state_is_not_read_yet_is_not_split() -> None:
    position = waiting_position("meces", [5, 5])
    first, *_, last = LONG.stateful_instances
    with pytest.raises(PartitioningError, match="cannot be split or merged yet: its worker has not read its state"):
        changed(position, Repartition((Split(first, 2),)), set())
    assert changed(position, Repartition((Split(last, 2),)), set()).partitioning.version == 1


def test_a_restart_with_another_number_of_workers_reads_all_state_at_once() -> None:
    position = waiting_position("meces", [5, 5, 5]).with_graph(LONG, round_robin(LONG, 3))
    assert [each.load for each in position.postponed.values()] == [True] * 3
    assert set(position.binding.worker_of.values()) == {0, 1, 2}
