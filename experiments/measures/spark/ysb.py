"""The Yahoo! Streaming Benchmark on plain Spark, Shoal and DuckDB, over the same Parquet files.

Events of eight 64-bit numbers, 1 M per second of event time; a third are views. Views are projected, joined with a
static table (1,000 ads of 100 campaigns) and counted per campaign in windows of 10 s.
"""

from dataclasses import replace
from functools import partial

import duckdb
import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

import shoal
from measures.spark import on_duckdb, on_plain_spark, on_shoal
from measures.spark.comparison import Case, Contender, compared
from measures.spark.dataset import Dataset, made
from measures.spark.engine_run import EngineRun
from shoal.errors import ConfigError
from shoal.experiments.experiment import TrialOutcome
from shoal.workloads.ysb.events import NAMES, VIEW, YsbEvents
from shoal.workloads.ysb.oracle import SCHEMA, VIEWS, WINDOW_S, expected
from shoal.workloads.ysb.queries import STREAM, query

EVENTS = YsbEvents()
CAMPAIGN_OF_AD = EVENTS.campaign_of_ad()
ADS = pa.table({"ad_id": list(CAMPAIGN_OF_AD), "campaign": list(CAMPAIGN_OF_AD.values())})
SPARK_SCHEMA = ", ".join(f"{name} {'timestamp' if name == 'event_time' else 'long'}" for name in NAMES)
MOST_ROWS_PER_FILE = 1_000_000


def files(
    engine: str, rows_per_epoch: int = 1_000_000, epochs: int = 25, workers: int = 2, warm_up: bool = True
) -> TrialOutcome:
    """One engine over files of at most 1 M rows in eight row groups each."""
    per_file = min(rows_per_epoch, MOST_ROWS_PER_FILE)
    files_per_epoch = max(1, rows_per_epoch // per_file)
    data = made("ysb", EVENTS, files_per_epoch * epochs, per_file, groups=8)
    case = Case(data, files_per_epoch, epochs)
    return compared(
        _contender(engine, workers),
        case,
        lambda size: expected(size.glob, CAMPAIGN_OF_AD),
        "event_time",
        warm_up=warm_up,
    )


def _contender(engine: str, workers: int) -> Contender:
    if engine == "shoal-spark":
        return Contender(partial(_on_shoal, on_plain_spark.session(workers, for_shoal=True), workers))
    if engine == "spark-sql":
        return Contender(partial(_on_spark, on_plain_spark.session(workers)), emits_all=False)
    if engine == "duckdb":
        return Contender(lambda data, _: on_duckdb.run(data.glob, data.rows, workers, _duckdb_query))
    raise ConfigError(f"engine must be shoal-spark, spark-sql or duckdb; got {engine!r}")


def _on_spark(spark: SparkSession, data: Dataset, case: Case) -> EngineRun:
    events = on_plain_spark.files(spark, data.path, SPARK_SCHEMA, case.files_per_epoch)
    views = events.where(f.col("event_type") == VIEW).select("ad_id", "event_time")
    joined = views.join(f.broadcast(spark.createDataFrame(ADS)), "ad_id").withWatermark("event_time", "0 seconds")
    counted = joined.groupBy("campaign", f.window("event_time", f"{WINDOW_S} seconds")).count()
    result = counted.select("campaign", f.col("window.end").alias("window_end"), f.col("count").alias("views"))
    found = on_plain_spark.run(spark, {"views": result})
    return replace(found, tables={name: rows.cast(SCHEMA) for name, rows in found.tables.items()})


def _on_shoal(spark: SparkSession, workers: int, data: Dataset, case: Case) -> EngineRun:
    source = shoal.Files(str(data.path), rows_per_epoch=case.rows_per_epoch, follow=False)
    job = shoal.Job.of("ysb", [query(CAMPAIGN_OF_AD, EVENTS.campaigns)], {STREAM: source})
    return on_shoal.follow(spark, job, workers).measured()


def _duckdb_query(database: duckdb.DuckDBPyConnection) -> dict[str, pa.Table]:
    database.from_arrow(ADS).create_view("ads")
    return {"views": database.sql(VIEWS).to_arrow_table().cast(SCHEMA)}
