"""The Yahoo! Streaming Benchmark on plain Spark, Shoal and DuckDB, over the same Parquet files.

    python benchmarks/ysb.py --quick

Events of eight 64-bit numbers, 1 M per second of event time; a third are views. Views are projected, joined
with a static table (1,000 ads of 100 campaigns) and counted per campaign in windows of 10 s.
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
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

import shoal
from shoal.workloads.ysb.events import NAMES, VIEW, YsbEvents
from shoal.workloads.ysb.oracle import SCHEMA, VIEWS, WINDOW_S, expected
from shoal.workloads.ysb.queries import STREAM, query

EVENTS = YsbEvents()
CAMPAIGN_OF_AD = EVENTS.campaign_of_ad()
ADS = pa.table({"ad_id": list(CAMPAIGN_OF_AD), "campaign": list(CAMPAIGN_OF_AD.values())})
SPARK_SCHEMA = ", ".join(f"{name} {'timestamp' if name == 'event_time' else 'long'}" for name in NAMES)
SPARK, SHOAL, DUCKDB = "Spark", "Shoal on Spark", "DuckDB"


def on_spark(spark: SparkSession, data: Dataset, case: Case) -> Measured:
    events = engine_spark.files(spark, data.path, SPARK_SCHEMA, case.files_per_epoch)
    views = events.where(f.col("event_type") == VIEW).select("ad_id", "event_time")
    joined = views.join(f.broadcast(spark.createDataFrame(ADS)), "ad_id").withWatermark("event_time", "0 seconds")
    counted = joined.groupBy("campaign", f.window("event_time", f"{WINDOW_S} seconds")).count()
    result = counted.select("campaign", f.col("window.end").alias("window_end"), f.col("count").alias("views"))
    measured = engine_spark.run(spark, {"views": result})
    tables = {name: rows.cast(SCHEMA) for name, rows in measured.tables.items()}
    return replace(measured, tables=tables)


def on_shoal(spark: SparkSession, workers: int, data: Dataset, case: Case) -> Measured:
    source = shoal.Files(str(data.path), rows_per_epoch=case.rows_per_epoch, follow=False)
    job = shoal.Job.of("ysb", [query(CAMPAIGN_OF_AD, EVENTS.campaigns)], {STREAM: source})
    return engine_shoal.follow(spark, job, workers).measured()


def on_duckdb(database: duckdb.DuckDBPyConnection) -> dict[str, pa.Table]:
    database.from_arrow(ADS).create_view("ads")
    return {"views": database.sql(VIEWS).to_arrow_table().cast(SCHEMA)}


def contenders(spark: SparkSession, workers: int) -> list[Contender]:
    return [
        Contender(SHOAL, partial(on_shoal, spark, workers)),
        Contender(SPARK, partial(on_spark, spark), emits_all=False),
        Contender(DUCKDB, lambda data, _: engine_duckdb.run(data.glob, data.rows, workers, on_duckdb)),
    ]


def cases(root: Path, rows_per_epoch: Sequence[int], quick: bool) -> list[Case]:
    """Files of at most 1 M rows, eight row groups each; no engine is slow here."""
    found = []
    for rows in rows_per_epoch:
        per_file = min(rows, 1_000_000)
        files = max(1, rows // per_file)
        epochs = (1, 2) if quick else (5, 25) if rows < 5_000_000 else (1, 4)
        data = made(root, "ysb", EVENTS, files * epochs[1], per_file, groups=8)
        found.append(Case(data, files, epochs, epochs))
    return found


def main() -> None:
    default = (1_000_000, 8_000_000)
    options = parser(__doc__, default).parse_args()
    rows_per_epoch = options.rows_per_epoch or ([200_000] if options.quick else default)
    measure(
        "ysb",
        contenders(engine_spark.session(options.cores), options.cores),
        cases(options.data, rows_per_epoch, options.quick),
        lambda data: expected(data.glob, CAMPAIGN_OF_AD),
        "event_time",
        [SPARK, DUCKDB],
        options,
    )


if __name__ == "__main__":
    main()
