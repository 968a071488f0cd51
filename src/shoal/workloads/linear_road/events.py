"""Events of the `linear_road` workload: vehicles on expressways that report their position every 30 s.

An event is a function of its index alone, so a source can be split, replayed and resumed at any index: a vehicle's
trip has three stretches of constant speed, so that its position at any time is a short sum.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from shoal.kernels.compiled import compiled
from shoal.workloads.limits import SEED, START_US, check_limits, check_slice
from shoal.workloads.scatter import mix

Ints = npt.NDArray[np.int64]

MICROSECONDS = 1_000_000
REPORT = 0
"""The type of a position report; 2, 3 and 4 are requests about accounts, expenses and travel times."""
OTHER_EVERY = 100
"""One event in this many is not a position report."""
ROUND_S = 30
"""Seconds from one report of a vehicle to its next."""
SEGMENTS = 100
SEGMENT_FEET = 5280
ROAD_FEET = SEGMENTS * SEGMENT_FEET
FEET_PER_ROUND = 44
"""How far one mile per hour takes a vehicle in a round."""
EXIT_LANE = 4
NAMES = ("ts", "type", "vid", "speed", "xway", "lane", "dir", "seg", "pos")
SCHEMA = pa.schema([(name, pa.timestamp("us") if name == "ts" else pa.int64()) for name in NAMES])
LIMITS = {
    "expressways": (1, 1000),
    "vehicles": (1, 1_000_000),
    "seed": SEED,
    "start_us": START_US,
}

# Trips, in rounds.
SHORTEST, LONGEST = 20, 40
PLATOON = 4  # neighbouring slots start at the same time in the same direction, so that they can have an accident
JAM_PERCENT = 40  # trips that crawl through a jam
SLOTS_PER_SITE = 1500  # of an expressway, for one site of jams per direction
SITE_ROUNDS = 120  # then jams move to other sites
CRASH_ONE_IN = 60  # trips of a platoon; one to three of its vehicles come to a stop


@dataclass(frozen=True)
class LinearRoadEvents:
    """An endless stream of reports: every one of `vehicles` slots of an expressway reports once in 30 s.

    A slot makes one trip after another, each under a new `vid`; a vehicle reports at the seconds that are
    `vid` modulo 30 from the start. Feet and segments fall in direction 1. Jams crowd a few segments for an
    hour, and vehicles that stop at one position for at least four reports, mostly near a jam, are an accident.
    An event of another type follows a report of its vehicle and has -1 in the columns of a report.

    >>> events = LinearRoadEvents()
    >>> events.batch(0, 1).drop_columns(["ts", "type"]).to_pylist()
    [{'vid': 0, 'speed': 75, 'xway': 0, 'lane': 1, 'dir': 1, 'seg': 88, 'pos': 464933}]
    >>> events.batch(5, 9) == events.batch(0, 9).slice(5)
    True
    """

    expressways: int = 2
    vehicles: int = 3000  # on the road at any time, per expressway
    seed: int = 0
    start_us: int = 1_704_067_200_000_000  # 2024-01-01T00:00:00Z

    def __post_init__(self) -> None:
        """Reject settings beyond their limits."""
        check_limits("linear road", self, LIMITS)

    @property
    def concurrent(self) -> bool:
        """Threads may make events at the same time: nothing is kept between calls."""
        return True

    @staticmethod
    def schema() -> pa.Schema:
        """Columns of every batch.

        >>> LinearRoadEvents.schema().names
        ['ts', 'type', 'vid', 'speed', 'xway', 'lane', 'dir', 'seg', 'pos']
        """
        return SCHEMA

    def batch(self, start: int, stop: int) -> pa.RecordBatch:
        """Events number `start` to `stop` - 1; a pure function of its arguments."""
        columns = self.columns(start, stop).values()
        arrays = [pa.array(column).view(field.type) for column, field in zip(columns, SCHEMA, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)

    def columns(self, start: int, stop: int) -> dict[str, Ints]:
        """The same events as plain arrays, times in microseconds."""
        check_slice("linear road", start, stop)
        columns = tuple(np.empty(stop - start, np.int64) for _ in NAMES)
        _fill(columns, start, np.uint64(self.seed), self.expressways, self.vehicles, self.start_us)
        return dict(zip(NAMES, columns, strict=True))


@compiled
def _below(bound: int, bits: np.uint64, shift: int = 0) -> int:
    """Turn 32 of the bits, the lower ones of those left after a shift, into a whole number from 0 to bound - 1."""
    return int(np.int64((((bits >> np.uint64(shift)) & np.uint64(0xFFFFFFFF)) * np.uint64(bound)) >> np.uint64(32)))


@compiled
def _turn(rank: int, slots: int) -> tuple[int, int]:
    """Second of the round and slot of the report with this rank in it; slot s reports in second s % 30."""
    fewer, seconds_with_more = divmod(slots, ROUND_S)
    with_more = seconds_with_more * (fewer + 1)
    if rank < with_more:
        second, index = divmod(rank, fewer + 1)
    else:
        second, index = divmod(rank - with_more, fewer)
        second += seconds_with_more
    return second, index * ROUND_S + second


@compiled
def _site_feet(stream: np.uint64, where: int) -> int:
    """Where the jams of a site begin, from the start of its direction."""
    return SEGMENT_FEET * (25 + _below(50, mix(~stream ^ np.uint64(where))))


@compiled
def _drive(age: int, first: int, last: int, speeds: tuple[int, int, int]) -> tuple[int, int]:
    """Speed, and feet from the start of the middle stretch, for a trip of this age."""
    if age < first:
        return speeds[0], FEET_PER_ROUND * speeds[0] * (age - first)
    if age < last:
        return speeds[1], FEET_PER_ROUND * speeds[1] * (age - first)
    return speeds[2], FEET_PER_ROUND * (speeds[1] * (last - first) + speeds[2] * (age - last))


@compiled
def _report(
    stream: np.uint64, turn: int, road: int, local: int, expressways: int, vehicles: int
) -> tuple[int, int, int, int, int]:
    """Trip number, speed, lane, direction and feet of a slot of an expressway in a round."""
    platoon, member = local // PLATOON, local % PLATOON
    habit = mix(stream ^ np.uint64(platoon * expressways + road))
    length = SHORTEST + _below(LONGEST - SHORTEST + 1, habit)
    offset = _below(length, habit, 32)
    trip, age = divmod(turn + offset, length)
    shared = mix(habit ^ np.uint64(trip))  # by the platoon
    own = mix(shared + np.uint64(member + 1))
    direction = int(np.int64(shared & np.uint64(1)))
    crash = _below(CRASH_ONE_IN, shared, 1) == 0 and member <= _below(3, shared, 32)
    bits = mix(shared) if crash else mix(own)
    sites = max(1, vehicles // SLOTS_PER_SITE)
    period = (trip * length - offset + LONGEST) // SITE_ROUNDS
    where = ((period * sites + _below(sites, bits, 8)) * 2 + direction) * expressways + road
    first, last = length // 3, length - length // 6
    before, between, after = 45 + _below(31, own), 45 + _below(31, own, 16), 45 + _below(31, own, 32)
    if crash:
        between, last = 0, first + 3 + _below(8, bits, 16)
        middle = _site_feet(stream, where) + _below(9 * SEGMENT_FEET, bits, 24) - 2 * SEGMENT_FEET
    elif _below(100, own, 24) < JAM_PERCENT:
        between = 5 + _below(21, own, 8)
        middle = _site_feet(stream, where) + _below(SEGMENT_FEET, bits, 24)
    else:
        run_up = FEET_PER_ROUND * before * first
        end = FEET_PER_ROUND * (between * (last - first) + after * (length - last))
        middle = run_up + _below(ROAD_FEET - run_up - end, bits, 24)
    speed, feet = _drive(age, first, last, (before, between, after))
    lane = 1 + _below(3, bits, 32)
    if age in (0, length - 1):
        lane = 0 if age == 0 else EXIT_LANE
    feet += middle
    return trip, speed, lane, direction, feet if direction == 0 else ROAD_FEET - 1 - feet


@compiled
def _fill(
    columns: tuple[Ints, ...], start: int, seed: np.uint64, expressways: int, vehicles: int, start_us: int
) -> None:
    """Fill the columns with the events from number `start` on; who reports when is counted on, not divided again."""
    ts, kind, vid, speed, xway, lane, direction, seg, pos = columns
    slots = expressways * vehicles
    vids_per_trip = -(-slots // ROUND_S) * ROUND_S
    stream = mix(seed)
    turn, rank = divmod(start - (start + 1) // OTHER_EVERY, slots)
    second, slot = _turn(rank, slots)
    road, local = divmod(slot, vehicles)
    for n in range(ts.size):
        index = start + n
        if n and (index + 1) % OTHER_EVERY != 0:  # others follow a report of the same vehicle
            slot, local = slot + ROUND_S, local + ROUND_S
            if slot >= slots:
                second += 1
                if second >= min(ROUND_S, slots):
                    turn, second = turn + 1, 0
                slot = local = second
                road = 0
            while local >= vehicles:
                road, local = road + 1, local - vehicles
        trip, mph, track, way, feet = _report(stream, turn, road, local, expressways, vehicles)
        ts[n] = start_us + (turn * ROUND_S + second) * MICROSECONDS
        vid[n] = trip * vids_per_trip + slot
        if (index + 1) % OTHER_EVERY == 0:
            kind[n] = 2 + _below(3, mix(stream ^ np.uint64(index)))
            speed[n] = xway[n] = lane[n] = direction[n] = seg[n] = pos[n] = -1
        else:
            kind[n], speed[n], xway[n], lane[n] = REPORT, mph, road, track
            direction[n], seg[n], pos[n] = way, feet // SEGMENT_FEET, feet
