"""The expected results of the `traffic` queries, computed in batch by DuckDB, without any code of the runtimes.

Windows slide by one second, are aligned to the Unix epoch and hold their start but not their end.
Every window with at least one event has a result, also the incomplete ones at both ends.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb
import pyarrow as pa

from shoal.workloads.oracle_input import relation_of

WINDOW_S = {"avg_speed": 30, "vehicle_count": 10, "top_speed": 20}
COLUMNS = ("ts", "region", "vehicle_type", "speed")
KEY = [("region", pa.int64()), ("vehicle_type", pa.string()), ("window_end", pa.timestamp("us"))]
SCHEMAS = {
    "avg_speed": pa.schema([*KEY, ("avg_speed", pa.float64())]),
    "vehicle_count": pa.schema([KEY[0], KEY[2], ("vehicle_count", pa.int64())]),
    "top_speed": pa.schema([*KEY, ("top_speed", pa.list_(pa.float64()))]),
}

# One pass over the events. fsum is Kahan's summation: its error does not grow with the number of events.
PANES = """
CREATE TEMP TABLE panes AS
SELECT region, vehicle_type, date_trunc('second', ts) AS pane,
       count(*) AS n, fsum(speed) AS total, max(speed, 3) AS fastest
FROM events GROUP BY ALL
"""
# A pane is one slide long, so it belongs to the windows that end 1 s, 2 s, ... {size_s} s after its start.
FROM_PANES = {
    "avg_speed": "SELECT region, vehicle_type, window_end, fsum(total) / sum(n) FROM windows GROUP BY ALL",
    "vehicle_count": "SELECT region, window_end, sum(n) FROM windows GROUP BY ALL",
    "top_speed": """
        SELECT region, vehicle_type, window_end, max(speed, 3)
        FROM (SELECT * EXCLUDE fastest, unnest(fastest) AS speed FROM windows) GROUP BY ALL
    """,
}
WINDOWS_OF_PANES = """
WITH windows AS (SELECT *, pane + to_seconds(s) AS window_end FROM panes, range(1, {size_s} + 1) AS ends(s))
"""
# The definition itself: a window holds the events with end - size <= ts < end.
WINDOWS_OF_EVENTS = """
WITH ends AS (
    SELECT unnest(generate_series(date_trunc('second', min(ts)), max(ts) + to_seconds({size_s}),
                                  to_seconds(1))) AS window_end
    FROM events
), windows AS (
    SELECT * FROM ends JOIN events ON window_end - to_seconds({size_s}) <= ts AND ts < window_end
)
"""
FROM_EVENTS = {
    "avg_speed": "SELECT region, vehicle_type, window_end, avg(speed) FROM windows GROUP BY ALL",
    "vehicle_count": "SELECT region, window_end, count(*) FROM windows GROUP BY ALL",
    "top_speed": """
        SELECT region, vehicle_type, window_end, list(speed ORDER BY speed DESC)[1:3]
        FROM windows GROUP BY ALL
    """,
}


def expected(events: pa.Table | str | Path) -> dict[str, pa.Table]:
    """Compute every traffic query over a table or the Parquet files of a glob, rows in key order.

    >>> from shoal.workloads.traffic.events import TrafficEvents
    >>> events = pa.table(TrafficEvents(vehicles=100, regions=1).batch(0, 1000))
    >>> expected(events)["vehicle_count"]["vehicle_count"].to_pylist()[:12]
    [100, 200, 300, 400, 500, 600, 700, 800, 900, 1000, 900, 800]
    """
    with _opened(events) as database:
        database.execute(PANES)
        return {name: _result(database, name, WINDOWS_OF_PANES, query) for name, query in FROM_PANES.items()}


def expected_naive(events: pa.Table | str | Path) -> dict[str, pa.Table]:
    """Compute the same as `expected` from the definition of a window instead of from panes; for small data.

    Sums are plain here, so averages agree with `expected` to about 12 digits.
    """
    with _opened(events) as database:
        return {name: _result(database, name, WINDOWS_OF_EVENTS, query) for name, query in FROM_EVENTS.items()}


@contextmanager
def _opened(events: pa.Table | str | Path) -> Iterator[duckdb.DuckDBPyConnection]:
    """Open a new database with the events as a view."""
    with duckdb.connect() as database:
        rows = relation_of(database, "traffic", events, COLUMNS)
        rows.select(
            "make_timestamp(epoch_us(ts)) AS ts, region, vehicle_type::VARCHAR AS vehicle_type, speed"
        ).create_view("events")
        yield database


def _result(database: duckdb.DuckDBPyConnection, name: str, windows: str, query: str) -> pa.Table:
    """Run one query over its windows and give it its columns' names and types."""
    schema = SCHEMAS[name]
    rows = database.sql(f"{windows.format(size_s=WINDOW_S[name])} {query} ORDER BY ALL").to_arrow_table()
    return rows.rename_columns(schema.names).cast(schema)
