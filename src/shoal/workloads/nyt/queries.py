"""The `nyt` workload: taxi trips of one vendor counted and measured per 250 m cell every two seconds."""

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from shoal.connectors.sources.generator import Generator
from shoal.connectors.sources.source import Source
from shoal.language.python.stream import Stream
from shoal.model.query.aggregate import count, mean
from shoal.model.query.expression import Expression, col, lit
from shoal.model.query.functions import floor
from shoal.model.query.graph import Query
from shoal.model.query.schema import not_null
from shoal.model.query.window import Clock, tumbling
from shoal.session.job import Job
from shoal.workloads.nyt.events import NytEvents
from shoal.workloads.nyt.oracle import (
    COLUMNS,
    DLAT,
    DLON,
    GRID,
    MIN_DISTANCE,
    NORTH,
    VENDOR,
    WEST,
    WINDOW_S,
    expected,
)
from shoal.workloads.oracle_input import known_windows, oracle_input
from shoal.workloads.workload import Amount, Ready, Workload

STREAM = "trips"
SCHEMA = {
    "ts": "timestamp",
    "vendor": "string",
    "distance": "float64",
    "pickup_latitude": "float64",
    "pickup_longitude": "float64",
    "dropoff_latitude": "float64",
    "dropoff_longitude": "float64",
    "fare": "float64",
    "passengers": "int64",
}


def _cell(end: str) -> tuple[Expression, Expression]:
    """Row and column of the cell where a trip begins or ends."""
    row = floor((lit(NORTH) - col(f"{end}_latitude")) / DLAT)
    column = floor((col(f"{end}_longitude") - WEST) / DLON)
    return row, column


def _inside(number: str) -> Expression:
    return (col(number) >= 0) & (col(number) < GRID)


def query(groups: int, stream: str = STREAM, name: str = "trips", clock: Clock = "event") -> Query:
    """Map to cells, keep valid trips of the vendor, count and average per cell and window.

    >>> [operator.kind for operator in query(8).operators]
    ['source', 'filter', 'select', 'filter', 'select', 'window', 'aggregate', 'sink']
    """
    trips = Stream(stream, not_null(SCHEMA), time="ts")
    wanted = trips.filter((col("vendor") == VENDOR) & (col("distance") > MIN_DISTANCE))
    (row, column), (to_row, to_column) = _cell("pickup"), _cell("dropoff")
    cells = wanted.select("ts", "distance", row=row, column=column, to_row=to_row, to_column=to_column)
    valid = cells.filter(_inside("row") & _inside("column") & _inside("to_row") & _inside("to_column"))
    by_cell = valid.select("ts", "distance", cell=col("row") * GRID + col("column")).partition_by("cell", groups=groups)
    windows = by_cell.window(tumbling(WINDOW_S, clock=clock))
    return windows.aggregate(trips=count(), mean_distance=mean("distance")).sink(name)


def build(seed: int, amount: Amount, settings: Mapping[str, Any], source: Source | None) -> Ready:
    """The job and its oracle, over generated events or over files of the same columns."""
    events = NytEvents(settings["per_s"], seed)
    feed = source or Generator(events, amount.events, amount.rate, amount.rows_per_epoch)
    clock = settings["clock"]
    job = Job.of("nyt", [query(settings["groups"], clock=clock)], {STREAM: feed})

    def wanted(number: int) -> Mapping[str, pa.Table]:
        known_windows(clock)
        return expected(oracle_input(events, number, COLUMNS, source))

    return Ready(job, wanted)


NYT = Workload(
    "nyt",
    "taxi trips counted and measured per 250 m cell every 2 s",
    build,
    {"per_s": 1_000_000, "groups": 16, "clock": "event"},
    events=10_000_000,
)
