"""Taxi trips of the `nyt` workload, made to look like New York's: vendors, distances, areas, fares, passengers.

An event is a function of its index alone, so a source can be split, replayed and resumed at any index.
Columns are independent of each other, except for the fare, which follows the distance.
"""

from dataclasses import dataclass
from math import exp
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from shoal.kernels.columns.block import Column, as_arrow
from shoal.kernels.compiled import compiled
from shoal.workloads.limits import PER_S, SEED, START_US, check_limits, check_slice
from shoal.workloads.scatter import mix

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

MICROSECONDS = 1_000_000
MICRODEGREES = 1_000_000
VENDOR_NAMES = pa.array(["CMT", "VTS"])
COORDINATES = ("pickup_latitude", "pickup_longitude", "dropoff_latitude", "dropoff_longitude")
SCHEMA = pa.schema(
    {
        "ts": pa.timestamp("us"),
        "vendor": pa.dictionary(pa.int8(), pa.string()),
        "distance": pa.float64(),
        **dict.fromkeys(COORDINATES, pa.float64()),
        "fare": pa.float64(),
        "passengers": pa.int64(),
    }
)
LIMITS = {"per_s": PER_S, "seed": SEED, "start_us": START_US}

SPREAD = 0.85
MEDIAN_LOG = -SPREAD * NormalDist().inv_cdf(0.25)  # so that a quarter of the trips is at most a mile long
QUANTILES = 4096
# In hundredths of a mile, as meters print them; so it does not matter how a platform rounds the logarithm.
DISTANCES = np.array(
    [
        round(exp(NormalDist(MEDIAN_LOG, SPREAD).inv_cdf((quantile + 0.5) / QUANTILES)), 2)
        for quantile in range(QUANTILES)
    ]
)
PASSENGERS_OF_PERCENT = np.repeat(np.arange(1, 7), [70, 14, 4, 2, 6, 4])
INVALID_PER_MILLE = 20


class Area(NamedTuple):
    """An area where trips begin and end: its centre, its reach in degrees, and its share in percent."""

    latitude: float
    longitude: float
    around: float
    percent: int


AREAS = (
    Area(40.7555, -73.9845, 0.012, 26),  # Midtown
    Area(40.7330, -73.9960, 0.011, 18),  # the Village
    Area(40.7740, -73.9580, 0.012, 15),  # Upper East Side
    Area(40.7870, -73.9750, 0.011, 10),  # Upper West Side
    Area(40.7130, -74.0080, 0.009, 9),  # Downtown
    Area(40.6900, -73.9800, 0.025, 5),  # Brooklyn
    Area(40.7700, -73.8720, 0.005, 5),  # La Guardia
    Area(40.6450, -73.7850, 0.008, 4),  # Kennedy
    Area(40.7400, -73.9300, 0.120, 8),  # anywhere in the city
)
AREA_OF_PERCENT = np.repeat(np.arange(len(AREAS)), [area.percent for area in AREAS])
# Latitude, longitude and reach of the area of each percent, in whole microdegrees.
CENTRES = np.rint(np.array([area[:3] for area in AREAS]) * MICRODEGREES).astype(np.int64)[AREA_OF_PERCENT]


@dataclass(frozen=True)
class NytEvents:
    """An endless stream of trips in the order of their ends, `per_s` for every second of event time.

    Of a thousand trips 20 have a coordinate that is missing (0, 0) or far outside of the city.

    >>> events = NytEvents()
    >>> events.batch(0, 4)["vendor"].to_pylist()
    ['VTS', 'CMT', 'VTS', 'VTS']
    >>> events.batch(2, 4) == events.batch(0, 4).slice(2)
    True
    """

    per_s: int = 1_000_000
    seed: int = 0
    start_us: int = 1_704_067_200_000_000  # 2024-01-01T00:00:00Z

    def __post_init__(self) -> None:
        """Reject settings beyond their limits."""
        check_limits("nyt", self, LIMITS)

    @property
    def concurrent(self) -> bool:
        """Threads may make events at the same time: nothing is kept between calls."""
        return True

    @staticmethod
    def schema() -> pa.Schema:
        """Columns of every batch.

        >>> NytEvents.schema().names[:4]
        ['ts', 'vendor', 'distance', 'pickup_latitude']
        """
        return SCHEMA

    def batch(self, start: int, stop: int) -> pa.RecordBatch:
        """Events number `start` to `stop` - 1; a pure function of its arguments."""
        columns = self.columns(start, stop)
        arrays = [as_arrow(columns[field.name], field.type) for field in SCHEMA]
        return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)

    def columns(self, start: int, stop: int) -> dict[str, Column]:
        """The same events as plain arrays, times in microseconds, vendors as a dictionary."""
        check_slice("nyt", start, stop)
        size = stop - start
        ts, passengers = np.empty(size, np.int64), np.empty(size, np.int64)
        vendor, amounts = np.empty(size, np.int8), np.empty((2 + len(COORDINATES), size))
        _fill((ts, vendor, passengers, amounts), start, np.uint64(self.seed), self.per_s, self.start_us)
        distance, fare, *coordinates = amounts
        return {
            "ts": ts,
            "vendor": pa.DictionaryArray.from_arrays(vendor, VENDOR_NAMES),
            "distance": distance,
            **dict(zip(COORDINATES, coordinates, strict=True)),
            "fare": fare,
            "passengers": passengers,
        }


@compiled
def _below(bound: int, bits: np.uint64) -> np.int64:
    """Turn the lower 16 bits into a whole number from 0 to bound - 1."""
    return np.int64(((bits & np.uint64(0xFFFF)) * np.uint64(bound)) >> np.uint64(16))


@compiled
def _near(centre: int, around: int, bits: np.uint64) -> float:
    """Turn the lower 32 bits into degrees, most often the centre and triangular around it."""
    steps = np.int64(bits & np.uint64(0xFFFF)) - np.int64((bits >> np.uint64(16)) & np.uint64(0xFFFF))
    return float(centre + ((steps * around) >> 16)) / MICRODEGREES


@compiled
def _spoil(coordinates: Floats, n: int, kind: int) -> None:
    """Make the coordinates of a trip invalid in one of the ways that occur."""
    if kind == 0:  # no reception at all
        coordinates[:, n] = 0.0
    elif kind == 1:  # none when the trip began
        coordinates[:2, n] = 0.0
    elif kind == 2:  # ended north of the city's surroundings, in Albany
        coordinates[2, n] += 1.9
    else:  # began west of them, in Pennsylvania
        coordinates[1, n] -= 2.3


@compiled
def _fill(columns: Any, start: int, seed: np.uint64, per_s: int, start_us: int) -> None:
    """Fill the columns with the trips from number `start` on."""
    ts, vendor, passengers, amounts = columns
    distance, fare, coordinates = amounts[0], amounts[1], amounts[2:]
    stream = mix(seed)
    for n in range(len(ts)):
        first = mix(stream ^ np.uint64(start + n))
        spatial = mix(first)
        ts[n] = start_us + (start + n) * MICROSECONDS // per_s
        vendor[n] = np.int8(first >> np.uint64(63))
        distance[n] = DISTANCES[first & np.uint64(QUANTILES - 1)]
        passengers[n] = PASSENGERS_OF_PERCENT[_below(100, first >> np.uint64(12))]
        # By the mile and by the half dollar, waiting included.
        fare[n] = 2.5 + np.rint(2 * distance[n] * (2.2 + float((first >> np.uint64(28)) & np.uint64(255)) / 256)) / 2
        for end in range(2):
            latitude, longitude, around = CENTRES[_below(100, spatial >> np.uint64(16 * end))]
            bits = mix(spatial + np.uint64(1 + end))
            coordinates[2 * end, n] = _near(latitude, around, bits)
            coordinates[2 * end + 1, n] = _near(longitude, around, bits >> np.uint64(32))
        if _below(1000, spatial >> np.uint64(32)) < INVALID_PER_MILLE:
            _spoil(coordinates, n, int(_below(4, spatial >> np.uint64(48))))
