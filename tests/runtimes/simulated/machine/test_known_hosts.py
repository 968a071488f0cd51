"""What policies are told of a machine: its ways against its routes link by link, and whom an announced outage takes."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.model.control.hosts import HostDeparture
from shoal.runtimes.simulated.machine.document import load_machine
from shoal.runtimes.simulated.machine.hosts import Host, Link
from shoal.runtimes.simulated.machine.known_hosts import CUT_OFF, FAILS, known_hosts
from shoal.runtimes.simulated.machine.machine import Machine
from shoal.runtimes.simulated.workers import Workers


@st.composite
def machines(draw: st.DrawFn) -> Machine:
    """A star, or hosts in a line with one link more."""
    count = draw(st.integers(1, 5))
    hosts = tuple(Host(f"h{n}", draw(st.integers(1, 3)), byte_j=draw(st.integers(0, 4))) for n in range(count))
    ends = [(host.name, "hub") for host in hosts]
    if draw(st.booleans()):
        ends = [(f"h{n}", f"h{n + 1}") for n in range(count - 1)] + ([("h0", f"h{count - 1}")] if count > 2 else [])
    pairs = [pair for one, other in ends for pair in ((one, other), (other, one))]
    number = st.integers(1, 9)
    links = tuple(
        Link(*pair, 100.0 * draw(number), float(draw(number)), 50, draw(st.integers(0, 50))) for pair in pairs
    )
    return Machine(hosts, links)


@given(machines())
def test_a_way_is_the_sum_of_its_links_and_as_wide_as_the_narrowest(machine: Machine) -> None:
    ways, byte_j = known_hosts(machine).ways, {host.name: host.byte_j for host in machine.hosts}
    for here in range(len(machine.hosts)):
        for there in range(len(machine.hosts)):
            route = [machine.links[number] for number in machine.route(here, there)]
            for legs, at in ((ways.onward(here), there), (ways.back(there), here)):
                headers = [1 + link.overhead_bytes / link.segment_bytes for link in route]
                ends = [byte_j.get(link.source, 0.0) + byte_j.get(link.target, 0.0) for link in route]
                widths = [link.bytes_per_s / more for link, more in zip(route, headers, strict=True)]
                assert legs.latency_s[at] == pytest.approx(sum(link.latency_s for link in route))
                assert legs.bytes_per_s[at] == pytest.approx(min(widths, default=math.inf))
                assert legs.byte_j[at] == pytest.approx(sum(a * b for a, b in zip(ends, headers, strict=True)))


STAR = "{hosts: [{name: box, count: 3, cores: 2}], star: {bandwidth: 1MB}, outages: [%s]}"
PAIR = "{hosts: [{name: a, cores: 1}, {name: b, cores: 1}], links: [{from: a, to: b, bandwidth: 1}], outages: [%s]}"
EDGE = """
hosts: [{name: server, cores: 8}, {name: box, count: 2, cores: 2}, {name: mote, count: 2, cores: 1}]
links: [{from: box, to: server, bandwidth: 1MB}, {from: mote, to: box-1, bandwidth: 1kB}]
outages: [%s]
"""


@pytest.mark.parametrize(
    ("machine", "outage", "departures"),
    [
        pytest.param(STAR, "{host: box-2, at: 9}", [], id="an outage that is not announced is a surprise"),
        pytest.param(
            STAR, "{host: box-2, at: 9, announced: 4}", [HostDeparture(1, 9.0, known_at_s=5.0)], id="a host that fails"
        ),
        pytest.param(
            STAR,
            "{link: [box-3, hub], at: 9, until: 12, announced: 20}",
            [HostDeparture(2, 9.0, 12.0, -11.0, CUT_OFF)],
            id="both directions of a link are one departure",
        ),
        pytest.param(
            STAR,
            "{link: [box-3, hub], at: 9, announced: 1}, {host: box-3, at: 9, until: 10, announced: 2}",
            [HostDeparture(2, 9.0, math.inf, 7.0, FAILS)],
            id="a failure counts more than a lost link",
        ),
        pytest.param(
            EDGE,
            "{link: [box-1, server], at: 9, until: 10, announced: 1}",
            [HostDeparture(host, 9.0, 10.0, 8.0, CUT_OFF) for host in (1, 3, 4)],
            id="what reaches the server through a host goes with it",
        ),
        pytest.param(
            PAIR,
            "{link: [a, b], at: 9, announced: 1}",
            [HostDeparture(1, 9.0, math.inf, 8.0, CUT_OFF)],
            id="of equals the first stays",
        ),
        pytest.param(
            "{hosts: [{name: a, cores: 1}, {name: b, cores: 3}], star: {bandwidth: 1}, outages: [%s]}",
            "{link: [b, hub], at: 9, announced: 1}",
            [HostDeparture(0, 9.0, math.inf, 8.0, CUT_OFF)],
            id="the host with most cores stays, whosever link it is",
        ),
    ],
)
def test_an_announced_outage_takes_the_hosts_that_it_cuts_off(
    machine: str, outage: str, departures: list[HostDeparture]
) -> None:
    assert list(known_hosts(load_machine(machine % outage, "f.yaml")).departures) == departures


def test_workers_know_their_hosts_and_what_is_left_in_batteries() -> None:
    machine = load_machine("{hosts: [{name: a, cores: 2}, {name: b, cores: 2}], star: {bandwidth: 1MB}}", "f.yaml")
    topology = Workers.first(machine, 3).topology_with({"cars": 1}, np.array([7.0, math.inf]))
    assert topology.hosts is not None
    assert topology.hosts.of_worker.tolist() == [0, 0, 1]
    assert topology.hosts.source_of == {"cars": 1}
    assert topology.hosts.battery_j.tolist() == [7.0, math.inf]
    assert (topology.hosts.has_batteries, topology.hosts.has_energy) == (True, False)
