"""Rebindings in steps: every step is small, the steps lead to the binding that was asked for, and no result changes."""

import random
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.runtimes.spark.crashing import through_crashes
from tests.runtimes.spark.driver.test_snapshot import committed
from tests.runtimes.spark.rebinding.test_rhino import FIRST, GRAPH
from tests.runtimes.spark.small_spark import SmallRun, roots, small_spark

from shoal.model.control.binding import Binding
from shoal.model.control.messages import AddQuery, Command, EpochCommitted, Rebind, RemoveQuery
from shoal.model.control.snapshot import Snapshot
from shoal.policies.binding.static import round_robin, shuffled
from shoal.runtimes.spark.rebinding import throttle
from shoal.runtimes.spark.rebinding.throttle import FIRST_BYTES_PER_S, LEAST_BYTES, SHARE, Throttle

__all__ = ["roots", "small_spark"]
INSTANCES = GRAPH.stateful_instances


def epoch(*, duration_s: float = 1.0, moved: int = 0, migration_s: float = 0.0, rows: int = 1) -> EpochCommitted:
    return EpochCommitted(
        0, rows, 0, 0, int(moved > 0), 0, moved, duration_s, duration_s, 0.0, migration_s, 0.0,
        Snapshot(0, round_robin(GRAPH, 1)), at_s=0.0,
    )  # fmt: skip


def test_what_may_move_follows_how_long_epochs_take_and_how_fast_state_is_read() -> None:
    known = Throttle()
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
def test_a_large_rebinding_takes_several_epochs(roots: Callable[[], Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(throttle, "LEAST_BYTES", 1)
    wanted = Binding.of(dict.fromkeys(INSTANCES, 0), 1)
    run = SmallRun(roots(), epochs=6 + len(INSTANCES), rows_per_epoch=300, commands={2: [Rebind(wanted)]})
    monkeypatch.setattr(Throttle, "learn", lambda self, event: None)
    events = committed(run.go())
    moves = [event.moves for event in events]
    assert sum(moves) == sum(1 for _ in round_robin(GRAPH, 2).diff(wanted))
    assert max(moves) < sum(moves)
    assert events[2].snapshot.binding.workers == 2  # until worker 1 has no instances
    assert events[-1].snapshot.binding == wanted
    at_once = SmallRun(roots(), epochs=run.epochs, rows_per_epoch=300, mechanism="all-at-once", commands=run.commands)
    at_once.go()
    assert run.digest() == at_once.digest()


@pytest.mark.usefixtures("small_spark")
def test_what_is_asked_for_between_two_steps_adds_up(
    roots: Callable[[], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(throttle, "LEAST_BYTES", 1)
    monkeypatch.setattr(Throttle, "learn", lambda self, event: None)
    all_over = Binding.of(dict.fromkeys(INSTANCES, 0), 2)
    removed = next(name for name, query in GRAPH.queries.items() if query.operators[-2].id not in FIRST)
    commands: dict[int, list[Command]] = {
        1: [Rebind(all_over)],
        2: [Rebind(Binding.of({FIRST: 1}, 2))],
        3: [RemoveQuery(removed)],
        4: [AddQuery(GRAPH.queries[removed])],
    }
    run = SmallRun(roots(), epochs=8 + len(INSTANCES), rows_per_epoch=300, commands=commands)
    last = committed(run.go())[-1].snapshot.binding
    assert last.worker_of[FIRST] == 1
    gone = {operator.id for operator in GRAPH.queries[removed].operators}
    assert {w for i, w in last.worker_of.items() if i != FIRST and i.rpartition("/")[0] not in gone} == {0}
    quiet = SmallRun(roots(), epochs=run.epochs, rows_per_epoch=300, commands={3: commands[3], 4: commands[4]})
    quiet.go()
    assert run.digest() == quiet.digest()


@pytest.mark.usefixtures("small_spark")
def test_crashes_between_steps_change_no_result(roots: Callable[[], Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(throttle, "LEAST_BYTES", 1)
    monkeypatch.setattr(Throttle, "learn", lambda self, event: None)
    commands: dict[int, list[Command]] = {n: [Rebind(shuffled(GRAPH, 1 + n % 3, seed=n))] for n in (1, 3)}
    quiet = SmallRun(roots(), epochs=5)
    quiet.go()
    draw = random.Random(4)
    for _ in range(10):
        run = SmallRun(roots(), epochs=5, commands=commands)
        through_crashes(run.go, draw, monkeypatch)
        assert run.digest() == quiet.digest()
