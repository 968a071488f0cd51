"""The policy `guarded`: what it promises, and how it does beside the studies' policies."""

from dataclasses import replace
from statistics import median

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.policies.binding.random_loads import (
    BALANCING,
    Situation,
    link_costs,
    named,
    situation,
    situations,
    skewed_city,
)

from shoal.errors import ConfigError
from shoal.model.control.binding import Binding
from shoal.model.control.costs import LinkCosts
from shoal.model.control.topology import Topology
from shoal.policies.binding.greedy import Greedy
from shoal.policies.binding.guarded import Guarded
from shoal.policies.binding.loads import Load, Loads, shared_out
from shoal.policies.catalog import DYNAMIC

PAIR = Topology.of(nodes=1, workers=2)
NUMA = Topology.of(nodes=2, workers=4)
CITIES = [skewed_city(seed) for seed in range(15)]

guards = st.builds(
    Guarded,
    horizon_s=st.sampled_from([1.0, 8.0]),
    slack=st.sampled_from([0.0, 0.01, 0.5]),
    aim=st.sampled_from([0.0, 0.01, 0.2]),
    remote=st.sampled_from([0.0, 0.25, 2.0]),
)


@settings(deadline=None)
@given(situations(), guards)
def test_the_peak_is_never_raised(asked: Situation, policy: Guarded) -> None:
    work_s = asked.loads.work_s(policy.horizon_s)
    assert asked.peak(work_s, asked.proposal(policy)) <= asked.peak(work_s, asked.binding)


@settings(deadline=None)
@given(situations(), guards)
def test_asked_again_it_proposes_nothing(asked: Situation, policy: Guarded) -> None:
    proposal = asked.proposal(policy)
    assert asked.then(proposal).proposal(policy) is proposal


@pytest.mark.parametrize("asked", CITIES[:5], ids=range(5))
def test_asked_again_about_a_city_it_proposes_nothing(asked: Situation) -> None:
    proposal = asked.proposal(Guarded())
    assert asked.peak(asked.loads.waiting_s, proposal) < asked.peak(asked.loads.waiting_s, asked.binding)
    assert asked.then(proposal).proposal(Guarded()) is proposal


@settings(deadline=None)
@given(situations(), guards, link_costs(1e7, 1e10, 1e12))
def test_what_it_proposes_saves_more_overtime_and_remote_work_than_it_costs(
    asked: Situation, policy: Guarded, costs: LinkCosts
) -> None:
    asked = asked.costing(costs)
    proposal = asked.proposal(policy)
    size_of = dict(zip(asked.loads.instances, asked.loads.state_bytes.tolist(), strict=True))
    node_of = asked.topology.node_of
    moves = list(asked.binding.diff(proposal))
    cost_s = sum(costs.seconds(size_of[m.instance], node_of[m.source], node_of[m.target]) for m in moves)
    saved_s = burden_s(asked, policy, asked.binding) - burden_s(asked, policy, proposal)
    assert saved_s >= cost_s - 1e-6
    assert saved_s > 0 or not moves


def burden_s(asked: Situation, policy: Guarded, binding: Binding) -> float:
    """Work beyond the level, and work of instances by the share of their partition that is on other nodes."""
    work_s, placed = asked.loads.work_s(policy.horizon_s).tolist(), asked.placed(binding).tolist()
    goal_s = shared_out(asked.loads.work_s(policy.horizon_s), asked.topology.workers)[1] * (1 + policy.aim)
    load_s = [
        sum(w for w, at in zip(work_s, placed, strict=True) if at == one) for one in range(asked.topology.workers)
    ]
    burden = sum(max(0.0, load - goal_s) for load in load_s)
    nodes, partition = [asked.topology.node_of[worker] for worker in placed], asked.loads.partition.tolist()
    for place, work in enumerate(work_s):
        others = [other for other in range(len(work_s)) if partition[other] == partition[place] and other != place]
        if others:
            burden += policy.remote * work * sum(nodes[other] != nodes[place] for other in others) / len(others)
    return burden


def test_nothing_moves_where_work_is_even() -> None:
    loads = {named(n): (n % 2, Load(cost_s=0.1, backlog=7, rate_per_s=3)) for n in range(10)}
    asked = situation(loads, PAIR)
    assert asked.proposal(Guarded()) is asked.binding


def test_nothing_moves_within_the_slack() -> None:
    loads = {named(n): (n % 2, Load(cost_s=1.0, backlog=100 + 20 * (n == 0), partition="p")) for n in range(10)}
    loads["light"] = (0, Load(cost_s=1.0, backlog=2))
    asked = situation(loads, PAIR)
    # Worker 0 has 522 of 1022, 2.2 % above the level; the light instance alone would make it better.
    assert asked.proposal(Guarded(slack=0.025)) is asked.binding
    assert asked.moves(asked.proposal(Guarded(slack=0.02))) == 1


def test_once_the_slack_is_used_up_work_is_spread_further_than_that() -> None:
    loads = {named(n): (0, Load(cost_s=1.0, backlog=1)) for n in range(200)}
    asked = situation(loads, PAIR)
    assert asked.peak(asked.loads.waiting_s, asked.proposal(Guarded(slack=0.1))) == 100


def test_without_work_and_without_instances_nothing_moves() -> None:
    for loads in ({}, {"idle": (0, Load())}):
        asked = situation(loads, PAIR)
        assert asked.proposal(Guarded()) is asked.binding


def test_a_single_hot_instance_does_not_bounce() -> None:
    asked = situation({"hot": (0, Load(cost_s=1.0, backlog=100))}, NUMA)
    assert asked.proposal(Guarded()) is asked.binding


def test_what_shares_a_worker_with_a_hot_instance_leaves_it() -> None:
    loads = {"hot": (0, Load(cost_s=1.0, backlog=100)), "a": (0, Load(cost_s=1.0, backlog=5)), "b": (1, Load())}
    asked = situation(loads, PAIR)
    assert asked.placed(asked.proposal(Guarded())).tolist() == [0, 1, 1]


def test_workers_beside_a_hot_one_are_balanced_too() -> None:
    loads = {"hot": (0, Load(cost_s=1.0, backlog=100))}
    loads |= {named(n): (1, Load(cost_s=1.0, backlog=10)) for n in range(4)}
    asked = situation(loads, Topology.of(1, 3))
    assert sorted(asked.placed(asked.proposal(Guarded())).tolist()) == [0, 1, 1, 2, 2]


def test_it_sees_arrivals_where_nothing_waits_yet() -> None:
    loads = {named(n): (0, Load(cost_s=0.4, rate_per_s=1.0)) for n in range(4)}
    asked = situation(loads, PAIR)
    assert sorted(asked.placed(asked.proposal(Guarded())).tolist()) == [0, 0, 1, 1]
    assert asked.proposal(Greedy()) == asked.binding


def test_of_two_alike_the_one_with_less_state_moves() -> None:
    loads = {
        "large": (0, Load(cost_s=1.0, backlog=5, state_bytes=1e9)),
        "small": (0, Load(cost_s=1.0, backlog=5, state_bytes=1e3)),
    }
    proposal = situation(loads, PAIR).proposal(Guarded())
    assert dict(proposal.worker_of) == {"large": 0, "small": 1}


@pytest.mark.parametrize(("state_bytes", "moves"), [(4e9, 1), (6e9, 0)], ids=["cheaper", "dearer"])
def test_state_moves_only_if_that_takes_less_than_it_saves(state_bytes: float, moves: int) -> None:
    loads = {name: (0, Load(cost_s=1.0, backlog=5, state_bytes=state_bytes)) for name in "ab"}
    asked = situation(loads, PAIR).costing(LinkCosts(bytes_per_s=1e9))
    assert asked.moves(asked.proposal(Guarded(aim=0.0))) == moves


def test_state_stays_away_from_a_link_that_is_too_slow() -> None:
    loads = {name: (0, Load(cost_s=1.0, backlog=5, state_bytes=1e9)) for name in "abcd"}
    asked = situation(loads, Topology((0, 1, 2)))
    assert set(asked.proposal(Guarded()).worker_of.values()) == {0, 1, 2}
    for slow, fast in ((1, 2), (2, 1)):
        proposal = asked.costing(LinkCosts(link_bytes_per_s={(0, slow): 1e8})).proposal(Guarded())
        assert set(proposal.worker_of.values()) == {0, fast}


def test_the_longer_the_horizon_the_more_state_is_worth_moving() -> None:
    loads = {name: (0, Load(cost_s=0.4, rate_per_s=1.0, state_bytes=10e9)) for name in "ab"}
    asked = situation(loads, PAIR)
    assert asked.moves(asked.proposal(Guarded(horizon_s=10.0))) == 0
    assert asked.moves(asked.proposal(Guarded(horizon_s=100.0))) == 1


def test_a_gain_below_the_cost_of_a_hand_over_is_left_alone() -> None:
    asked = situation({name: (0, Load(cost_s=1e-6, backlog=5)) for name in "ab"}, PAIR)
    assert asked.proposal(Guarded()) is asked.binding
    assert asked.moves(asked.costing(LinkCosts(hand_over_s=0.0)).proposal(Guarded())) == 1


def test_the_node_of_its_partition_is_preferred() -> None:
    loads = {named(n): (0, Load(cost_s=1.0, backlog=6, partition="p")) for n in range(2)}
    # Worker 1, on the same node, has more to do than worker 2 on the other.
    loads |= {"x": (1, Load(cost_s=1.0, backlog=1)), "y": (3, Load(cost_s=1.0, backlog=4))}
    proposal = situation(loads, NUMA).proposal(Guarded())
    assert sorted(list(proposal.worker_of.values())[:2]) == [0, 1]


def test_a_partition_goes_to_another_node_as_a_whole() -> None:
    loads = {
        f"{partition}{n}": (worker, Load(cost_s=1.0, backlog=3, partition=partition))
        for partition, worker in (("p", 0), ("q", 0), ("r", 1), ("s", 1))
        for n in range(2)
    }
    asked = situation(loads, NUMA)
    proposal = asked.proposal(Guarded())
    assert all(len(nodes) == 1 for nodes in asked.nodes_of(proposal))
    assert asked.peak(asked.loads.waiting_s, proposal) == 6


def test_a_partition_is_torn_apart_only_if_that_costs_less_than_it_saves() -> None:
    loads = {named(n): (0, Load(cost_s=1.0, backlog=6, partition="p")) for n in range(2)}
    asked = situation(loads, Topology.of(nodes=2, workers=2))
    assert asked.moves(asked.proposal(Guarded(remote=0.25))) == 1
    assert asked.moves(asked.proposal(Guarded(remote=0.75))) == 0


@pytest.mark.parametrize("name", [name for name in BALANCING if name != "guarded"])
def test_its_peak_is_lower_than_that_of_the_studies_policies(name: str) -> None:
    ratios = []
    for asked in CITIES:
        waiting_s = asked.loads.waiting_s
        ours, theirs = asked.proposal(Guarded()), asked.proposal(DYNAMIC[name])
        ratios.append(asked.peak(waiting_s, ours) / asked.peak(waiting_s, theirs))
    assert median(ratios) < 1


def test_it_comes_within_two_percent_of_the_best_peak_with_a_third_of_greedy_s_moves() -> None:
    above, moves = [], []
    for asked in CITIES:
        proposal = asked.proposal(Guarded())
        heavy, share = shared_out(asked.loads.waiting_s, asked.topology.workers)
        best = max([share, *asked.loads.waiting_s[heavy].tolist()])
        above.append(asked.peak(asked.loads.waiting_s, proposal) / best)
        moves.append(asked.moves(proposal) / asked.moves(asked.proposal(Greedy())))
    assert median(above) <= 1.02
    assert median(moves) <= 1 / 3


def test_the_order_of_magnitude_of_times_does_not_matter_where_moves_are_free() -> None:
    asked = CITIES[0].costing(LinkCosts(bytes_per_s=1e300, hand_over_s=0.0))
    slow = replace(asked.loads, cost_s=asked.loads.cost_s * 1024)
    assert Guarded().propose(slow, asked.binding, asked.topology) == asked.proposal(Guarded())


@pytest.mark.parametrize(
    ("changed", "wanted"),
    [
        ({"horizon_s": 0.0}, "horizon_s of the policy guarded must be more than 0; got 0.0"),
        ({"aim": -0.1}, "aim of the policy guarded must be 0 or more; got -0.1"),
        ({"slack": -0.1}, "slack of the policy guarded must be 0 or more; got -0.1"),
        ({"remote": -2.0}, "remote of the policy guarded must be 0 or more; got -2.0"),
    ],
)
def test_settings_that_make_no_sense_are_a_clear_error(changed: dict[str, float], wanted: str) -> None:
    with pytest.raises(ConfigError, match=f"^{wanted}$"):
        Guarded(**changed)


def test_loads_of_nothing_are_no_error() -> None:
    assert Guarded().propose(Loads.of({}), Binding.of({}, 4), NUMA) == Binding.of({}, 4)
