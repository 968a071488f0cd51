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

from shoal.control.twin.journey import Journey, Leg, arrivals_s
from shoal.control.twin.profile import LONGEST_S, MOST_KEYS, Floats, MigrationProfile
from shoal.control.twin.queueing import Backlog
from shoal.mechanisms.batching import MOST_BATCHES
from shoal.mechanisms.catalog import MECHANISMS
from shoal.mechanisms.plan import Queue, StepKind
from shoal.model.control.costs import LinkCosts

MOST_CLOSINGS = 64
"""Windows that are followed one by one; of more, some stand for all."""


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


@dataclass(frozen=True, eq=False)
class _Course:
    """Times of a migration: of each key, and of events of keys without state.

    `redirected_s`: events go to the target. `here_s`: the target can process them. `both_s`: from when to when both
    workers receive all events. `waits`: what was duplicated waits until the end of that. `first_s`: when the first
    event of each key waits, if it is that event that fetches the state. `timed`: only windows wait.
    """

    redirected_s: Floats
    here_s: Floats
    new_redirected_s: float
    new_here_s: float
    end_s: float
    both_s: tuple[float, float] = (0.0, 0.0)
    waits: bool = False
    timed: bool = False
    first_s: Floats | None = None

    def cut(self, at_s: float) -> "_Course":
        """The course if the link is cut at a time: everything is at the target by then, complete or not."""
        begun, ended = self.both_s
        return _Course(
            np.minimum(self.redirected_s, at_s),
            np.minimum(self.here_s, at_s),
            min(self.new_redirected_s, at_s),
            min(self.new_here_s, at_s),
            min(self.end_s, at_s),
            (min(begun, at_s), min(ended, at_s)),
            self.waits,
            self.timed,
            self.first_s,
        )

    def waits_s(self, until_s: float) -> tuple[Floats, Floats]:
        """When events of each key begin to wait, and for how long; keys without state are the last."""
        begun = self.redirected_s if self.first_s is None else np.maximum(self.redirected_s, self.first_s)
        begun = np.minimum(np.append(begun, self.new_redirected_s), until_s)
        over = np.minimum(np.append(self.here_s, self.new_here_s), until_s)
        return begun, np.maximum(0.0, over - begun)


def predict(profile: MigrationProfile, mechanism: str, most_keys: int = MOST_KEYS) -> Prediction:
    """Simulate a migration ahead; raises a `MechanismError` if the mechanism cannot move this state."""
    small = profile.sampled(most_keys)
    plan = MECHANISMS[mechanism].plan([small.transfer()], LinkCosts())
    journey = Journey(small, plan)
    legs = journey.followed()
    planned = _course(small, legs, journey.first_s)
    course = planned.cut(small.left_s)
    arrived_s = arrivals_s(small, legs)
    latency_s, longest_s, backlogs = _latency(small, course)
    emission_s, late = _emission(small, course, legs, backlogs, latency_s)
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


def _course(profile: MigrationProfile, legs: list[Leg], first_s: Floats | None) -> _Course:
    """The times of a migration whose link lives."""
    keys, last = profile.keys.size, legs[-1]
    duplicated = next((leg for leg in legs if StepKind.DUPLICATE in leg.batch.kinds), None)
    if duplicated is not None:
        over = np.full(keys, last.arrived_s)
        waits = StepKind.BUFFER in duplicated.batch.kinds
        both_s = (duplicated.left_s, last.arrived_s)
        return _Course(over, over, last.arrived_s, last.arrived_s, last.arrived_s, both_s, waits)
    redirected_s, here_s = np.full(keys, LONGEST_S), np.full(keys, last.arrived_s)
    new_redirected_s = new_here_s = last.arrived_s
    timed = any(leg.batch.queue is Queue.DEADLINE for leg in legs)
    for leg in legs:
        kinds, places = leg.batch.kinds, leg.places
        some = slice(None) if places is None else profile.key_of[places]
        later_s = _later_s(profile, leg)
        if StepKind.REDIRECT in kinds:
            redirected_s[some] = np.minimum(redirected_s[some], leg.left_s + later_s)
            new_redirected_s = min(new_redirected_s, leg.left_s) if places is None else new_redirected_s
        if StepKind.RESUME in kinds and places is not None:
            here_s[some] = np.minimum(here_s[some], leg.arrived_s - later_s)
        if StepKind.TELL in kinds:
            new_here_s = leg.arrived_s
        elif StepKind.START in kinds:
            new_here_s = min(new_here_s, leg.arrived_s + _answer_s(profile, legs))
    if timed or StepKind.DROP in last.batch.kinds:
        here_s, new_here_s = redirected_s, new_redirected_s
    return _Course(redirected_s, here_s, new_redirected_s, new_here_s, last.arrived_s, timed=timed, first_s=first_s)


def _later_s(profile: MigrationProfile, leg: Leg) -> float:
    """How much later than a batch its parts leave, on average, if it stands for several smaller batches."""
    if leg.places is None or not leg.places.size or not profile.alike.size:
        return 0.0
    each = max(1.0, float(profile.weight.sum()) / MOST_BATCHES)
    parts = max(1.0, float(profile.weight[np.unique(profile.key_of[leg.places])].sum()) / each)
    on_way_s = leg.arrived_s - leg.left_s - profile.link.latency_s
    return on_way_s * (1 - 1 / parts) / 2


def _answer_s(profile: MigrationProfile, legs: list[Leg]) -> float:
    """How long it takes to learn that a key has no state: there and back, behind a batch that is on its way."""
    carried = [leg.arrived_s - leg.left_s - profile.link.latency_s for leg in legs if leg.batch.fetched]
    return 2 * profile.link.latency_s + (sum(carried) / len(carried) / 2 if carried else 0.0)


def _frozen_s(course: _Course) -> float:
    """How long events of all keys wait."""
    if not course.here_s.size:
        return max(0.0, course.new_here_s - course.new_redirected_s)
    return max(0.0, float(course.here_s.min() - course.redirected_s.max()))


def _latency(profile: MigrationProfile, course: _Course) -> tuple[float, float, tuple[Backlog, Backlog]]:
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
    latency_s = float(rates @ (gaps * gaps)) / 2 + float(np.sum(first * gaps))
    latency_s += at_source.waiting_s(zero, zero, until_s, source_s)
    latency_s += at_target.waiting_s(bursts, starts, until_s, target_s)
    waits = gaps + at_target.before(starts) * (gaps > 0)
    longest = max(float(waits[rates > 0].max(initial=0.0)), float(at_target.after_s.max()))
    return latency_s, longest, (at_source, at_target)


def _emission(
    profile: MigrationProfile, course: _Course, legs: list[Leg], backlogs: tuple[Backlog, Backlog], latency_s: float
) -> tuple[float, float]:
    """The summed delay of windows that close during the migration, and how many are late."""
    if not profile.slide_s:
        return _results_of_events(profile, course, latency_s)
    if not profile.keys.size:
        return 0.0, 0.0
    slide_us = round(profile.slide_s * 1e6)
    first_s = (slide_us - profile.watermark_us % slide_us) / 1e6
    at_source, backlog = backlogs
    busy = backlog.at_s[backlog.after_s > 0]
    until_s = min(profile.horizon_s, max(course.end_s, float(busy.max(initial=0.0)) + profile.slide_s))
    number = max(0, int((until_s - first_s) / profile.slide_s) + 1)
    step = max(1, -(-number // MOST_CLOSINGS))
    closings: Floats = first_s + profile.slide_s * np.arange(0, number, step, dtype=np.float64)
    if not closings.size:
        return 0.0, 0.0
    there_s = _due(profile, course, legs, closings)
    delay = np.maximum(0.0, there_s - closings)
    moved = course.redirected_s[:, None] <= closings
    emitted = np.where(moved, closings + delay, 0.0)
    queued = backlog.before(emitted.ravel()).reshape(emitted.shape)
    delay = np.where(moved, delay + queued, at_source.before(closings))
    alive = closings <= profile.key_deadline_s[:, None]
    size_s = float(np.where(profile.deadline_s < LONGEST_S, profile.deadline_s, 0.0).max(initial=0.0))
    results = np.where(alive, 1.0, profile.touched(size_s)[:, None]) * profile.weight[:, None] * step
    return float((results * delay).sum()), float(results[delay > 0].sum())


def _results_of_events(profile: MigrationProfile, course: _Course, latency_s: float) -> tuple[float, float]:
    """The same where events have results of their own: these wait with their events."""
    if not course.timed:
        _, gaps = course.waits_s(profile.horizon_s)
        waiting = np.append(profile.rates * profile.weight, profile.new_rate) @ gaps
        return profile.results_per_event * latency_s, profile.results_per_event * float(waiting)
    held_s = max(0.0, course.end_s - float(course.redirected_s.min(initial=course.end_s)))
    late = profile.results_per_event * profile.rate * held_s
    return late * held_s / 2 + profile.results_per_event * latency_s, late


def _due(profile: MigrationProfile, course: _Course, legs: list[Leg], closings: Floats) -> Floats:
    """When the target has all that each window of each key needs, by key and window."""
    if not course.timed:
        waits = (course.redirected_s[:, None] <= closings) & (closings < course.here_s[:, None])
        return np.where(waits, course.here_s[:, None], closings)
    parts = [(leg.batch.due_us, leg.arrived_s) for leg in legs if leg.places is not None]
    needed_s = np.array([(due_us - profile.watermark_us) / 1e6 for due_us, _ in parts])
    latest_s = np.maximum.accumulate(np.minimum([arrived for _, arrived in parts], course.end_s))
    place = np.searchsorted(needed_s, closings + 1e-9) - 1
    there_s = np.where(place >= 0, latest_s[np.maximum(place, 0)], 0.0) if parts else np.zeros(closings.size)
    return np.broadcast_to(np.maximum(there_s, closings), (profile.keys.size, closings.size))


def _sent(profile: MigrationProfile, legs: list[Leg]) -> float:
    """Bytes that have left until the link is cut."""
    sent = 0.0
    for leg in legs:
        on_way_s = leg.arrived_s - leg.left_s - profile.link.latency_s
        share = 1.0 if on_way_s <= 0 else (profile.left_s - leg.left_s) / on_way_s
        sent += leg.nbytes * min(1.0, max(0.0, share)) if leg.left_s <= profile.left_s else 0.0
    return sent


def _lost(profile: MigrationProfile, course: _Course, legs: list[Leg], arrived_s: Floats) -> float:
    """The share of utility that is not at the target when the link is cut.

    While the source works, the utility of a fragment falls to 0 at its deadline, and as much comes with what is new.
    The target has that if it processed the events, or if it was sent after it was new. `course`: without a cut.
    """
    utility = profile.fragments.utility * profile.weight[profile.key_of]
    total, cut_s = float(utility.sum()), profile.left_s
    if not total > 0:
        return 0.0
    if StepKind.DROP in legs[-1].batch.kinds:
        return 1.0
    if legs[-1].arrived_s <= cut_s:
        return 0.0
    missing = (arrived_s > cut_s).astype(np.float64)
    copied = next((leg for leg in legs if {StepKind.PREAMBLE, StepKind.REPLICA} & set(leg.batch.kinds)), None)
    if copied is not None and profile.rewrites:  # the copy is out of date
        age_s = profile.replica_age_s if StepKind.REPLICA in copied.batch.kinds else 0.0
        changed = profile.touched(min(cut_s, legs[-1].left_s) - copied.left_s + age_s)[profile.key_of]
        missing = np.maximum(missing, np.where(profile.is_newest, changed, 0.0))
    worked_s = np.minimum(course.redirected_s[profile.key_of], cut_s)
    old = np.clip(1 - worked_s / np.maximum(profile.deadline_s, 1e-9), 0.0, 1.0)
    renewed = 1.0 if copied is not None else 0.0 if course.both_s[1] > course.both_s[0] else missing
    return float(utility @ (old * missing + (1 - old) * renewed)) / total
