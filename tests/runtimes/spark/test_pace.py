"""Rebindings in steps: every step is small, the steps lead to the binding that was asked for, and no result changes."""

import random
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.runtimes.spark.crashing import through_crashes
from tests.runtimes.spark.small_spark import SmallRun, places, small_spark
from tests.runtimes.spark.test_precopy import FIRST, GRAPH
from tests.runtimes.spark.test_snapshot import committed

from shoal.model.binding import Binding, WorkerId
from shoal.model.messages import AddQuery, Command, EpochCommitted, Rebind, RemoveQuery
from shoal.model.snapshot import Snapshot
from shoal.policies.static import round_robin, shuffled
from shoal.runtimes.spark import pace
from shoal.runtimes.spark.pace import FIRST_BYTES_PER_S, LEAST_BYTES, SHARE, Pace, step
from shoal.runtimes.spark.position import Position

__all__ = ["places", "small_spark"]
INSTANCES = GRAPH.stateful_instances
SIZE = 100


def position(binding: Binding, segments: int, seed: int) -> Position:
    """Instances spread over some segments at random, a few without state."""
    draw = random.Random(seed)
    homes = {i: f"s{draw.randrange(segments)}" for i in INSTANCES if draw.random() < 0.9}
    sizes = {name: list(homes.values()).count(name) for name in set(homes.values())}
    segment_bytes = {name: SIZE * size for name, size in sizes.items()}
    return Position(GRAPH, binding, homes=homes, segment_sizes=sizes, segment_bytes=segment_bytes)


@given(st.integers(1, 5), st.integers(1, 5), st.integers(0, 2**16), st.integers(1, 40), st.integers(1, 6))
def test_steps_are_small_and_lead_to_what_was_asked_for(
    before: int, after: int, seed: int, instances: int, segments: int
) -> None:
    wanted = shuffled(GRAPH, after, seed)
    here = position(shuffled(GRAPH, before, seed + 1), segments, seed)
    for _ in range(len(INSTANCES) + 1):
        binding = step(here, wanted, SIZE * instances)
        moved = list(here.binding.diff(binding))
        with_state = [move for move in moved if move.instance in here.homes]
        assert len(with_state) <= instances
        assert all(binding.worker_of[move.instance] == wanted.worker_of[move.instance] for move in moved)
        left_behind = [i for i, worker in binding.worker_of.items() if worker >= after]
        assert binding.workers == max(after, 1 + max(binding.worker_of.values()))
        if left_behind:  # nothing else moves while somebody is on a worker that is to go
            assert all(here.binding.worker_of[move.instance] >= after for move in with_state)
        if binding is wanted:
            return
        assert with_state
        here = Position(GRAPH, binding, homes=here.homes, segment_sizes=here.segment_sizes,
                        segment_bytes=here.segment_bytes)  # fmt: skip
    pytest.fail("there are more steps than instances")


def test_an_instance_that_is_too_large_moves_alone() -> None:
    here = position(round_robin(GRAPH, 2), 1, 0)
    binding = step(here, Binding(dict.fromkeys(INSTANCES, WorkerId(0)), 2), most_bytes=1)
    assert sum(move.instance in here.homes for move in here.binding.diff(binding)) == 1


def epoch(*, duration_s: float = 1.0, moved: int = 0, migration_s: float = 0.0, rows: int = 1) -> EpochCommitted:
    return EpochCommitted(
        0, rows, 0, 0, int(moved > 0), 0, moved, duration_s, duration_s, 0.0, migration_s, 0.0,
        Snapshot(0, round_robin(GRAPH, 1)), at_s=0.0,
    )  # fmt: skip


def test_what_may_move_follows_how_long_epochs_take_and_how_fast_state_is_read() -> None:
    known = Pace()
    assert known.most_bytes == LEAST_BYTES
    for _ in range(30):
        known.learn(epoch(duration_s=2.0))
    assert known.most_bytes == pytest.approx(SHARE * 2.0 * FIRST_BYTES_PER_S, rel=0.01)
    for _ in range(30):
        known.learn(epoch(duration_s=9.0, moved=10**9, migration_s=2.0))  # longer because of the moves
    assert known.most_bytes == pytest.approx(SHARE * 2.0 * 5e8, rel=0.01)
    known.learn(epoch(duration_s=500.0, rows=0))
    assert known.most_bytes == pytest.approx(SHARE * 2.0 * 5e8, rel=0.01)


@pytest.mark.usefixtures("small_spark")
def test_a_large_rebinding_takes_several_epochs(places: Callable[[], Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pace, "LEAST_BYTES", 1)
    wanted = Binding.of(dict.fromkeys(INSTANCES, 0), 1)
    run = SmallRun(places(), epochs=6 + len(INSTANCES), rows_per_epoch=300, commands={2: [Rebind(wanted)]})
    monkeypatch.setattr(Pace, "learn", lambda self, event: None)
    events = committed(run.go())
    moves = [event.moves for event in events]
    assert sum(moves) == sum(1 for _ in round_robin(GRAPH, 2).diff(wanted))
    assert max(moves) < sum(moves)
    assert events[2].snapshot.binding.workers == 2  # until nobody is left on worker 1
    assert events[-1].snapshot.binding == wanted
    at_once = SmallRun(places(), epochs=run.epochs, rows_per_epoch=300, mechanism="lazy", commands=run.commands)
    at_once.go()
    assert run.digest() == at_once.digest()


@pytest.mark.usefixtures("small_spark")
def test_what_is_asked_for_between_two_steps_adds_up(
    places: Callable[[], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pace, "LEAST_BYTES", 1)
    monkeypatch.setattr(Pace, "learn", lambda self, event: None)
    all_over = Binding.of(dict.fromkeys(INSTANCES, 0), 2)
    removed = next(name for name, query in GRAPH.queries.items() if query.operators[-2].id not in FIRST)
    commands: dict[int, list[Command]] = {
        1: [Rebind(all_over)],
        2: [Rebind(Binding.of({FIRST: 1}, 2))],
        3: [RemoveQuery(removed)],
        4: [AddQuery(GRAPH.queries[removed])],
    }
    run = SmallRun(places(), epochs=8 + len(INSTANCES), rows_per_epoch=300, commands=commands)
    last = committed(run.go())[-1].snapshot.binding
    assert last.worker_of[FIRST] == 1
    gone = {operator.id for operator in GRAPH.queries[removed].operators}
    assert {w for i, w in last.worker_of.items() if i != FIRST and i.rpartition("/")[0] not in gone} == {0}
    quiet = SmallRun(places(), epochs=run.epochs, rows_per_epoch=300, commands={3: commands[3], 4: commands[4]})
    quiet.go()
    assert run.digest() == quiet.digest()


@pytest.mark.usefixtures("small_spark")
def test_crashes_between_steps_change_no_result(places: Callable[[], Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pace, "LEAST_BYTES", 1)
    monkeypatch.setattr(Pace, "learn", lambda self, event: None)
    commands: dict[int, list[Command]] = {n: [Rebind(shuffled(GRAPH, 1 + n % 3, seed=n))] for n in (1, 3)}
    quiet = SmallRun(places(), epochs=5)
    quiet.go()
    draw = random.Random(4)
    for _ in range(10):
        run = SmallRun(places(), epochs=5, commands=commands)
        through_crashes(run.go, draw, monkeypatch)
        assert run.digest() == quiet.digest()
