"""What instances need: power and latency against sums over every edge and recursion over every path."""

from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.policies.binding.random_loads import Situation, named, on_hosts, situation, situations

from shoal.errors import ConfigError
from shoal.model.control.topology import Topology
from shoal.policies.binding.demand import HORIZON_S, ROW_BYTES, Demand
from shoal.policies.binding.loads import Ints, Load


def demand_of(asked: Situation) -> Demand:
    return Demand(asked.loads, asked.binding, asked.topology, "test")


@st.composite
def placements(draw: st.DrawFn) -> tuple[Situation, Demand, Ints]:
    asked = draw(situations())
    count, workers = len(asked.loads.instances), asked.topology.workers
    elsewhere = draw(st.lists(st.integers(0, workers - 1), min_size=count, max_size=count))
    return asked, demand_of(asked), np.array(elsewhere, np.int64)


def naive_watts(asked: Situation, placed: Ints) -> float:
    loads, hosts = asked.loads, asked.topology.hosts
    assert hosts is not None
    host = [int(hosts.of_worker[worker]) for worker in placed]
    total = 0.0
    for place, before in enumerate(asked.placed(asked.binding).tolist()):
        busy = loads.cost_s[place] * (loads.rate_per_s[place] + loads.backlog[place] / HORIZON_S)
        busy *= hosts.speed[hosts.of_worker[before]] / hosts.speed[host[place]]
        total += busy * (hosts.busy_w[host[place]] - hosts.idle_w[host[place]])
    for source, target, size in zip(loads.edge_source, loads.edge_target, loads.edge_bytes, strict=True):
        total += size * hosts.ways.onward(host[source]).byte_j[host[target]]
    for place, size in zip(loads.paths.inlet_place, loads.paths.inlet_bytes, strict=True):
        total += size * hosts.ways.onward(0).byte_j[host[place]]
    return float(total)


@settings(max_examples=40, deadline=None)
@given(placements())
def test_power_is_that_of_all_work_and_all_bytes(case: tuple[Situation, Demand, Ints]) -> None:
    asked, demand, placed = case
    assert demand.watts(placed) == pytest.approx(naive_watts(asked, placed))


@settings(max_examples=40, deadline=None)
@given(placements(), st.data())
def test_the_power_of_some_places_is_what_differs_between_hosts(
    case: tuple[Situation, Demand, Ints], data: st.DataObject
) -> None:
    asked, demand, placed = case
    if not len(placed):
        return
    unit = data.draw(st.lists(st.integers(0, len(placed) - 1), min_size=1, max_size=3, unique=True))
    one, other = data.draw(st.tuples(*[st.integers(0, asked.topology.workers - 1)] * 2))
    here, there = placed.copy(), placed.copy()
    here[unit], there[unit] = one, other
    watts = demand.watts_on(unit, placed)
    expected = naive_watts(asked, there) - naive_watts(asked, here)
    assert watts[demand.host_of[other]] - watts[demand.host_of[one]] == pytest.approx(expected, abs=1e-6)


@settings(max_examples=40, deadline=None)
@given(placements())
def test_latency_is_that_of_the_slowest_path(case: tuple[Situation, Demand, Ints]) -> None:
    asked, demand, placed = case
    loads, hosts = asked.loads, demand.hosts
    host, wait_s = demand.host_of[placed], demand.waiting_s(placed)

    def hop_s(here: int, there: int) -> float:
        way = hosts.ways.onward(here)
        return float(way.latency_s[there] + ROW_BYTES / way.bytes_per_s[there])

    @cache
    def reached_s(place: int) -> float:
        own_s = float(wait_s[placed[place]] + demand.service[place] / demand.speed[placed[place]])
        ways = [hop_s(0, int(host[place]))] if place in loads.paths.inlet_place else []
        for source, target in zip(loads.edge_source.tolist(), loads.edge_target.tolist(), strict=True):
            if target == place:
                ways.append(reached_s(source) + hop_s(int(host[source]), int(host[place])))
        return max(ways, default=0.0) + own_s

    assert demand.latency_s(placed).tolist() == pytest.approx([reached_s(place) for place in range(len(placed))])


def test_a_busier_worker_makes_events_wait_longer_and_a_faster_one_less() -> None:
    topology = on_hosts(Topology.of(3, 3), speed=(1.0, 1.0, 2.0))
    names = {named(n): (0, Load(cost_s=0.01, rate_per_s=40.0)) for n in range(3)}
    demand = demand_of(situation(names, topology))
    alone, both, fast, full = (
        float(demand.waiting_s(np.array(placed))[placed[0]]) for placed in ([0, 1, 2], [0, 0, 2], [2, 2, 1], [0, 0, 0])
    )
    assert fast < alone < both < full
    assert alone == pytest.approx(0.01 * 0.4 / 0.6), "the mean of a queue with random arrivals and service"
    assert demand.utilisation(np.array([0, 0, 0])).tolist() == pytest.approx([1.2, 0.0, 0.0])


def test_without_hosts_a_policy_refuses_by_name() -> None:
    asked = situation({named(0): (0, Load())}, Topology.of(1, 1))
    with pytest.raises(ConfigError, match=r"^policy test needs the hosts of the workers and the links between them"):
        demand_of(asked)
