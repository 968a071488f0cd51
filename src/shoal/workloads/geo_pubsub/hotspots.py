"""Hotspots of the `geo-pubsub` workload: squares that have a large share of all points for a while."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from shoal.errors import ConfigError
from shoal.workloads.limits import check_limits

Scenario = Literal["none", "step", "bell", "double", "consecutive", "moving"]
Spread = Literal["uniform", "normal"]
Floats = npt.NDArray[np.float64]

SIDE = 0.15
"""Side of a hotspot, as a share of the side of the space."""
LOWER_LEFT, UPPER_RIGHT = (0.15, 0.15), (0.85, 0.85)
"""Centres of hotspots in shares of the space: off the west coast, and where New York meets Canada."""
MICROSECONDS = 1_000_000
LIMITS = {"heat": (0, 1), "hot_from_s": (0, 1_000_000), "hot_s": (0, 1_000_000)}


@dataclass(frozen=True)
class Hotspot:
    """A square from `from_us` to before `until_us`, whose centre goes straight from `start` to `end`.

    Its share of the points is `share` all the time, or, if it is `bell`-shaped, at most `share`, half-way.
    """

    from_us: int
    until_us: int
    share: float
    start: tuple[float, float]
    end: tuple[float, float]
    bell: bool = False

    def share_at(self, offset_us: int) -> float:
        """The share at an offset of event time from the start of the stream.

        >>> Hotspot(0, 8, 0.4, LOWER_LEFT, LOWER_LEFT, bell=True).share_at(6)
        0.225
        """
        if not self.from_us <= offset_us < self.until_us:
            return 0.0
        x = 2 * (offset_us - self.from_us) / (self.until_us - self.from_us) - 1 if self.bell else 0.0
        return self.share * (1 - x * x) ** 2

    def centre_at(self, offset_us: int) -> tuple[float, float]:
        """The centre at an offset of event time, in shares of the space."""
        gone = (offset_us - self.from_us) / (self.until_us - self.from_us)
        (x, y), (to_x, to_y) = self.start, self.end
        return x + gone * (to_x - x), y + gone * (to_y - y)


@dataclass(frozen=True)
class Heat:
    """When and where it is hot: a scenario, the largest share `heat` of the points that hotspots have together, times.

    `step`, `bell`: one hotspot, of constant or of bell-shaped share. `double`: two at once, each with half of the heat.
    `consecutive`: the same two, one after the other. `moving`: one that crosses the space.
    `spread`: how points lie in a square: `uniform`, or `normal` with a deviation of 20 % of its side.

    >>> [round(hot.share, 1) for hot in Heat("double").hotspots]
    [0.2, 0.2]
    >>> Heat("none").hotspots
    ()
    """

    scenario: Scenario = "step"
    heat: float = 0.4
    hot_from_s: float = 10.0
    hot_s: float = 20.0
    spread: Spread = "uniform"

    def __post_init__(self) -> None:
        """Reject names that there are not, and numbers beyond their limits."""
        for name, choices in (("scenario", get_args(Scenario)), ("spread", get_args(Spread))):
            if getattr(self, name) not in choices:
                raise ConfigError(f"geo-pubsub {name} must be one of {', '.join(choices)}; got {getattr(self, name)!r}")
        check_limits("geo-pubsub", self, LIMITS, LIMITS)

    @property
    def hotspots(self) -> tuple[Hotspot, ...]:
        """The hotspots of the scenario, in the order of their beginning."""
        begin, length = round(self.hot_from_s * MICROSECONDS), round(self.hot_s * MICROSECONDS)
        end, middle, half = begin + length, begin + length // 2, self.heat / 2
        made: Mapping[Scenario, Sequence[Hotspot]] = {
            "none": (),
            "step": (Hotspot(begin, end, self.heat, LOWER_LEFT, LOWER_LEFT),),
            "bell": (Hotspot(begin, end, self.heat, LOWER_LEFT, LOWER_LEFT, bell=True),),
            "double": tuple(Hotspot(begin, end, half, at, at, bell=True) for at in (LOWER_LEFT, UPPER_RIGHT)),
            "consecutive": (
                Hotspot(begin, middle, half, LOWER_LEFT, LOWER_LEFT, bell=True),
                Hotspot(middle, end, half, UPPER_RIGHT, UPPER_RIGHT, bell=True),
            ),
            "moving": (Hotspot(begin, end, self.heat, LOWER_LEFT, UPPER_RIGHT),),
        }
        return tuple(hot for hot in made[self.scenario] if hot.from_us < hot.until_us)

    def table(self) -> Floats:
        """A row per hotspot for compiled loops: times, share, whether bell-shaped, start and end of its centre."""
        rows = [(h.from_us, h.until_us, h.share, h.bell, *h.start, *h.end) for h in self.hotspots]
        return np.array(rows, np.float64).reshape(len(rows), 8)
