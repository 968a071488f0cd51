"""Machines: checked when they are made, and the same thing as arrays."""

import math
from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.errors import ConfigError
from shoal.model.control.topology import Topology
from shoal.runtimes.simulated.machine.hosts import Host, Link, Outage
from shoal.runtimes.simulated.machine.machine import HUB, QUEUE_S, Machine

A, B = Host("a", 2), Host("b", 3)
THERE, BACK = Link("a", "b", 1e6), Link("b", "a", 1e6)


def network(size: int, ways: dict[tuple[int, int], int]) -> Machine:
    """Hosts in a ring of slow links, and faster links between some of them; latencies in milliseconds."""
    ring = {(each, (each + 1) % size): 50 for each in range(size)}
    links = [Link(f"h{a}", f"h{b}", 1e6, latency / 1000) for (a, b), latency in (ring | ways).items()]
    return Machine(tuple(Host(f"h{each}", 1) for each in range(size)), tuple(links))


def shortest(machine: Machine, source: str, target: str) -> tuple[int, int]:
    """Milliseconds and links of the best route, by relaxing all links until nothing changes."""
    best = {source: (0, 0)}
    changed = True
    while changed:
        changed = False
        for link in machine.links:
            if link.source in best:
                latency, hops = best[link.source]
                found = latency + round(link.latency_s * 1000), hops + 1
                if found < best.get(link.target, (math.inf, 0)):
                    best[link.target] = found
                    changed = True
    return best[target]


@st.composite
def networks(draw: st.DrawFn) -> Machine:
    size = draw(st.integers(2, 9))
    ends = st.tuples(st.integers(0, size - 1), st.integers(0, size - 1)).filter(lambda pair: pair[0] != pair[1])
    return network(size, draw(st.dictionaries(ends, st.integers(0, 60), max_size=20)))


@given(networks())
def test_a_route_is_one_of_least_latency_and_of_those_one_with_fewest_links(machine: Machine) -> None:
    for source, first in enumerate(machine.hosts):
        for target, last in enumerate(machine.hosts):
            route = [machine.links[number] for number in machine.route(source, target)]
            assert all(before.target == after.source for before, after in pairwise(route))
            assert (not route) == (first is last)
            if route:
                assert (route[0].source, route[-1].target) == (first.name, last.name)
            taken = round(sum(link.latency_s for link in route) * 1000)
            assert (taken, len(route)) == shortest(machine, first.name, last.name)


@given(networks())
def test_routes_are_the_same_each_time(machine: Machine) -> None:
    again = Machine(machine.hosts, machine.links)
    assert machine.routes.link.tolist() == again.routes.link.tolist()
    assert machine.routes.start.tolist() == again.routes.start.tolist()


@given(st.lists(st.tuples(st.integers(1, 9), st.integers(1, 4)), min_size=1, max_size=6))
def test_every_core_is_a_worker_of_its_host_and_every_memory_node_has_one(sizes: list[tuple[int, int]]) -> None:
    hosts = tuple(Host(f"h{i}", cores, memory_nodes=min(cores, nodes)) for i, (cores, nodes) in enumerate(sizes))
    links = [link for host in hosts for link in (Link(host.name, HUB, 1.0), Link(HUB, host.name, 1.0))]
    machine = Machine(hosts, tuple(links))
    assert machine.workers == sum(host.cores for host in hosts)
    assert np.bincount(machine.worker_host).tolist() == [host.cores for host in hosts]
    assert machine.topology == Topology(tuple(machine.worker_node.tolist()))
    assert np.array_equal(machine.node_host[machine.worker_node], machine.worker_host)
    assert np.bincount(machine.node_host).tolist() == [host.memory_nodes for host in hosts]
    for host in hosts:
        sizes_of_nodes = np.bincount(host.node_of)
        assert sizes_of_nodes.max() - sizes_of_nodes.min() <= 1


def test_a_star_has_an_uplink_and_a_downlink_per_host_and_no_matrix() -> None:
    hosts = tuple(Host(f"h{i}", 1) for i in range(5000))
    links = (*(Link(host.name, HUB, 1e6) for host in hosts), *(Link(HUB, host.name, 1e6) for host in hosts))
    routes = Machine(hosts, links).routes
    assert routes.is_star
    assert sum(each.nbytes for each in (routes.uplink, routes.downlink, routes.start, routes.link)) == 2 * 8 * 5000
    assert routes.between(3, 4000) == (3, 9000)
    assert routes.between(3, 3) == ()


def test_a_star_with_one_more_link_takes_it() -> None:
    hosts = (A, B, Host("c", 1))
    star = [Link(*ends, 1e6, 0.01) for host in hosts for ends in ((host.name, HUB), (HUB, host.name))]
    routes = Machine(hosts, (*star, Link("a", "b", 1e6, 0.001))).routes
    assert not routes.is_star
    assert (routes.between(0, 1), routes.between(1, 0), routes.between(0, 2)) == ((6,), (2, 1), (0, 5))


def test_arrays_have_the_values_of_hosts_and_links_and_cannot_be_changed() -> None:
    mote = Host("mote", 1, speed=0.5, busy_w=2.0, idle_w=1.0, byte_j=1e-6, battery_j=100.0)
    machine = Machine((A, mote), (Link("a", "mote", 10.0, 0.5, 100, 9), Link("mote", "a", 20.0)))
    assert machine.host_speed.tolist() == [1.0, 0.5]
    assert machine.host_busy_w.tolist() == [0.0, 2.0]
    assert machine.host_idle_w.tolist() == [0.0, 1.0]
    assert machine.host_byte_j.tolist() == [0.0, 1e-6]
    assert machine.host_battery_j.tolist() == [math.inf, 100.0]
    assert machine.link_bytes_per_s.tolist() == [10.0, 20.0]
    assert machine.link_latency_s.tolist() == [0.5, 0.0]
    assert machine.link_segment.tolist() == [100, 1460]
    assert machine.link_overhead.tolist() == [9, 40]
    with pytest.raises(ValueError, match="read-only"):
        machine.host_speed[0] = 2.0


def test_outages_are_listed_by_begin_with_the_number_of_host_or_link() -> None:
    outages = (Outage(9.0, "b"), Outage(5.0, "b->a", 6.0), Outage(6.0, "b->a", 7.0), Outage(1.0, "a", 2.0))
    machine = Machine((A, B), (THERE, BACK), outages)
    assert machine.host_outages == ((0, 1.0, 2.0), (1, 9.0, math.inf))
    assert machine.link_outages == ((1, 5.0, 6.0), (1, 6.0, 7.0))


def test_queue_costs_grow_in_a_straight_line_behind_the_measured_ones() -> None:
    assert Machine((A,), queue_s=(1.0, 1.5)).queue_costs(4).tolist() == [1.0, 1.5, 2.0, 2.5]
    assert Machine((A,), queue_s=(3.0,)).queue_costs(3).tolist() == [3.0, 3.0, 3.0]
    assert Machine((A,), queue_s=(1.0, 5.0, 4.0)).queue_costs(5).tolist() == [1.0, 5.0, 4.0, 4.0, 4.0]
    assert Machine((A,), queue_s=(1.0, 5.0, 4.0)).queue_costs(2).tolist() == [1.0, 5.0]
    assert list(QUEUE_S) == Machine((A,)).queue_costs(len(QUEUE_S)).tolist()


def test_slowdown_stays_as_it_was_at_the_last_number_of_workers() -> None:
    assert Machine((A,), slowdown=(1.0, 1.25)).slowdowns(4).tolist() == [1.0, 1.25, 1.25, 1.25]
    assert Machine((A,), slowdown=(1.0, 1.25, 2.0)).slowdowns(1).tolist() == [1.0]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        pytest.param(lambda: Host("a", 0), "cores of host 'a' must be from 1 to 1,000,000; got 0", id="no cores"),
        pytest.param(
            lambda: Host("a", 2, memory_nodes=3),
            "memory_nodes of host 'a' must be from 1 to its number of cores, 2; got 3",
            id="more memory nodes than cores",
        ),
        pytest.param(
            lambda: Host("a", 1, speed=0.0), "speed of host 'a' must be above 0 and finite; got 0", id="no speed"
        ),
        pytest.param(
            lambda: Host("a", 1, speed=math.nan), "speed of host 'a' must be above 0", id="speed is no number"
        ),
        pytest.param(
            lambda: Host("a", 1, idle_w=-1.0), "idle_w of host 'a' must be 0 or more, and", id="negative power"
        ),
        pytest.param(lambda: Host("a", 1, battery_j=0.0), "battery_j of host 'a' must be above 0", id="empty battery"),
        pytest.param(lambda: Host("a->b", 1), "name of a host must consist of letters, digits", id="name of a link"),
        pytest.param(lambda: Link("a", "a", 1.0), "a link must have two ends; got 'a' twice", id="one end"),
        pytest.param(lambda: Link("a", "b", -1.0), "bandwidth of link a->b must be above 0", id="negative bandwidth"),
        pytest.param(lambda: Link("a", "b", math.inf), "must be above 0 and finite; got inf", id="endless bandwidth"),
        pytest.param(lambda: Link("a", "b", 1.0, -0.1), "latency of link a->b must be from 0", id="negative latency"),
        pytest.param(
            lambda: Link("a", "b", 1.0, 0.0, 0), "segments of link a->b must have at least 1", id="no segment"
        ),
        pytest.param(
            lambda: Outage(-1.0, "a"), "outage of 'a' must begin at 0 s or later; got -1 s", id="outage before"
        ),
        pytest.param(lambda: Outage(5.0, "a", 5.0), "outage of 'a' must end after it begins; got", id="no time"),
        pytest.param(lambda: Machine(()), "a machine must have at least one host; got none", id="no host"),
        pytest.param(
            lambda: Machine(tuple(Host(f"h{i}", 1_000_000) for i in range(2))),
            "at most 100,000 hosts and",
            id="too large",
        ),
        pytest.param(lambda: Machine((A, A)), "names of their own; got 'a' 2 times", id="two hosts of one name"),
        pytest.param(
            lambda: Machine((Host("hub", 1),)), "names of their own; got 'hub' 2 times", id="a host named hub"
        ),
        pytest.param(
            lambda: Machine((A, Host("server", 1)), (Link("a", "serve", 1.0),)),
            "link a->serve must join hosts or switches; got end 'serve'; did you mean 'server'?",
            id="unknown end",
        ),
        pytest.param(
            lambda: Machine((A, B), (THERE, BACK, Link("a", "b", 2.0))), "got 'a->b' 2 times", id="two links of one way"
        ),
        pytest.param(lambda: Machine((A, B)), "must be joined by links; no route leads from 'a' to 'b'", id="no links"),
        pytest.param(lambda: Machine((A, B), (THERE,)), "no route leads from 'b' to 'a'", id="no way back"),
        pytest.param(
            lambda: Machine((A, B), (THERE, BACK), (Outage(1.0, "a->c"),)),
            "an outage must be of a host or of a link; got 'a->c'; did you mean 'a->b'?",
            id="outage of an unknown link",
        ),
        pytest.param(
            lambda: Machine((A,), (), (Outage(1.0, "a"), Outage(5.0, "a"))),
            "must not overlap",
            id="overlapping outages",
        ),
        pytest.param(
            lambda: Machine((A,), remote_byte_s=-1.0), "remote_byte_s of a machine must be 0", id="remote bytes"
        ),
        pytest.param(lambda: Machine((A,), queue_s=()), "must have at least one value each; got none", id="no queue"),
        pytest.param(lambda: Machine((A,), queue_s=(-1.0,)), "every value of queue_s", id="negative queue"),
        pytest.param(
            lambda: Machine((A,), slowdown=(0.0,)), "every factor of slowdown must be above 0", id="no slowdown"
        ),
        pytest.param(lambda: network(513, {}), "more than 512 hosts and switches must be a star", id="no matrix"),
    ],
)
def test_what_cannot_be_is_refused(make: Callable[[], object], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        make()
    assert message in str(caught.value)
