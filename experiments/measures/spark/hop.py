"""The three hopping-window queries of `traffic` on plain Spark, Shoal and DuckDB, over the same Parquet files.

Average speed by region and type (30 s every 1 s), vehicles by region (10 s), top-3 speeds by region and type (20 s);
100 regions, 100,000 vehicles that report once per second. Shoal runs them as 300 queries. Plain Spark and DuckDB do it
in two ways: with every window by itself, or by hand from panes of one second.
"""

from dataclasses import replace
from functools import partial

import duckdb
import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f

import shoal
from measures.spark import on_duckdb, on_plain_spark, on_shoal
from measures.spark.comparison import Case, Contender, compared
from measures.spark.dataset import Dataset, made
from measures.spark.engine_run import EngineRun
from shoal.errors import ConfigError
from shoal.experiments.experiment import TrialOutcome
from shoal.workloads.traffic.events import TrafficEvents
from shoal.workloads.traffic.oracle import SCHEMAS, WINDOW_S, expected
from shoal.workloads.traffic.queries import STREAM, queries

REGIONS = 100
VEHICLES = 100_000
MOST_ROWS_PER_FILE = 720_000
SPARK_SCHEMA = "ts timestamp, region long, vehicle_type string, speed double"
KEYS = {"avg_speed": ("region", "vehicle_type"), "vehicle_count": ("region",), "top_speed": ("region", "vehicle_type")}
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


def files(
    engine: str,
    form: str = "panes",
    rows_per_epoch: int = 720_000,
    epochs: int = 9,
    workers: int = 2,
    warm_up: bool = True,
) -> TrialOutcome:
    """One engine over files of at most 0.72 M rows with several row groups; `form` is `panes` or `windows`."""
    per_file = min(rows_per_epoch, MOST_ROWS_PER_FILE)
    files_per_epoch = max(1, rows_per_epoch // per_file)
    events = TrafficEvents(vehicles=VEHICLES, regions=REGIONS)
    data = made("traffic", events, files_per_epoch * epochs, per_file, groups=6)
    case = Case(data, files_per_epoch, epochs)
    contender = _contender(engine, form, workers)
    return compared(contender, case, lambda size: expected(size.glob), "ts", warm_up=warm_up)


def _contender(engine: str, form: str, workers: int) -> Contender:
    if engine == "shoal-spark" and form == "panes":
        return Contender(partial(_on_shoal, on_plain_spark.session(workers, for_shoal=True), workers))
    if engine == "spark-sql" and form in ("panes", "windows"):
        return Contender(partial(_on_spark, on_plain_spark.session(workers), form == "panes"), emits_all=False)
    if engine == "duckdb" and form in ("panes", "windows"):
        query = _duckdb_panes if form == "panes" else _duckdb_windows
        return Contender(lambda data, _: on_duckdb.run(data.glob, data.rows, workers, query))
    raise ConfigError(
        f"engine must be shoal-spark with form panes, or spark-sql or duckdb with form panes or windows; "
        f"got {engine!r} with {form!r}"
    )


def _window_queries(events: DataFrame) -> dict[str, DataFrame]:
    """The straightforward form: every event goes into each of its windows."""
    aggregates = {
        "avg_speed": f.avg("speed"),
        "vehicle_count": f.count("*"),
        "top_speed": f.expr("max_by(speed, speed, 3)"),
    }
    return {name: _hop(events, name, f.col("ts"), aggregate) for name, aggregate in aggregates.items()}


def _pane_queries(events: DataFrame) -> dict[str, DataFrame]:
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


def _hop(rows: DataFrame, name: str, time: Column, aggregate: Column) -> DataFrame:
    window = f.window(time, f"{WINDOW_S[name]} seconds", "1 second").alias("hop")
    grouped = rows.groupBy(*KEYS[name], window).agg(aggregate.alias(name))
    return grouped.select(*KEYS[name], f.col("hop.end").alias("window_end"), name)


def _on_spark(spark: SparkSession, panes: bool, data: Dataset, case: Case) -> EngineRun:
    stream = on_plain_spark.files(spark, data.path, SPARK_SCHEMA, case.files_per_epoch)
    events = stream.withWatermark("ts", "0 seconds")
    found = on_plain_spark.run(spark, _pane_queries(events) if panes else _window_queries(events))
    return replace(found, tables={name: rows.cast(SCHEMAS[name]) for name, rows in found.tables.items()})


def _on_shoal(spark: SparkSession, workers: int, data: Dataset, case: Case) -> EngineRun:
    source = shoal.Files(str(data.path), rows_per_epoch=case.rows_per_epoch, follow=False)
    return on_shoal.follow(spark, shoal.Job.of("hop", queries(REGIONS), {STREAM: source}), workers).measured()


def _duckdb_panes(database: duckdb.DuckDBPyConnection) -> dict[str, pa.Table]:
    database.execute(PANES)
    return {name: _windows(database, name, "panes", "pane", sql) for name, sql in WINDOWS_OF_PANES.items()}


def _duckdb_windows(database: duckdb.DuckDBPyConnection) -> dict[str, pa.Table]:
    second = "time_bucket(INTERVAL 1 SECOND, ts)"
    return {name: _windows(database, name, "events", second, sql) for name, sql in WINDOWS_OF_EVENTS.items()}


def _windows(database: duckdb.DuckDBPyConnection, name: str, rows: str, start: str, sql: str) -> pa.Table:
    windows = f"SELECT *, {start} + to_seconds(s) AS window_end FROM {rows}, range(1, {WINDOW_S[name] + 1}) AS ends(s)"
    result = database.sql(f"WITH windows AS ({windows}) {sql}").to_arrow_table()
    return result.rename_columns(SCHEMAS[name].names).cast(SCHEMAS[name])
