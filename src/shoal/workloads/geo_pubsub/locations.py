"""Where things of the `geo-pubsub` workload are: drawn from cities and hotspots, in whole microdegrees.

All arithmetic rounds alike on all platforms, so that a seed stands for the same locations everywhere: the normal
distribution is the sum of four uniform ones, which ends 3.46 deviations from its mean.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from shoal.kernels.compiled import compiled
from shoal.workloads.geo_pubsub.cities import SPACE, city_bounds, city_centres
from shoal.workloads.geo_pubsub.hotspots import SIDE, Heat
from shoal.workloads.scatter import below, mix

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

MICRODEGREES = 1_000_000
MIN_X, MIN_Y, MAX_X, MAX_Y = SPACE
CORE_DEG, OUTSKIRTS_DEG = 0.3, 1.5
"""Deviations of what lies in a city and of what lies around it."""
OUTSKIRTS = 35
"""Percent of a city's points that lie around it."""
HOT_DEVIATION = 0.2
"""Deviation inside a normal hotspot, as a share of its side."""
FROM_US, UNTIL_US, SHARE, BELL, X, Y, TO_X, TO_Y = range(8)
"""Columns of `Heat.table`."""


class Terrain(NamedTuple):
    """What a location is drawn from, for compiled loops."""

    bounds: Ints
    centres: Floats
    hot: Floats
    normal: bool

    @classmethod
    def of(cls, heat: Heat) -> "Terrain":
        """The cities with these hotspots."""
        return cls(city_bounds(), city_centres(), heat.table(), heat.spread == "normal")


@compiled
def normal_draw(bits: np.uint64) -> float:
    """Turn 64 bits into a number of mean 0 and deviation 1, nearly normal, from -3.47 to 3.47."""
    total = 0.0
    for part in range(4):
        total += float((bits >> np.uint64(16 * part)) & np.uint64(0xFFFF)) + 0.5
    return float((total / 65536 - 2) * 1.7320508075688772)


@compiled
def folded(value: float, least: float, most: float) -> float:
    """Reflect what lies outside of two bounds back between them; for values that are not far outside."""
    return most - abs(most - (least + abs(value - least)))


@compiled
def hot_share(hot: Floats, offset_us: int) -> float:
    """The share of the points that a hotspot has at a time."""
    if offset_us < hot[FROM_US] or offset_us >= hot[UNTIL_US]:
        return 0.0
    if hot[BELL] == 0:
        return float(hot[SHARE])
    x = 2 * (offset_us - hot[FROM_US]) / (hot[UNTIL_US] - hot[FROM_US]) - 1
    return float(hot[SHARE] * (1 - x * x) * (1 - x * x))


@compiled
def in_square(hot: Floats, offset_us: int, bits: np.uint64, normal: bool) -> tuple[int, int]:
    """A location inside a hotspot at a time, in microdegrees."""
    gone = min(1.0, max(0.0, (offset_us - hot[FROM_US]) / (hot[UNTIL_US] - hot[FROM_US])))
    second = mix(bits)
    if normal:
        across = folded(HOT_DEVIATION * normal_draw(bits), -0.5, 0.5)
        along = folded(HOT_DEVIATION * normal_draw(second), -0.5, 0.5)
    else:
        across = float(bits >> np.uint64(11)) / (1 << 53) - 0.5
        along = float(second >> np.uint64(11)) / (1 << 53) - 0.5
    x = hot[X] + gone * (hot[TO_X] - hot[X]) + SIDE * across
    y = hot[Y] + gone * (hot[TO_Y] - hot[Y]) + SIDE * along
    return (
        int(np.rint((MIN_X + x * (MAX_X - MIN_X)) * MICRODEGREES)),
        int(np.rint((MIN_Y + y * (MAX_Y - MIN_Y)) * MICRODEGREES)),
    )


@compiled
def located(terrain: Terrain, offset_us: int, bits: np.uint64) -> tuple[int, int]:
    """A location as they are distributed at a time, in microdegrees."""
    pick = float(bits >> np.uint64(11)) / (1 << 53)
    first = mix(bits)
    for row in range(len(terrain.hot)):
        share = hot_share(terrain.hot[row], offset_us)
        if pick < share:
            return in_square(terrain.hot[row], offset_us, first, terrain.normal)
        pick -= share
    second = mix(first)
    third = mix(second)
    city = np.searchsorted(terrain.bounds, np.int64(third >> np.uint64(40)), side="right")
    deviation = OUTSKIRTS_DEG if below(100, third) < OUTSKIRTS else CORE_DEG
    x = folded(terrain.centres[0, city] + deviation * normal_draw(first), MIN_X, MAX_X)
    y = folded(terrain.centres[1, city] + deviation * normal_draw(second), MIN_Y, MAX_Y)
    return int(np.rint(x * MICRODEGREES)), int(np.rint(y * MICRODEGREES))
