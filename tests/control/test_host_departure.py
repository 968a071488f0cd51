"""Hosts that go: instances leave in time, the most useful first, and nothing returns before the host does."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.control.world import World

from shoal.control.host_departure import LATE, NOWHERE, Departures, expanded, leaving_of, remaining
from shoal.control.journal import Left
from shoal.control.observation import Observation
from shoal.control.settings import ControlSettings
from shoal.control.story import story_lines
from shoal.errors import ConfigError
from shoal.model.control.binding import Binding
from shoal.model.control.costs import LinkCosts
from shoal.model.control.hosts import Floats, HostDeparture
from shoal.model.control.messages import MoveLimit
from shoal.model.control.topology import Topology
from shoal.model.query.graph import InstanceId
from shoal.policies.binding.loads import Load, Loads
from shoal.runtimes.simulated.machine.notation import machine_named
from shoal.runtimes.simulated.workers import Workers

PERIOD_S = 0.5
HAND_OVER_S = 0.001


def topology(*departures: HostDeparture, star: str = "star:3x2@8MB,10ms", battery_j: Floats | None = None) -> Topology:
    machine = machine_named(star)
    found = Workers.first(machine, machine.workers).topology_with({}, battery_j)
    assert found.hosts is not None
    return replace(found, hosts=replace(found.hosts, departures=departures))


def observed(where: Topology, loads: Sequence[tuple[int, Load]]) -> Observation:
    """Instances with a worker and a load each."""
    known = Loads.of({InstanceId(f"i{n}/0"): load for n, (_, load) in enumerate(loads)})
    binding = Binding.of({InstanceId(f"i{n}/0"): worker for n, (worker, _) in enumerate(loads)}, where.workers)
    return Observation(replace(known, costs=LinkCosts(hand_over_s=HAND_OVER_S)), binding, where, horizon_s=10.0)


def hosts_of(observation: Observation, binding: Binding) -> list[int]:
    assert observation.topology.hosts is not None
    host_of = observation.topology.hosts.of_worker
    return [int(host_of[binding.worker_of[each]]) for each in observation.loads.instances]


def transfer_s(observation: Observation, places: Sequence[int], bytes_per_s: float) -> float:
    sizes = observation.loads.state_bytes[list(places)]
    return float((sizes / bytes_per_s + HAND_OVER_S).sum())


loads_of_workers = st.lists(
    st.tuples(
        st.integers(0, 5),
        st.builds(
            Load,
            cost_s=st.just(1e-3),
            rate_per_s=st.integers(0, 400).map(float),
            state_bytes=st.sampled_from([0.0, 1e3, 1e6, 4e6, 2e7]),
        ),
    ),
    min_size=1,
    max_size=12,
)


@settings(deadline=None)  # the first choice compiles
@given(loads_of_workers, st.floats(0.6, 40.0), st.floats(0.1, 60.0))
def test_instances_leave_so_that_the_transfer_ends_before_the_host_goes(
    loads: list[tuple[int, Load]], at_s: float, announced_s: float
) -> None:
    """Reports come every half second; a command takes effect with the next one."""
    observation = observed(topology(HostDeparture(1, at_s, known_at_s=at_s - announced_s)), loads)
    bytes_per_s = 8e6 / (1 + 40 / 1460)
    places = [place for place, host in enumerate(hosts_of(observation, observation.binding)) if host == 1]
    departures, found, now_s = Departures(10.0), None, 0.0
    while found is None and now_s < at_s:
        now_s += PERIOD_S
        if departures.expects(observation.topology, now_s):
            found = departures.due(observation, PERIOD_S, now_s)
    if not places:
        assert found is None
        return
    if found is None:
        assert now_s - PERIOD_S < max(0.0, at_s - announced_s) + PERIOD_S, "it was known too late for any report"
        return
    after = hosts_of(observation, found.binding)
    moved = [place for place in places if after[place] != 1]
    assert len(moved) == found.moved
    assert [after[place] for place in range(len(loads)) if place not in places] == [
        host for host in hosts_of(observation, observation.binding) if host != 1
    ], "nothing else moves"
    sent_s = transfer_s(observation, moved, bytes_per_s)
    assert found.transfer_s == pytest.approx(sent_s, abs=1e-6)
    assert not moved or now_s + PERIOD_S + sent_s <= at_s + 1e-6
    left = [place for place in places if place not in moved]
    assert (found.stayed, found.reason) == (len(left), LATE if left else "")
    for place in left:
        assert now_s + PERIOD_S + transfer_s(observation, [*moved, place], bytes_per_s) > at_s - 1e-4
    if left and moved:  # the most useful ones go: at least half of what could be saved
        rates = observation.loads.rate_per_s
        alone = [
            each for each in places if now_s + PERIOD_S + transfer_s(observation, [each], bytes_per_s) < at_s - 1e-4
        ]
        assert rates[moved].sum() >= max((rates[each] for each in alone), default=0.0)
        assert found.kept == pytest.approx(rates[moved].sum() / rates[places].sum() if rates[places].sum() else 1.0)
        assert set(found.first) <= {observation.loads.instances[each] for each in moved}
    if announced_s > 2 * (2 * PERIOD_S + 1.5 * (transfer_s(observation, places, bytes_per_s) + 0.02)) and not left:
        slack_s = at_s - now_s - 2 * PERIOD_S - 1.5 * (sent_s + 0.02)
        assert slack_s <= 1e-6, "they stay as long as they can"


def short_of_time() -> Observation:
    """Three instances of 8, 4 and 4 MB on a host that goes after 2.6 s; 8 MB take a second."""
    departs = HostDeparture(1, 2.6, known_at_s=1.0)
    sizes = [(8e6, 30.0), (4e6, 25.0), (4e6, 20.0)]
    return observed(topology(departs), [(2, Load(1e-3, rate_per_s=rate, state_bytes=size)) for size, rate in sizes])


def test_if_time_is_short_the_most_useful_instances_for_their_bytes_leave() -> None:
    found = Departures(10.0).due(short_of_time(), PERIOD_S, 1.0)
    assert found is not None
    assert (found.moved, found.stayed, found.reason) == (2, 1, LATE)
    assert found.first == ("i1/0", "i2/0")
    assert found.kept == pytest.approx(45 / 75)
    assert found.limit is None


def test_if_fragments_are_chosen_all_instances_leave_and_the_runtime_knows_the_deadline() -> None:
    found = Departures(10.0, sheds=True).due(short_of_time(), PERIOD_S, 1.0)
    assert found is not None
    assert (found.moved, found.stayed) == (3, 0)
    assert found.limit == MoveLimit(2.6, ends=False)
    assert found.first == ("i1/0", "i2/0", "i0/0")
    assert 0.4 < found.kept < 0.6
    assert "the most useful state of all goes first" in found.reason
    [line] = story_lines([found.entry(3, 1.0, {InstanceId("i1/0"): "speeds"})])
    assert "(first speeds, i2/0, i0/0; about" in line


def test_a_host_that_is_to_be_free_ends_its_moves_in_time() -> None:
    observation = short_of_time()
    wished = Departures(10.0, {"host-2": 2.2}, sheds=True).due(observation, PERIOD_S, 1.5)
    assert wished is not None
    assert wished.limit == MoveLimit(2.2, ends=True)


def test_instances_go_where_work_is_done_first() -> None:
    busy, light = Load(cost_s=1.0, rate_per_s=5.0), Load(cost_s=1.0, rate_per_s=1.0)
    observation = observed(topology(HostDeparture(0, 1.2)), [(0, busy), (1, light), (2, busy), (3, busy), (4, light)])
    found = Departures(10.0).due(observation, PERIOD_S, 0.5)
    assert found is not None
    assert [found.binding.worker_of[each] for each in observation.loads.instances] == [5, 4, 2, 3, 4]
    assert found.trigger == "host host-1 is expected to fail at 1.2 s"


def test_no_instance_goes_to_a_host_that_goes_soon_as_well() -> None:
    observation = observed(topology(HostDeparture(0, 1.2), HostDeparture(1, 9.0)), [(0, Load(1.0, rate_per_s=1.0))] * 4)
    found = Departures(10.0).due(observation, PERIOD_S, 0.5)
    assert found is not None
    assert set(hosts_of(observation, found.binding)) == {2}


def test_if_all_hosts_go_it_is_said_once() -> None:
    going = topology(*(HostDeparture(host, 1.0) for host in range(3)))
    departures, observation = Departures(10.0), observed(going, [(0, Load(1.0, rate_per_s=1.0))])
    found = departures.due(observation, PERIOD_S, 0.5)
    assert found is not None
    assert (found.moved, found.stayed, found.reason) == (0, 1, NOWHERE)
    assert departures.due(observation, PERIOD_S, 0.6) is None


def test_a_battery_is_left_before_it_is_empty_and_for_good() -> None:
    departures, load = Departures(1.0), [(2, Load(1e-3, rate_per_s=10.0, state_bytes=1e6))]
    left_at_s, now_s, left_j = None, 0.0, 100.0
    while now_s < 12 and left_at_s is None:
        now_s, left_j = now_s + PERIOD_S, left_j - 5.0
        where = topology(battery_j=np.array([np.inf, left_j, np.inf]))
        departures.note(where, now_s)
        if departures.expects(where, now_s) and departures.due(observed(where, load), PERIOD_S, now_s) is not None:
            left_at_s = now_s
    assert left_at_s == pytest.approx(9.0), "it lasts until 10 s; two reports and the transfer take 1.2 s"
    idle = topology(battery_j=np.array([np.inf, left_j, np.inf]))
    for _ in range(20):
        now_s += PERIOD_S
        departures.note(idle, now_s)
    assert idle.hosts is not None
    assert departures.away(idle.hosts, now_s) == (2, 3)


def test_workers_are_away_from_the_horizon_before_a_departure_until_the_host_is_back() -> None:
    where = topology(HostDeparture(1, 20.0, 30.0))
    assert where.hosts is not None
    hosts = where.hosts
    departures = Departures(10.0)
    assert [departures.away(hosts, now_s) for now_s in (9.9, 10.0, 29.9, 30.0)] == [(), (2, 3), (2, 3), ()]
    assert Departures(10.0, ahead=False).away(hosts, 15.0) == ()


def test_what_remains_without_some_workers_keeps_its_place() -> None:
    loads = [(worker, Load(1.0, rate_per_s=float(worker + 1))) for worker in range(6)]
    whole = observed(topology(), loads)
    part = remaining(whole, (0, 2))
    assert part.loads.rate_per_s.tolist() == [2.0, 4.0, 5.0, 6.0]
    assert list(part.binding.worker_of.values()) == [0, 1, 2, 3]
    assert part.topology.node_of == (0, 1, 2, 2)
    assert (part.busiest, whole.busiest) == (5, 5)
    swapped = Binding.of(dict(zip(part.loads.instances, (1, 0, 2, 3), strict=True)), 4)
    assert list(expanded(swapped, part, whole.binding).worker_of.values()) == [0, 3, 2, 1, 4, 5]


def star_world(star: Topology, **control: str) -> World:
    settings = ControlSettings(**control)  # type: ignore[arg-type]
    return World(lambda place, now_s: 0.1, workers=6, topology=star, settings=settings, now_s=0.0)


def test_the_controller_leaves_a_host_and_lets_nothing_return_until_it_is_back() -> None:
    world = star_world(topology(HostDeparture(2, 20.0, 40.0, event="is expected to lose its link")))
    world.run(35)
    (left,) = [entry for entry in world.entries if isinstance(entry, Left)]
    assert (left.hosts, left.moved, left.stayed) == (("host-3",), 4, 0)
    assert left.trigger == "host host-3 is expected to lose its link at 20.0 s"
    assert 18.0 <= left.at_s < 20.0
    assert not {4, 5} & set(world.binding.worker_of.values())
    world.run(15)
    assert {4, 5} <= set(world.binding.worker_of.values()), "it is used again"


def test_a_host_is_free_by_the_time_that_the_user_wants() -> None:
    world = star_world(topology(), leave="host-2@10").run(12)
    (left,) = [entry for entry in world.entries if isinstance(entry, Left)]
    assert left.trigger == "host host-2 is to be free at 10.0 s"
    assert not {2, 3} & set(world.binding.worker_of.values())


def test_without_foresight_nothing_leaves() -> None:
    world = star_world(topology(HostDeparture(2, 20.0, 40.0)), departures="wait").run(30)
    assert world.moves == 0


@pytest.mark.parametrize(
    ("where", "text", "message"),
    [
        pytest.param(None, "box@3", "leave names hosts, and this runtime does not know its hosts", id="no hosts"),
        pytest.param(topology(), "hots-2@3", "got 'hots-2'; did you mean 'host-2'?", id="another host"),
    ],
)
def test_hosts_that_are_unknown_cannot_be_left(where: Topology | None, text: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Departures(1.0, leaving_of(text)).note(where, 0.0)
    assert message in str(caught.value)


@pytest.mark.parametrize("text", ["box", "box@", "@3", "box@soon", "box@-1", "a@1,b"])
def test_a_wish_without_host_or_time_is_a_clear_error(text: str) -> None:
    with pytest.raises(ConfigError, match=r"^leave must be HOST@SECONDS, several with commas; got "):
        ControlSettings(leave=text)
