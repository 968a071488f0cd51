"""Candidates: where, how and when to go, by score and predicted cost."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.control.twin.profiles import windows

from shoal.control.decision import Model
from shoal.control.twin.candidates import Destination, candidates
from shoal.control.twin.choice import Objective, choose

AMONG = ("all-at-once", "rhino", "megaphone", "meces")
STEADY = (1.0, 1.0, 1.0)


def to(worker: int, score: float, transfer_s: float, wait_s: float = 0.0) -> Destination:
    return Destination(worker, score, STEADY, windows(transfer_s=transfer_s), wait_s)


def test_the_benefit_is_the_decision_model_with_the_predicted_cost() -> None:
    only = to(1, 2.0, 2.0)
    (found,) = candidates(1.0, [only], Model(), Objective(), AMONG)
    best = choose(only.profile, Objective(), AMONG)[0]
    assert found.moment.mechanism == best.mechanism
    choice = found.moment.choice
    assert choice.cost == pytest.approx(best.cost / (only.profile.rate * choice.amortisation_s))
    assert found.benefit == pytest.approx(2.0 * (1 - choice.cost))
    assert best.prediction is not None
    assert found.seconds == best.prediction.seconds


def test_a_near_host_with_a_lower_score_may_be_better_than_a_far_one() -> None:
    found = candidates(1.0, [to(2, 2.1, 30.0), to(1, 2.0, 0.1)], Model(), Objective(), ("all-at-once",))
    assert [each.worker for each in found] == [1, 2]


def test_a_host_that_is_soon_back_is_worth_a_wait_if_the_other_way_is_slow() -> None:
    far, near = to(1, 2.0, 20.0), to(2, 2.0, 0.1, wait_s=3.0)
    assert candidates(1.0, [far, near], Model(), Objective(), ("all-at-once",))[0].worker == 2
    late = to(2, 2.0, 0.1, wait_s=60.0)
    assert candidates(1.0, [to(1, 2.0, 0.2), late], Model(), Objective(), ("all-at-once",))[0].worker == 1


@settings(deadline=None, max_examples=30)
@given(
    st.lists(
        st.tuples(st.floats(0.1, 4.0), st.sampled_from([0.05, 1.0, 8.0, 30.0]), st.sampled_from([0.0, 5.0])),
        min_size=1,
        max_size=5,
    )
)
def test_workers_that_are_not_predicted_would_not_have_been_the_best(given: list[tuple[float, float, float]]) -> None:
    every = [to(worker, *one) for worker, one in enumerate(given, 1)]
    found = candidates(1.0, every, Model(), Objective(), ("all-at-once",))
    alone = [candidates(1.0, [each], Model(), Objective(), ("all-at-once",))[0] for each in every]
    assert found[0].benefit == max(each.benefit for each in alone)
    assert every[0].worker in [each.worker for each in found]
