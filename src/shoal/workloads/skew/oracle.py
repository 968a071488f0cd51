"""The expected results of the `skew` queries, computed in batch by DuckDB and NumPy, without any code of the runtimes.

Windows are aligned to the Unix epoch and hold their start but not their end. Bounds in space and time are inclusive.
"""

from collections.abc import Callable, Collection, Iterator
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from shoal.workloads.oracle_input import table_of

Ints = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]

MICROSECONDS = 1_000_000
WINDOW_S = 1
FAST, BRAKES, STANDS = 3300, 900, 0
"""Speed above which a vehicle is fast, braking from which it is hard, and the speed of one that stands."""
RESAMPLES, BOUND = 2000, 1950
"""Draws of the bootstrap, and the rank, from 0, of the median that is the result."""
CHUNKS = 100
"""Parts in which the draws are made, so that they stay in the processor's cache."""
COLUMNS = ("ts", "cell", "vehicle", "x", "y", "speed", "braking")
TIME, NUMBER = pa.timestamp("us"), pa.int64()
SCHEMAS = {
    "encounters": pa.schema({"cell": NUMBER, "window_end": TIME, "encounters": NUMBER, "closest": NUMBER}),
    "hazards": pa.schema({"cell": NUMBER, "first_ts": TIME, "last_ts": TIME, "fast": NUMBER, "standing": NUMBER}),
    "medians": pa.schema({"cell": NUMBER, "window_end": TIME, "bound": NUMBER}),
}

# Partners lie in the same stretch of time or the next, and in the same strip of the road or a neighbour: DuckDB
# joins by these instead of comparing every pair of a cell.
ENCOUNTERS = """
WITH before AS (
    SELECT cell, vehicle, x, y, ts, ts // $stretch AS stretch, x // $strip AS strip FROM events
), after AS (
    SELECT cell, vehicle, x, y, ts, ts // $stretch - earlier AS stretch, x // $strip + aside AS strip
    FROM events, range(2) AS times(earlier), range(-1, 2) AS sides(aside)
), pairs AS (
    SELECT cell, after.ts, (after.x - before.x) ** 2 + (after.y - before.y) ** 2 AS apart
    FROM before JOIN after USING (cell, stretch, strip)
    WHERE after.ts - before.ts BETWEEN 0 AND $within AND after.vehicle <> before.vehicle AND apart <= $reach ** 2
)
SELECT cell, (ts - (ts % $window + $window) % $window) + $window AS window_end, count(*), min(apart)::BIGINT
FROM pairs GROUP BY cell, window_end ORDER BY cell, window_end
"""


class OracleInput(NamedTuple):
    """The events in the order of cells, times and then columns, and the bounds of a join or match in space and time."""

    events: dict[str, Ints]
    reach_dm: int
    within_us: int

    def cells(self) -> Iterator[tuple[int, dict[str, Ints]]]:
        """The events of each cell."""
        for cell, (first, last) in _runs(self.events["cell"]):
            yield cell, {name: column[first:last] for name, column in self.events.items()}


def expected(
    tables: Collection[str], events: pa.Table | str | Path, reach_dm: int, within_s: float
) -> dict[str, pa.Table]:
    """Compute some of the result tables over a table or the Parquet files of a glob, rows in order.

    >>> from shoal.workloads.skew.events import SkewEvents
    >>> events = pa.table(SkewEvents(cells=4, hot=1, per_s=200).batch(0, 2000))
    >>> results = expected(SCHEMAS, events, reach_dm=250, within_s=1.0)
    >>> {name: table.num_rows for name, table in results.items()}
    {'encounters': 39, 'hazards': 12, 'medians': 40}
    """
    given = OracleInput(_columns(events), reach_dm, round(within_s * MICROSECONDS))
    return {name: _table(TABLES[name](given), SCHEMAS[name]) for name in tables}


def encounters(given: OracleInput) -> list[Ints]:
    """Cell, end of the window, number of pairs and the square of their least distance."""
    reach, within = given.reach_dm, given.within_us
    settings = {"reach": reach, "within": within, "strip": max(1, reach), "stretch": max(1, within)}
    with duckdb.connect() as database:
        database.from_arrow(pa.table(given.events)).create_view("events")
        found = database.sql(ENCOUNTERS, params={**settings, "window": WINDOW_S * MICROSECONDS}).to_arrow_table()
    return [column.to_numpy() for column in found.columns]


def hazards(given: OracleInput) -> list[Ints]:
    """For every fast vehicle the next that brakes hard, and the next after it that stands, if that comes in time."""
    parts = []
    for cell, rows in given.cells():
        ts, vehicle = rows["ts"], rows["vehicle"]
        first = np.flatnonzero(rows["speed"] > FAST)
        second, found = _next(np.flatnonzero(rows["braking"] >= BRAKES), first)
        third, ends = _next(np.flatnonzero(rows["speed"] == STANDS), second)
        first = first[found][ends]
        timely = ts[third] - ts[first] <= given.within_us
        first, third = first[timely], third[timely]
        parts.append([np.full(first.size, cell), ts[first], ts[third], vehicle[first], vehicle[third]])
    return [np.concatenate(column) for column in zip(*parts, strict=True)] if parts else _nothing("hazards")


def medians(given: OracleInput) -> list[Ints]:
    """Cell, end of the window, and the upper end of the 95 % confidence interval of the median speed."""
    rows = []
    for cell, of_cell in given.cells():
        for window, (first, last) in _runs(of_cell["ts"] // (WINDOW_S * MICROSECONDS)):
            bound = median_bound(of_cell["speed"][first:last])
            rows.append((cell, (window + 1) * WINDOW_S * MICROSECONDS, bound))
    return list(np.array(rows, np.int64).T) if rows else _nothing("medians")


TABLES: dict[str, Callable[[OracleInput], list[Ints]]] = {
    "encounters": encounters,
    "hazards": hazards,
    "medians": medians,
}


def median_bound(values: Ints) -> int:
    """Draw `values.size` values, 2000 times; of all medians, the one below which 1950 lie."""
    found = np.concatenate([_medians(values.size, draws) for draws in np.array_split(np.arange(RESAMPLES), CHUNKS)])
    return int(np.sort(values)[np.sort(found)[BOUND]])


def _medians(size: int, draws: Ints) -> Ints:
    """The index of the median of some draws among `size` ordered values, the lower one of two."""
    numbers = draws.astype(np.uint64)[:, None] << np.uint64(32) | np.arange(size, dtype=np.uint64)
    drawn = (_scattered(numbers) & np.uint64(0xFFFFFFFF)) * np.uint64(size) >> np.uint64(32)
    owner = np.arange(draws.size)[:, None] * size
    often = np.bincount((drawn.astype(np.int64) + owner).ravel(), minlength=draws.size * size)
    reached = np.cumsum(often.reshape(draws.size, size), axis=1) > (size - 1) // 2
    return reached.argmax(axis=1)


def _scattered(bits: Words) -> Words:
    """Splitmix64, as its authors published it."""
    bits = bits + np.uint64(0x9E3779B97F4A7C15)
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return bits ^ (bits >> np.uint64(31))


def _next(positions: Ints, rows: Ints) -> tuple[Ints, npt.NDArray[np.bool_]]:
    """The first position after each row that has one, and which rows those are."""
    at = np.searchsorted(positions, rows, side="right")
    found = at < positions.size
    return positions[at[found]], found


def _runs(values: Ints) -> Iterator[tuple[int, tuple[int, int]]]:
    """Where every run of equal values begins and ends."""
    ends = [*(np.flatnonzero(np.diff(values)) + 1).tolist(), values.size]
    for first, last in pairwise([0, *ends] if values.size else []):
        yield int(values[first]), (first, last)


def _columns(events: pa.Table | str | Path) -> dict[str, Ints]:
    """Events as columns of whole numbers, times in microseconds, in the order of cells, times and all columns."""
    table = table_of("skew", events, COLUMNS)
    times = table["ts"].cast(TIME).cast(NUMBER)
    columns = {"ts": times.to_numpy(), **{name: table[name].to_numpy() for name in COLUMNS[1:]}}
    order = np.lexsort((*(columns[name] for name in reversed(COLUMNS[2:])), columns["ts"], columns["cell"]))
    return {name: column[order] for name, column in columns.items()}


def _nothing(table: str) -> list[Ints]:
    return [np.zeros(0, np.int64)] * len(SCHEMAS[table])


def _table(columns: list[Ints], schema: pa.Schema) -> pa.Table:
    arrays = [pa.array(column, NUMBER).cast(field.type) for column, field in zip(columns, schema, strict=True)]
    return pa.Table.from_arrays(arrays, schema=schema)
