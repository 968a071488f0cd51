"""Triggers: when the policy is asked for a new binding."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from shoal.control.names import readable
from shoal.control.observation import Observation
from shoal.errors import ConfigError

RELEASE = 0.8
"""Share of the threshold at which a slow table counts as fast again."""


class Trigger(Protocol):
    """Decides by an observation whether to ask the policy; may keep state between observations."""

    def fires(self, observation: Observation, now_s: float) -> str:
        """Called once per observation, in order of time; returns the reason to ask the policy, or an empty text."""


@dataclass
class Latency:
    """Fires while a result table is slower than a threshold, until it is clearly faster again.

    Between `release` times the threshold and the threshold itself a table stays what it was, slow or fast.
    """

    threshold_s: float
    release: float = RELEASE
    _slow: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        """Reject a non-positive threshold."""
        if not self.threshold_s > 0 or not 0 < self.release <= 1:
            raise ConfigError(
                f"a latency trigger needs a threshold above 0 s and a release from 0 to 1; "
                f"got {self.threshold_s} s and {self.release}"
            )

    def fires(self, observation: Observation, now_s: float) -> str:  # noqa: ARG002
        """Name the slowest table, if any counts as slow."""
        for table, latency_s in observation.latency_s.items():
            if latency_s > self.threshold_s:
                self._slow.add(table)
            elif latency_s <= self.release * self.threshold_s:
                self._slow.discard(table)
        slow = {table: observation.latency_s[table] for table in self._slow if table in observation.latency_s}
        if not slow:
            return ""
        table = max(slow, key=lambda name: (slow[name], name))
        return f"latency of {table} was {readable(slow[table])}, over the threshold of {readable(self.threshold_s)}"


@dataclass
class Imbalance:
    """Fires while the busiest worker has more than `ratio` times the mean of all workers."""

    ratio: float

    def __post_init__(self) -> None:
        """Reject a ratio that every binding exceeds."""
        if not self.ratio > 1:
            raise ConfigError(f"an imbalance trigger needs a ratio above 1; got {self.ratio}")

    def fires(self, observation: Observation, now_s: float) -> str:  # noqa: ARG002
        """Name the busiest worker."""
        if observation.peak <= self.ratio:
            return ""
        return f"worker {observation.busiest} had {observation.peak:.2f} times the mean load of the workers"


@dataclass
class Periodic:
    """Fires every `every_s` seconds."""

    every_s: float
    _last_s: float | None = None

    def __post_init__(self) -> None:
        """Reject a non-positive period."""
        if not self.every_s > 0:
            raise ConfigError(f"a periodic trigger needs more than 0 seconds; got {self.every_s}")

    def fires(self, observation: Observation, now_s: float) -> str:  # noqa: ARG002
        """Fire once the period is over."""
        if self._last_s is None:
            self._last_s = now_s
        if now_s - self._last_s < self.every_s:
            return ""
        self._last_s = now_s
        return f"{self.every_s:g} s have passed"


KINDS = {"latency": Latency, "imbalance": Imbalance, "periodic": Periodic}


def triggers_of(text: str) -> list[Trigger]:
    """Triggers by name and number, e.g. latency:0.03,imbalance:1.1,periodic:2.

    >>> triggers_of("imbalance:1.2")
    [Imbalance(ratio=1.2)]
    """
    found: list[Trigger] = []
    for part in text.split(","):
        name, _, value = part.partition(":")
        if name not in KINDS:
            raise ConfigError(f"trigger must be one of {', '.join(KINDS)}, each with a number; got {part!r}")
        try:
            number = float(value)
        except ValueError as error:
            raise ConfigError(f"trigger {name} needs a number after its colon; got {part!r}") from error
        found.append(KINDS[name](number))
    return found


def reason(triggers: Sequence[Trigger], observation: Observation, now_s: float) -> str:
    """The reasons of all triggers, joined; every trigger is called, since some keep state."""
    return "; ".join(text for trigger in triggers if (text := trigger.fires(observation, now_s)))
