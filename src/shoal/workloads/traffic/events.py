"""Vehicle reports of the `traffic` workload: any range of events, always the same.

An event is a function of its index alone, so a source can be split, replayed and resumed at any index.
The profiles: W1 constant load, W2 the same load moving on from region to region, W3 rush hour.
"""

from dataclasses import dataclass
from functools import lru_cache
from math import gcd, isfinite
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from shoal.errors import ConfigError
from shoal.kernels.compiled import compiled
from shoal.workloads.limits import SEED, START_US, check_limits, check_slice
from shoal.workloads.scatter import mix

Profile = Literal["W1", "W2", "W3"]
Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

MICROSECONDS = 1_000_000
LIMITS = {
    "vehicles": (1, 2**31),
    "regions": (1, 100_000),
    "seed": SEED,
    "steps_per_s": (1, 1000),
    "ratio": (0, 1_000_000),
    "disorder_s": (0, 3600),
    "start_us": START_US,
    "period_s": (1, 86_400),
    "step_s": (1, 86_400),
    "shift": (0, 10_000),
}
FRACTIONAL = ("ratio", "disorder_s")

VEHICLE_TYPES = ("car", "truck", "bus", "taxi")  # no array: PyArrow imports pandas for the first one
TYPE_OF_PERCENT = np.repeat(np.arange(4, dtype=np.int8), [70, 15, 10, 5])
FREE_SPEED_KMH = np.array([55.0, 42.0, 35.0, 50.0])
RUSH_BASE = 0.4  # share of the vehicles on the road outside the rush hour
RUSH_WIDTH = 0.35  # half-width of the peak: of the period in time, of the city in space
SCHEMA = pa.schema(
    {
        "ts": pa.timestamp("us"),
        "vehicle": pa.int64(),
        "region": pa.int64(),
        "vehicle_type": pa.dictionary(pa.int8(), pa.string()),
        "speed": pa.float64(),
    }
)


@dataclass(frozen=True)
class TrafficEvents:
    """The endless stream in which every vehicle on the road reports once per step.

    The profile decides which vehicle is where and when; the seed decides types, speeds and disorder.
    Reports of a step are spread evenly over it, neighbours in time coming from distant regions.
    With `disorder_s`, an event's time is up to that much earlier than its position in the stream, never later;
    so the first events may be older than `start_us`.

    >>> events = TrafficEvents("W1", vehicles=1000, regions=4)
    >>> events.counts(0).tolist()
    [193, 231, 269, 307]
    >>> events.batch(0, 4)["region"].to_pylist()
    [0, 2, 1, 3]
    """

    profile: Profile = "W1"
    vehicles: int = 300_000  # in W3 the number at the peak
    regions: int = 100
    seed: int = 0
    steps_per_s: int = 1
    ratio: float = 0.2  # region k has 1 + k * ratio times the vehicles of region 0 (W1, W2)
    disorder_s: float = 0.0
    start_us: int = 1_704_067_200_000_000  # 2024-01-01T00:00:00Z
    period_s: int = 600  # from one rush hour to the next (W3)
    step_s: int = 1  # from one shift of the load to the next (W2)
    shift: int = 1  # regions by which it moves each time (W2)

    def __post_init__(self) -> None:
        """Reject settings beyond their limits."""
        if self.profile not in get_args(Profile):
            choices = ", ".join(get_args(Profile))
            raise ConfigError(f"traffic profile must be one of {choices}; got {self.profile!r}")
        check_limits("traffic", self, LIMITS, FRACTIONAL)

    @staticmethod
    def schema() -> pa.Schema:
        """Columns of every batch.

        >>> TrafficEvents.schema().names
        ['ts', 'vehicle', 'region', 'vehicle_type', 'speed']
        """
        return SCHEMA

    def batch(self, start: int, stop: int) -> pa.RecordBatch:
        """Events number `start` to `stop` - 1; a pure function of its arguments.

        >>> events = TrafficEvents("W3", vehicles=500)
        >>> events.batch(10_000, 10_064).slice(60) == events.batch(10_060, 10_064)
        True
        """
        check_slice("traffic", start, stop)
        columns = _Columns.of_size(stop - start)
        clock = (self.start_us, round(self.disorder_s * MICROSECONDS), self._drift, self.step_s)
        # Plain tuples: Numba's disk cache stores the module of a named tuple, and fails if that module is renamed.
        _fill(tuple(columns), start, np.uint64(self.seed), clock, tuple(_timetable(self)))
        return columns.to_arrow()

    def counts(self, step: int) -> Ints:
        """Vehicles in each region during a step.

        >>> [TrafficEvents("W2", 1000, regions=3).counts(step).tolist() for step in (0, 1)]
        [[278, 334, 388], [388, 278, 334]]
        >>> [TrafficEvents("W2", 1000, regions=3, step_s=2).counts(step).tolist() for step in (1, 2)]
        [[278, 334, 388], [388, 278, 334]]
        """
        last, second = _timetable(self).last, step // self.steps_per_s
        return np.roll(np.diff(last[second % len(last)], prepend=0), second // self.step_s * self._drift)

    def index_at(self, seconds: float) -> int:
        """The number of events before this offset of event time from the start, disorder aside.

        >>> TrafficEvents(vehicles=1000, steps_per_s=2).index_at(1.5)
        3000
        """
        if not isfinite(seconds):
            raise ConfigError(f"traffic offset must be a finite number of seconds; got {seconds!r}")
        starts = _timetable(self).starts.tolist()
        whole, part_us = divmod(max(0, round(seconds * MICROSECONDS)), MICROSECONDS)
        cycle, row = divmod(whole, len(starts) - 1)
        rounded_up = -(-part_us * (starts[row + 1] - starts[row]) // MICROSECONDS)
        return int(cycle * starts[-1] + starts[row] + rounded_up)

    def seconds_at(self, index: int) -> float:
        """The offset of event time of an event from the start, disorder aside.

        >>> TrafficEvents(vehicles=1000, steps_per_s=2).seconds_at(3000)
        1.5
        """
        starts = _timetable(self).starts
        cycle, within = divmod(index, int(starts[-1]))
        row = int(np.searchsorted(starts, within, side="right")) - 1
        rate, first = int(starts[row + 1] - starts[row]), int(starts[row])
        return cycle * (len(starts) - 1) + row + (within - first) * MICROSECONDS // rate / MICROSECONDS

    def counted(self, start: int, stop: int, column: str) -> tuple[Ints, Ints] | None:
        """The regions, and the events number `start` to `stop` - 1 of each; None for any other column.

        >>> events = TrafficEvents("W2", vehicles=1000, regions=4, steps_per_s=2)
        >>> events.counted(0, 2000, "region")[1].tolist() == (2 * events.counts(0)).tolist()
        True
        """
        check_slice("traffic", start, stop)
        if column != "region":
            return None
        numbers = np.zeros(self.regions, np.int64)
        table = _timetable(self)
        _count(numbers, start, stop, (self._drift, self.step_s), tuple(table[:3]))
        return np.arange(self.regions), numbers

    @property
    def _drift(self) -> int:
        """The number of regions by which every vehicle moves each time."""
        return self.shift if self.profile == "W2" else 0


class _Timetable(NamedTuple):
    """The vehicles on the road and their regions, one row per second of a period that repeats forever.

    Vehicles are numbered region by region; `stride` is the step from one reporting vehicle to the next.
    """

    starts: Ints  # [second]: events before it; at the end, events per period
    last: Ints  # [second, region]: vehicles in this region and all before it
    stride: Ints  # [second]
    slowdown: Floats  # [second, region]: speed as a share of free speed


class _Columns(NamedTuple):
    """The columns of a batch that is being filled."""

    ts: Ints
    vehicle: Ints
    region: Ints
    vehicle_type: npt.NDArray[np.int8]
    speed: Floats

    @classmethod
    def of_size(cls, size: int) -> "_Columns":
        ts, vehicle, region = (np.empty(size, np.int64) for _ in range(3))
        return cls(ts, vehicle, region, np.empty(size, np.int8), np.empty(size, np.float64))

    def to_arrow(self) -> pa.RecordBatch:
        ts = pa.array(self.ts).view(pa.timestamp("us"))
        types = pa.DictionaryArray.from_arrays(self.vehicle_type, pa.array(VEHICLE_TYPES))
        columns = [ts, pa.array(self.vehicle), pa.array(self.region), types, pa.array(self.speed)]
        return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


@lru_cache(maxsize=16)
def _timetable(city: TrafficEvents) -> _Timetable:
    """Lay out one period: a single second for W1 and W2, `period_s` seconds for W3."""
    if city.profile == "W3":
        counts = np.array([_rush_hour(city, second / city.period_s) for second in range(city.period_s)])
    else:
        counts = _share_out(city.vehicles, 1 + np.arange(city.regions, dtype=np.float64) * city.ratio)[None]
    totals = counts.sum(axis=1)
    crowding = counts * city.regions / city.vehicles
    return _Timetable(
        starts=np.concatenate([[0], np.cumsum(totals * city.steps_per_s)]),
        last=np.cumsum(counts, axis=1),
        stride=np.array([_stride(int(total)) for total in totals]),
        slowdown=1 / (1 + 0.15 * np.square(np.square(crowding))),  # the BPR curve of traffic engineering
    )


def _rush_hour(city: TrafficEvents, phase: float) -> Ints:
    """Count vehicles at a phase of the period: most half-way, the crowd crossing the city once."""
    total = city.vehicles * (RUSH_BASE + (1 - RUSH_BASE) * float(_bell(np.array(phase - 0.5))))
    distance = np.arange(city.regions) / city.regions - phase
    distance -= np.rint(distance)  # the city is a ring, so one period ends where the next begins
    return _share_out(max(1, round(total)), 0.25 + _bell(distance))


def _bell(x: Floats) -> Floats:
    """Give a bell of height 1 and half-width RUSH_WIDTH, without functions that round by platform."""
    height: Floats = np.maximum(0.0, 1 - np.square(x / RUSH_WIDTH))
    return height * height


def _share_out(total: int, weights: Floats) -> Ints:
    """Split `total` in proportion to the weights; vehicles left by rounding down go round-robin."""
    counts: Ints = np.floor(total / weights.sum() * weights).astype(np.int64)
    everyone, some = divmod(total - int(counts.sum()), len(counts))
    counts += everyone
    counts[:some] += 1
    return counts


def _stride(vehicles: int) -> int:
    """Find a step near the golden section that visits every vehicle once before it repeats."""
    stride = max(1, round(vehicles * 0.618))
    while gcd(stride, vehicles) > 1:
        stride += 1
    return stride


@compiled
def _random(stream: np.uint64, number: int) -> np.uint64:
    """Give the random bits with this number in this stream."""
    return mix(mix(stream) ^ np.uint64(number))


@compiled
def _below(bound: int, bits: np.uint64) -> np.int64:
    """Turn the upper half of the bits into a whole number from 0 to bound - 1."""
    return np.int64(((bits >> np.uint64(32)) * np.uint64(bound)) >> np.uint64(32))


@compiled
def _speed(expected_kmh: float, bits: np.uint64) -> float:
    """Turn the lower half of the bits into a speed, triangular from 0 to 2.2 times the expected one."""
    spread = float((bits & np.uint64(0xFFFF)) + ((bits >> np.uint64(16)) & np.uint64(0xFFFF))) / 65536
    return float(np.rint(100 * expected_kmh * max(0.0, 1.2 * spread - 0.2))) / 100


@compiled
def _fill(columns: Any, start: int, seed: np.uint64, clock: Any, timetable: Any) -> None:
    """Fill the columns with the events from number `start` on, second by second."""
    ts, vehicle, region, vehicle_type, speed = columns
    start_us, disorder_us, drift, step_s = clock
    starts, last, stride, slowdown = timetable
    events, drivers = seed << np.uint64(1), seed << np.uint64(1) | np.uint64(1)
    cycle, index = divmod(start, starts[-1])
    row = np.searchsorted(starts, index, side="right") - 1
    second, first, done = cycle * len(last) + row, start - index + starts[row], 0
    while done < len(ts):
        row = second % len(last)
        rate, road = starts[row + 1] - starts[row], last[row, -1]
        stop = min(len(ts), first + rate - start)
        car = (start + done - first) % road * stride[row] % road
        moved = drift * (second // step_s)
        for n in range(done, stop):
            bits = _random(events, start + n)
            home = np.searchsorted(last[row], car, side="right")
            offset_us = (start + n - first) * MICROSECONDS // rate - _below(disorder_us + 1, bits)
            ts[n] = start_us + second * MICROSECONDS + offset_us
            vehicle[n] = car
            region[n] = (home + moved) % last.shape[1]
            vehicle_type[n] = TYPE_OF_PERCENT[_below(100, _random(drivers, car))]
            speed[n] = _speed(FREE_SPEED_KMH[vehicle_type[n]] * slowdown[row, home], bits)
            car = (car + stride[row]) % road
        second, first, done = second + 1, first + rate, stop


@compiled
def _count(numbers: Ints, start: int, stop: int, clock: Any, timetable: Any) -> None:
    """Add up the events of every region from number `start` to `stop` - 1, second by second."""
    drift, step_s = clock
    starts, last, stride = timetable
    cycle, index = divmod(start, starts[-1])
    row = np.searchsorted(starts, index, side="right") - 1
    second, first = cycle * len(last) + row, start - index + starts[row]
    while first < stop:
        row = second % len(last)
        rate, road = starts[row + 1] - starts[row], last[row, -1]
        begin, end = max(start, first) - first, min(stop, first + rate) - first
        moved = drift * (second // step_s)
        before = 0
        for home in range(last.shape[1]):
            bound = last[row, home]
            up_to = _visits(end, bound, stride[row], road) - _visits(begin, bound, stride[row], road)
            numbers[(home + moved) % last.shape[1]] += up_to - before
            before = up_to
        second, first = second + 1, first + rate


@compiled
def _visits(number: int, bound: int, stride: int, road: int) -> int:
    """How many of the first reports of a second are of vehicles below a bound: `n * stride % road < bound`."""
    rounds, rest = divmod(number, road)
    if bound in (0, road) or rest == 0:
        return int(rounds * bound + (rest if bound == road else 0))
    # floor(x / road) - floor((x - bound) / road) is 1 for x % road < bound, else 0; one road is added to stay positive
    below = _floor_sum(rest, road, stride, road) - _floor_sum(rest, road, stride, road - bound)
    return int(rounds * bound + below)


@compiled
def _floor_sum(number: int, divisor: int, factor: int, offset: int) -> int:
    """The sum of `(factor * n + offset) // divisor` for n from 0 to `number` - 1, as in Euclid's algorithm."""
    total = 0
    while True:
        total += number * (number - 1) // 2 * (factor // divisor) + number * (offset // divisor)
        factor, offset = factor % divisor, offset % divisor
        most = factor * number + offset
        if most < divisor:
            return total
        number, offset = most // divisor, most % divisor
        factor, divisor = divisor, factor
