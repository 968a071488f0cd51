"""Plans executed between epochs: whatever is asked for, and whenever a run dies, it ends where it was last sent."""

import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.runtimes.spark.crashing import Crash, crash_at
from tests.runtimes.spark.rebinding.test_rhino import FIRST, GRAPH, OTHER
from tests.runtimes.spark.small_spark import SmallRun, roots, small_spark

from shoal.compiler.program import compile_graph
from shoal.errors import CheckpointError, MechanismError
from shoal.mechanisms.catalog import MECHANISMS as CATALOG
from shoal.mechanisms.plan import Batch, Plan, Queue, StepKind
from shoal.mechanisms.transfer import Transfer
from shoal.model.control.binding import Binding, WorkerId
from shoal.model.control.costs import LinkCosts
from shoal.model.control.messages import EpochCommitted, Event, MovesFinished, Rebind, RemoveQuery, RunEnded
from shoal.policies.binding.static import round_robin, shuffled
from shoal.runtimes.spark.driver import restore
from shoal.runtimes.spark.driver.outcome import Outcome
from shoal.runtimes.spark.driver.position import MECHANISMS, Position, changed, goal_of, numbers
from shoal.runtimes.spark.driver.runtime import SparkRuntime
from shoal.runtimes.spark.rebinding import throttle
from shoal.runtimes.spark.rebinding.migration import Limits, advanced, executable
from shoal.runtimes.spark.rebinding.rebinding import ENDED, GONE, SUPERSEDED
from shoal.runtimes.spark.rebinding.settlement import settled
from shoal.runtimes.spark.rebinding.throttle import Throttle
from shoal.runtimes.spark.state.checkpoint import Checkpoint, Goal, Manifest
from shoal.runtimes.spark.state.postponed import Rest

__all__ = ["roots", "small_spark"]
INSTANCES = GRAPH.stateful_instances
COMPILED = compile_graph(GRAPH)
SIZE = 100
EXACT = [name for name in MECHANISMS if name != "drop"]


def position(binding: Binding, segments: int, seed: int) -> Position:
    """Instances spread over some segments at random, a few without state."""
    draw = random.Random(seed)
    homes = {i: f"s{draw.randrange(segments)}" for i in INSTANCES if draw.random() < 0.9}
    sizes = {name: list(homes.values()).count(name) for name in set(homes.values())}
    segment_bytes = {name: SIZE * size for name, size in sizes.items()}
    return Position(GRAPH, binding, homes=homes, segment_sizes=sizes, segment_bytes=segment_bytes)


@given(st.integers(1, 5), st.integers(1, 5), st.integers(0, 2**16), st.integers(1, 40), st.integers(1, 6))
def test_steps_of_megaphone_are_small_and_lead_to_what_was_asked_for(
    before: int, after: int, seed: int, instances: int, segments: int
) -> None:
    wanted = shuffled(GRAPH, after, seed)
    here = position(shuffled(GRAPH, before, seed + 1), segments, seed)
    here = changed(here, Rebind(wanted), set(), "megaphone")
    for _ in range(len(INSTANCES) + 1):
        there = advanced(here, Limits(SIZE * instances))
        binding = there.binding
        moved = list(here.binding.diff(binding))
        with_state = [move for move in moved if move.instance in here.homes]
        assert len(with_state) <= instances
        assert all(binding.worker_of[move.instance] == wanted.worker_of[move.instance] for move in moved)
        assert binding.workers == max(after, 1 + max(binding.worker_of.values()))
        if any(worker >= after for worker in binding.worker_of.values()):
            # nothing else moves while a worker to be removed has instances
            assert all(here.binding.worker_of[move.instance] >= after for move in with_state)
        if binding == wanted:
            return
        assert with_state
        here = there
    pytest.fail("there are more steps than instances")


def test_an_instance_that_is_too_large_moves_alone() -> None:
    here = position(round_robin(GRAPH, 2), 1, 0)
    here = changed(here, Rebind(Binding(dict.fromkeys(INSTANCES, WorkerId(0)), 2)), set())
    binding = advanced(here, Limits(most_bytes=1)).binding
    assert sum(move.instance in here.homes for move in here.binding.diff(binding)) == 1


@pytest.mark.parametrize("name", MECHANISMS)
def test_every_mechanism_that_runs_on_spark_has_plans_that_spark_can_execute(name: str) -> None:
    transfers = [Transfer(instance, WorkerId(0), WorkerId(1), 10) for instance in INSTANCES]
    plan = CATALOG[name].plan(transfers, LinkCosts())
    assert executable(plan) is plan


def test_a_plan_with_a_step_or_queue_that_epochs_do_not_have_is_refused() -> None:
    move = (StepKind.EXTRACT, StepKind.SEND, StepKind.IMPORT, StepKind.RESUME)
    transfer = Transfer(FIRST, WorkerId(0), WorkerId(1))
    with pytest.raises(MechanismError, match="mechanism meces has queue fetch, which Spark cannot execute"):
        executable(Plan("meces", (Batch(Queue.FETCH, move, (transfer,)),)))
    with pytest.raises(MechanismError, match="mechanism parallel has step duplicate, which Spark cannot execute"):
        executable(Plan("parallel", (Batch(Queue.CRITICAL, (StepKind.DUPLICATE, *move), (transfer,)),)))


@dataclass
class Epochs:
    """A run as far as bindings go: epochs, commits, and crashes after which only the files are left."""

    position: Position
    epoch: int = 0
    finished: list[MovesFinished] = field(default_factory=list)

    def step(self, commands: list[Rebind], most_bytes: int, *, crash: str = "") -> None:
        """One epoch; a crash comes after its plan or after its manifest is written."""
        before = self.position
        there = before.arrived()
        for command in commands:
            there = changed(there, command, set())
        there = advanced(there, Limits(most_bytes))
        if crash == "planned":
            there = restore.under_way(before, self._read(there))
        there, finished = settled(self._worked(there), Outcome({}, None, []))
        if crash == "committed":
            there = self._read(there)
        else:
            self.finished += finished
        assert set(there.binding.worker_of) == set(INSTANCES)
        self.position = there
        self.epoch += 1

    def _worked(self, there: Position) -> Position:
        """What workers say and do: how long state can rest, and which of it they read."""
        leaving = (
            {move.instance for move in there.binding.diff(there.coming)} if there.coming and there.on_demand else ()
        )
        needed = {i for i in there.postponed if random.Random(f"{self.epoch} {i}").random() < 0.2}
        unread = {i: each for i, each in there.postponed.items() if not each.load and i not in needed}
        rests = {i: Rest(self.epoch, self.epoch + 5) for i in leaving if i in there.homes and i not in there.postponed}
        homes = {i: segment for i, segment in there.homes.items() if i not in there.dropped}
        return replace(there, homes=homes, postponed=unread, rests=rests, dropped={})

    def _read(self, there: Position) -> Position:
        """What a restart makes of what was written."""
        coming = there.coming
        written = Manifest(
            epoch=self.epoch,
            graph=GRAPH.digest,
            workers=there.binding.workers,
            binding=numbers(there.binding, COMPILED),
            watermarks_us={},
            states=(),
            coming=numbers(coming, COMPILED) if coming else (),
            coming_workers=coming.workers if coming else 0,
            goal=goal_of(there.rebinding, COMPILED),
            postponed=there.postponed_now(1),
            on_demand=there.on_demand,
        )
        return restore._standing(replace(there, closed=()), Checkpoint("somewhere"), GRAPH, written)


REBINDS = st.tuples(st.integers(1, 4), st.integers(0, 2**16), st.sampled_from(MECHANISMS))
EPOCHS = st.tuples(
    st.lists(REBINDS, max_size=2), st.integers(1, SIZE * 8), st.sampled_from(["", "", "planned", "committed"])
)


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 4), st.lists(EPOCHS, max_size=8), st.integers(0, 2**16))
def test_any_rebindings_throttles_and_crashes_end_at_the_last_goal(
    workers: int, plan: list[tuple[list[tuple[int, int, str]], int, str]], seed: int
) -> None:
    run = Epochs(position(round_robin(GRAPH, workers), 3, seed))
    wanted = run.position.binding
    ids: list[str] = []
    for commands, most_bytes, crash in plan:
        rebinds = [Rebind(shuffled(GRAPH, n, s), name, f"{len(ids) + at}") for at, (n, s, name) in enumerate(commands)]
        ids += [rebind.id for rebind in rebinds]
        wanted = rebinds[-1].binding if rebinds else wanted
        run.step(rebinds, most_bytes, crash=crash)
    for _ in range(2 * len(INSTANCES) + 3):
        run.step([], SIZE)
    assert run.position.binding == wanted
    assert (run.position.rebinding, run.position.coming, run.position.closed) == (None, None, ())
    assert run.position.postponed == {}
    reported = [event.rebind for event in run.finished]
    assert len(reported) == len(set(reported))
    if not any(crash for _, _, crash in plan):
        assert sorted(reported) == sorted(ids)
        assert not any(event.resumed for event in run.finished)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(REBINDS, st.integers(0, 3)), min_size=1, max_size=4), st.integers(1, SIZE * 8))
def test_the_moves_of_all_rebindings_add_up_to_the_last_binding(
    asked: list[tuple[tuple[int, int, str], int]], most_bytes: int
) -> None:
    run = Epochs(position(round_robin(GRAPH, 2), 3, 0))
    for number, ((workers, seed, name), quiet) in enumerate(asked):
        run.step([Rebind(shuffled(GRAPH, workers, seed), name, str(number))], most_bytes)
        for _ in range(quiet):
            run.step([], most_bytes)
    for _ in range(2 * len(INSTANCES) + 3):
        run.step([], SIZE)
    where = dict(round_robin(GRAPH, 2).worker_of)
    for event in run.finished:
        for move in event.moves:
            if not move.aborted:
                assert where[move.instance] == move.source
                where[move.instance] = move.target
            else:
                assert move.aborted == SUPERSEDED
    assert where == run.position.binding.worker_of
    last = run.finished[-1]
    assert (last.rebind, last.aborted) == (str(len(asked) - 1), ())


def test_a_rebinding_that_moves_nothing_finishes_with_the_next_epoch() -> None:
    run = Epochs(position(round_robin(GRAPH, 2), 3, 0))
    run.step([Rebind(round_robin(GRAPH, 2), id="nothing")], 1)
    assert run.finished == [MovesFinished("nothing", at_s=run.finished[0].at_s)]


def test_a_removed_instance_that_was_to_move_is_reported() -> None:
    here = position(round_robin(GRAPH, 2), 3, 0)
    name = next(name for name, query in GRAPH.queries.items() if query.operators[-2].id in FIRST)
    target = 1 - here.binding.worker_of[FIRST]
    here = changed(here, Rebind(Binding.of({FIRST: target}, 2), "rhino", "one"), set())
    here = advanced(changed(here, RemoveQuery(name), {"vehicles"}), Limits(1))
    _, (finished,) = settled(here, Outcome({}, None, []))
    assert [(move.instance, move.aborted) for move in finished.moves] == [(FIRST, GONE)]


def test_a_mechanism_of_another_version_is_refused_with_the_checkpoint() -> None:
    goal = Goal("one", "psychic", 1, (0,))
    written = Manifest(epoch=0, graph=GRAPH.digest, workers=1, binding=(), watermarks_us={}, states=(), goal=goal)
    with pytest.raises(CheckpointError, match="somewhere has a rebinding in progress by mechanism 'psychic'"):
        restore._rebinding(Checkpoint("somewhere"), GRAPH, written)


def events_of(runtime: SparkRuntime) -> list[Event]:
    runtime._events.put(RunEnded(at_s=0.0))
    return list(runtime.events())[:-1]


def finished(events: list[Event]) -> list[MovesFinished]:
    return [event for event in events if isinstance(event, MovesFinished)]


@pytest.mark.usefixtures("small_spark")
@pytest.mark.parametrize("name", EXACT)
def test_moves_are_reported_with_the_epoch_of_the_last_one(
    name: str, roots: Callable[[], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(throttle, "LEAST_BYTES", 1)
    monkeypatch.setattr(Throttle, "learn", lambda self, event: None)
    moving = {FIRST: 1 - round_robin(GRAPH, 2).worker_of[FIRST], OTHER: 1 - round_robin(GRAPH, 2).worker_of[OTHER]}
    run = SmallRun(roots(), commands={2: [Rebind(Binding.of(moving, 2), name, "asked")]})
    events = events_of(run.go())
    (reported,) = finished(events)
    assert (reported.rebind, reported.resumed, reported.aborted) == ("asked", False, ())
    assert {move.instance: move.target for move in reported.moves} == moving
    assert all(move.state_bytes > 0 and (move.frozen_s or 0) > 0 and move.late_s == 0 for move in reported.moves)
    last = events[events.index(reported) - 1]
    assert isinstance(last, EpochCommitted)
    assert last.moves > 0
    assert last.epoch == {"all-at-once": 2}.get(name, 3)


@pytest.mark.usefixtures("small_spark")
def test_what_has_not_moved_at_the_end_is_aborted(roots: Callable[[], Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(throttle, "LEAST_BYTES", 1)
    monkeypatch.setattr(Throttle, "learn", lambda self, event: None)
    wanted = Binding.of(dict.fromkeys(INSTANCES, 0), 2)
    run = SmallRun(roots(), epochs=4, commands={2: [Rebind(wanted, id="late")]})
    (reported,) = finished(events_of(run.go()))
    made = [move for move in reported.moves if not move.aborted]
    assert made
    assert {move.aborted for move in reported.aborted} == {ENDED}
    assert len(reported.moves) == sum(1 for _ in round_robin(GRAPH, 2).diff(wanted))


@pytest.mark.usefixtures("small_spark")
@pytest.mark.parametrize("name", EXACT)
def test_a_rebinding_goes_on_after_a_crash_at_any_moment(
    name: str, roots: Callable[[], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ends at its goal, and is reported by the process that ends it, which may crash right after."""
    monkeypatch.setattr(throttle, "LEAST_BYTES", 1)
    monkeypatch.setattr(Throttle, "learn", lambda self, event: None)
    epochs = 4 + len(INSTANCES)
    wanted = Binding.of(dict.fromkeys(INSTANCES, 1), 2)
    quiet = SmallRun(roots(), epochs=epochs, rows_per_epoch=200)
    quiet.go()
    for operation in (4, 12):
        run = SmallRun(roots(), epochs=epochs, rows_per_epoch=200, commands={1: [Rebind(wanted, name, "asked")]})
        run.go(until=1)
        with monkeypatch.context() as patched:
            crash_at(operation, patched)
            with pytest.raises(Crash):
                run.go()
        events = events_of(run.go())
        reported = finished(events)
        whole = [("asked", ())]
        assert [(event.rebind, event.aborted) for event in reported] in (
            [whole] if name == "megaphone" else [whole, []]
        )
        assert all(event.resumed for event in reported)
        last = [event for event in events if isinstance(event, EpochCommitted)][-1]
        assert last.snapshot.binding == wanted
        assert run.digest() == quiet.digest()
