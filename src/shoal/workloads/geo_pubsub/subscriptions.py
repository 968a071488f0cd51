"""Subscriptions of the `geo-pubsub` workload: rectangles that are there from the start, and how they change.

A change inserts, updates or deletes a subscription. It is a function of its index alone, so a source can be split,
replayed and resumed at any index. The oldest subscription is deleted first, and any that is alive may be updated.
"""

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from shoal.kernels.compiled import compiled
from shoal.workloads.geo_pubsub.change_times import ChangeTimes
from shoal.workloads.geo_pubsub.cities import SPACE
from shoal.workloads.geo_pubsub.hotspots import Heat
from shoal.workloads.geo_pubsub.locations import MICRODEGREES, Terrain, in_square, located
from shoal.workloads.geo_pubsub.points import START, VALUES
from shoal.workloads.limits import SEED, START_US, check_limits, check_slice
from shoal.workloads.scatter import below, mix

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

MICROSECONDS = 1_000_000
FIRST_HOT = 1 << 40
"""Subscriptions of hotspots are numbered from here on."""
ACTIONS = ("insert", "update", "delete")
INSERT, UPDATE, DELETE = range(3)
BOX = ("min_x", "min_y", "max_x", "max_y")
SCHEMA = pa.schema(
    {
        "ts": pa.timestamp("us"),
        "subscription": pa.int64(),
        "action": pa.dictionary(pa.int8(), pa.string()),
        **dict.fromkeys(BOX, pa.float64()),
        "least": pa.int64(),
    }
)
LIMITS = {"subscriptions": (1, 1 << 31), "side": (0, 1), "seed": SEED, "start_us": START_US}
CHANGE_LIMITS = {**LIMITS, "churn": (0, MICROSECONDS), "hot_subscriptions": (0, 1 << 24)}


@dataclass(frozen=True)
class Subscriptions:
    """The subscriptions that are there from the start: squares of the space around points of its distribution.

    `side` is a share of the side of the space. A subscription wants points whose value is `least` or more.

    >>> first = Subscriptions(seed=1).batch(0, 1).to_pylist()[0]
    >>> round(first["max_x"] - first["min_x"], 6), round(first["max_y"] - first["min_y"], 6)
    (0.0944, 0.0416)
    """

    heat: Heat = field(default_factory=Heat)
    subscriptions: int = 20_000
    side: float = 0.0016
    seed: int = 0
    start_us: int = START

    def __post_init__(self) -> None:
        """Reject settings beyond their limits."""
        check_limits("geo-pubsub", self, LIMITS, ["side"])

    def batch(self, start: int, stop: int) -> pa.RecordBatch:
        """Subscriptions number `start` to `stop` - 1; a pure function of its arguments."""
        check_slice("geo-pubsub", start, stop)
        numbers, boxes = np.empty((3, stop - start), np.int64), np.empty((4, stop - start))
        _fill_first(numbers, boxes, start, np.uint64(self.seed), self.start_us, half_sides(self.side), self._terrain)
        return _batch(numbers, boxes, np.full(stop - start, INSERT, np.int8))

    def index_at(self, seconds: float) -> int:
        """The number of subscriptions before this offset of event time: all of them are there at once."""
        return self.subscriptions if seconds > 0 else 0

    def seconds_at(self, index: int) -> float:  # noqa: ARG002  (of the protocol)
        """The offset of event time of a subscription from the start."""
        return 0.0

    @cached_property
    def _terrain(self) -> Terrain:
        return Terrain.of(self.heat)


@dataclass(frozen=True)
class SubscriptionChanges:
    """Changes of subscriptions: `churn` a second, and `hot_subscriptions` that come and go with every hotspot.

    Of four steady changes, one inserts, one deletes and two update. The rectangle of a deletion says nothing.

    >>> changes = SubscriptionChanges(subscriptions=3, churn=4, seed=1)
    >>> changes.batch(0, 4).select(["subscription", "action"]).to_pydict()
    {'subscription': [3, 1, 0, 3], 'action': ['insert', 'update', 'delete', 'update']}
    >>> changes.batch(5, 9) == changes.batch(0, 9).slice(5)
    True
    """

    heat: Heat = field(default_factory=Heat)
    subscriptions: int = 20_000
    churn: int = 100
    hot_subscriptions: int = 0
    side: float = 0.0016
    seed: int = 0
    start_us: int = START

    def __post_init__(self) -> None:
        """Reject settings beyond their limits, and changes that come too fast."""
        check_limits("geo-pubsub", self, CHANGE_LIMITS, ["side"])
        _ = self.times

    @cached_property
    def times(self) -> ChangeTimes:
        """When the changes come."""
        return ChangeTimes(self.heat, self.churn, self.hot_subscriptions)

    def batch(self, start: int, stop: int) -> pa.RecordBatch:
        """Changes number `start` to `stop` - 1; a pure function of its arguments."""
        check_slice("geo-pubsub", start, stop)
        if stop > start:
            self.times.offset_us(stop - 1)
        numbers, boxes = np.empty((3, stop - start), np.int64), np.empty((4, stop - start))
        action = np.empty(stop - start, np.int8)
        counts = (self.start_us, self.subscriptions, self.hot_subscriptions)
        seed = np.uint64(self.seed)
        _fill_changes(numbers, boxes, action, start, seed, counts, half_sides(self.side), self._table, self._terrain)
        return _batch(numbers, boxes, action)

    def index_at(self, seconds: float) -> int:
        """The number of changes before this offset of event time from the start."""
        return self.times.before(round(seconds * MICROSECONDS))

    def seconds_at(self, index: int) -> float:
        """The offset of event time of a change from the start."""
        return self.times.offset_us(index) / MICROSECONDS

    @cached_property
    def _terrain(self) -> Terrain:
        return Terrain.of(self.heat)

    @cached_property
    def _table(self) -> Ints:
        return self.times.table()


def half_sides(side: float) -> tuple[int, int]:
    """Half of the sides of a subscription, in microdegrees.

    >>> half_sides(0.0016)
    (47200, 20800)
    """
    min_x, min_y, max_x, max_y = SPACE
    return round((max_x - min_x) * side / 2 * MICRODEGREES), round((max_y - min_y) * side / 2 * MICRODEGREES)


def _batch(numbers: Ints, boxes: Floats, action: npt.NDArray[np.int8]) -> pa.RecordBatch:
    ts, subscription, least = (pa.array(column) for column in numbers)
    actions = pa.DictionaryArray.from_arrays(action, pa.array(ACTIONS))
    arrays = [ts.view(pa.timestamp("us")), subscription, actions, *(pa.array(column) for column in boxes), least]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


@compiled
def _put_box(boxes: Floats, n: int, centre: tuple[int, int], half: tuple[int, int]) -> None:
    """Store the rectangle around a centre."""
    boxes[0, n], boxes[1, n] = (centre[0] - half[0]) / MICRODEGREES, (centre[1] - half[1]) / MICRODEGREES
    boxes[2, n], boxes[3, n] = (centre[0] + half[0]) / MICRODEGREES, (centre[1] + half[1]) / MICRODEGREES


@compiled
def _fill_first(
    numbers: Ints, boxes: Floats, start: int, seed: np.uint64, start_us: int, half: tuple[int, int], terrain: Terrain
) -> None:
    """Fill the columns with the subscriptions that are there from the start, from number `start` on."""
    stream = mix(mix(seed) + np.uint64(1))
    for n in range(numbers.shape[1]):
        bits = mix(stream ^ np.uint64(start + n))
        _put_box(boxes, n, located(terrain, 0, bits), half)
        numbers[0, n], numbers[1, n], numbers[2, n] = start_us, start + n, below(VALUES, mix(~bits))


@compiled
def _steady_change(number: int, subscriptions: int, bits: np.uint64) -> tuple[int, int]:
    """The subscription that a steady change is about, and what happens to it."""
    turn, kind = divmod(number, 4)
    if kind == 0:
        return subscriptions + turn, INSERT
    if kind == 2:
        return turn, DELETE
    gone = turn if kind == 1 else turn + 1
    return gone + below(subscriptions + turn + 1 - gone, bits), UPDATE


@compiled
def _fill_changes(
    numbers: Ints,
    boxes: Floats,
    action: npt.NDArray[np.int8],
    start: int,
    seed: np.uint64,
    counts: tuple[int, int, int],
    half: tuple[int, int],
    table: Ints,
    terrain: Terrain,
) -> None:
    """Fill the columns with the changes from number `start` on."""
    ts, subscription, least = numbers
    start_us, subscriptions, hot_each = counts
    stream = mix(mix(seed) + np.uint64(2))
    for n in range(numbers.shape[1]):
        index = start + n
        stretch = table[np.searchsorted(table[:, 0], index, side="right") - 1]
        first, first_steady, begin_us, num, den, hot, bursts = stretch[:7]
        k = index - first
        offset_us = begin_us + (k + 1) * num // den
        bits = mix(stream ^ np.uint64(index))
        hot_before, hot_after = k * hot // den, (k + 1) * hot // den
        if hot_after > hot_before:
            burst = stretch[7 + hot_before % bursts]
            spot = burst // 2
            subscription[n] = FIRST_HOT + spot * hot_each + hot_before // bursts
            action[n] = DELETE if burst % 2 else INSERT
            _put_box(boxes, n, in_square(terrain.hot[spot], offset_us, mix(bits), terrain.normal), half)
        else:
            subscription[n], action[n] = _steady_change(first_steady + k - hot_before, subscriptions, bits)
            _put_box(boxes, n, located(terrain, offset_us, bits), half)
        ts[n], least[n] = start_us + offset_us, below(VALUES, mix(~bits))
