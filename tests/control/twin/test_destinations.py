"""Destinations: a near host may be better than the emptiest one, a host that returns may be worth a wait."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.control.world import GRAPH, World

from shoal.control.controller import Controller
from shoal.control.effects.host_entries import HostsMeasured
from shoal.control.journal import Decided, Kept
from shoal.control.settings import ControlSettings
from shoal.control.story import story_lines
from shoal.model.control.binding import Binding, WorkerId
from shoal.model.control.hosts import HostDeparture
from shoal.model.control.messages import Event, MoveReport, MovesFinished, Rebind
from shoal.model.control.snapshot import Snapshot
from shoal.model.control.topology import Topology
from shoal.runtimes.simulated.machine.document import load_machine
from shoal.runtimes.simulated.workers import Workers

INSTANCES = GRAPH.stateful_instances
FULL, NEAR, FAR = range(3)
AMONG = ("all-at-once",)


def machine(near: str = "100MB", far: str = "1MB", *departures: HostDeparture, near_speed: float = 1.0) -> Topology:
    """A host with two others around it, one behind each link."""
    text = f"""
hosts: [{{name: full, cores: 1}}, {{name: near, cores: 1, speed: {near_speed}}}, {{name: far, cores: 1}}]
links:
- {{from: full, to: near, bandwidth: {near}, latency: 1ms}}
- {{from: full, to: far, bandwidth: {far}, latency: 1ms}}
"""
    found = Workers.first(load_machine(text, "three.yaml"), 3).topology_with({}, None)
    assert found.hosts is not None
    return replace(found, hosts=replace(found.hosts, departures=departures))


@dataclass
class Edge(World):
    """All but one instance on the first host; the far one is empty. `among`: mechanisms of the twin, or none."""

    workers: int = 3
    policy: str = "greedy"
    state_bytes: int = 5_000_000
    among: tuple[str, ...] = AMONG
    used: list[Rebind] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.controller = Controller(self.graph, self.policy, self.settings, mechanisms=self.among)
        self.binding = Binding.of({each: FULL if place else NEAR for place, each in enumerate(INSTANCES)}, 3)

    def snapshot(self, busy: Sequence[float]) -> Snapshot:
        found = super().snapshot(busy)
        loads = {name: replace(load, state_bytes=self.state_bytes) for name, load in found.loads.items()}
        return replace(found, loads=loads)

    def send(self, event: Event) -> None:
        before = len(self.moving)
        super().send(event)
        self.used += self.moving[before:]

    def on(self, worker: int) -> int:
        """How many instances a worker has."""
        return list(self.binding.worker_of.values()).count(WorkerId(worker))


def edge(where: Topology | None, **given: object) -> Edge:
    """A world that is observed until its first decision, if there is one."""
    options = {"split": 0.0, **given.pop("control", {})}  # type: ignore[dict-item]
    world = Edge(lambda place, now_s: 0.05, topology=where, settings=ControlSettings(**options), **given)  # type: ignore[arg-type]
    for _ in range(30):
        world.step()
        if world.decisions:
            break
    return world


def chosen_workers(world: World) -> set[int]:
    """The workers that the twin chose instead of others."""
    return {choice.options[0].worker for entry in world.decisions for choice in entry.hosts}


def test_the_near_host_wins_over_the_emptiest_one() -> None:
    by_policy = edge(machine(), among=())
    assert by_policy.on(FAR) > 0
    found = edge(machine())
    assert found.on(NEAR) > by_policy.on(NEAR)
    assert found.on(FAR) < by_policy.on(FAR)
    choice = next(each for each in found.decisions[0].hosts if each.options[0].worker == NEAR)
    best, proposed = choice.options[0], next(each for each in choice.options if each.worker == choice.proposed)
    assert (best.host, proposed.host) == ("near", "far")
    assert best.score < proposed.score
    assert best.cost < proposed.cost
    assert best.benefit > proposed.benefit


@pytest.mark.parametrize(
    "where",
    [
        pytest.param(None, id="no hosts are known"),
        pytest.param(Topology.of(3, 3), id="workers are on nodes of one computer"),
        pytest.param(machine("100MB", "100MB"), id="all links are alike"),
    ],
)
def test_nothing_changes_where_all_workers_are_alike(where: Topology | None) -> None:
    chosen, by_policy = edge(where), edge(where, among=())
    assert [each.binding for each in chosen.used] == [each.binding for each in by_policy.used]
    assert not any(entry.hosts for entry in chosen.decisions)


def test_every_proposal_is_carried_out_where_the_user_wants_that() -> None:
    chosen, by_policy = (edge(machine(), among=among, control={"decision": "always"}) for among in (AMONG, ()))
    assert [each.binding for each in chosen.used] == [each.binding for each in by_policy.used]


def test_a_host_without_room_would_not_do() -> None:
    """A slow host could not keep up with one more instance; the policy does not look at speeds."""
    for speed, wanted in ((1.0, True), (0.05, False)):
        found = edge(machine(near_speed=speed))
        assert found.decisions
        assert (NEAR in chosen_workers(found)) is wanted


def test_a_host_that_goes_before_the_move_has_paid_off_would_not_do() -> None:
    going = HostDeparture(NEAR, 150.0, known_at_s=0.0)
    found = edge(machine("100MB", "1MB", going))
    assert found.decisions
    assert NEAR not in chosen_workers(found)


def test_moves_wait_for_a_link_that_is_announced_to_return() -> None:
    back_s = 104.6
    world = Edge(
        lambda place, now_s: 0.05,
        topology=machine("100MB", "1MB", HostDeparture(NEAR, 90.0, back_s, 0.0, "is expected to lose its link")),
        settings=ControlSettings(split=0.0),
    )
    world.binding = Binding.of(dict.fromkeys(INSTANCES, FULL), 3)
    world.run(12)
    waited = [entry for entry in world.entries if isinstance(entry, Kept) and "host near is back" in entry.reason]
    assert len([entry for entry in waited if entry.moves]) == 1
    assert waited[0].at_s < back_s <= world.decisions[0].at_s <= back_s + 1.5
    first = list(world.used[0].binding.worker_of.values())
    assert first.count(WorkerId(NEAR)) > first.count(WorkerId(FAR))
    assert "until host near is back" in "\n".join(story_lines(world.entries))


def test_nothing_waits_for_a_link_longer_than_the_horizon() -> None:
    world = Edge(
        lambda place, now_s: 0.05,
        topology=machine("100MB", "8MB", HostDeparture(NEAR, 90.0, 160.0, 0.0, "is expected to lose its link")),
        settings=ControlSettings(split=0.0),
    )
    world.binding = Binding.of(dict.fromkeys(INSTANCES, FULL), 3)
    world.run(12)
    assert world.decisions[0].at_s < 105.0
    assert not any("is back" in entry.reason for entry in world.entries if isinstance(entry, Kept))


def test_the_story_has_the_options_and_what_the_migration_cost() -> None:
    world = edge(machine())
    (command,) = world.used
    moves = tuple(
        MoveReport(each.instance, each.source, each.target, 1, frozen_s=0.5, seconds=2.0)
        for each in Binding.of(dict.fromkeys(INSTANCES, FULL), 3).diff(command.binding)
    )
    world.moving = []
    world.send(MovesFinished(command.id, moves, at_s=world.now_s))
    (measured,) = [entry for entry in world.entries if isinstance(entry, HostsMeasured)]
    assert (measured.frozen_s, measured.seconds) == (0.5, 2.0)
    assert measured.seconds_expected > 0
    text = "\n".join(story_lines(world.entries))
    assert "the twin sends" in text
    assert "of near rather than send it to worker 2, as proposed" in text
    assert "done after 2 s, where the twin expected" in text


@settings(deadline=None, max_examples=25)
@given(
    st.sampled_from(["1MB", "10MB", "100MB"]),
    st.sampled_from(["1MB", "10MB", "100MB"]),
    st.lists(st.floats(0.0, 0.2), min_size=len(INSTANCES), max_size=len(INSTANCES)),
    st.sampled_from([1_000, 1_000_000, 50_000_000]),
    st.sampled_from(["greedy", "guarded"]),
)
def test_a_chosen_worker_has_a_larger_benefit_and_is_reached_sooner_than_the_proposed_one(
    near: str, far: str, shares: list[float], state_bytes: int, policy: str
) -> None:
    control = ControlSettings(split=0.0, least_gain=0.0)
    world = Edge(
        lambda place, now_s: shares[place],
        topology=machine(near, far),
        state_bytes=state_bytes,
        policy=policy,
        settings=control,
    )
    world.run(4)
    for entry in world.entries:
        for choice in entry.hosts if isinstance(entry, Decided) else ():
            best, *others = choice.options
            proposed = next(each for each in others if each.worker == choice.proposed)
            assert best.benefit > proposed.benefit
            assert best.worker != choice.proposed
            assert best.seconds < proposed.seconds
            stays = best.worker == choice.source
            assert stays == (not best.mechanism)
            assert not best.wait_s
