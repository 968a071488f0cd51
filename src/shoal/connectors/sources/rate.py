"""Rates of generated streams: events per second, constant or changing in steps."""

import math
from bisect import bisect_right
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from shoal.errors import ConfigError

EVENT_TIME = "event-time"


def steps_of(text: str) -> tuple[tuple[float, float], ...] | None:
    """Moments in seconds and the values from then on, parsed from a text like `1,5@10`; None if it is malformed.

    >>> steps_of("1,5@10")
    ((0.0, 1.0), (10.0, 5.0))
    """
    steps = []
    for part in text.split(","):
        value, _, moment = part.partition("@")
        try:
            steps.append((float(moment or 0), float(value)))
        except ValueError:
            return None
    return tuple(steps)


@dataclass(frozen=True)
class Rate:
    """Events per second from each of some moments on, in seconds after the start; the first is 0.

    >>> rate = Rate.of("1000,5000@10")
    >>> rate.due(12.0), rate.when(20_000)
    (20000, 12.0)
    >>> print(rate)
    1000,5000@10
    """

    steps: tuple[tuple[float, float], ...]

    def __post_init__(self) -> None:
        """Reject negative rates, a last rate of 0, and steps out of order."""
        moments = [moment for moment, _ in self.steps]
        if not moments or moments[0] != 0 or not all(a < b < math.inf for a, b in pairwise(moments)):
            raise ConfigError(f"steps of a rate must begin at 0 and follow each other in time; got {self}")
        for _, value in self.steps:
            if not (math.isfinite(value) and value >= 0):
                raise ConfigError(f"rate must be positive; got {value} events per second")
        if self.steps[-1][1] <= 0:
            raise ConfigError(f"rate must be positive; got {self.steps[-1][1]} events per second")

    @classmethod
    def of(cls, given: "float | str | Rate") -> "Rate":
        """A rate from a number, or from a text like `1000,5000@10,1000@20`."""
        if isinstance(given, Rate):
            return given
        if not isinstance(given, str):
            return cls(((0.0, float(given)),))
        steps = steps_of(given)
        if steps is None:
            raise ConfigError(
                f"rate must be events per second, or steps like 1000,5000@10 (5000 after 10 s), "
                f"or {EVENT_TIME}; got {given!r}"
            )
        return cls(steps)

    def __str__(self) -> str:
        """The text that `of` accepts."""
        return ",".join(_text(value) + (f"@{_text(moment)}" if moment else "") for moment, value in self.steps)

    @cached_property
    def _before(self) -> tuple[float, ...]:
        """Events due before each step."""
        totals = [0.0]
        for (start, value), (stop, _) in pairwise(self.steps):
            totals.append(totals[-1] + value * (stop - start))
        return tuple(totals)

    def __mul__(self, share: float) -> "Rate":
        """A share of the rate, for a stream that is a part of another."""
        return Rate(tuple((moment, value * share) for moment, value in self.steps))

    def due(self, elapsed_s: float) -> int:
        """The number of events due after a time."""
        step = max(0, bisect_right(self.steps, (elapsed_s, math.inf)) - 1)
        moment, value = self.steps[step]
        return int(self._before[step] + value * (elapsed_s - moment))

    def when(self, event: int) -> float:
        """The time, in seconds, at which an event is due."""
        step = max(0, bisect_right(self._before, float(event)) - 1)
        moment, value = self.steps[step]
        return moment + (event - self._before[step]) / value


@dataclass(frozen=True)
class EventTime:
    """The rate at which events have occurred: each is due at its own time, counted from that of the first.

    >>> rate_of("event-time") == rate_of("event-time") * 0.5
    True
    """

    def __str__(self) -> str:
        """The text that `rate_of` accepts."""
        return EVENT_TIME

    def __mul__(self, share: float) -> "EventTime":
        """A stream that is a part of another has its own times."""
        return self


def rate_of(given: "float | str | Rate | EventTime") -> "Rate | EventTime":
    """A rate from a number or a text; `event-time` is the rate of the events themselves."""
    if isinstance(given, EventTime) or given == EVENT_TIME:
        return EventTime()
    return Rate.of(given)


def _text(number: float) -> str:
    """The shortest text that is exactly this number."""
    return repr(float(number)).removesuffix(".0")
