"""Scheduling policies as pure functions."""

import pytest

from shoal.policies.scheduling.catalog import SCHEDULING
from shoal.policies.scheduling.fcfs import Fcfs
from shoal.policies.scheduling.highest_rate import HighestRate
from shoal.policies.scheduling.min_cost import MinCost
from shoal.policies.scheduling.min_latency import MinLatency
from shoal.policies.scheduling.policy import (
    LEAST_EVENTS,
    Candidate,
    OperatorCost,
    latency_weight,
    output_cost_s,
    output_selectivity,
)
from shoal.policies.scheduling.round_robin import RoundRobin
from shoal.policies.scheduling.state_based import MOST_EVENTS, StateBased, Thresholds

CHAIN = [
    OperatorCost(1e-6, 1.0, (1,)),
    OperatorCost(2e-6, 0.5, (2,)),
    OperatorCost(4e-6, 0.25, (3,)),
    OperatorCost(1e-6, 1.0),
]
"""A source, two operators that let half and a quarter through, and a sink."""


def candidate(position: int, **values: float | bool) -> Candidate:
    defaults = {
        "pending": 5000,
        "priority": 1.0,
        "cost_s": 1e-6,
        "waited_s": 0.0,
        "idle_s": 0.0,
        "turns": 0,
        "is_source": False,
    }
    return Candidate(position=position, **{**defaults, **values})  # type: ignore[arg-type]


def test_output_selectivity_multiplies_along_the_way() -> None:
    assert output_selectivity(CHAIN) == pytest.approx([0.125, 0.125, 0.25, 1.0])


def test_output_selectivity_follows_the_most_productive_way() -> None:
    fork = [OperatorCost(1, 1.0, (1, 2)), OperatorCost(1, 0.1), OperatorCost(1, 0.7)]
    assert output_selectivity(fork)[0] == pytest.approx(0.7)


def test_output_cost_adds_everything_behind_an_operator_once() -> None:
    assert output_cost_s(CHAIN) == pytest.approx([8e-6 + 16e-6 + 16e-6 + 1e-6, 33e-6, 17e-6, 1e-6])
    diamond = [
        OperatorCost(1, 1.0, (1, 2)),
        OperatorCost(1, 1.0, (3,)),
        OperatorCost(1, 1.0, (3,)),
        OperatorCost(1, 1.0),
    ]
    assert output_cost_s(diamond)[0] == pytest.approx(4.0)


def test_the_nearer_to_the_end_the_larger_the_priority() -> None:
    for policy in (MinLatency(), StateBased()):
        priorities = policy.priorities(CHAIN)
        assert priorities == sorted(priorities)
    assert MinCost().priorities(CHAIN) == [3.0, 2.0, 1.0, 0.0]


def test_the_highest_rate_counts_results_per_second_of_the_whole_way() -> None:
    fast, slow = OperatorCost(1e-6, 1.0), OperatorCost(1e-3, 1.0)
    assert HighestRate().priorities([fast, slow])[0] > HighestRate().priorities([fast, slow])[1]


def test_first_come_is_first_served() -> None:
    turn = Fcfs(block_events=10).choose([candidate(3, waited_s=0.1), candidate(5, waited_s=0.2)], 0.001)
    assert turn == (5, 10)


def test_whoever_had_the_fewest_turns_is_next() -> None:
    turn = RoundRobin(block_events=10).choose([candidate(3, turns=4), candidate(5, turns=2)], 0.001)
    assert turn == (5, 10)


@pytest.mark.parametrize("name", sorted(set(SCHEDULING) - {"round-robin", "threads"}))
def test_a_source_waits_until_nothing_else_can_run(name: str) -> None:
    source, operator = candidate(0, is_source=True, priority=99.0, waited_s=9.0), candidate(1)
    turn = SCHEDULING[name].choose([source, operator], 0.001)
    assert turn is not None
    assert turn.position == 1
    alone = SCHEDULING[name].choose([source], 0.001)
    assert alone is not None
    assert alone.position == 0


def test_an_operator_with_little_to_do_is_not_worth_a_turn_until_it_has_been_idle() -> None:
    policy = StateBased(Thresholds(events=100, idle_s=0.005))
    assert policy.choose([candidate(0, pending=99)], 0.001) is None
    assert policy.choose([candidate(0, pending=100)], 0.001) is not None
    assert policy.choose([candidate(0, pending=1, idle_s=0.006)], 0.001) is not None


def test_a_turn_lasts_until_costs_are_measured_again_and_has_a_least_size() -> None:
    policy = StateBased()
    turn = policy.choose([candidate(0, cost_s=1e-8)], 0.001)
    assert turn is not None
    assert turn.events == 100_000
    for left_s in (0.0, -1.0, 1e-9):
        turn = policy.choose([candidate(0, cost_s=1e-3)], left_s)
        assert turn is not None
        assert turn.events == LEAST_EVENTS


def test_a_latency_that_grows_makes_a_query_more_urgent_by_a_tenth_at_most() -> None:
    assert [latency_weight(g) for g in (-5.0, -1.0, 0.0, 0.5, 1.0, 7.0)] == pytest.approx(
        [0.9, 0.9, 1.0, 1.05, 1.1, 1.1]
    )


def test_thresholds_follow_latency_within_their_range() -> None:
    grown = Thresholds(1000, 0.0001).adjusted(0.5)
    assert (grown.events, grown.idle_s) == pytest.approx((1500, 0.00015))
    assert Thresholds(5000, 0.001).adjusted(0.9).events == 6000  # one step at most
    assert Thresholds(MOST_EVENTS - 1, 0.001).adjusted(0.5).events == MOST_EVENTS - 1
    assert Thresholds(1000, 0.001).adjusted(-1.0).events == 1000  # never down to nothing
    assert Thresholds(1000, 0.001).adjusted(-0.5).events == 500


def test_thresholds_return_where_latency_grew_faster_after_they_were_changed() -> None:
    first = StateBased()
    changed = first.adapted(0.2)
    assert changed.thresholds.events == pytest.approx(1200)
    assert changed.adapted(0.3).thresholds == first.thresholds
    assert changed.adapted(0.1).thresholds.events == pytest.approx(1320)


def test_the_same_candidates_give_the_same_turn() -> None:
    several = [candidate(n, priority=n % 3, waited_s=n % 5, turns=n % 2) for n in range(9)]
    for policy in SCHEDULING.values():
        assert policy.choose(several, 0.001) == policy.choose(several, 0.001)
