"""Journeys: when each batch of a plan leaves the source and arrives at the target.

1. A link carries one batch after another, in the order of the queues. A batch that the target asks for goes before
   those in the normal queue; nothing interrupts a batch that is on its way.
2. A target asks for a key when the first event of that key waits. Who asks when is drawn by the rate of the key and its
   hash, so that the same profile always gives the same journey.
3. A copy has the size of the state; what follows it has the size of what has changed until then. A batch that leaves
   while the source works has the size of its keys at that time; the last one has the keys that are new.
"""

import heapq
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby
from math import exp

import numpy as np

from shoal.control.twin.growth import Growth
from shoal.control.twin.profile import LONGEST_S, Floats, MigrationProfile
from shoal.mechanisms.batching import parts_of
from shoal.mechanisms.plan import Batch, Plan, Queue, StepKind
from shoal.mechanisms.shedding.capacity import TransferLink
from shoal.mechanisms.transfer import ESSENTIAL_BYTES, STATIC_BYTES
from shoal.model.control.fragment import Ids, Ints

HASHES = float(1 << 64)
MIX = np.uint64(0xBF58476D1CE4E5B9)
BEGINS = frozenset({StepKind.START, StepKind.TELL})
CARRIES = frozenset({StepKind.EXTRACT, StepKind.PREAMBLE, StepKind.REPLICA})


def on_link_s(link: TransferLink, nbytes: float) -> float:
    """How long a link is busy with some bytes."""
    if link.segment_bytes is None:
        return nbytes / link.bytes_per_s
    segment_s = (link.segment_bytes + link.overhead_bytes) / link.bytes_per_s + link.gap_s
    return -(-nbytes // link.segment_bytes) * segment_s


@dataclass(frozen=True, eq=False)
class Leg:
    """A batch on its way: when it left and arrived, its bytes, and the fragments that are in it.

    `places` are fragments of the profile; None for all of them, or all that have changed.
    """

    batch: Batch
    left_s: float
    arrived_s: float
    nbytes: float
    places: Ints | None = None


@dataclass
class Journey:
    """Follows the batches of one plan over the link of a profile.

    `first_s`: when the first event of each key comes to the target, if the target asks for keys.
    """

    profile: MigrationProfile
    plan: Plan
    legs: list[Leg] = field(default_factory=list)
    first_s: Floats | None = None
    _copied_s: float | None = None
    _age_s: float = 0.0
    _both: bool = False
    _moved: bool = False
    _stopped: bool = False
    _told: bool = False

    @cached_property
    def _growth(self) -> Growth:
        return Growth(self.profile)

    def followed(self) -> list[Leg]:
        """All batches, in the order in which they leave."""
        waiting, asked = self._placed(), list[tuple[float, int]]()
        fetchable = {number: places for number, (batch, places) in enumerate(waiting) if batch.fetched}
        numbered = deque(enumerate(waiting))
        gone, now_s, begun = set[int](), 0.0, False
        batches = dict(enumerate(waiting))
        while numbered:
            number, (batch, places) = numbered[0]
            if number in gone:
                numbered.popleft()
                continue
            if asked and asked[0][0] <= now_s and batch.queue > Queue.FETCH:
                number = heapq.heappop(asked)[1]
                if number in gone:
                    continue
                batch, places = batches[number]
            gone.add(number)
            now_s = self._sent(batch, places, now_s)
            if not begun and not BEGINS.isdisjoint(batch.kinds):
                begun = True
                asked = self._requests(fetchable, self.legs[-1])
        return self.legs

    def _placed(self) -> list[tuple[Batch, Ints | None]]:
        """The batches with the places of their fragments."""
        batches, ids = self.plan.batches, self.profile.fragments.ids
        wanted = [each.ids for each in batches if each.ids is not None]
        if not wanted:
            return [(each, None) for each in batches]
        order = self.profile.id_order
        places = order[np.searchsorted(ids, np.concatenate(wanted), sorter=order)]
        parts = parts_of(places, np.cumsum([each.size for each in wanted])[:-1])
        return [(each, None if each.ids is None else next(parts)) for each in batches]

    def _requests(self, fetchable: dict[int, Ints | None], begun: Leg) -> list[tuple[float, int]]:
        """When a request for each batch is at the source, and the number of the batch."""
        profile = self.profile
        draws = _draws(profile.keys)
        with np.errstate(divide="ignore"):
            first_s = begun.left_s - np.log(draws) / np.maximum(profile.rates * np.sqrt(profile.weight), 1e-12)
        self.first_s = np.minimum(first_s, LONGEST_S)
        asked_s = np.maximum(self.first_s, begun.arrived_s) + profile.link.latency_s
        parts = {number: places for number, places in fetchable.items() if places is not None and places.size}
        if not parts:
            return []
        begins = np.cumsum([0, *(places.size for places in parts.values())])[:-1]
        soonest_s = np.minimum.reduceat(asked_s[profile.key_of[np.concatenate(list(parts.values()))]], begins)
        found = list(zip(soonest_s.tolist(), parts, strict=True))
        heapq.heapify(found)
        return found

    def _sent(self, batch: Batch, places: Ints | None, now_s: float) -> float:
        """Send a batch once it can leave; returns when the link is free again."""
        if StepKind.EXPIRE in batch.kinds:
            now_s = max(now_s, self._expired_s())
        nbytes = self._bytes(batch, places, now_s)
        free_s = now_s + on_link_s(self.profile.link, nbytes) * self._shared(batch, now_s)
        self.legs.append(Leg(batch, now_s, free_s + self.profile.link.latency_s, nbytes, places))
        return free_s

    def _shared(self, batch: Batch, now_s: float) -> float:
        """How much longer a batch takes because answers cross the link: that keys asked for have no state."""
        if not batch.fetched or self._told:
            return 1.0
        profile = self.profile
        asking = profile.new_rate * exp(-profile.new_rate * now_s / profile.new_keys)  # keys appear once
        return 1 / (1 - min(0.9, asking * on_link_s(profile.link, STATIC_BYTES)))

    def _expired_s(self) -> float:
        """When nothing is left of the state."""
        return float(self.profile.deadline_s.max(initial=0.0))

    def _bytes(self, batch: Batch, places: Ints | None, now_s: float) -> float:
        """The size of a batch that leaves at a time."""
        kinds, profile = batch.kinds, self.profile
        self._both = self._both or StepKind.DUPLICATE in kinds
        self._stopped = self._stopped or StepKind.PAUSE in kinds
        if StepKind.PREAMBLE in kinds or StepKind.REPLICA in kinds:
            replica = StepKind.REPLICA in kinds
            self._copied_s, self._age_s = now_s, profile.replica_age_s if replica else 0.0
            return STATIC_BYTES + (0 if replica else profile.state_bytes)
        if StepKind.TELL in kinds:
            self._told = True
            return STATIC_BYTES + ESSENTIAL_BYTES * float(profile.weight[profile.key_of].sum())
        if StepKind.EXTRACT not in kinds:
            return STATIC_BYTES
        if self._both:
            return profile.state_bytes
        if self._copied_s is not None:
            return self._growth.difference_bytes(now_s - self._copied_s, self._age_s)
        works = not self._stopped
        if places is not None:
            self._moved = True
            return self._growth.bytes_of(places, now_s) if works else float(profile.sizes[places].sum())
        if self._moved:
            return self._growth.new_key_bytes(now_s) if works else 0.0
        return profile.state_bytes


def _draws(keys: Ids) -> Floats:
    """A number between 0 and 1 for each key that does not depend on the order of the keys."""
    mixed = (keys ^ (keys >> np.uint64(31))) * MIX
    return ((mixed ^ (mixed >> np.uint64(29))).astype(np.float64) + 1) / (HASHES + 2)


def arrivals_s(profile: MigrationProfile, legs: list[Leg]) -> Floats:
    """When each fragment is at the target, as it was when it left; `LONGEST_S` if it is never sent."""
    found = np.full(len(profile.fragments), LONGEST_S)
    carrying = (leg for leg in legs if leg.nbytes > 0 and not CARRIES.isdisjoint(leg.batch.kinds))
    for divided, some in groupby(carrying, key=lambda leg: leg.places is not None):
        if divided:  # each fragment is in one such batch
            _arrive_in_parts(profile, list(some), found)
            continue
        for leg in some:
            places = np.flatnonzero(found >= LONGEST_S)
            share = np.cumsum(profile.sizes[places]) / max(leg.nbytes, 1.0)
            share = np.ones(places.size) if StepKind.REPLICA in leg.batch.kinds else np.minimum(share, 1.0)
            on_way_s = leg.arrived_s - leg.left_s - profile.link.latency_s
            found[places] = leg.left_s + profile.link.latency_s + share * on_way_s
    return found


def _arrive_in_parts(profile: MigrationProfile, legs: Sequence[Leg], found: Floats) -> None:
    """Set when the fragments of some legs arrive: one after another, while their leg is on its way."""
    parts = [leg.places for leg in legs if leg.places is not None]
    number = np.repeat(np.arange(len(legs)), [each.size for each in parts])
    places = np.concatenate(parts)
    sums = np.cumsum(profile.sizes[places])
    before = np.append(0.0, sums)[np.flatnonzero(np.diff(number, prepend=-1))]
    left_s, nbytes = np.array([leg.left_s for leg in legs]), np.array([leg.nbytes for leg in legs])
    on_way_s = np.array([leg.arrived_s - leg.left_s - profile.link.latency_s for leg in legs])
    share = np.minimum((sums - before[number]) / np.maximum(nbytes, 1.0)[number], 1.0)
    found[places] = (left_s + profile.link.latency_s)[number] + share * on_way_s[number]
