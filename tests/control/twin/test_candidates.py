"""Candidates: where, how and when to go, by score and predicted cost."""

from dataclasses import replace

import pytest
from tests.control.twin.profiles import windows

from shoal.control.decision import Choice, Model
from shoal.control.twin.candidates import CLOSED, LAST, NOW, Destination, MigrationOption, after_closing, candidates
from shoal.control.twin.choice import Objective, choose
from shoal.control.twin.profile import MigrationProfile

AMONG = ("all-at-once", "rhino", "megaphone", "meces")
STEADY = (1.0, 1.0, 1.0)


def ranked(
    profile: MigrationProfile, score: float = 2.0, stay: float = 1.0, among: tuple[str, ...] = AMONG
) -> tuple[MigrationOption, ...]:
    destination = Destination(1, score, STEADY, profile)
    return candidates(Choice(0, stay), [destination], Model(), Objective(), among)


def test_now_is_the_decision_model_with_the_predicted_cost() -> None:
    profile = windows(transfer_s=2.0)
    found = next(each for each in ranked(profile) if each.moment == NOW and each.mechanism)
    best = choose(profile, Objective(), AMONG)[0]
    assert found.mechanism == best.mechanism
    assert found.choice.cost == pytest.approx(best.cost / (profile.rate * found.choice.amortisation_s))
    assert found.benefit == pytest.approx(2.0 * (1 - found.choice.cost))


def test_an_instance_stays_where_no_other_worker_is_better() -> None:
    first = ranked(windows(), score=1.0)[0]
    assert (first.choice.worker, first.mechanism) == (0, "")


def test_a_near_host_with_a_lower_score_may_be_better_than_a_far_one() -> None:
    near = Destination(1, 2.0, STEADY, windows(transfer_s=0.1))
    far = Destination(2, 2.1, STEADY, windows(transfer_s=30.0))
    found = candidates(Choice(0, 1.0), [near, far], Model(), Objective(), ("all-at-once",))
    assert found[0].choice.worker == 1


def test_waiting_for_the_windows_to_close_pays_if_they_are_most_of_the_state() -> None:
    tumbling = replace(windows(extents=1, transfer_s=10.0, rate=500), watermark_us=900_000)
    first = ranked(tumbling, among=("all-at-once",))[0]
    assert first.moment == CLOSED
    assert first.wait_s == pytest.approx(0.1)


def test_nothing_but_open_windows_is_left_after_the_next_ones_have_closed() -> None:
    profile = windows(extents=3)
    found = after_closing(profile)
    assert found is not None
    wait_s, left = found
    assert wait_s == 1.0
    assert left.state_bytes == pytest.approx(profile.state_bytes * 2 / 3)
    assert left.rate == pytest.approx(profile.rate)
    assert after_closing(replace(profile, slide_s=0.0)) is None


def test_a_source_that_goes_is_left_before_it_is_too_late() -> None:
    found = ranked(windows(transfer_s=1.0, left_s=20.0))
    last = next(each for each in found if each.moment == LAST)
    assert 0 < last.wait_s < 20.0 - 1.0
    assert not any(each.moment == LAST for each in ranked(windows(transfer_s=30.0, left_s=5.0), among=("all-at-once",)))
