"""Times of keys and fragments: the same as if every leg, key and fragment were followed one by one."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.control.twin.profiles import windows

from shoal.control.twin.journey import Journey, Leg, arrivals_s
from shoal.control.twin.key_times import key_times_of
from shoal.control.twin.profile import LONGEST_S, Floats, MigrationProfile
from shoal.mechanisms.catalog import MECHANISMS
from shoal.mechanisms.plan import StepKind
from shoal.mechanisms.transfer import MOST_BATCHES
from shoal.model.control.costs import LinkCosts

IN_PARTS = ("megaphone", "meces", "lazy-latency", "lazy-utility")


def later_s(profile: MigrationProfile, leg: Leg, keys: set[int]) -> float:
    if not profile.alike.size:
        return 0.0
    each = max(1.0, float(profile.weight.sum()) / MOST_BATCHES)
    parts = max(1.0, sum(float(profile.weight[key]) for key in keys) / each)
    return (leg.arrived_s - leg.left_s - profile.link.latency_s) * (1 - 1 / parts) / 2


def one_by_one(profile: MigrationProfile, legs: list[Leg]) -> tuple[Floats, Floats]:
    """When events of each key go to the target, and when the target has its state, without windows that wait alone."""
    redirected_s, here_s = np.full(profile.keys.size, LONGEST_S), np.full(profile.keys.size, legs[-1].arrived_s)
    for leg in legs:
        kinds = leg.batch.kinds
        keys = set(range(profile.keys.size)) if leg.places is None else set(profile.key_of[leg.places].tolist())
        after_s = 0.0 if leg.places is None else later_s(profile, leg, keys)
        for key in keys:
            if StepKind.REDIRECT in kinds:
                redirected_s[key] = min(redirected_s[key], leg.left_s + after_s)
            if StepKind.RESUME in kinds and leg.places is not None:
                here_s[key] = min(here_s[key], leg.arrived_s - after_s)
    return redirected_s, here_s


def each_fragment(profile: MigrationProfile, legs: list[Leg]) -> Floats:
    """When each fragment is there, one fragment of one leg after another."""
    found = [LONGEST_S] * len(profile.fragments)
    for leg in legs:
        if leg.nbytes <= 0 or StepKind.EXTRACT not in leg.batch.kinds:
            continue
        missing = [place for place, at_s in enumerate(found) if at_s >= LONGEST_S]
        sent = 0.0
        for place in missing if leg.places is None else leg.places.tolist():
            sent += float(profile.sizes[place])
            on_way_s = leg.arrived_s - leg.left_s - profile.link.latency_s
            found[place] = leg.left_s + profile.link.latency_s + min(sent / max(leg.nbytes, 1.0), 1.0) * on_way_s
    return np.array(found)


@settings(deadline=None, max_examples=30)
@given(
    st.sampled_from([1, 7, 40, 300]), st.sampled_from([1, 4]), st.sampled_from(IN_PARTS), st.booleans(), st.booleans()
)
def test_times_are_those_of_legs_keys_and_fragments_one_by_one(
    keys: int, extents: int, mechanism: str, on_arrival: bool, rewrites: bool
) -> None:
    given_ = replace(windows(keys=keys, extents=extents, skew=0.7), on_arrival=on_arrival, rewrites=rewrites)
    profile = given_.sampled(most_keys=64)
    journey = Journey(profile, MECHANISMS[mechanism].plan([profile.transfer()], LinkCosts()))
    legs = journey.followed()
    found = key_times_of(profile, legs, journey.first_s)
    redirected_s, here_s = one_by_one(profile, legs)
    assert found.redirected_s.tolist() == redirected_s.tolist()
    assert found.here_s.tolist() == (redirected_s if found.timed else here_s).tolist()
    assert arrivals_s(profile, legs) == pytest.approx(each_fragment(profile, legs), rel=1e-12)
