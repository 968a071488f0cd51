"""Exchanges: the link with the most to carry decides."""

from dataclasses import replace

import numpy as np
import pytest

from shoal.errors import RunError
from shoal.runtimes.simulated.machine.hosts import Host, Link, Outage
from shoal.runtimes.simulated.machine.machine import HUB, Machine
from shoal.runtimes.simulated.micro_batch.exchange import between_hosts, collected_s, exchanged_s


def cluster(executors: int = 3, *, latency_s: float = 0.0, outages: tuple[Outage, ...] = ()) -> Machine:
    """Executors with links of 100 bytes per second and no overhead."""
    hosts = tuple(Host(f"e{number}", 1) for number in range(executors))
    ends = [pair for host in hosts for pair in ((host.name, HUB), (HUB, host.name))]
    return Machine(hosts, tuple(Link(*pair, 100.0, latency_s, 1000, 0) for pair in ends), outages, spark=True)


def sent(*flows: tuple[int, int, float], hosts: int = 3) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    sources, targets, sizes = zip(*flows, strict=True)
    return between_hosts(np.array(sources), np.array(targets), np.array(sizes), hosts)


def test_bytes_that_stay_on_an_executor_take_no_time() -> None:
    assert exchanged_s(cluster(), sent((1, 1, 1e9)), 5.0) == 5.0


def test_flows_into_one_executor_share_its_link() -> None:
    assert exchanged_s(cluster(), sent((0, 2, 300.0), (1, 2, 100.0)), 1.0) == pytest.approx(5.0)
    assert exchanged_s(cluster(), sent((0, 1, 300.0), (1, 2, 100.0)), 1.0) == pytest.approx(4.0)


def test_the_latency_of_the_route_is_added_once() -> None:
    assert exchanged_s(cluster(latency_s=0.25), sent((0, 1, 100.0), (1, 0, 100.0)), 0.0) == pytest.approx(1.5)


def test_headers_of_segments_count() -> None:
    machine = cluster()
    links = tuple(replace(link, overhead_bytes=100) for link in machine.links)
    assert exchanged_s(replace(machine, links=links), sent((0, 1, 1000.0)), 0.0) == pytest.approx(11.0)


def test_routes_that_are_no_star_load_every_link_on_the_way() -> None:
    hosts = (Host("a", 1), Host("b", 1), Host("c", 1))
    pairs = [("a", "b"), ("b", "a"), ("b", "c"), ("c", "b")]
    machine = Machine(hosts, tuple(Link(*pair, 100.0, 0.1, 1000, 0) for pair in pairs), spark=True)
    assert exchanged_s(machine, sent((0, 2, 100.0), (1, 2, 100.0)), 0.0) == pytest.approx(2.2)


@pytest.mark.parametrize(
    ("begin_s", "expected_s"),
    [
        pytest.param(0.0, 2.0, id="it is over before the outage"),
        pytest.param(2.0, 14.0, id="it goes on behind the outage"),
        pytest.param(5.0, 15.0, id="it begins behind the outage"),
        pytest.param(20.0, 22.0, id="the outage is past"),
    ],
)
def test_a_link_that_is_down_carries_nothing(begin_s: float, expected_s: float) -> None:
    machine = cluster(outages=(Outage(3.0, "e0->hub", 13.0),))
    assert exchanged_s(machine, sent((0, 1, 200.0)), begin_s) == pytest.approx(expected_s)


def test_a_link_that_never_returns_ends_the_run() -> None:
    machine = cluster(outages=(Outage(3.0, "e0->hub"),))
    with pytest.raises(RunError, match="link e0->hub does not return"):
        exchanged_s(machine, sent((0, 1, 1000.0)), 0.0)


def test_results_take_the_link_of_the_driver() -> None:
    assert collected_s(cluster(), 200.0) == pytest.approx(2.0)
    assert collected_s(Machine((Host("one", 4),), spark=True), 200.0) == 0.0
