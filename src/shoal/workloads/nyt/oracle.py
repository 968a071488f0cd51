"""The expected results of the `nyt` query, computed in batch by DuckDB, without any code of the runtimes.

The grid is that of the DEBS 2015 grand challenge: 600 x 600 cells of 250 m, numbered row by row from the north-west.
A row is floor((NORTH - latitude) / DLAT), a column floor((longitude - WEST) / DLON), both in floating point: whoever
computes them from the same constants in the same order gets the same cells, on their borders too.
"""

from math import floor
from pathlib import Path

import duckdb
import pyarrow as pa

from shoal.workloads.oracle_input import relation_of

COLUMNS = (
    "ts",
    "vendor",
    "distance",
    "pickup_latitude",
    "pickup_longitude",
    "dropoff_latitude",
    "dropoff_longitude",
)
SCHEMA = pa.schema(
    {
        "cell": pa.int64(),
        "window_end": pa.timestamp("us"),
        "trips": pa.int64(),
        "mean_distance": pa.float64(),
    }
)
WINDOW_S = 2
VENDOR = "VTS"
MIN_DISTANCE = 1.0
"""Trips must be longer than this many miles."""

GRID = 600
"""Rows, and columns, of the grid."""
DLAT = 0.004491556 / 2
DLON = 0.005986 / 2
"""Degrees from one cell to the next."""
ORIGIN_LATITUDE = 41.474937
ORIGIN_LONGITUDE = -74.913583
"""The centre of cell 0."""
NORTH = ORIGIN_LATITUDE + DLAT / 2
WEST = ORIGIN_LONGITUDE - DLON / 2
"""The borders of the grid."""

TRIPS = f"""
WITH positions AS (
    SELECT ts, vendor, distance,
           floor(($north - pickup_latitude) / $dlat) AS pickup_row,
           floor((pickup_longitude - $west) / $dlon) AS pickup_column,
           floor(($north - dropoff_latitude) / $dlat) AS dropoff_row,
           floor((dropoff_longitude - $west) / $dlon) AS dropoff_column
    FROM events
)
SELECT (pickup_row * {GRID} + pickup_column)::BIGINT AS cell,
       time_bucket(to_seconds({WINDOW_S}), ts) + to_seconds({WINDOW_S}) AS window_end,
       count(*) AS trips, fsum(distance) / count(*) AS mean_distance
FROM positions
WHERE vendor = '{VENDOR}' AND distance > {MIN_DISTANCE}
  AND pickup_row BETWEEN 0 AND {GRID - 1} AND pickup_column BETWEEN 0 AND {GRID - 1}
  AND dropoff_row BETWEEN 0 AND {GRID - 1} AND dropoff_column BETWEEN 0 AND {GRID - 1}
GROUP BY cell, window_end ORDER BY ALL
"""


def cell_of(latitude: float, longitude: float) -> int | None:
    """The number of the cell at a position, or None outside of the grid.

    >>> cell_of(41.474937, -74.913583), cell_of(40.7580, -73.9855), cell_of(0.0, 0.0)
    (0, 191710, None)
    """
    row, column = floor((NORTH - latitude) / DLAT), floor((longitude - WEST) / DLON)
    return row * GRID + column if 0 <= row < GRID and 0 <= column < GRID else None


def expected(events: pa.Table | str | Path) -> dict[str, pa.Table]:
    """Count and average trips per cell and window over a table or the Parquet files of a glob, rows in key order.

    >>> from shoal.workloads.nyt.events import NytEvents
    >>> results = expected(pa.table(NytEvents(per_s=1000).batch(0, 4000)))["trips"]
    >>> sum(results["trips"].to_pylist())
    1468
    """
    with duckdb.connect() as database:
        relation_of(database, "nyt", events, COLUMNS).create_view("events")
        # As parameters: DuckDB would take numbers in its own text for decimals.
        constants = {"north": NORTH, "west": WEST, "dlat": DLAT, "dlon": DLON}
        return {"trips": database.sql(TRIPS, params=constants).to_arrow_table().cast(SCHEMA)}
