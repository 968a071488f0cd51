"""Key times: from when events of each key go to the target, and from when the target can process them."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from shoal.control.twin.journey import Leg
from shoal.control.twin.profile import LONGEST_S, Floats, MigrationProfile
from shoal.mechanisms.plan import Queue, StepKind
from shoal.mechanisms.transfer import MOST_BATCHES
from shoal.model.control.fragment import Ints


@dataclass(frozen=True, eq=False)
class KeyTimes:
    """Times of a migration: of each key, and of events of keys without state.

    `redirected_s`: events go to the target. `here_s`: the target can process them. `both_s`: from when to when both
    workers receive all events. `waits`: what was duplicated waits until the end of that. `first_s`: when the first
    event of each key waits, if it is that event that fetches the state. `timed`: only windows wait. `answer_s`: how
    long the first event of each new key waits until the target knows that there is no state of it.
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
    answer_s: float = 0.0

    def cut(self, at_s: float) -> "KeyTimes":
        """The course if the link is cut at a time: everything is at the target by then, complete or not."""
        begun, ended = self.both_s
        return KeyTimes(
            np.minimum(self.redirected_s, at_s),
            np.minimum(self.here_s, at_s),
            min(self.new_redirected_s, at_s),
            min(self.new_here_s, at_s),
            min(self.end_s, at_s),
            (min(begun, at_s), min(ended, at_s)),
            self.waits,
            self.timed,
            self.first_s,
            self.answer_s,
        )

    def asked_s(self, profile: MigrationProfile) -> float:
        """The summed time that events of new keys wait for an answer."""
        if not self.answer_s:
            return 0.0
        until_s = min(self.end_s, profile.horizon_s)
        return float(profile.appeared(max(0.0, until_s - self.new_here_s))) * min(self.answer_s, until_s)

    def waits_s(self, until_s: float) -> tuple[Floats, Floats]:
        """When events of each key begin to wait, and for how long; keys without state are the last."""
        begun = self.redirected_s if self.first_s is None else np.maximum(self.redirected_s, self.first_s)
        begun = np.minimum(np.append(begun, self.new_redirected_s), until_s)
        over = np.minimum(np.append(self.here_s, self.new_here_s), until_s)
        return begun, np.maximum(0.0, over - begun)


def key_times_of(profile: MigrationProfile, legs: list[Leg], first_s: Floats | None) -> KeyTimes:
    """The times of a migration whose link lives."""
    keys, last = profile.keys.size, legs[-1]
    duplicated = next((leg for leg in legs if StepKind.DUPLICATE in leg.batch.kinds), None)
    if duplicated is not None:
        over = np.full(keys, last.arrived_s)
        waits = StepKind.BUFFER in duplicated.batch.kinds
        both_s = (duplicated.left_s, last.arrived_s)
        return KeyTimes(over, over, last.arrived_s, last.arrived_s, last.arrived_s, both_s, waits)
    redirected_s, here_s = np.full(keys, LONGEST_S), np.full(keys, last.arrived_s)
    new_redirected_s, new_here_s, answer_s = last.arrived_s, last.arrived_s, 0.0
    timed = any(leg.batch.queue is Queue.DEADLINE for leg in legs)
    parts = [leg for leg in legs if leg.places is not None]
    if parts:
        number, key, later_s = _carried(profile, parts)
        left_s, arrived_s = (np.array([getattr(leg, name) for leg in parts]) for name in ("left_s", "arrived_s"))
        redirects, resumes = (
            np.array([kind in leg.batch.kinds for leg in parts])[number]
            for kind in (StepKind.REDIRECT, StepKind.RESUME)
        )
        np.minimum.at(redirected_s, key[redirects], (left_s + later_s)[number[redirects]])
        np.minimum.at(here_s, key[resumes], (arrived_s - later_s)[number[resumes]])
    for leg in legs:
        if leg.places is not None:
            continue
        kinds = leg.batch.kinds
        if StepKind.REDIRECT in kinds:
            redirected_s = np.minimum(redirected_s, leg.left_s)
            new_redirected_s = min(new_redirected_s, leg.left_s)
        if StepKind.TELL in kinds:
            new_here_s, answer_s = leg.arrived_s, 0.0
        elif StepKind.START in kinds:
            new_here_s, answer_s = min(new_here_s, leg.arrived_s), _answer_s(profile, legs)
    if timed or StepKind.DROP in last.batch.kinds:
        here_s, new_here_s, answer_s = redirected_s, new_redirected_s, 0.0
    return KeyTimes(
        redirected_s,
        here_s,
        new_redirected_s,
        new_here_s,
        last.arrived_s,
        timed=timed,
        first_s=first_s,
        answer_s=answer_s,
    )


def _carried(profile: MigrationProfile, parts: Sequence[Leg]) -> tuple[Ints, Ints, Floats]:
    """The number of a leg and a key that it carries, for all such pairs, and how much later the keys of a leg leave.

    A leg that stands for several smaller batches leaves and arrives in parts; the time is the mean of them.
    """
    keys = profile.keys.size
    several = np.repeat(np.arange(len(parts)), [0 if leg.places is None else leg.places.size for leg in parts])
    places = np.concatenate([leg.places for leg in parts if leg.places is not None])
    pairs = np.flatnonzero(np.bincount(several * keys + profile.key_of[places], minlength=len(parts) * keys))
    number, key = np.divmod(pairs, keys)
    if not profile.alike.size:
        return number, key, np.zeros(len(parts))
    each = max(1.0, float(profile.weight.sum()) / MOST_BATCHES)
    shares = np.maximum(1.0, np.bincount(number, profile.weight[key], len(parts)) / each)
    on_way_s = np.array([leg.arrived_s - leg.left_s - profile.link.latency_s for leg in parts])
    return number, key, on_way_s * (1 - 1 / shares) / 2


def _answer_s(profile: MigrationProfile, legs: list[Leg]) -> float:
    """How long it takes to learn that a key has no state: there and back, behind a batch that is on its way."""
    carried = [leg.arrived_s - leg.left_s - profile.link.latency_s for leg in legs if leg.batch.fetched]
    return 2 * profile.link.latency_s + (sum(carried) / len(carried) / 2 if carried else 0.0)
