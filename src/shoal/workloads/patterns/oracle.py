"""The expected results of the pattern queries over bikes and buses, computed in batch by plain Python.

SEQ(A+ B) within each group, reluctant and skipping past the last row: rows are taken in the order of their time,
rows of one time in the order of their columns. From the first row on, a match goes to the next row that is a B, if
that comes in time; the search then goes on after it, and otherwise from the next row.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from shoal.workloads.oracle_input import table_of

STATION = 3116
BLOCK = 67_002
DAY_US = 86_400_000_000
HOUR_US = 3_600_000_000
BIKES_COLUMNS = ("ts", "bikeid", "start_station_id", "end_station_id", "duration", "user_type")
BUSES_COLUMNS = (
    "ts", "line_id", "direction", "vehicle_id", "operator", "block_id", "delay", "latitude", "longitude", "congestion"
)  # fmt: skip
TIMES = [("first_ts", pa.timestamp("us")), ("last_ts", pa.timestamp("us"))]
RETURNS = pa.schema(
    [("bikeid", pa.int64()), *TIMES, ("trips", pa.int64()), ("from_station", pa.int64()), ("ridden_s", pa.int64())]
)
REPORTS = [*TIMES, ("reports", pa.int64()), ("mean_delay", pa.float64()), ("worst_delay", pa.int64())]
BY_OPERATOR = pa.schema([("operator", pa.string()), *REPORTS])
BY_VEHICLE = pa.schema([("vehicle_id", pa.int64()), *REPORTS])

Row = dict[str, Any]


class Match(NamedTuple):
    """A sequence of rows of a group: one A or more, and the B that ends it."""

    group: Any
    rows: Sequence[Row]
    last: Row

    @property
    def times(self) -> tuple[int, int]:
        """Time of the first and of the last row."""
        return self.rows[0]["ts"], self.last["ts"]

    def all(self, column: str) -> list[Any]:
        """Values of a column over the rows that are A."""
        return [row[column] for row in self.rows]


def bikes_expected(events: pa.Table | str | Path) -> dict[str, pa.Table]:
    """Give the days of bikes that end at station 3116: a table, or the Parquet files of a glob, in key order.

    >>> from shoal.workloads.bikes.events import BikesEvents
    >>> returns = bikes_expected(pa.table(BikesEvents(bikes=10, per_day=100).batch(0, 1000)))["returns"]
    >>> returns.num_rows, returns["trips"].to_pylist()[:5]
    (36, [10, 10, 10, 9, 9])
    """
    found = _matches(_rows(events, BIKES_COLUMNS), "bikeid", lambda row: row["end_station_id"] == STATION, DAY_US)
    returns = [
        (
            match.group,
            *match.times,
            len(match.rows),
            match.rows[0]["start_station_id"],
            sum(match.all("duration")),
        )
        for match in found
    ]
    return {"returns": _table(returns, RETURNS)}


def buses_expected(events: pa.Table | str | Path) -> dict[str, pa.Table]:
    """Give the hours that end in block 67002, per operator and per bus: a table, or the Parquet files of a glob.

    >>> from shoal.workloads.buses.events import BusesEvents
    >>> results = buses_expected(pa.table(BusesEvents(vehicles=10).batch(0, 2000)))
    >>> {name: table.num_rows for name, table in results.items()}
    {'by_operator': 7, 'by_vehicle': 7}
    """
    rows = _rows(events, BUSES_COLUMNS)
    return {
        "by_operator": _table(_reports(rows, "operator"), BY_OPERATOR),
        "by_vehicle": _table(_reports(rows, "vehicle_id"), BY_VEHICLE),
    }


def _reports(rows: Sequence[Row], key: str) -> list[tuple[Any, ...]]:
    """Results of a bus query, one per match."""
    results = []
    for match in _matches(rows, key, lambda row: row["block_id"] == BLOCK, HOUR_US):
        delays = match.all("delay")
        results.append((match.group, *match.times, len(delays), sum(delays) / len(delays), max(delays)))
    return results


def _matches(rows: Sequence[Row], key: str, ends: Callable[[Row], bool], within_us: int) -> Iterator[Match]:
    """Find every match of every group, groups and matches in order."""
    groups = defaultdict[Any, list[Row]](list)
    for row in rows:
        groups[row[key]].append(row)
    for group in sorted(groups):
        yield from _matches_of_group(group, groups[group], ends, within_us)


def _matches_of_group(group: Any, rows: Sequence[Row], ends: Callable[[Row], bool], within_us: int) -> Iterator[Match]:
    """Find the matches of one group in its ordered rows."""
    last_rows = [number for number, row in enumerate(rows) if ends(row)]
    first = 0
    while first < len(rows):
        following = bisect_right(last_rows, first)
        if following == len(last_rows):
            return  # no later row ends a match
        last = last_rows[following]
        if rows[last]["ts"] - rows[first]["ts"] <= within_us:
            yield Match(group, rows[first:last], rows[last])
            first = last + 1
        else:
            first += 1


def _rows(events: pa.Table | str | Path, columns: Sequence[str]) -> list[Row]:
    """Events as rows in the order of the pattern, times in microseconds."""
    table = table_of("pattern", events, columns)
    times = table["ts"].cast(pa.timestamp("us")).cast(pa.int64()).to_pylist()
    others = [table[column].to_pylist() for column in columns[1:]]
    return [dict(zip(columns, row, strict=True)) for row in sorted(zip(times, *others, strict=True))]


def _table(rows: Sequence[tuple[Any, ...]], schema: pa.Schema) -> pa.Table:
    """Rows as a table, times given in microseconds."""
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(schema)
    arrays = [
        pa.array(column, pa.int64()).cast(field.type)
        if pa.types.is_timestamp(field.type)
        else pa.array(column, field.type)
        for column, field in zip(columns, schema, strict=True)
    ]
    return pa.Table.from_arrays(arrays, schema=schema)
