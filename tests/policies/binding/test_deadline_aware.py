"""The policy deadline-aware: no query later than it must be, the tightest first."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from tests.policies.binding.random_loads import Situation, named, on_hosts, situation, situations

from shoal.errors import ConfigError
from shoal.model.control.topology import Topology
from shoal.policies.binding.deadline_aware import DeadlineAware
from shoal.policies.binding.loads import Floats, Load
from shoal.policies.binding.paths import Paths

POLICY = DeadlineAware()
TWO = on_hosts(Topology.of(2, 2))
"""Two hosts of one worker, 10 ms apart; events come from the first."""


def timed(asked: Situation, **deadline_s: float) -> Situation:
    """The same, with other deadlines."""
    paths = replace(asked.loads.paths, deadline_s=deadline_s)
    return replace(asked, loads=replace(asked.loads, paths=paths))


def late(asked: Situation) -> tuple[Floats, Floats, Floats]:
    """The deadlines of all queries, ascending, and how late they are before and after."""
    judge = POLICY.judge(asked.loads, asked.binding, asked.topology)
    before, after = (judge.ratios(asked.placed(each)) for each in (asked.binding, asked.proposal(POLICY)))
    return judge.deadline_s, np.maximum(before, 1.0), np.maximum(after, 1.0)


@settings(max_examples=40, deadline=None)
@given(situations())
def test_in_order_of_their_deadlines_queries_are_never_later_than_before(asked: Situation) -> None:
    deadlines, before, after = late(asked)
    for deadline in np.unique(deadlines):
        of_these = deadlines == deadline
        worst = sorted(before[of_these], reverse=True), sorted(after[of_these], reverse=True)
        if worst[1] != pytest.approx(worst[0], abs=1e-4):
            assert worst[1] < worst[0], "the tightest that changes at all has become faster"
            break


@settings(max_examples=40, deadline=None)
@given(situations())
def test_if_no_query_is_late_nothing_moves(asked: Situation) -> None:
    easy = timed(asked, **dict.fromkeys(("none", *asked.loads.paths.ends), 1000000.0))
    assert easy.proposal(POLICY) is easy.binding


def test_a_query_whose_path_is_too_long_comes_closer() -> None:
    asked = situation({named(0): (1, Load(cost_s=1e-4, rate_per_s=10.0))}, TWO)
    assert timed(asked, q0=0.005).proposal(POLICY).worker_of[asked.loads.instances[0]] == 0
    assert timed(asked, q0=0.020).proposal(POLICY) is asked.binding


def test_the_tightest_query_gets_the_room_that_there_is() -> None:
    """Two queries of 60 % of a worker each: both on the near host would wait for each other."""
    load = Load(cost_s=1e-3, rate_per_s=600.0)
    for tight, loose in (("q0", "q1"), ("q1", "q0")):
        asked = timed(situation({named(0): (1, load), named(1): (1, load)}, TWO), **{tight: 0.006, loose: 0.030})
        found = {str(each): int(worker) for each, worker in asked.proposal(POLICY).worker_of.items()}
        assert found == {named(int(tight[1])): 0, named(int(loose[1])): 1}


def test_others_make_room_for_a_query_that_cannot_move() -> None:
    """Its worker is the only one on the near host, and another query without a deadline keeps it busy."""
    loads = {named(0): (0, Load(cost_s=1e-3, rate_per_s=100.0)), named(1): (0, Load(cost_s=1e-3, rate_per_s=850.0))}
    asked = timed(situation(loads, TWO), q0=0.005)
    assert list(asked.proposal(POLICY).worker_of.values()) == [0, 1]


def test_a_path_of_several_instances_comes_as_a_whole() -> None:
    loads = {named(n): (1, Load(cost_s=1e-4, rate_per_s=10.0)) for n in range(3)}
    edges = {(named(0), named(1)): 10.0, (named(1), named(2)): 10.0}
    asked = timed(situation(loads, TWO, edges), q2=0.004)
    assert set(asked.proposal(POLICY).worker_of.values()) == {0}


def test_without_deadlines_it_refuses() -> None:
    asked = situation({named(0): (0, Load())}, TWO)
    with pytest.raises(ConfigError, match=r"^policy deadline-aware needs deadlines of queries; got none$"):
        replace(asked, loads=replace(asked.loads, paths=Paths())).proposal(POLICY)
