"""Trips of the `bikes` workload, in the shape of the Citi Bike data: who rode which bike from where to where.

An event is a function of its index alone, so a source can be split, replayed and resumed at any index: every bike
makes one trip per round, so that the end of its last trip is computed without the events before.
"""

from dataclasses import dataclass
from math import gcd

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from shoal.kernels.compiled import compiled
from shoal.workloads.limits import SEED, START_US, check_limits, check_slice
from shoal.workloads.scatter import below, mix

Ints = npt.NDArray[np.int64]

MICROSECONDS = 1_000_000
DAY_US = 86_400 * MICROSECONDS
STATION = 3116
"""The station whose arrivals the query matches; the others are numbered on both sides of it, in steps of 3."""
STATION_PERCENT = 2
"""Percent of trips that end there whatever its popularity; in all it gets a few percent."""
MOVED_PERCENT = 5
"""Trips before which a van has taken the bike to another station."""
CUSTOMER_PERCENT = 12
SHORTEST_S = 61
FIRST_BIKE = 14_529
USER_TYPES = ("Subscriber", "Customer")
SCHEMA = pa.schema(
    {
        "ts": pa.timestamp("us"),
        "bikeid": pa.int64(),
        "start_station_id": pa.int64(),
        "end_station_id": pa.int64(),
        "duration": pa.int64(),
        "user_type": pa.dictionary(pa.int8(), pa.string()),
    }
)
LIMITS = {
    "bikes": (1, 1_000_000),
    "stations": (1, 2000),
    "per_day": (1, 100_000_000),
    "seed": SEED,
    "start_us": START_US,
}


@dataclass(frozen=True)
class BikesEvents:
    """An endless stream of bike trips in the order in which they end, `per_day` for every day of event time.

    `ts` is the end of the trip and `duration` its seconds. A bike starts where its last trip ended, unless a van
    has moved it, and not before it ended. Stations differ widely in popularity.

    >>> events = BikesEvents()
    >>> events.batch(0, 1).drop_columns(["ts", "user_type"]).to_pylist()
    [{'bikeid': 17155, 'start_station_id': 3269, 'end_station_id': 3563, 'duration': 611}]
    >>> events.batch(5, 9) == events.batch(0, 9).slice(5)
    True
    """

    bikes: int = 5000
    stations: int = 800
    per_day: int = 40_000
    seed: int = 0
    start_us: int = 1_538_352_000_000_000  # 2018-10-01T00:00:00Z

    def __post_init__(self) -> None:
        """Reject settings beyond their limits."""
        check_limits("bikes", self, LIMITS)

    @staticmethod
    def schema() -> pa.Schema:
        """Columns of every batch.

        >>> BikesEvents.schema().names
        ['ts', 'bikeid', 'start_station_id', 'end_station_id', 'duration', 'user_type']
        """
        return SCHEMA

    def batch(self, start: int, stop: int) -> pa.RecordBatch:
        """Events number `start` to `stop` - 1; a pure function of its arguments."""
        check_slice("bikes", start, stop)
        columns = np.empty((len(SCHEMA), stop - start), np.int64)
        clock = (self.start_us, self.per_day)
        _fill(columns, start, np.uint64(self.seed), (self.bikes, self.stations, _stride(self.bikes)), clock)
        user_type = pa.DictionaryArray.from_arrays(columns[-1].astype(np.int8), pa.array(USER_TYPES))
        numbers = [pa.array(column).view(field.type) for column, field in zip(columns[:-1], SCHEMA, strict=False)]
        return pa.RecordBatch.from_arrays([*numbers, user_type], schema=SCHEMA)


def _stride(bikes: int) -> int:
    """Find a step near the golden section that visits every bike once before it repeats."""
    stride = max(1, round(bikes * 0.618))
    while gcd(stride, bikes) > 1:
        stride += 1
    return stride


@compiled
def _skewed(bound: int, bits: np.uint64) -> int:
    """Give a whole number from 0 to bound - 1, a small one more often: a product of two random shares of it."""
    return below(1 + below(bound, bits), bits >> np.uint64(32))


@compiled
def _station(stations: int, bits: np.uint64) -> int:
    """Choose a station by its popularity."""
    if below(100, bits) < STATION_PERCENT:
        return STATION
    rank = _skewed(stations, mix(bits))
    steps = 3 * ((rank + 1) // 2)
    return STATION + steps if rank % 2 else STATION - steps


@compiled
def _ends_us(index: int, per_day: int) -> int:
    """When trip number `index` ends, from the start of the stream."""
    return index // per_day * DAY_US + index % per_day * DAY_US // per_day


@compiled
def _fill(columns: Ints, start: int, seed: np.uint64, city: tuple[int, int, int], clock: tuple[int, int]) -> None:
    """Fill the columns with the events from number `start` on."""
    ts, bikeid, start_station_id, end_station_id, duration, user_type = columns
    (bikes, stations, stride), (start_us, per_day) = city, clock
    stream = mix(seed)
    for n in range(columns.shape[1]):
        index = start + n
        turn, rank = divmod(index, bikes)
        # Rounds begin with different bikes, so that a bike's trips come at different distances.
        shift = below(bikes, mix(~stream ^ np.uint64(turn)))
        bike = (rank + shift) * stride % bikes
        bits = mix(stream ^ np.uint64(turn * bikes + bike))
        other = mix(~bits)
        ts[n] = start_us + _ends_us(index, per_day)
        bikeid[n] = FIRST_BIKE + bike
        end_station_id[n] = _station(stations, bits)
        duration[n] = SHORTEST_S + _skewed(3600, other)
        user_type[n] = below(100, bits >> np.uint64(32)) < CUSTOMER_PERCENT
        if turn == 0 or below(100, mix(other)) < MOVED_PERCENT:
            start_station_id[n] = _station(stations, other)
        else:
            start_station_id[n] = _station(stations, mix(stream ^ np.uint64((turn - 1) * bikes + bike)))
        if turn > 0:
            rank_before = (rank + shift - below(bikes, mix(~stream ^ np.uint64(turn - 1)))) % bikes
            free_us = _ends_us(index, per_day) - _ends_us((turn - 1) * bikes + rank_before, per_day)
            duration[n] = min(duration[n], free_us // MICROSECONDS)
