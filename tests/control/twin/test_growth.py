"""Growth: what becomes of state while its source works, against streams of random events."""

from dataclasses import replace

import numpy as np
import pytest
from tests.control.twin.profiles import fragments_of, windows

from shoal.control.twin.growth import ID_BYTES, Growth
from shoal.control.twin.prediction import predict
from shoal.control.twin.profile import MigrationProfile
from shoal.mechanisms.shedding.capacity import TransferLink

SIZE_S, SLIDE_S = 4.0, 1.0
NBYTES = 10


def intervals(keys: int = 10, ends_s: float = 0.5, rate: float = 10.0, transfer_s: float = 2.0) -> MigrationProfile:
    """Keys that are seen once in an interval of 4 s; all intervals end at about the same time."""
    fragments = fragments_of(keys, 1, NBYTES, ends_s)
    return MigrationProfile(
        fragments,
        np.full(keys, rate / keys),
        TransferLink(fragments.total_bytes / transfer_s),
        results_per_event=keys / SIZE_S / rate,
        rewrites=False,
        renews=True,
        lifetime_s=SIZE_S,
    )


def counted(now_s: float, rate: float, keys: int, seed: int) -> int:
    """Fragments of keys that appear from time 0, as windows have them: one for each key and slide that is open."""
    draw = np.random.default_rng(seed)
    number = draw.poisson(rate * now_s)
    at_s, key = draw.uniform(0, now_s, number), draw.integers(0, keys, number)
    slide = np.floor(at_s / SLIDE_S)
    is_open = slide * SLIDE_S + SIZE_S > now_s
    return len(set(zip(key[is_open].tolist(), slide[is_open].tolist(), strict=True)))


@pytest.mark.parametrize("now_s", [0.7, 2.5, 4.4, 9.9])
def test_new_keys_bring_as_many_fragments_as_random_events_do(now_s: float) -> None:
    profile = replace(windows(extents=4, nbytes=NBYTES), new_rate=30.0, new_keys=50, lifetime_s=SIZE_S)
    expected = np.mean([counted(now_s, 30.0, 50, seed) for seed in range(100)])
    assert Growth(profile).new_key_bytes(now_s) / NBYTES == pytest.approx(expected, rel=0.15)


@pytest.mark.parametrize("now_s", [0.7, 2.5, 4.4, 9.9])
def test_a_key_has_as_many_fragments_as_random_events_leave(now_s: float) -> None:
    profile = replace(windows(keys=1, extents=1, nbytes=NBYTES, rate=1.5, slide_s=SLIDE_S), lifetime_s=SIZE_S)
    gained = Growth(profile).bytes_of(np.array([0]), now_s) / NBYTES
    expected = np.mean([counted(now_s, 1.5, 1, seed) for seed in range(400)])
    assert gained == pytest.approx(expected + (now_s < 1.0), rel=0.1, abs=0.1)


def test_a_difference_is_no_larger_than_what_can_have_changed() -> None:
    profile = replace(windows(extents=4, nbytes=NBYTES, rate=1000), lifetime_s=SIZE_S)
    long, longer = (Growth(profile).difference_bytes(seconds) for seconds in (20.0, 200.0))
    assert long == longer <= 20 * 5 * (NBYTES + ID_BYTES)


def test_intervals_that_go_on_are_not_in_a_difference() -> None:
    growth = Growth(intervals(ends_s=3.5))  # they began 0.5 s ago
    assert growth.difference_bytes(1.0) == 0
    assert growth.difference_bytes(1.0, age_s=0.4) == 0
    assert growth.difference_bytes(1.0, age_s=0.6) == 10 * (NBYTES + ID_BYTES)


def test_results_that_are_due_during_a_migration_are_late() -> None:
    profiles = (intervals(ends_s=ends_s, rate=1000.0, transfer_s=1.0) for ends_s in (0.5, 3.5))
    soon, later = (predict(profile, "lazy-latency") for profile in profiles)
    assert 0.5 < soon.seconds < 3.5
    assert soon.late_results == pytest.approx(10, abs=0.5)
    assert soon.emission_s == pytest.approx(10 * (soon.seconds - 0.5), rel=0.05)
    assert later.late_results == 0


def test_keys_without_state_come_last_and_wait_for_each_other() -> None:
    profile = windows(rate=50)
    found, without = (predict(replace(profile, new_rate=rate), "megaphone") for rate in (100.0, 0.0))
    assert found.seconds > 1.5 * without.seconds
    assert found.latency_s > 10 * without.latency_s
    stopped = [predict(replace(profile, new_rate=rate), "all-at-once").seconds for rate in (100.0, 0.0)]
    assert stopped[0] == stopped[1]


def test_state_of_new_keys_is_lost_with_the_link() -> None:
    profile = replace(windows(rate=50), left_s=2.2)
    found, without = (predict(replace(profile, new_rate=rate), "megaphone") for rate in (100.0, 0.0))
    assert without.lost == 0 < found.lost < 1
