"""Predictions: orderings that the studies have found, limits, and what is lost when the link is cut."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.control.twin.profiles import windows

from shoal.control.twin.prediction import Prediction, predict
from shoal.control.twin.profile import MOST_KEYS, MigrationProfile
from shoal.control.twin.queueing import Backlog
from shoal.errors import ConfigError, MechanismError
from shoal.mechanisms.catalog import MECHANISMS

PROFILES = st.builds(
    windows,
    keys=st.integers(1, 40),
    extents=st.integers(1, 6),
    nbytes=st.integers(1, 5000),
    rate=st.floats(0.1, 1000),
    transfer_s=st.floats(0.01, 20),
    slide_s=st.sampled_from([0.1, 0.5, 1.0, 5.0]),
    latency_s=st.sampled_from([0.0, 0.001, 0.1]),
    skew=st.sampled_from([0.0, 1.0, 2.0]),
    load=st.floats(0.0, 1.5),
)


def every(profile: MigrationProfile) -> dict[str, Prediction]:
    return {name: predict(profile, name) for name in MECHANISMS}


def test_windows_are_late_in_the_order_of_the_study_of_lazy_migration() -> None:
    for slide_s in (0.2, 0.7, 1.4):
        found = every(windows(keys=100, extents=100, nbytes=100, slide_s=slide_s, transfer_s=3.0, rate=50, load=0.0))
        delay = {name: each.emission_s for name, each in found.items()}
        assert delay["lazy-latency"] <= delay["rhino"] < delay["meces"] < delay["all-at-once"]
        assert delay["megaphone"] < delay["meces"]
        assert delay["lazy-latency"] < 0.01 * delay["all-at-once"]


def test_windows_are_the_less_late_the_longer_they_slide() -> None:
    delays = [
        predict(windows(slide_s=slide_s, transfer_s=3.0), "all-at-once").emission_s for slide_s in (0.2, 0.7, 1.4)
    ]
    assert delays[0] > delays[1] > delays[2] > 0


def test_a_pre_copy_freezes_for_the_difference_only() -> None:
    profile = windows(rate=5, transfer_s=4.0)
    assert predict(profile, "rhino").frozen_s < 0.3 * predict(profile, "all-at-once").frozen_s
    assert predict(profile, "rhino").seconds > predict(profile, "all-at-once").seconds


def test_a_fresh_replica_is_better_than_a_copy_and_an_old_one_no_better() -> None:
    profile = windows(rate=50, transfer_s=4.0)
    fresh, old = (replace(profile, replicated=True, replica_age_s=age_s) for age_s in (0.1, 1000.0))
    assert predict(fresh, "checkpoint-assisted").frozen_s < predict(profile, "rhino").frozen_s
    assert predict(old, "checkpoint-assisted").frozen_s > predict(fresh, "checkpoint-assisted").frozen_s
    assert predict(profile, "checkpoint-assisted") == replace(
        predict(profile, "rhino"), mechanism="checkpoint-assisted"
    )


def test_an_event_waits_as_long_as_all_state_is_on_its_way() -> None:
    profile = windows(rate=100, transfer_s=2.0, load=0.0, latency_s=0.0)
    found = predict(profile, "all-at-once")
    assert found.frozen_s == pytest.approx(2.0)
    assert found.latency_s == pytest.approx(100 * 2.0**2 / 2)
    assert found.longest_s == pytest.approx(2.0)


@settings(deadline=None, max_examples=30)
@given(PROFILES)
def test_nothing_is_lost_but_by_drop_unless_the_link_is_cut(profile: MigrationProfile) -> None:
    for name, each in every(profile).items():
        assert each.lost == (1.0 if name == "drop" else 0.0)
        assert min(each.frozen_s, each.latency_s, each.emission_s, each.seconds) >= 0
        assert np.isfinite([each.latency_s, each.longest_s, each.emission_s, each.sent_bytes]).all()


@settings(deadline=None, max_examples=30)
@given(PROFILES, st.floats(0, 20), st.floats(0, 20))
def test_the_later_the_link_is_cut_the_less_is_lost(profile: MigrationProfile, one_s: float, other_s: float) -> None:
    sooner, later = (every(replace(profile, left_s=each)) for each in sorted([one_s, other_s]))
    for name, each in later.items():
        if name not in {"rhino", "checkpoint-assisted"}:  # their copies become older
            assert each.lost <= sooner[name].lost + 1e-9
        assert each.seconds <= max(one_s, other_s)
        assert 0 <= each.lost <= 1


def test_the_most_useful_state_first_loses_the_least() -> None:
    found = every(windows(left_s=0.5, extents=5))
    assert found["lazy-utility"].lost == min(each.lost for each in found.values())
    assert found["all-at-once"].lost == pytest.approx(0.75, abs=0.02)


def test_state_of_any_age_cannot_be_recreated_from_events() -> None:
    with pytest.raises(MechanismError, match="window-recreation cannot move"):
        predict(replace(windows(), bounded=False), "window-recreation")


def test_a_sample_of_the_keys_predicts_what_all_of_them_do() -> None:
    many = windows(keys=5000, extents=2, nbytes=100, rate=2000, skew=1.0, transfer_s=3.0)
    small = many.sampled()
    assert small.keys.size == MOST_KEYS
    assert small.rate == pytest.approx(many.rate)
    assert small.state_bytes == pytest.approx(many.state_bytes)
    for name in MECHANISMS:
        coarse, fine = predict(many, name), predict(many, name, most_keys=5000)
        assert coarse.emission_s == pytest.approx(fine.emission_s, rel=0.1, abs=50)
        if name != "meces":  # which keys are fetched first depends on each key
            assert coarse.latency_s == pytest.approx(fine.latency_s, rel=0.1, abs=50)


@settings(deadline=None, max_examples=50)
@given(st.integers(1, 40), st.floats(0.1, 0.9), st.integers(0, 60), st.integers(1, 30))
def test_a_backlog_is_that_of_events_served_one_by_one(rate: int, load: float, burst: int, at: int) -> None:
    event_s, until_s = load / rate, 200.0
    at_s = at + 0.5 / rate
    times = sorted([(each + 0.5) / rate for each in range(round(until_s * rate))] + [at_s] * burst)
    free_s = wait_s = 0.0
    for each in times:
        wait_s += max(0.0, free_s - each)
        free_s = max(free_s, each) + event_s
    changes, flows, bursts = np.array([0.0, at_s]), np.array([float(rate), 0.0]), np.array([0.0, float(burst)])
    backlog = Backlog.of(changes, flows, bursts, event_s, until_s)
    regular_s = backlog.waiting_s(bursts, changes, random=False)
    assert regular_s == pytest.approx(wait_s, rel=0.05, abs=(burst + 1) * event_s + burst * 0.5 / rate)


@given(st.lists(st.floats(0.1, 50), min_size=1, max_size=20), st.floats(0.001, 0.1))
def test_events_that_come_at_once_wait_alike_whether_they_are_of_one_key_or_of_many(
    sizes: list[float], event_s: float
) -> None:
    many, times = np.array(sizes), np.full(len(sizes), 1.0)
    one, time = np.array([many.sum()]), np.array([1.0])
    waits = [
        Backlog.of(at_s, np.zeros(at_s.size), bursts, event_s, 1000.0).waiting_s(bursts, at_s)
        for at_s, bursts in ((times, many), (time, one))
    ]
    assert waits[0] == pytest.approx(waits[1])
    assert waits[1] == pytest.approx(many.sum() ** 2 * event_s / 2)


def test_a_profile_needs_a_rate_for_every_key() -> None:
    with pytest.raises(ConfigError, match="one for each of 20 keys; got 3"):
        replace(windows(), rates=np.ones(3))
    with pytest.raises(ConfigError, match="new_keys of a migration must be more than 0; got 0"):
        replace(windows(), new_keys=0)
    with pytest.raises(ConfigError, match="left_s of a migration must be 0 or more"):
        replace(windows(), left_s=-1.0)
