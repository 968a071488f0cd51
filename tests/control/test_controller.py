"""The controller in a small world: it balances, rests, bounds its moves, and says why."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.control.world import GRAPH, Work, World, committed
from tests.policies.binding.random_loads import BALANCING, RUNNABLE, on_hosts

from shoal.control.controller import Controller
from shoal.control.journal import Aborted, Decided, Kept, Lost, Measured, Refused, Scaled
from shoal.control.settings import ControlSettings
from shoal.model.control.binding import WorkerId
from shoal.model.control.messages import MoveReport, MovesFinished, Rebind, RunEnded, WorkersLost
from shoal.model.control.snapshot import Snapshot
from shoal.model.control.topology import Topology
from shoal.model.query.graph import Graph
from shoal.policies.catalog import GOALS
from shoal.session.journal import ENTRIES
from shoal.workloads.traffic.queries import queries


def hot(place: int, now_s: float) -> float:
    """Four instances of the same worker have nearly all of the work."""
    del now_s
    return 0.2 if place in (0, 2, 4, 6) else 0.01


def even(place: int, now_s: float) -> float:
    """All instances have the same work."""
    del place, now_s
    return 0.05


def test_an_imbalance_is_mended_and_then_left_alone() -> None:
    world = World(hot).run(30)
    assert world.peaks[0] > 1.8
    assert world.peaks[-1] < 1.05
    assert [decision.number for decision in world.decisions] == [1]
    assert world.decisions[0].trigger.startswith("worker 0 had 1.8")
    measured = [entry for entry in world.entries if isinstance(entry, Measured)]
    assert [entry.number for entry in measured] == [1]
    assert measured[0].peak_after == pytest.approx(measured[0].peak_expected)


def test_every_move_lists_its_candidates_with_score_cost_and_benefit() -> None:
    whole = ControlSettings(split=0)
    world = World(hot, workers=6, topology=Topology.of(nodes=3, workers=6), settings=whole).run(10)
    moves = world.decisions[0].moves
    assert moves
    for move in moves:
        stay, go, *others = move.candidates
        assert (stay.worker, stay.cost, go.worker) == (move.source, 0.0, move.target)
        assert (go.score, go.cost, go.benefit) == (move.score_there, move.cost, move.benefit)
        assert len({each.worker for each in move.candidates}) == len(others) + 2 >= 4, "the best worker of every node"
        for each in move.candidates:
            assert each.benefit == pytest.approx(each.score * (1 - each.cost), abs=1e-3)
        assert (go.benefit > stay.benefit) == (not move.refused)


def test_nothing_is_decided_without_a_reason() -> None:
    world = World(even).run(30)
    assert world.entries == []
    assert world.moves == 0


SHARED = Topology((0, 0), shared=True)


def share_of(total: float) -> Work:
    """Two workers have so much work in all, nearly all of it bound to the first of them."""
    return lambda place, now_s: total / 0.88 * hot(place, now_s)


def shared_world(total: float, burst: float = 0.0, **settings: Any) -> World:
    """Two workers that serve one queue, so that both have half of the work whatever the binding.

    `burst`: long turns that are counted when they end make them seem busier in every other second, and idler between.
    """
    world = World(share_of(total), topology=SHARED, settings=ControlSettings(**settings))
    snapshot = world.snapshot

    def measured(busy: Sequence[float]) -> Snapshot:
        share = sum(busy) / len(busy) + (burst if world.epoch % 4 < 2 else -burst)
        return replace(snapshot(busy), busy_s=(share * world.epoch_s,) * len(busy))

    world.snapshot = measured  # type: ignore[method-assign]
    return world


def test_workers_that_share_a_queue_and_are_all_busy_keep_their_instances() -> None:
    world = shared_world(1.95).run(20)
    assert world.moves == 0
    kept = [entry for entry in world.entries if isinstance(entry, Kept)]
    assert {entry.reason for entry in kept} == {"all workers share a queue and are busy, so that moves gain nothing"}


def test_workers_whose_long_turns_are_counted_in_bursts_are_busy_on_average() -> None:
    assert shared_world(1.95, burst=0.5).run(40).moves == 0


def test_workers_that_share_a_queue_and_have_time_left_get_even_parts() -> None:
    world = shared_world(1.6).run(20)
    assert world.peaks[-1] < 1.05


def test_workers_with_queues_of_their_own_are_balanced_however_busy_they_are() -> None:
    assert World(share_of(1.95), topology=Topology.of(1, 2)).run(20).peaks[-1] < 1.1


def test_a_proposal_that_is_always_carried_out_is_so_under_full_load() -> None:
    assert shared_world(1.95, decision="always").run(20).moves > 0


def test_the_share_at_which_workers_are_full_is_a_setting() -> None:
    assert shared_world(1.95, full=1.0).run(20).moves > 0
    assert shared_world(1.6, full=0.5).run(20).moves == 0


def test_static_policies_never_move_anything() -> None:
    assert World(hot, policy="round-robin").run(10).moves == 0


@pytest.mark.parametrize("waiting", [True, False], ids=["with a backlog", "where whole epochs are processed"])
@pytest.mark.parametrize("policy", BALANCING)
def test_every_policy_lowers_a_plain_imbalance(policy: str, waiting: bool) -> None:
    settings = ControlSettings(trigger="imbalance:1.1,latency:0.03", profile_s=2.0)
    world = World(hot, policy=policy, settings=settings, latency_s=lambda busy: 0.1)

    def backlogged(busy: list[float]) -> object:
        snapshot = World.snapshot(world, busy)
        return replace(snapshot, loads={i: replace(load, backlog=load.events) for i, load in snapshot.loads.items()})

    if waiting:
        world.snapshot = backlogged  # type: ignore[method-assign,assignment]
    world.run(20)
    assert world.peaks[-1] < 1.3 < world.peaks[0]


def test_metis_is_asked_once() -> None:
    if "metis" not in RUNNABLE:
        pytest.skip("pymetis is not installed")
    world = World(lambda place, now_s: hot(place + (int(now_s) // 10) % 2, now_s), policy="metis").run(60)
    assert len(world.decisions) == 1


def test_a_load_that_swings_faster_than_the_controller_moves_little() -> None:
    """Hot instances change sides with every observation; every decision proves wrong, so decisions become rare."""
    settings = ControlSettings(window_s=1.0, rest_s=1.0, most_rest_s=60.0)

    def swinging(place: int, now_s: float) -> float:
        return 0.2 if place % 2 == int(now_s) % 2 and place < 8 else 0.01

    world = World(swinging, settings=settings, epoch_s=1.0).run(600)
    static = World(swinging, policy="round-robin", epoch_s=1.0).run(600)
    assert len(world.decisions) <= 20
    assert sum(world.peaks) <= 1.05 * sum(static.peaks)


def test_a_swing_inside_one_look_moves_nothing() -> None:
    settings = ControlSettings(window_s=2.0)
    world = World(lambda place, now_s: 0.2 if place % 2 == int(now_s) % 2 else 0.0, settings=settings, epoch_s=1.0)
    assert world.run(100).moves == 0


def test_what_is_refused_is_said_once_and_counted() -> None:
    """One instance has most of the work: no binding helps, and the policy knows."""
    whole = ControlSettings(split=0)
    world = World(lambda place, now_s: 0.9 if place == 0 else 0.001, settings=whole).run(30)
    world.send(RunEnded(at_s=world.now_s))
    kept = [entry for entry in world.entries if isinstance(entry, Kept)]
    assert kept[0].times == 1
    assert kept[0].trigger.startswith("worker 0 had")
    assert [entry.reason for entry in kept] == [kept[0].reason] * len(kept)
    assert len(kept) == 2
    assert kept[1].times > 10


def test_a_move_that_does_not_pay_is_refused_with_its_numbers() -> None:
    """State so large that moving it holds up more than it gains."""
    world = World(hot, settings=ControlSettings(weight=1e9))
    world.run(10)
    assert world.moves == 0
    kept = next(entry for entry in world.entries if isinstance(entry, Kept))
    assert kept.reason == "no move pays"
    assert all(move.cost > 1 and "more than it gains" in move.refused for move in kept.moves)


def test_decision_always_does_what_the_policy_says() -> None:
    settings = ControlSettings(weight=1e9, decision="always")
    assert World(hot, settings=settings).run(10).moves > 0


def test_a_decision_that_brings_nothing_makes_the_next_one_wait_longer() -> None:
    def contrary(place: int, now_s: float) -> float:
        return 0.2 if world.binding.worker_of[world.instances[place]] == 0 else 0.01

    world = World(even, settings=ControlSettings(rest_s=1.0, most_rest_s=8.0))
    world.work = contrary
    world.run(60)
    rests = [entry.rest_s for entry in world.entries if isinstance(entry, Measured)]
    assert rests[:4] == [2.0, 4.0, 8.0, 8.0]


def test_a_forecast_moves_before_the_load_comes() -> None:
    """Instances of one worker grow steadily; the trend sees it first."""

    def growing(place: int, now_s: float) -> float:
        return 0.05 + (0.004 * (now_s - 100) if place in (0, 2, 4) else 0.0)

    early = World(growing, settings=ControlSettings(forecast="trend", horizon_s=20)).run(20)
    late = World(growing, settings=ControlSettings(horizon_s=20)).run(20)
    assert early.decisions[0].at_s < late.decisions[0].at_s
    assert early.decisions[0].peak_expected < early.decisions[0].peak_before


def test_lost_workers_are_replaced_by_the_others() -> None:
    world = World(hot, workers=3).run(3)
    world.send(WorkersLost((1,), "its thread died", at_s=world.now_s))
    assert world.binding.workers == 2
    lost = next(entry for entry in world.entries if isinstance(entry, Lost))
    assert lost.moved > 0
    assert lost.reason == "its thread died"
    assert world.run(20).peaks[-1] < 1.3


def test_all_workers_lost_is_for_the_runtime_to_end() -> None:
    world = World(hot).run(2)
    world.send(WorkersLost((0, 1), "gone", at_s=world.now_s))
    assert isinstance(world.entries[-1], Lost)
    assert world.binding.workers == 2


def test_workers_are_added_when_they_are_busy_and_taken_away_when_not() -> None:
    settings = ControlSettings(scale="1:6", patience=2)

    def tide(place: int, now_s: float) -> float:
        return (0.15 if 110 <= now_s < 150 else 0.02) + place * 0.0

    world = World(tide, settings=settings)
    numbers = []
    for _ in range(160):
        world.step()
        numbers.append(world.binding.workers)
    assert max(numbers) in (3, 4)
    assert numbers[-1] == 1
    scaled = [entry for entry in world.entries if isinstance(entry, Scaled)]
    assert len(scaled) <= 4
    assert scaled[0].reason == "workers were busy for 12% of their time"


def test_a_number_of_workers_that_was_asked_for() -> None:
    world = World(hot).run(3)
    reaction = world.controller.resize(5, "it was asked for", 7, world.now_s)
    assert reaction is not None
    (command,) = reaction.commands
    assert isinstance(command, Rebind)
    assert command.binding.workers == 5
    assert world.controller.resize(2, "it was asked for", 7, world.now_s) is None


def test_a_refusal_of_the_runtime_is_noted_and_frees_the_controller() -> None:
    world = World(hot).run(1)
    assert world.decisions
    world.refuse("it cannot")
    assert isinstance(world.entries[-1], Refused)
    world.binding = World(hot).binding
    world.run(10)
    assert len(world.decisions) == 2


def move(place: int, aborted: str = "") -> MoveReport:
    return MoveReport(GRAPH.stateful_instances[place], WorkerId(0), WorkerId(1), aborted=aborted)


def test_a_decision_is_measured_by_the_first_whole_look_after_its_moves() -> None:
    """However long they take; and nothing else is decided meanwhile."""
    world = World(hot).run(1)
    (rebind,) = world.moving
    world.moving = []
    world.run(30)
    assert len(world.decisions) == 1
    assert not any(isinstance(entry, Measured) for entry in world.entries)
    world.step()  # half of an observation, which does not count
    world.send(MovesFinished(rebind.id, (move(0),), at_s=world.now_s))
    world.step()
    assert not any(isinstance(entry, Measured) for entry in world.entries)
    world.step()
    assert [entry.number for entry in world.entries if isinstance(entry, Measured)] == [1]


def test_a_decision_that_is_given_up_is_noted_and_not_measured() -> None:
    world = World(hot).run(1)
    rebind = world.moving.pop()
    world.send(MovesFinished(rebind.id, (move(0), move(1, "superseded"), move(2, "superseded")), at_s=world.now_s))
    assert world.entries[-1] == Aborted(world.now_s, 1, 1, 2, "superseded")
    world.binding = World(hot).binding
    world.run(10)
    assert [decision.number for decision in world.decisions] == [1, 2]
    assert [entry.number for entry in world.entries if isinstance(entry, Measured)] == [2]


def test_moves_of_others_and_of_an_earlier_process_say_nothing_of_a_decision() -> None:
    world = World(hot).run(1)
    rebind = world.moving.pop()
    world.send(MovesFinished("request 1", (move(0),), at_s=world.now_s))
    world.send(MovesFinished(rebind.id, (move(0),), resumed=True, at_s=world.now_s))
    world.run(10)
    assert not any(isinstance(entry, Measured | Aborted) for entry in world.entries)
    assert len(world.decisions) == 1


def test_a_decision_that_is_overtaken_by_other_workers_is_noted_as_given_up() -> None:
    world = World(hot, workers=3).run(1)
    rebind = world.moving.pop()
    world.send(WorkersLost((1,), "its thread died", at_s=world.now_s))
    world.send(MovesFinished(rebind.id, (move(0, "superseded"),), at_s=world.now_s))
    assert world.entries[-1] == Aborted(world.now_s, 1, 0, 1, "superseded")
    assert world.run(20).peaks[-1] < 1.3


def test_queries_that_come_and_go_begin_a_new_layout() -> None:
    world = World(hot).run(5)
    larger = Graph.of(queries(6))
    world.graph = larger
    world.binding = world.binding.fitted(larger.stateful_instances)
    before = world.snapshot(world.busy())
    world.send(committed(replace(before, graph=larger), world.now_s))
    world.run(20)
    assert set(world.binding.worker_of) == set(larger.stateful_instances)
    assert world.peaks[-1] < 1.1


def test_snapshots_that_do_not_fit_the_graph_are_passed_over() -> None:
    controller = Controller(GRAPH, "guarded")
    world = World(hot, graph=Graph.of(queries(2)))
    for _ in range(5):
        world.now_s += 0.5
        assert controller.handle(committed(world.snapshot(world.busy()), world.now_s)).commands == ()


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.floats(0, 0.3), min_size=12, max_size=12),
    st.integers(2, 4),
    st.sampled_from(RUNNABLE),
    st.sampled_from(["none", "trend", "season:4"]),
)
def test_the_same_events_give_the_same_reactions(work: list[float], workers: int, policy: str, forecast: str) -> None:
    """And every entry survives being written and read."""
    deadline_ms = "8" if policy == "deadline-aware" else ""
    trigger = "imbalance:1.05,periodic:3"
    settings = ControlSettings(forecast=forecast, profile_s=2.0, trigger=trigger, deadline_ms=deadline_ms)
    topology = on_hosts(Topology.of(2, workers)) if policy in GOALS else None

    def world() -> World:
        def share(place: int, now_s: float) -> float:
            return work[(place + int(now_s) // 5) % 12]

        return World(share, policy, workers, settings, topology=topology).run(20)

    one, other = world(), world()
    assert one.entries == other.entries
    assert one.binding == other.binding
    for entry in one.entries:
        assert ENTRIES.decode(ENTRIES.encode(entry)) == entry
    for decided in one.decisions:
        assert isinstance(decided, Decided)
        assert decided.goal or decided.peak_expected < decided.peak_before
