"""The expected results of the `linear_road` query, computed in batch by DuckDB, without any code of the runtimes.

Windows are aligned to the Unix epoch and hold their start but not their end. Every window with at least one
report has a result, also the incomplete ones at both ends.
"""

from pathlib import Path

import duckdb
import pyarrow as pa

from shoal.workloads.oracle_input import relation_of

COLUMNS = ("ts", "type", "vid", "speed", "xway", "lane", "dir", "seg", "pos")
KEY = [("xway", pa.int64()), ("dir", pa.int64()), ("seg", pa.int64()), ("window_end", pa.timestamp("us"))]
SCHEMAS = {
    "tolls": pa.schema(
        [*KEY, ("lav", pa.float64()), ("cars", pa.int64()), ("toll", pa.int64()), ("accidents", pa.int64())]
    ),
    "accidents": pa.schema([*KEY, ("vehicles", pa.int64())]),
}

REPORTS = """
CREATE TEMP TABLE reports AS
SELECT make_timestamp(epoch_us(ts)) AS ts, vid, speed, xway, lane, dir, seg, pos FROM events WHERE type = 0
"""
# Windows of 120 s that slide by 30 s: a report is in the four that end 30, 60, 90 and 120 s after its half minute.
STOPPED = """
CREATE TEMP TABLE stopped AS
SELECT vid, xway, lane, dir, pos, time_bucket(to_seconds(30), ts) + to_seconds(s) AS window_end
FROM reports, range(30, 121, 30) AS ends(s)
WHERE lane BETWEEN 1 AND 3
GROUP BY ALL HAVING count(*) >= 4
"""
ACCIDENTS = """
CREATE TEMP TABLE accidents AS
SELECT xway, dir, pos // 5280 AS seg, window_end, count(*) AS vehicles
FROM stopped GROUP BY xway, lane, dir, pos, window_end HAVING count(*) >= 2
"""
# Per minute: the mean of each vehicle first, then of the vehicles. favg is Kahan's summation.
MINUTES = """
CREATE TEMP TABLE minutes AS
SELECT xway, dir, seg, window_end, favg(speed) AS speed, count(*) AS cars
FROM (
    SELECT vid, xway, dir, seg, time_bucket(to_seconds(60), ts) + to_seconds(60) AS window_end, avg(speed) AS speed
    FROM reports GROUP BY ALL
)
GROUP BY xway, dir, seg, window_end
"""
LAVS = """
CREATE TEMP TABLE lavs AS
SELECT xway, dir, seg, window_end + to_seconds(s) AS window_end, favg(speed) AS lav
FROM minutes, range(0, 300, 60) AS later(s) GROUP BY ALL
"""
# An accident counts in the minute its window ends in, for its own segment and the four upstream of it.
AFFECTED = """
CREATE TEMP TABLE affected AS
SELECT xway, dir, CASE dir WHEN 0 THEN seg - back ELSE seg + back END AS seg,
       time_bucket(to_seconds(60), window_end - to_microseconds(1)) + to_seconds(60) AS window_end,
       count(*) AS accidents
FROM accidents, range(0, 5) AS before(back) GROUP BY ALL
"""
RESULTS = {
    "tolls": """
        SELECT xway, dir, seg, window_end, lav, cars,
               CASE WHEN accidents IS NULL AND lav < 40 AND cars > 50 THEN 2 * (cars - 50) * (cars - 50) ELSE 0 END,
               coalesce(accidents, 0)
        FROM lavs JOIN minutes USING (xway, dir, seg, window_end)
        LEFT JOIN affected USING (xway, dir, seg, window_end)
    """,
    "accidents": "SELECT xway, dir, seg, window_end, vehicles FROM accidents",
}


def expected(events: pa.Table | str | Path) -> dict[str, pa.Table]:
    """Give tolls and accidents over a table or the Parquet files of a glob, rows in key order.

    `tolls` has a row per segment and minute with a report: `lav` is the mean speed of its last five minutes,
    `accidents` how many times an accident was observed there or up to four segments ahead, and then `toll` is 0.
    `accidents` has a row per position and window in which at least two vehicles stood still.

    >>> from shoal.workloads.linear_road.events import LinearRoadEvents
    >>> tolls = expected(pa.table(LinearRoadEvents(1, 100).batch(0, 101)))["tolls"]
    >>> sum(tolls["cars"].to_pylist()), sum(tolls["toll"].to_pylist())
    (100, 0)
    """
    with duckdb.connect() as database:
        relation_of(database, "linear road", events, COLUMNS).create_view("events")
        for step in (REPORTS, STOPPED, ACCIDENTS, MINUTES, LAVS, AFFECTED):
            database.execute(step)
        return {name: _result(database, query, SCHEMAS[name]) for name, query in RESULTS.items()}


def _result(database: duckdb.DuckDBPyConnection, query: str, schema: pa.Schema) -> pa.Table:
    rows = database.sql(f"{query} ORDER BY ALL").to_arrow_table()
    return rows.rename_columns(schema.names).cast(schema)
