"""Points of the `geo-pubsub` workload: messages from places, most of them in cities and in hotspots.

A point is a function of its index alone, so a source can be split, replayed and resumed at any index.
"""

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from shoal.kernels.compiled import compiled
from shoal.workloads.geo_pubsub.hotspots import Heat
from shoal.workloads.geo_pubsub.locations import MICRODEGREES, Terrain, located
from shoal.workloads.limits import PER_S, SEED, START_US, check_limits, check_slice
from shoal.workloads.scatter import below, mix

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

MICROSECONDS = 1_000_000
START = 1_704_067_200_000_000
"""2024-01-01T00:00:00Z, the time of the first point."""
VALUES = 100
"""Values of points are whole numbers below this."""
SCHEMA = pa.schema(
    {"ts": pa.timestamp("us"), "point": pa.int64(), "x": pa.float64(), "y": pa.float64(), "value": pa.int64()}
)
LIMITS = {"per_s": PER_S, "seed": SEED, "start_us": START_US}


@dataclass(frozen=True)
class GeoPoints:
    """An endless stream of points, `per_s` for every second of event time; x is a longitude, y a latitude.

    >>> points = GeoPoints(seed=1)
    >>> points.batch(0, 1).drop_columns(["ts"]).to_pylist()
    [{'point': 0, 'x': -87.806969, 'y': 42.193911, 'value': 52}]
    >>> points.batch(5, 9) == points.batch(0, 9).slice(5)
    True
    """

    heat: Heat = field(default_factory=Heat)
    per_s: int = 10_000
    seed: int = 0
    start_us: int = START

    def __post_init__(self) -> None:
        """Reject settings beyond their limits."""
        check_limits("geo-pubsub", self, LIMITS)

    @staticmethod
    def schema() -> pa.Schema:
        """Columns of every batch; `point` is the number of the point.

        >>> GeoPoints.schema().names
        ['ts', 'point', 'x', 'y', 'value']
        """
        return SCHEMA

    def batch(self, start: int, stop: int) -> pa.RecordBatch:
        """Points number `start` to `stop` - 1; a pure function of its arguments."""
        ts, *others = (pa.array(column) for column in self.columns(start, stop).values())
        return pa.RecordBatch.from_arrays([ts.view(pa.timestamp("us")), *others], schema=SCHEMA)

    def columns(self, start: int, stop: int) -> dict[str, npt.NDArray[np.generic]]:
        """The same points as plain arrays, times in microseconds."""
        check_slice("geo-pubsub", start, stop)
        numbers, degrees = np.empty((3, stop - start), np.int64), np.empty((2, stop - start))
        _fill(numbers, degrees, start, np.uint64(self.seed), self.start_us, self.per_s, self._terrain)
        ts, point, value = numbers
        x, y = degrees
        return {"ts": ts, "point": point, "x": x, "y": y, "value": value}

    def index_at(self, seconds: float) -> int:
        """The number of points before this offset of event time from the start."""
        return -(-max(0, round(seconds * MICROSECONDS)) * self.per_s // MICROSECONDS)

    def seconds_at(self, index: int) -> float:
        """The offset of event time of a point from the start.

        >>> GeoPoints(per_s=100).seconds_at(150), GeoPoints(per_s=100).index_at(1.5)
        (1.5, 150)
        """
        return index * MICROSECONDS // self.per_s / MICROSECONDS

    @cached_property
    def _terrain(self) -> Terrain:
        return Terrain.of(self.heat)


@compiled
def _fill(
    numbers: Ints, degrees: Floats, start: int, seed: np.uint64, start_us: int, per_s: int, terrain: Terrain
) -> None:
    """Fill the columns with the points from number `start` on."""
    ts, point, value = numbers
    stream = mix(seed)
    for n in range(numbers.shape[1]):
        index = start + n
        bits = mix(stream ^ np.uint64(index))
        offset_us = index * MICROSECONDS // per_s
        x, y = located(terrain, offset_us, bits)
        ts[n], point[n], value[n] = start_us + offset_us, index, below(VALUES, mix(~bits))
        degrees[0, n], degrees[1, n] = x / MICRODEGREES, y / MICRODEGREES
