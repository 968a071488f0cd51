"""DuckDB over all files in one batch: the speed of the machine without incremental work."""

import time
from collections.abc import Callable

import duckdb
import pyarrow as pa

from measures.spark.engine_run import EngineRun
from shoal.experiments.machine import cpu_s

BatchQuery = Callable[[duckdb.DuckDBPyConnection], dict[str, pa.Table]]


def run(glob: str, rows: int, threads: int, query: BatchQuery) -> EngineRun:
    """Run a query over the Parquet files, reading included."""
    with duckdb.connect(config={"threads": threads}) as database:
        database.execute("SET TimeZone = 'UTC'")
        cpu_before_s, began = cpu_s(), time.perf_counter()
        database.read_parquet(glob).create_view("events")
        tables = query(database)
        return EngineRun(rows, time.perf_counter() - began, cpu_s() - cpu_before_s, (), tables)
