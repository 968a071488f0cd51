"""Positions of the `buses` workload, in the shape of the Dublin bus data: where a bus is and how late.

An event is a function of its index alone, so a source can be split, replayed and resumed at any index: every bus
reports once per round, and runs back and forth between two termini.
"""

from dataclasses import dataclass
from math import gcd

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from shoal.kernels.compiled import compiled
from shoal.workloads.limits import PER_S, SEED, START_US, check_limits, check_slice
from shoal.workloads.scatter import below, mix

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

MICROSECONDS = 1_000_000
BLOCK = 67_002
"""The block that the queries match."""
BLOCKS = 333
"""Blocks around it, all equally likely: a report names each with a probability of 0.3 %."""
FIRST_VEHICLE = 33_001
LINES = 120
RUN_ROUNDS = 120
"""Reports of a bus from one terminus to the other."""
DELAY_ROUNDS = 30
"""Reports of a bus from one turn of its delay to the next."""
OPERATORS = ("CD", "CF", "D1", "D2", "HN", "PO", "RD", "SL")
SCHEMA = pa.schema(
    {
        "ts": pa.timestamp("us"),
        "line_id": pa.int64(),
        "direction": pa.int64(),
        "vehicle_id": pa.int64(),
        "operator": pa.dictionary(pa.int8(), pa.string()),
        "block_id": pa.int64(),
        "delay": pa.int64(),
        "latitude": pa.float64(),
        "longitude": pa.float64(),
        "congestion": pa.int64(),
    }
)
LIMITS = {
    "vehicles": (1, 1_000_000),
    "per_s": PER_S,
    "seed": SEED,
    "start_us": START_US,
}


@dataclass(frozen=True)
class BusesEvents:
    """An endless stream of bus positions, `per_s` for every second of event time.

    A bus keeps its line and its operator; operators differ widely in size. Its delay drifts from minutes early
    to half an hour late, its block is drawn again for every report, and congestion is likelier the later it is.

    >>> events = BusesEvents()
    >>> events.batch(0, 1).select(["vehicle_id", "operator", "block_id", "delay"]).to_pylist()
    [{'vehicle_id': 33001, 'operator': 'CF', 'block_id': 66936, 'delay': 493}]
    >>> events.batch(5, 9) == events.batch(0, 9).slice(5)
    True
    """

    vehicles: int = 900
    per_s: int = 50
    seed: int = 0
    start_us: int = 1_357_027_200_000_000  # 2013-01-01T08:00:00Z

    def __post_init__(self) -> None:
        """Reject settings beyond their limits."""
        check_limits("buses", self, LIMITS)

    @staticmethod
    def schema() -> pa.Schema:
        """Columns of every batch.

        >>> BusesEvents.schema().names[:6]
        ['ts', 'line_id', 'direction', 'vehicle_id', 'operator', 'block_id']
        """
        return SCHEMA

    def batch(self, start: int, stop: int) -> pa.RecordBatch:
        """Events number `start` to `stop` - 1; a pure function of its arguments."""
        check_slice("buses", start, stop)
        size = stop - start
        columns, degrees, operator = np.empty((7, size), np.int64), np.empty((2, size)), np.empty(size, np.int8)
        clock = (self.start_us, self.per_s)
        fleet = (self.vehicles, _stride(self.vehicles))
        _fill(columns, degrees, operator, start, np.uint64(self.seed), fleet, clock)
        ts, line, direction, vehicle, block, delay, congestion = (pa.array(column) for column in columns)
        latitude, longitude = (pa.array(column) for column in degrees)
        operators = pa.DictionaryArray.from_arrays(operator, pa.array(OPERATORS))
        arrays = [ts.view(pa.timestamp("us")), line, direction, vehicle, operators, block, delay, latitude, longitude]
        return pa.RecordBatch.from_arrays([*arrays, congestion], schema=SCHEMA)


def _stride(vehicles: int) -> int:
    """Find a step near the golden section that visits every bus once before it repeats."""
    stride = max(1, round(vehicles * 0.618))
    while gcd(stride, vehicles) > 1:
        stride += 1
    return stride


@compiled
def _delay_s(habit: np.uint64, turn: int) -> int:
    """Delay of a bus in a round, noise aside: straight from one random value to the next."""
    stretch, step = divmod(turn, DELAY_ROUNDS)
    here = below(45, mix(habit ^ np.uint64(stretch))) ** 2 - 300
    there = below(45, mix(habit ^ np.uint64(stretch + 1))) ** 2 - 300
    return here + (there - here) * step // DELAY_ROUNDS


@compiled
def _fill(
    columns: Ints,
    degrees: Floats,
    operator: npt.NDArray[np.int8],
    start: int,
    seed: np.uint64,
    fleet: tuple[int, int],
    clock: tuple[int, int],
) -> None:
    """Fill the columns with the events from number `start` on."""
    ts, line_id, direction, vehicle_id, block_id, delay, congestion = columns
    latitude, longitude = degrees
    (vehicles, stride), (start_us, per_s) = fleet, clock
    stream = mix(seed)
    for n in range(columns.shape[1]):
        index = start + n
        turn, rank = divmod(index, vehicles)
        bus = rank * stride % vehicles
        habit = mix(~stream ^ np.uint64(bus))
        bits = mix(stream ^ np.uint64(index))
        line = below(LINES, habit)
        route = mix(~stream ^ ~np.uint64(line))
        run, step = divmod(turn + below(2 * RUN_ROUNDS, habit >> np.uint64(16)), RUN_ROUNDS)
        share = (step if run % 2 == 0 else RUN_ROUNDS - step) / RUN_ROUNDS
        ts[n] = start_us + index * MICROSECONDS // per_s
        line_id[n], direction[n], vehicle_id[n] = 1 + line, run % 2, FIRST_VEHICLE + bus
        operator[n] = below(1 + below(8, habit >> np.uint64(24)), habit >> np.uint64(32))
        block_id[n] = BLOCK - BLOCKS // 2 + below(BLOCKS, bits)
        delay[n] = _delay_s(habit, turn) + below(61, bits >> np.uint64(32)) - 30
        congestion[n] = below(3000, mix(bits)) < max(100, delay[n])
        # Lines run across the centre, from one side to the other, 0.1 degrees north to south and 0.2 east to west.
        latitude[n] = 53.35 + (below(1001, route) / 1000 - 0.5) * (share - 0.5) * 0.2
        longitude[n] = -6.26 + (below(1001, route >> np.uint64(32)) / 1000 - 0.5) * (share - 0.5) * 0.4
