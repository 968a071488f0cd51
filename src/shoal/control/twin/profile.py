"""Profiles: what is known of an instance that is to move, of the link, and of the workers at both ends."""

from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from shoal.errors import ConfigError
from shoal.mechanisms.shedding.capacity import TransferLink
from shoal.mechanisms.transfer import Transfer
from shoal.model.control.binding import WorkerId
from shoal.model.control.fragment import NO_DEADLINE_US, Fragments, Ids, Ints
from shoal.model.query.graph import InstanceId

Floats = NDArray[np.float64]
MOST_KEYS = 192
"""Keys that are simulated one by one; of more, those with most events are, and a sample stands for the rest."""
AMOUNTS = (
    "new_rate",
    "event_cost_s",
    "event_bytes",
    "slide_s",
    "results_per_event",
    "new_bytes",
    "lifetime_s",
    "replica_age_s",
    "left_s",
)
LONGEST_S = 1e9
"""Stands for a time that never comes."""


@dataclass(frozen=True)
class Endpoint:
    """A worker at one end of the link: its speed, and the share of its time that other instances take."""

    speed: float = 1.0
    busy: float = 0.0

    def __post_init__(self) -> None:
        """Reject a worker that cannot work."""
        if not self.speed > 0 or not self.busy >= 0:
            raise ConfigError(f"a worker must have a speed above 0 and be busy for 0 or more; got {self}")

    def event_s(self, cost_s: float) -> float:
        """How long an event takes, with what is left of the worker."""
        return cost_s / (self.speed * max(1 - self.busy, 0.01))


@dataclass(frozen=True, eq=False)
class MigrationProfile:
    """What a migration depends on; times count from its beginning, which is at `watermark_us`.

    `rates`: events per second of each key of the state, in the order of `keys`; `new_rate`: of keys without state,
    `new_keys`: how many share it, if that is known.
    `event_cost_s`: work of an event at speed 1. `event_bytes`: its size. `slide_s`: time between two watermarks that
    close windows; 0 if none does, and each event has `results_per_event` instead. `rewrites`: an event changes the
    newest fragment of its key; otherwise it adds `new_bytes` of state. `renews`: a key has one fragment, and a result
    when an event makes a new one after its deadline. `lifetime_s`: from when a fragment is new to its deadline; 0 if
    that is not known. `on_arrival`, `bounded` and `replicated` are
    those of the transfer; `replica_age_s`: how old the copy is that the target has. `left_s`: time until the link is
    cut, if that is known. `horizon_s`: how long ahead costs are counted. `alike`: how many keys each key stands for;
    empty if every key stands for itself.
    """

    fragments: Fragments
    rates: Floats
    link: TransferLink
    watermark_us: int = 0
    new_rate: float = 0.0
    new_keys: float = np.inf
    event_cost_s: float = 0.0
    event_bytes: float = 64.0
    slide_s: float = 0.0
    results_per_event: float = 0.0
    rewrites: bool = True
    renews: bool = False
    new_bytes: float = 0.0
    lifetime_s: float = 0.0
    on_arrival: bool = False
    bounded: bool = True
    replicated: bool = False
    replica_age_s: float = 0.0
    left_s: float = LONGEST_S
    source: Endpoint = Endpoint()
    target: Endpoint = Endpoint()
    horizon_s: float = 60.0
    alike: Floats = field(default_factory=lambda: np.zeros(0))

    def __post_init__(self) -> None:
        """Reject rates that do not fit the keys, and times below 0."""
        if self.rates.shape != self.keys.shape:
            raise ConfigError(f"rates must be one for each of {self.keys.size} keys; got {self.rates.size}")
        if self.alike.size and self.alike.shape != self.keys.shape:
            raise ConfigError(f"alike must have a number for each of {self.keys.size} keys; got {self.alike.size}")
        if self.rates.size and not (self.rates.min() >= 0 and np.isfinite(self.rates).all()):
            raise ConfigError(f"the rate of a key must be a number from 0; got {self.rates.min()}")
        if self.new_keys <= 0:
            raise ConfigError(f"new_keys of a migration must be more than 0; got {self.new_keys}")
        for name in AMOUNTS:
            if not getattr(self, name) >= 0:
                raise ConfigError(f"{name} of a migration must be 0 or more; got {getattr(self, name)}")
        if not self.horizon_s > 0:
            raise ConfigError(f"horizon_s of a migration must be more than 0; got {self.horizon_s}")

    @cached_property
    def _grouped(self) -> tuple[Ids, Ints]:
        keys, group = np.unique(self.fragments.key, return_inverse=True)
        return keys, group.astype(np.int64)

    @property
    def keys(self) -> Ids:
        """The keys of the state, each once, ascending."""
        return self._grouped[0]

    @property
    def key_of(self) -> Ints:
        """The place among `keys` of the key of each fragment."""
        return self._grouped[1]

    @cached_property
    def weight(self) -> Floats:
        """How many keys each key stands for."""
        return self.alike if self.alike.size else np.ones(self.keys.size)

    @property
    def rate(self) -> float:
        """Events per second of all keys."""
        return float(self.rates @ self.weight) + self.new_rate

    @cached_property
    def sizes(self) -> Floats:
        """Bytes of each fragment, times the keys that its key stands for."""
        return self.fragments.state_bytes * self.weight[self.key_of]

    @property
    def state_bytes(self) -> float:
        """Bytes of all state."""
        return float(self.sizes.sum())

    @cached_property
    def deadline_s(self) -> Floats:
        """When each fragment is dropped; `LONGEST_S` if never."""
        return self._seconds(self.fragments.deadline_us)

    @cached_property
    def key_deadline_s(self) -> Floats:
        """When the last fragment of each key is dropped."""
        found = np.zeros(self.keys.size)
        np.maximum.at(found, self.key_of, self.deadline_s)
        return found

    def _seconds(self, times_us: Ints) -> Floats:
        # the difference first: times in microseconds since 1970 lose digits as floats
        after_s = np.where(times_us == NO_DEADLINE_US, 0, times_us - self.watermark_us) / 1e6
        return np.where(times_us == NO_DEADLINE_US, LONGEST_S, np.clip(after_s, 0, LONGEST_S))

    @cached_property
    def id_order(self) -> Ints:
        """The places of the fragments in the order of their ids."""
        return np.argsort(self.fragments.ids)

    @cached_property
    def is_newest(self) -> NDArray[np.bool_]:
        """Whether each fragment is the newest of its key."""
        order = np.lexsort((self.fragments.deadline_us, self.key_of))
        found = np.zeros(len(self.fragments), bool)
        found[order[np.flatnonzero(np.diff(self.key_of[order], append=self.keys.size))]] = True
        return found

    @cached_property
    def needed_for_s(self) -> float:
        """How long a new fragment is needed: its lifetime, or as long as any of the state; 0 if none has an end."""
        ends_s = self.deadline_s[self.deadline_s < LONGEST_S]
        return self.lifetime_s or float(ends_s.max(initial=0.0))

    @cached_property
    def fragment_bytes(self) -> float:
        """The mean size of a fragment."""
        number = float(self.weight[self.key_of].sum())
        return self.state_bytes / number if number else 0.0

    def touched(self, seconds: float) -> Floats:
        """The probability that each key has an event within a time."""
        return -np.expm1(-self.rates * seconds)

    def appeared(self, seconds: Floats | float) -> Floats:
        """How many keys without state at the beginning have events within a time."""
        events = self.new_rate * np.asarray(seconds, np.float64)
        if self.new_keys == np.inf:
            return events
        found: Floats = -self.new_keys * np.expm1(-events / self.new_keys)
        return found

    def transfer(self) -> Transfer:
        """The transfer of which mechanisms make plans."""
        return Transfer(
            InstanceId("twin/0"),
            WorkerId(0),
            WorkerId(1),
            self.fragments.total_bytes,
            self.fragments,
            on_arrival=self.on_arrival,
            bounded=self.bounded,
            replicated=self.replicated,
            most_batches=MOST_KEYS,
        )

    def sampled(self, most_keys: int = MOST_KEYS) -> "MigrationProfile":
        """The same profile with fewer keys: those with most events, and an even sample of the others."""
        if self.keys.size <= most_keys:
            return self
        order = np.argsort(-(self.rates * self.weight), kind="stable")
        alone = most_keys * 3 // 4
        first, rest = order[:alone], order[alone:]
        parts = np.array_split(rest, most_keys - first.size)  # of about the same rate each
        chosen = np.concatenate([first, [part[part.size // 2] for part in parts]])
        alike = np.concatenate([self.weight[first], [self.weight[part].sum() for part in parts]])
        flow = self.rates * self.weight
        total = np.concatenate([flow[first], [flow[part].sum() for part in parts]])
        place = np.argsort(chosen)
        kept = self.fragments.where(np.isin(self.key_of, chosen))
        return replace(self, fragments=kept, rates=(total / alike)[place], alike=alike[place])
