"""The twin against migrations of real state, simulated: a few scenarios; `experiments/migration.yaml` has 100."""

from dataclasses import replace
from itertools import combinations

import pytest

from measures.migration.link_scenario import LinkScenario
from measures.migration.link_trials import LinkTrials
from shoal.control.twin.choice import Objective, choose
from shoal.control.twin.prediction import predict
from shoal.mechanisms.catalog import MECHANISMS

CLEAR = 1.5
"""Costs that differ by this factor must be predicted in their order."""
SEEDS = (10, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (2, 9, 17)))


@pytest.mark.parametrize("seed", SEEDS)
def test_the_chosen_mechanism_is_about_as_good_as_the_best_one(seed: int) -> None:
    trials, objective = LinkTrials(LinkScenario.of(seed)), Objective()
    profile = trials.profile()
    table = [each for each in choose(profile, objective) if each.prediction is not None]
    costs = {each.mechanism: objective.cost(trials.measured(each.mechanism), profile.rate) for each in table}
    assert costs[table[0].mechanism] <= 1.05 * min(costs.values())
    for one, other in combinations(table, 2):  # the first is expected to be cheaper
        if other.cost > CLEAR * one.cost + 10:
            assert costs[one.mechanism] < costs[other.mechanism]


@pytest.mark.parametrize("left_s", [0.5, 1e9], ids=["the link is cut", "the link lives"])
def test_times_bytes_and_losses_are_as_predicted(left_s: float) -> None:
    trials = LinkTrials(replace(LinkScenario.of(18), left_s=left_s))
    profile = trials.profile()
    for mechanism in MECHANISMS:
        found, wanted = predict(profile, mechanism), trials.measured(mechanism)
        assert found.seconds == pytest.approx(wanted.seconds, rel=0.05, abs=0.05), mechanism
        assert found.sent_bytes == pytest.approx(wanted.sent_bytes, rel=0.2), mechanism
        assert found.lost == pytest.approx(wanted.lost, abs=0.1), mechanism
