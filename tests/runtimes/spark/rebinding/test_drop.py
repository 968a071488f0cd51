"""State that is dropped between epochs: everything else is exactly as before, and the loss is what the report says."""

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from tests.runtimes.spark.crashing import Crash, crash_at
from tests.runtimes.spark.rebinding.test_on_demand import GROUPS, LONG, mixed, one_by_one
from tests.runtimes.spark.small_spark import SmallRun, roots, small_spark

from shoal.model.control.binding import Binding
from shoal.model.control.messages import Command, Event, LostState, MovesFinished, Rebind, Repartition
from shoal.model.control.partitioning import Split
from shoal.model.query.graph import Graph, InstanceId
from shoal.policies.binding.static import round_robin
from shoal.runtimes.event_queue import EventQueue
from shoal.runtimes.spark.driver.position import Position, changed
from shoal.runtimes.spark.driver.runtime import SparkRuntime
from shoal.runtimes.spark.rebinding.migration import Limits, advanced

pytestmark = pytest.mark.usefixtures("small_spark")
__all__ = ["roots", "small_spark"]
EPOCHS, ROWS, AT = 8, 20, 4
LEAVING = LONG.stateful_instances[:5:2]


def away(graph: Graph, instances: Collection[InstanceId], mechanism: str = "drop") -> Rebind:
    """Some instances to the other of two workers."""
    here = round_robin(graph, 2).worker_of
    return Rebind(Binding.of({instance: 1 - here[instance] for instance in instances}, 2), mechanism, "asked")


@dataclass
class Emptied(SmallRun):
    """A run that finds no state of some instances when it is started."""

    empty: Collection[InstanceId] = ()

    def started(self) -> SparkRuntime:
        runtime = super().started()
        position = runtime._runner.position
        homes = {i: segment for i, segment in position.homes.items() if i not in self.empty}
        runtime._runner.position = replace(position, homes=homes)
        return runtime


def emptied(root: Path, graph: Graph, instances: Collection[InstanceId]) -> SmallRun:
    """The truth: a run from whose state some instances are removed between two epochs, without any move."""
    run = Emptied(root, EPOCHS, rows_per_epoch=ROWS, graph=graph)
    run.go(until=AT)
    run.empty = instances
    run.go()
    return run


@pytest.fixture
def events(monkeypatch: pytest.MonkeyPatch) -> list[Event]:
    """All events of all processes, also of those that crash."""
    found: list[Event] = []
    monkeypatch.setattr(EventQueue, "put", lambda self, event: found.append(event))
    return found


def finished(events: list[Event]) -> list[MovesFinished]:
    return [event for event in events if isinstance(event, MovesFinished)]


def counted(run: SmallRun) -> int:
    return int(sum(run.sink.table("counted")["n"].to_pylist()))


def test_results_are_those_of_a_run_without_the_state_and_the_report_has_all_that_is_missing(
    roots: Callable[[], Path], events: list[Event]
) -> None:
    truth = emptied(roots(), LONG, LEAVING)
    events.clear()
    run = SmallRun(roots(), EPOCHS, rows_per_epoch=ROWS, graph=LONG, commands={AT: [away(LONG, LEAVING)]})
    run.go()
    assert run.digest() == truth.digest()
    (report,) = finished(events)
    assert {move.instance for move in report.moves} == set(LEAVING)
    assert all(move.state_bytes == 0 and not move.aborted for move in report.moves)
    lost = [move.lost for move in report.moves if move.lost is not None]
    assert len(lost) == len(LEAVING)
    assert sum(each.rows for each in lost) == EPOCHS * ROWS - counted(run) > 0
    assert all(each.keys == each.fragments > 0 and each.share == 1.0 and each.state_bytes > 0 for each in lost)
    assert [loss.query for each in lost for loss in each.queries] == ["counted"] * len(LEAVING)


def test_every_kind_of_operator_can_lose_its_state(roots: Callable[[], Path], events: list[Event]) -> None:
    graph = mixed()
    leaving = graph.stateful_instances[::3]
    truth = emptied(roots(), graph, leaving)
    events.clear()
    run = SmallRun(roots(), EPOCHS, rows_per_epoch=ROWS, graph=graph, commands={AT: [away(graph, leaving)]})
    run.go()
    assert run.digest() == truth.digest()
    (report,) = finished(events)
    assert sum(move.lost is not None for move in report.moves) > len(leaving) // 2


def test_state_that_was_never_read_can_be_lost(
    roots: Callable[[], Path], events: list[Event], monkeypatch: pytest.MonkeyPatch
) -> None:
    one_by_one(monkeypatch)
    every = {AT - 2: [away(LONG, LEAVING, "meces")], AT: [Rebind(round_robin(LONG, 2), "drop", "lost")]}
    truth = emptied(roots(), LONG, LEAVING)
    events.clear()
    run = SmallRun(roots(), EPOCHS, rows_per_epoch=ROWS, graph=LONG, commands=every)
    run.go()
    assert run.digest() == truth.digest()
    (loss,) = [report for report in finished(events) if report.rebind == "lost"]
    assert sum(move.lost.rows for move in loss.moves if move.lost) == EPOCHS * ROWS - counted(run)


def test_a_crash_at_any_moment_neither_repeats_nor_forgets_a_loss(
    roots: Callable[[], Path], events: list[Event], monkeypatch: pytest.MonkeyPatch
) -> None:
    commands: dict[int, list[Command]] = {AT: [away(LONG, LEAVING)]}
    truth = SmallRun(roots(), EPOCHS, rows_per_epoch=ROWS, graph=LONG, commands=commands)
    truth.go()
    (once,) = finished(events)
    lost = {move.instance: move.lost for move in once.moves}
    for operation in range(1, 14):
        run = SmallRun(roots(), EPOCHS, rows_per_epoch=ROWS, graph=LONG, commands=commands)
        run.go(until=AT)
        events.clear()
        with monkeypatch.context() as patched:
            crash_at(operation, patched)
            with pytest.raises(Crash):
                run.go()
        heard = finished(events)
        run.go()
        assert run.digest() == truth.digest(), f"crash at file operation {operation}"
        reports = finished(events)
        assert len(reports) >= 1, f"crash at file operation {operation}"
        assert len(reports) <= 1 + len(heard)
        for report in reports:
            assert report.rebind == "asked"
            assert {move.instance: move.lost for move in report.moves} == lost


def test_losses_from_before_a_restart_are_reported_when_the_rebinding_ends(
    roots: Callable[[], Path], events: list[Event]
) -> None:
    leaving = LONG.stateful_instances[:3]
    commands: dict[int, list[Command]] = {AT: [Repartition((Split(leaving[0], 2),)), away(LONG, leaving)]}
    truth = SmallRun(roots(), EPOCHS, rows_per_epoch=ROWS, graph=LONG, commands=commands)
    truth.go()
    (once,) = finished(events)
    run = SmallRun(roots(), EPOCHS, rows_per_epoch=ROWS, graph=LONG, commands=commands)
    run.go(until=AT + 1)  # the instance that was split has not left yet
    events.clear()
    run.go()
    (report,) = finished(events)
    assert report.resumed
    assert run.digest() == truth.digest()
    assert _lost(report) == _lost(once)
    assert len(_lost(report)) >= len(leaving) - 1


def _lost(report: MovesFinished) -> dict[InstanceId, LostState]:
    return {move.instance: move.lost for move in report.moves if move.lost is not None}


def test_an_instance_that_is_split_with_the_same_epoch_is_dropped_with_the_next() -> None:
    first = LONG.stateful_instances[0]
    homes = dict.fromkeys(LONG.stateful_instances, "s0")
    position = Position(LONG, round_robin(LONG, 2), homes=homes, segment_bytes={"s0": 10}, segment_sizes={"s0": GROUPS})
    position = changed(position, Repartition((Split(first, 2),)), set())
    position = changed(position, away(LONG, LONG.stateful_instances[:3]), set())
    there = advanced(position, Limits(1))
    assert set(there.dropped) == set(LONG.stateful_instances[1:3])
    assert there.binding.worker_of[first] == position.binding.worker_of[first]
    assert there.rebinding is not None
