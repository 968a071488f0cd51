"""Growth: what becomes of the state while the source still processes events.

1. Fragments are dropped at their deadlines. What comes instead depends on the operator: windows begin a fragment for
   every slide in which their key has an event; a key that is seen once in an interval begins another interval; other
   operators add what each event adds.
2. Keys without state at the beginning bring new state.
3. A difference to an older copy has all that is new since, and names what is changed or gone.
"""

from dataclasses import dataclass
from functools import cached_property
from math import exp

import numpy as np
from numpy.typing import NDArray

from shoal.control.twin.profile import LONGEST_S, Floats, MigrationProfile
from shoal.model.control.fragment import Ints

ID_BYTES = 8
"""Bytes that name a fragment."""


@dataclass(frozen=True, eq=False)
class Growth:
    """The state of a profile, some time after the beginning."""

    profile: MigrationProfile

    @cached_property
    def _begun(self) -> NDArray[np.bool_]:
        """Whether each key has a fragment of the slide that is under way."""
        found = np.zeros(self.profile.keys.size)
        np.maximum.at(found, self.profile.key_of, self.profile.deadline_s)
        return found > self.profile.needed_for_s - self.profile.slide_s + 1e-6

    def bytes_of(self, places: Ints, now_s: float) -> float:
        """The size of the keys of some fragments at a time; all fragments of a key must be among them."""
        profile = self.profile
        here = float(profile.sizes[places] @ (profile.deadline_s[places] > now_s))
        if not profile.rewrites and not profile.renews:
            return here
        return here + sum(self._since(int(key), now_s) for key in set(profile.key_of[places].tolist()))

    def _since(self, key: int, now_s: float) -> float:
        """Bytes that a key has gained."""
        profile, rate = self.profile, float(self.profile.rates[key])
        if profile.renews:
            number = 1 - exp(-rate * max(0.0, now_s - float(profile.key_deadline_s[key])))
        elif profile.slide_s:
            number = self._slides(rate, now_s, begun=bool(self._begun[key]))
        else:
            number = 0.0
        return number * profile.fragment_bytes * float(profile.weight[key])

    def _slides(self, rate: float, now_s: float, *, begun: bool) -> float:
        """In how many slides that have not closed yet a key has had its first event."""
        profile = self.profile
        slide_s, most = profile.slide_s, max(1, round(profile.needed_for_s / profile.slide_s))
        first_s = slide_s - (profile.watermark_us / 1e6) % slide_s
        if now_s < first_s:
            return 0.0 if begun else 1 - exp(-rate * now_s)
        number = 1 + int((now_s - first_s) / slide_s)
        found = 1 - exp(-rate * (now_s - first_s - (number - 1) * slide_s))
        found += min(most, number) * (1 - exp(-rate * slide_s)) - (1 - exp(-rate * slide_s))
        return found + (0.0 if begun or number >= most else 1 - exp(-rate * first_s))

    def _kept_s(self, now_s: float) -> float:
        """How far back the state of a time reaches; windows are dropped as a whole when they close."""
        profile = self.profile
        if not profile.slide_s:
            return profile.needed_for_s or LONGEST_S
        return max(0.0, profile.needed_for_s - profile.slide_s) + (profile.watermark_us / 1e6 + now_s) % profile.slide_s

    def new_key_bytes(self, now_s: float, age_s: float = 0.0) -> float:
        """The size of the keys that had no state at the beginning, or `age_s` before."""
        profile = self.profile
        lived_s = min(now_s + age_s, self._kept_s(now_s))
        if profile.rewrites and profile.slide_s:
            slides = max(1.0, lived_s / profile.slide_s)
            return float(profile.appeared(lived_s / slides)) * slides * profile.fragment_bytes
        if profile.rewrites or profile.renews:
            return float(profile.appeared(lived_s)) * profile.fragment_bytes
        return profile.new_rate * lived_s * profile.new_bytes

    def difference_bytes(self, seconds: float, age_s: float = 0.0) -> float:
        """How many bytes say what has changed within a time, since a copy that was `age_s` old when it began.

        A fragment that was changed, replaced or dropped is named, and sent as it is now.
        """
        profile = self.profile
        named = float(ID_BYTES * profile.weight[profile.key_of] @ (profile.deadline_s <= seconds))
        new, lived_s = self.new_key_bytes(seconds, age_s), min(seconds + age_s, self._kept_s(seconds))
        if profile.rewrites:
            slides = 1 + (lived_s / profile.slide_s if profile.slide_s else 0.0)
            newest = profile.is_newest
            sizes = profile.sizes[newest] + ID_BYTES * profile.weight[profile.key_of[newest]]
            return float(profile.touched(lived_s / slides)[profile.key_of[newest]] @ sizes) * slides + new
        if profile.on_arrival or not profile.renews:
            return profile.new_bytes * profile.rate * lived_s + named
        ends_s = np.where(profile.deadline_s < LONGEST_S, profile.deadline_s, 0.0)
        young = ends_s > profile.needed_for_s - age_s  # newer than the copy
        gone = np.maximum(0.0, seconds - ends_s)
        again = -np.expm1(-profile.rates[profile.key_of] * gone) * (gone > 0)
        sizes = profile.sizes + ID_BYTES * profile.weight[profile.key_of]
        return float(sizes @ np.where(gone > 0, again, young)) + named + new

    @cached_property
    def _fresh(self) -> float:
        """The utility of a new fragment of a rare key: of those with the least, for the time that they still have."""
        profile = self.profile
        left = np.minimum(profile.deadline_s, profile.needed_for_s or LONGEST_S) / (profile.needed_for_s or LONGEST_S)
        return float(np.quantile(profile.fragments.utility / np.maximum(left, 1e-3), 0.1)) if left.size else 0.0

    def utility_of(self, worked_s: Floats) -> tuple[Floats, Floats]:
        """What is left of the utility of each fragment after the source has worked for a time, and what is new.

        As much comes as goes, unless an event has to renew the fragment first.
        """
        profile = self.profile
        utility = profile.fragments.utility * profile.weight[profile.key_of]
        old = utility * np.clip(1 - worked_s / np.maximum(profile.deadline_s, 1e-9), 0.0, 1.0)
        if not profile.renews:
            return old, utility - old
        over_s = np.maximum(0.0, worked_s - profile.deadline_s)
        again = -np.expm1(-profile.rates[profile.key_of] * over_s) * profile.weight[profile.key_of]
        return old, again * self._fresh * (1 - np.minimum(over_s / 2 / max(profile.needed_for_s, 1e-9), 1.0))

    def new_key_utility(self, now_s: float) -> float:
        """The utility of the keys that had no state at the beginning."""
        if not (self.profile.rewrites or self.profile.renews):
            return 0.0
        lived_s = min(now_s, self._kept_s(now_s))
        left = 1 - lived_s / 2 / max(self.profile.needed_for_s, lived_s, 1e-9)
        return float(self.profile.appeared(lived_s)) * self._fresh * left
