"""Predictions: what a migration with one mechanism would cost.

1. The mechanism makes its plan, and the journey says when each batch arrives.
2. Each key has a time at which its events go to the target, and one at which the target can process them. Events in
   between wait, and are processed at once when the wait is over; others then queue behind them.
3. A window that closes while its key waits is emitted when the wait is over. Where parts arrive by the time at which
   they are needed, events do not wait; a window is emitted once all parts are there that were needed by its end.
4. If the link is cut, the target continues with what it has. State that was not there by then is lost, unless the
   source has used it up before.
"""

from dataclasses import dataclass

import numpy as np

from shoal.control.twin.emission import emission_of
from shoal.control.twin.growth import Growth
from shoal.control.twin.journey import Journey, Leg, arrivals_s
from shoal.control.twin.key_times import KeyTimes, key_times_of
from shoal.control.twin.profile import MOST_KEYS, Floats, MigrationProfile
from shoal.control.twin.queueing import Backlog
from shoal.mechanisms.catalog import MECHANISMS
from shoal.mechanisms.plan import StepKind
from shoal.model.control.costs import LinkCosts


@dataclass(frozen=True)
class Prediction:
    """What a migration is expected to cost.

    `frozen_s`: how long no worker processes events of the instance. `latency_s`: the summed time that events wait,
    `longest_s` the longest. `emission_s`: the summed delay of windows, `late_results` how many are late. `seconds`:
    until the target works alone. `sent_bytes`: state and duplicated events. `lost`: share of the utility that is lost
    when the link is cut.
    """

    mechanism: str
    frozen_s: float = 0.0
    latency_s: float = 0.0
    longest_s: float = 0.0
    emission_s: float = 0.0
    late_results: float = 0.0
    seconds: float = 0.0
    sent_bytes: float = 0.0
    lost: float = 0.0


def predict(profile: MigrationProfile, mechanism: str, most_keys: int = MOST_KEYS) -> Prediction:
    """Simulate a migration ahead; raises a `MechanismError` if the mechanism cannot move this state."""
    small = profile.sampled(most_keys)
    plan = MECHANISMS[mechanism].plan([small.transfer()], LinkCosts())
    journey = Journey(small, plan)
    legs = journey.followed()
    planned = key_times_of(small, legs, journey.first_s)
    course = planned.cut(small.left_s)
    arrived_s = arrivals_s(small, legs)
    latency_s, longest_s, backlogs = _latency(small, course)
    emission_s, late = emission_of(small, course, legs, backlogs, latency_s)
    begun, ended = course.both_s
    return Prediction(
        mechanism,
        frozen_s=_frozen_s(course),
        latency_s=latency_s,
        longest_s=longest_s,
        emission_s=emission_s,
        late_results=late,
        seconds=course.end_s,
        sent_bytes=_sent(small, legs) + small.rate * (ended - begun) * small.event_bytes,
        lost=_lost(small, planned, legs, arrived_s),
    )


def _frozen_s(course: KeyTimes) -> float:
    """How long events of all keys wait."""
    if not course.here_s.size:
        return max(0.0, course.new_here_s - course.new_redirected_s)
    return max(0.0, float(course.here_s.min() - course.redirected_s.max()))


def _latency(profile: MigrationProfile, course: KeyTimes) -> tuple[float, float, tuple[Backlog, Backlog]]:
    """The summed time that events wait, the longest wait, and the backlogs of source and target."""
    until_s = profile.horizon_s
    rates = np.append(profile.rates * profile.weight, profile.new_rate)
    leaves = np.minimum(np.append(course.redirected_s, course.new_redirected_s), until_s)
    begun, gaps = course.waits_s(until_s)
    starts = np.where(gaps > 0, begun + gaps, leaves)
    first = 0.0 if course.first_s is None else np.append((gaps[:-1] > 0) * profile.weight, 0.0)
    bursts, missed = first + rates * gaps, 0.0
    if course.waits:  # what was duplicated is processed when the state is there; nobody waits for its results
        missed = profile.rate * (course.both_s[1] - course.both_s[0])
    source_s = profile.source.event_s(profile.event_cost_s)
    target_s = profile.target.event_s(profile.event_cost_s)
    zero, flows = np.zeros(rates.size), np.concatenate([rates, -rates])
    at_source = Backlog.of(np.concatenate([zero, leaves]), flows, np.zeros(2 * rates.size), source_s, until_s)
    times, extra = np.append(starts, course.both_s[1]), np.append(bursts, missed)
    at_target = Backlog.of(times, np.append(rates, 0.0), extra, target_s, until_s)
    latency_s = float(rates @ (gaps * gaps)) / 2 + float(np.sum(first * gaps)) + course.asked_s(profile)
    latency_s += at_source.waiting_s(zero, zero)
    latency_s += at_target.waiting_s(bursts, starts)
    waits = gaps + at_target.before(starts) * (gaps > 0)
    longest = max(float(waits[rates > 0].max(initial=0.0)), float(at_target.after_s.max()))
    return latency_s, longest, (at_source, at_target)


def _sent(profile: MigrationProfile, legs: list[Leg]) -> float:
    """Bytes that have left until the link is cut."""
    sent = 0.0
    for leg in legs:
        on_way_s = leg.arrived_s - leg.left_s - profile.link.latency_s
        share = 1.0 if on_way_s <= 0 else (profile.left_s - leg.left_s) / on_way_s
        sent += leg.nbytes * min(1.0, max(0.0, share)) if leg.left_s <= profile.left_s else 0.0
    return sent


def _lost(profile: MigrationProfile, course: KeyTimes, legs: list[Leg], arrived_s: Floats) -> float:
    """The share of utility that is not at the target when the link is cut.

    While the source works, the utility of a fragment falls to 0 at its deadline, and some comes with what is new. The
    target has that if it processed the events, or if it was sent after it was new. `course`: without a cut.
    """
    utility = profile.fragments.utility * profile.weight[profile.key_of]
    total, cut_s, last = float(utility.sum()), profile.left_s, legs[-1]
    if not total > 0:
        return 0.0
    if StepKind.DROP in last.batch.kinds:
        return 1.0
    if last.arrived_s <= cut_s:
        return 0.0
    missing = (arrived_s > cut_s).astype(np.float64)
    copied = next((leg for leg in legs if {StepKind.PREAMBLE, StepKind.REPLICA} & set(leg.batch.kinds)), None)
    if copied is not None and profile.rewrites:  # the copy is out of date
        age_s = profile.replica_age_s if StepKind.REPLICA in copied.batch.kinds else 0.0
        changed = profile.touched(min(cut_s, last.left_s) - copied.left_s + age_s)[profile.key_of]
        missing = np.maximum(missing, np.where(profile.is_newest, changed, 0.0))
    growth, both = Growth(profile), course.both_s[1] > course.both_s[0]
    worked_s = np.minimum(course.redirected_s[profile.key_of], cut_s)
    old, renewed = growth.utility_of(worked_s)
    new = growth.new_key_utility(min(course.new_redirected_s, cut_s))
    unsent = np.ones(missing.size) if copied is not None else missing
    if both:  # the target has seen what is new; without the state, it has begun other intervals
        unsent = missing * -np.expm1(-profile.rates[profile.key_of] * profile.deadline_s) * profile.renews
    lost = float((old * missing + renewed * unsent).sum()) + (0.0 if both else new)
    return lost / (float((old + renewed).sum()) + new)
