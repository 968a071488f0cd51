"""Emission: by how much results are late because of a migration.

1. Results of windows come when the windows close. A key that is seen once in an interval has its result when an event
   comes after the interval. Results of other operators come with their events, and wait with them.
2. A result waits until its key has its state at the target, then for the work that is queued there.
3. Keys without state at the beginning come during the migration, and have results as well.
"""

from dataclasses import dataclass

import numpy as np

from shoal.control.twin.journey import Leg
from shoal.control.twin.key_times import KeyTimes
from shoal.control.twin.profile import LONGEST_S, Floats, MigrationProfile
from shoal.control.twin.queueing import Backlog

WAITS = -np.log(1 - (np.arange(4) + 0.5) / 4)
"""Times until the next event of a key that are equally likely, as multiples of the mean."""
MOST_CLOSINGS = 64
"""Windows that are followed one by one; of more, some stand for all."""


@dataclass(frozen=True, eq=False)
class Emissions:
    """When results are due, and how many: a row for each key, and a last one for keys without state."""

    due_s: Floats
    results: Floats


def emission_of(
    profile: MigrationProfile, course: KeyTimes, legs: list[Leg], backlogs: tuple[Backlog, Backlog], latency_s: float
) -> tuple[float, float]:
    """The summed delay of results until the horizon, and how many are late because of the migration."""
    if not profile.slide_s and not profile.renews:
        return _with_events(profile, course, latency_s)
    calm_s = min(profile.horizon_s, max(course.end_s, *(each.clear_s for each in backlogs)) + profile.slide_s)
    found = _of_windows(profile, calm_s) if profile.slide_s else _of_intervals(profile, calm_s)
    at_source, at_target = backlogs
    redirected_s = np.append(course.redirected_s, course.new_redirected_s)[:, None]
    moved = redirected_s <= found.due_s
    waits_s = np.maximum(0.0, _ready_s(profile, course, legs, found.due_s) - found.due_s) * moved
    queued_s = np.where(moved, at_target.expected(found.due_s + waits_s), at_source.expected(found.due_s))
    late = float(found.results[waits_s + np.where(moved, at_target.before(found.due_s + waits_s), 0.0) > 0].sum())
    last = float(found.results[:, -1].sum()) / profile.slide_s if profile.slide_s and found.due_s.size else 0.0
    rate = last if profile.slide_s else profile.results_per_event * profile.rate
    asked_s = 0.0 if profile.slide_s else course.asked_s(profile)
    later_s = rate * (profile.horizon_s - calm_s) * float(at_target.expected(np.array([profile.horizon_s]))[0])
    return float((found.results * (waits_s + queued_s)).sum()) + later_s + asked_s, late


def _of_windows(profile: MigrationProfile, until_s: float) -> Emissions:
    """Windows that close until a time."""
    slide_us = round(profile.slide_s * 1e6)
    first_s = (slide_us - profile.watermark_us % slide_us) / 1e6
    number = max(0, int((until_s - first_s) / profile.slide_s) + 1)
    step = max(1, -(-number // MOST_CLOSINGS))
    closings: Floats = first_s + profile.slide_s * np.arange(0, number, step, dtype=np.float64)
    alive = closings <= profile.key_deadline_s[:, None]
    again = profile.touched(profile.needed_for_s)[:, None]
    known = np.where(alive, 1.0, again) * profile.weight[:, None]
    new = profile.appeared(np.minimum(closings, profile.needed_for_s))
    return Emissions(np.broadcast_to(closings, (profile.keys.size + 1, closings.size)), np.vstack([known, new]) * step)


def _of_intervals(profile: MigrationProfile, until_s: float) -> Emissions:
    """Results of keys with an interval each: at the first event after it, and so on."""
    with np.errstate(divide="ignore"):
        between_s = np.minimum(WAITS / profile.rates[:, None], LONGEST_S)
    number = max(1, min(MOST_CLOSINGS // WAITS.size, int(until_s / max(profile.needed_for_s, 1e-3)) + 1))
    every_s = profile.needed_for_s + between_s.mean(axis=1)
    begin_s = profile.key_deadline_s[:, None] + every_s[:, None] * np.arange(number)
    due_s = (begin_s[:, :, None] + between_s[:, None, :]).reshape(profile.keys.size, -1)
    known = (due_s < until_s) * profile.weight[:, None] / WAITS.size
    ends_s = np.linspace(0.0, until_s, due_s.shape[1] + 1)
    new = np.diff(profile.appeared(ends_s))
    due_s = np.minimum(np.vstack([due_s, (ends_s[1:] + ends_s[:-1]) / 2]), until_s)
    return Emissions(due_s, np.vstack([known, new]))


def _ready_s(profile: MigrationProfile, course: KeyTimes, legs: list[Leg], due_s: Floats) -> Floats:
    """When the target has all that each result needs."""
    if not course.timed:
        return np.append(course.here_s, course.new_here_s)[:, None]
    parts = [(leg.batch.due_us, leg.arrived_s) for leg in legs if leg.places is not None]
    if not parts:
        return np.zeros(due_s.shape)
    needed_s = np.array([(due_us - profile.watermark_us) / 1e6 for due_us, _ in parts])
    latest_s = np.maximum.accumulate(np.minimum([arrived for _, arrived in parts], course.end_s))
    place = np.searchsorted(needed_s, due_s + 1e-9) - 1
    return np.where(place >= 0, latest_s[np.maximum(place, 0)], 0.0)


def _with_events(profile: MigrationProfile, course: KeyTimes, latency_s: float) -> tuple[float, float]:
    """Results that wait with their events."""
    per_event = profile.results_per_event
    if not course.timed:
        _, gaps = course.waits_s(profile.horizon_s)
        waiting = np.append(profile.rates * profile.weight, profile.new_rate) @ gaps
        return per_event * latency_s, per_event * float(waiting)
    held_s = max(0.0, course.end_s - float(course.redirected_s.min(initial=course.end_s)))
    late = per_event * profile.rate * held_s
    return late * held_s / 2 + per_event * latency_s, late
