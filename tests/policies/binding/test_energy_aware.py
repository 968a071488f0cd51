"""The policy energy-aware: least power, no worker over its share, and batteries left before they are empty."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.policies.binding.random_loads import Situation, named, on_hosts, situation, situations

from shoal.errors import ConfigError
from shoal.model.control.topology import Topology
from shoal.policies.binding.energy_aware import EnergyAware
from shoal.policies.binding.loads import Load
from shoal.policies.binding.paths import Paths

POLICY = EnergyAware()


def aims(asked: Situation) -> tuple[tuple[float, float], tuple[float, float]]:
    """Violation and power before and after."""
    judge = POLICY.judge(asked.loads, asked.binding, asked.topology)
    found = [judge.aim(asked.placed(each)) for each in (asked.binding, asked.proposal(POLICY))]
    return (found[0].violation, found[0].amount), (found[1].violation, found[1].amount)


@settings(max_examples=40, deadline=None)
@given(situations())
def test_limits_are_never_exceeded_by_more_than_before(asked: Situation) -> None:
    before, after = aims(asked)
    assert after[0] <= before[0] + 1e-9
    if before[0] == 0:
        assert after[1] <= before[1] * (1 + 1e-9)


@settings(max_examples=40, deadline=None)
@given(situations())
def test_asked_again_it_proposes_nothing_if_no_limit_is_exceeded(asked: Situation) -> None:
    """After its moves the same work is measured on other hosts, so costs are those of their speeds."""
    hosts, proposal = asked.topology.hosts, asked.proposal(POLICY)
    assert hosts is not None
    speed = hosts.speed[hosts.of_worker]
    cost_s = asked.loads.cost_s * speed[asked.placed(asked.binding)] / speed[asked.placed(proposal)]
    again = Situation(replace(asked.loads, cost_s=cost_s), proposal, asked.topology)
    if aims(again)[0][0] == 0:
        assert aims(again)[1][1] >= aims(again)[0][1] * (1 - 2 * POLICY.least) - 1e-9


@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(1, 3)), min_size=1, max_size=6),
    st.lists(st.sampled_from([0.5, 1.0, 4.0]), min_size=3, max_size=3),
)
def test_independent_instances_are_where_their_work_takes_the_least_power(
    instances: list[tuple[int, int]], speeds: list[float]
) -> None:
    topology = on_hosts(Topology.of(3, 3), speed=tuple(speeds))
    loads = {named(n): (at, Load(cost_s=0.01, rate_per_s=float(rate))) for n, (at, rate) in enumerate(instances)}
    asked = situation(loads, topology)
    asked = replace(asked, loads=replace(asked.loads, paths=Paths()))
    hosts = topology.hosts
    assert hosts is not None
    joules = (hosts.busy_w - hosts.idle_w) / hosts.speed
    best = float(joules.min())
    policy = replace(POLICY, least=0.0)
    for worker in asked.placed(asked.proposal(policy)).tolist():
        assert joules[worker] == pytest.approx(best)


def test_a_worker_takes_no_more_than_its_share() -> None:
    topology = on_hosts(Topology.of(2, 2))
    asked = situation({named(n): (1, Load(cost_s=0.01, rate_per_s=30.0)) for n in range(4)}, topology)
    placed = asked.placed(asked.proposal(POLICY)).tolist()
    assert sorted(placed) == [0, 0, 1, 1], "the cheaper host has room for two of 0.3 each"


def test_a_host_whose_battery_is_nearly_empty_is_left_although_it_is_the_cheapest() -> None:
    load = {named(n): (0, Load(cost_s=0.01, rate_per_s=10.0)) for n in range(3)}
    full, empty = (on_hosts(Topology.of(2, 2), battery_j=(left_j, np.inf)) for left_j in (1e6, 50.0))
    assert set(situation(load, full).proposal(POLICY).worker_of.values()) == {0}
    assert set(situation(load, empty).proposal(POLICY).worker_of.values()) == {1}


def test_instances_that_exchange_much_are_brought_together() -> None:
    topology = on_hosts(Topology.of(2, 2))
    small = Load(cost_s=1e-6, rate_per_s=1.0, partition="a")
    asked = situation({named(0): (0, small), named(1): (1, small)}, topology, edges={(named(0), named(1)): 5e6})
    assert len(set(asked.proposal(POLICY).worker_of.values())) == 1


def test_a_topology_without_energy_is_refused() -> None:
    topology = on_hosts(Topology.of(2, 2))
    assert topology.hosts is not None
    none = np.zeros(2)
    cold = replace(topology, hosts=replace(topology.hosts, busy_w=none, idle_w=none, byte_j=none))
    asked = situation({named(0): (0, Load())}, cold)
    with pytest.raises(ConfigError, match=r"^policy energy-aware needs the energy of hosts; the topology has none"):
        asked.proposal(POLICY)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"share": 0.0}, "share of the policy energy-aware must be above 0 and at most 1; got 0.0"),
        ({"reserve_s": -1.0}, "reserve_s of the policy energy-aware must be 0 or more; got -1.0"),
    ],
)
def test_settings_that_make_no_sense_are_clear_errors(values: dict[str, float], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        EnergyAware(**values)
    assert str(caught.value) == message
