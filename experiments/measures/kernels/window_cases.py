"""Queries with a window of some size, the events they read, and the expected results of DuckDB or plain Python.

The number of events does not depend on the size of the window, and neither does the number of results where the query
allows it.
"""

from bisect import bisect_right
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import duckdb
import numpy as np
import pyarrow as pa

import shoal
from shoal.model.query.window import sessions

RATE = 1_000
"""Events per second of event time."""
KEYS = 100
SPAN = 1_000_000
"""Values of the joined column lie in 0 ... SPAN."""
PARTNERS = 2
"""Rows per row of the left side of a join."""
ENDS = 1_000
"""One row in this many of a key ends a pattern."""
PAUSE_S = 30
Rows = Mapping[str, pa.Table]


@dataclass(frozen=True)
class WindowCase:
    """A query, the events it reads, and the expected results."""

    query: shoal.Query
    events: Rows
    expected: Callable[[], Rows]

    @property
    def rows(self) -> int:
        """Events of all streams."""
        return sum(rows.num_rows for rows in self.events.values())


def times(number: int, per_s: float = RATE) -> pa.Array:
    """Event times at a rate, from the epoch on."""
    return pa.array((np.arange(number) * 1_000_000 / per_s).astype(np.int64), pa.timestamp("us"))


def band_join(window_rows: int, number: int, band: float) -> WindowCase:
    """Two streams, no equal key: pairs close in value and in time."""
    draw = np.random.default_rng(1)
    events = {
        side: pa.table({"ts": times(number, RATE / 2), "id": np.arange(number), "x": draw.uniform(0, SPAN, number)})
        for side in ("left", "right")
    }
    within_s = window_rows / RATE
    streams = [shoal.Stream(n, {"ts": "timestamp", "id": "int64", "x": "float64"}, time="ts") for n in events]
    pairs = streams[0].join(streams[1], within_s=(-within_s, within_s), band=("x", "x", -band, band))
    sql = f"""
        SELECT l.id, r.id AS id_right FROM left_ AS l JOIN right_ AS r ON r.x BETWEEN l.x - {band} AND l.x + {band}
        WHERE abs(epoch_us(r.ts) - epoch_us(l.ts)) <= {round(within_s * 1e6)}
    """
    return WindowCase(pairs.select("id", "id_right").sink("pairs"), events, lambda: {"pairs": asked(sql, events)})


def narrowing(window_rows: int) -> float:
    """A band in which the number of partners of a row does not depend on the window."""
    return PARTNERS * SPAN / (2 * window_rows)


def pattern(window_rows: int, number: int) -> WindowCase:
    """SEQ(A+ B) per key, reluctant: every B ends a match of the rows before it, as far as the window reaches."""
    draw = np.random.default_rng(2)
    keys = np.arange(number) % KEYS
    ends = draw.integers(0, ENDS, number) == 0
    events = {"rows": pa.table({"ts": times(number), "key": keys, "ends": ends.astype(np.int64)})}
    within_s = window_rows * KEYS / RATE
    stream = shoal.Stream("rows", {"ts": "timestamp", "key": "int64", "ends": "int64"}, time="ts")
    found = stream.key_by("key").match(
        "A+? B",
        within_s=within_s,
        define={"B": shoal.col("ends") == 1},
        measures={"last_ts": "last(B.ts)", "rows": "count(A)"},
    )
    return WindowCase(found.sink("found"), events, lambda: {"found": sequences(events["rows"], round(within_s * 1e6))})


def sequences(rows: pa.Table, within_us: int) -> pa.Table:
    """The pattern's results, key by key and row by row."""
    found: list[tuple[int, int, int]] = []
    ts, ends = rows["ts"].cast(pa.int64()).to_numpy(), rows["ends"].to_numpy()
    for key in range(KEYS):
        at, last_rows = ts[key::KEYS].tolist(), np.flatnonzero(ends[key::KEYS]).tolist()
        first = 0
        while (following := bisect_right(last_rows, first)) < len(last_rows):
            last = last_rows[following]
            if at[last] - at[first] <= within_us:
                found.append((key, at[last], last - first))
                first = last + 1
            else:
                first += 1
    key_, last_ts, length = (pa.array(column, pa.int64()) for column in zip(*found, strict=True))
    return pa.table({"key": key_, "last_ts": last_ts.cast(pa.timestamp("us")), "rows": length})


def row_window(window_rows: int, number: int) -> WindowCase:
    """The mean of every key's last rows, with every row."""
    draw = np.random.default_rng(3)
    events = {"rows": pa.table({"ts": times(number), "key": np.arange(number) % KEYS, "x": draw.uniform(0, 1, number)})}
    stream = shoal.Stream("rows", {"ts": "timestamp", "key": "int64", "x": "float64"}, time="ts")
    last = stream.key_by("key").window(shoal.rows(window_rows, 1, partial=True)).aggregate(mean=shoal.mean("x"))
    sql = f"""
        SELECT key, avg(x) OVER (PARTITION BY key ORDER BY ts ROWS {window_rows - 1} PRECEDING) AS mean FROM rows_
    """
    return WindowCase(last.select("key", "mean").sink("means"), events, lambda: {"means": asked(sql, events)})


def bursts(window_rows: int, number: int) -> WindowCase:
    """Rows of a key come in bursts as long as the window, with a pause in between that ends the session."""
    burst = np.arange(number) // KEYS // window_rows
    at = np.arange(number) * (1_000_000 // RATE) + burst * 2 * PAUSE_S * 1_000_000
    ts = pa.array(at, pa.timestamp("us"))
    draw = np.random.default_rng(4)
    events = {"rows": pa.table({"ts": ts, "key": np.arange(number) % KEYS, "x": draw.uniform(0, 1, number)})}
    stream = shoal.Stream("rows", {"ts": "timestamp", "key": "int64", "x": "float64"}, time="ts")
    visits = stream.key_by("key").window(sessions(PAUSE_S)).aggregate(n=shoal.count(), largest=shoal.max_("x"))
    sql = f"""
        WITH marked AS (
            SELECT *, ts - lag(ts) OVER (PARTITION BY key ORDER BY ts) >= INTERVAL {PAUSE_S} SECOND AS begins FROM rows_
        ), numbered AS (
            SELECT *, count(*) FILTER (begins) OVER (PARTITION BY key ORDER BY ts) AS visit FROM marked
        )
        SELECT key, min(ts) AS window_start, count(*) AS n, max(x) AS largest FROM numbered GROUP BY key, visit
    """
    return WindowCase(
        visits.select("key", "window_start", "n", "largest").sink("visits"),
        events,
        lambda: {"visits": asked(sql, events)},
    )


def asked(sql: str, events: Rows) -> pa.Table:
    """What DuckDB answers; streams have an underscore behind their names."""
    with duckdb.connect() as database:
        for name, rows in events.items():
            database.from_arrow(rows).create_view(f"{name}_")
        return database.sql(sql).to_arrow_table()


CASES: Mapping[str, Callable[[int, int], WindowCase]] = {
    "join": lambda size, number: band_join(size, number, narrowing(size)),
    "join-fixed-band": lambda size, number: band_join(size, number, narrowing(8_192)),
    "pattern": pattern,
    "count-window": row_window,
    "session": bursts,
}
"""Rows in a window and number of events to a query. Rows are of the other side for a join, else of one key."""
