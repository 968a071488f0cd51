"""The three hopping-window queries of `traffic` on plain Spark, Shoal and DuckDB, over the same Parquet files.

    python benchmarks/hop.py --quick

Average speed by region and type (30 s every 1 s), vehicles by region (10 s), top-3 speeds by region and
type (20 s); 100 regions, 100,000 vehicles that report once per second. Shoal runs them as 300 queries.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import duckdb
import engine_duckdb
import engine_shoal
import engine_spark
import pyarrow as pa
from comparison import Case, Contender, measure, parser
from dataset import Dataset, made
from measured import Measured
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

import shoal
from shoal.workloads.traffic.events import TrafficEvents
from shoal.workloads.traffic.oracle import SCHEMAS, WINDOW_S, expected
from shoal.workloads.traffic.queries import STREAM, queries

REGIONS = 100
VEHICLES = 100_000
SPARK_SCHEMA = "ts timestamp, region long, vehicle_type string, speed double"
KEYS = {"avg_speed": ("region", "vehicle_type"), "vehicle_count": ("region",), "top_speed": ("region", "vehicle_type")}
SPARK_WINDOW, SPARK_PANES, SHOAL = "Spark, window()", "Spark, panes by hand", "Shoal on Spark"
DUCKDB_PANES, DUCKDB_NAIVE = "DuckDB, panes by hand", "DuckDB, every window"


def window_queries(events: DataFrame) -> dict[str, DataFrame]:
    """The straightforward form: every event goes into each of its windows."""
    aggregates = {
        "avg_speed": f.avg("speed"),
        "vehicle_count": f.count("*"),
        "top_speed": f.expr("max_by(speed, speed, 3)"),
    }
    return {name: _hop(events, name, "ts", aggregate) for name, aggregate in aggregates.items()}


def pane_queries(events: DataFrame) -> dict[str, DataFrame]:
    """Two aggregations, one after the other: seconds first, then windows of seconds."""
    seconds = {name: events.groupBy(*keys, f.window("ts", "1 second")) for name, keys in KEYS.items()}
    sums = seconds["avg_speed"].agg(f.sum("speed").alias("total"), f.count("*").alias("n"))
    counts = seconds["vehicle_count"].agg(f.count("*").alias("n"))
    tops = seconds["top_speed"].agg(f.expr("max_by(speed, speed, 3)").alias("top"))
    return {
        "avg_speed": _hop(sums, "avg_speed", f.window_time("window"), f.sum("total") / f.sum("n")),
        "vehicle_count": _hop(counts, "vehicle_count", f.window_time("window"), f.sum("n")),
        "top_speed": _hop(
            tops.withColumn("speed", f.explode("top")),
            "top_speed",
            f.window_time("window"),
            f.expr("max_by(speed, speed, 3)"),
        ),
    }


def _hop(rows: DataFrame, name: str, time: object, aggregate: object) -> DataFrame:
    window = f.window(time, f"{WINDOW_S[name]} seconds", "1 second").alias("hop")
    grouped = rows.groupBy(*KEYS[name], window).agg(aggregate.alias(name))
    return grouped.select(*KEYS[name], f.col("hop.end").alias("window_end"), name)


PANES = """
CREATE TEMP TABLE panes AS
SELECT region, vehicle_type, time_bucket(INTERVAL 1 SECOND, ts) AS pane,
       count(*) AS n, sum(speed) AS total, max(speed, 3) AS fastest
FROM events GROUP BY ALL
"""
WINDOWS_OF_PANES = {
    "avg_speed": "SELECT region, vehicle_type, window_end, sum(total) / sum(n) FROM windows GROUP BY ALL",
    "vehicle_count": "SELECT region, window_end, sum(n) FROM windows GROUP BY ALL",
    "top_speed": """SELECT region, vehicle_type, window_end, max(speed, 3)
        FROM (SELECT * EXCLUDE fastest, unnest(fastest) AS speed FROM windows) GROUP BY ALL""",
}
WINDOWS_OF_EVENTS = {
    "avg_speed": "SELECT region, vehicle_type, window_end, avg(speed) FROM windows GROUP BY ALL",
    "vehicle_count": "SELECT region, window_end, count(*) FROM windows GROUP BY ALL",
    "top_speed": "SELECT region, vehicle_type, window_end, max(speed, 3) FROM windows GROUP BY ALL",
}


def duckdb_panes(database: duckdb.DuckDBPyConnection) -> dict[str, pa.Table]:
    database.execute(PANES)
    return {name: _windows(database, name, "panes", "pane", sql) for name, sql in WINDOWS_OF_PANES.items()}


def duckdb_naive(database: duckdb.DuckDBPyConnection) -> dict[str, pa.Table]:
    second = "time_bucket(INTERVAL 1 SECOND, ts)"
    return {name: _windows(database, name, "events", second, sql) for name, sql in WINDOWS_OF_EVENTS.items()}


def _windows(database: duckdb.DuckDBPyConnection, name: str, rows: str, start: str, sql: str) -> pa.Table:
    windows = f"SELECT *, {start} + to_seconds(s) AS window_end FROM {rows}, range(1, {WINDOW_S[name] + 1}) AS ends(s)"
    result = database.sql(f"WITH windows AS ({windows}) {sql}").to_arrow_table()
    return result.rename_columns(SCHEMAS[name].names).cast(SCHEMAS[name])


def on_spark(spark: SparkSession, panes: bool, data: Dataset, case: Case) -> Measured:
    events = engine_spark.files(spark, data.path, SPARK_SCHEMA, case.files_per_epoch).withWatermark("ts", "0 seconds")
    measured = engine_spark.run(spark, pane_queries(events) if panes else window_queries(events))
    tables = {name: rows.cast(SCHEMAS[name]) for name, rows in measured.tables.items()}
    return replace(measured, tables=tables)


def on_shoal(spark: SparkSession, workers: int, data: Dataset, case: Case) -> Measured:
    source = shoal.Files(str(data.path), rows_per_epoch=case.rows_per_epoch, follow=False)
    job = shoal.Job.of("hop", queries(REGIONS), {STREAM: source})
    return engine_shoal.follow(spark, job, workers).measured()


def contenders(spark: SparkSession, workers: int) -> list[Contender]:
    return [
        Contender(SHOAL, partial(on_shoal, spark, workers)),
        Contender(SPARK_PANES, partial(on_spark, spark, True), emits_all=False),
        Contender(
            SPARK_WINDOW,
            partial(on_spark, spark, False),
            emits_all=False,
            slow=True,
        ),
        Contender(DUCKDB_PANES, lambda data, _: engine_duckdb.run(data.glob, data.rows, workers, duckdb_panes)),
        Contender(
            DUCKDB_NAIVE, lambda data, _: engine_duckdb.run(data.glob, data.rows, workers, duckdb_naive), slow=True
        ),
    ]


def cases(root: Path, rows_per_epoch: Sequence[int], quick: bool) -> list[Case]:
    """Files of 0.1 M rows for small epochs, of 0.72 M rows for large ones, all with several row groups."""
    events = TrafficEvents(vehicles=VEHICLES, regions=REGIONS)
    found = []
    for rows in rows_per_epoch:
        per_file = min(rows, 720_000)
        files = max(1, rows // per_file)
        epochs = (1, 2) if quick else (10, 30) if rows < 500_000 else (3, 9) if rows < 5_000_000 else (2, 6)
        slow = (1, 2) if quick else (5, 10) if rows < 500_000 else (1, 2)
        data = made(root, "traffic", events, files * epochs[1], per_file, groups=6)
        found.append(Case(data, files, epochs, slow))
    return found


def main() -> None:
    default = (100_000, 720_000, 7_200_000)
    options = parser(__doc__, default).parse_args()
    rows_per_epoch = options.rows_per_epoch or ([20_000] if options.quick else default)
    measure(
        "hop",
        contenders(engine_spark.session(options.cores), options.cores),
        cases(options.data, rows_per_epoch, options.quick),
        lambda data: expected(data.glob),
        "ts",
        [SPARK_WINDOW, SPARK_PANES, DUCKDB_PANES],
        options,
    )


if __name__ == "__main__":
    main()
