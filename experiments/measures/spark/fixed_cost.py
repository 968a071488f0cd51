"""What an almost empty epoch costs, on Shoal and on Spark's own stateful aggregation.

Files with one row each, one file per epoch. The steps from an empty micro-batch to Shoal's show what each part adds: a
Python stage, an exchange, a second Python stage, state, queries.
"""

from collections.abc import Callable, Iterator

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

import shoal
from measures.spark import on_plain_spark, on_shoal, phases
from measures.spark.dataset import Dataset, made
from shoal.errors import ConfigError, RunError
from shoal.experiments.experiment import TrialOutcome
from shoal.experiments.machine import cpu_by_kind_s
from shoal.workloads.traffic.events import TrafficEvents
from shoal.workloads.traffic.queries import STREAM, queries, vehicles

SPARK_SCHEMA = "ts timestamp, vehicle long, region long, vehicle_type string, speed double"
PARTITIONS = 2
Step = Callable[[DataFrame], DataFrame]


def epochs(step: str, epochs: int = 60, warm_up_epochs: int = 20, runs: int = 2, workers: int = 2) -> TrialOutcome:
    """Epochs of one row after some that warm up; of several runs the last one counts.

    CPU time per epoch includes what starting and ending the run takes.
    """
    steps = {**_spark_steps(), "shoal-1-query": None, "shoal-300-queries": None}
    if step not in steps:
        raise ConfigError(f"step must be one of {', '.join(steps)}; got {step!r}")
    rows = TrafficEvents(vehicles=1, regions=1)
    data = made("ticks", rows, warm_up_epochs + epochs, rows_per_file=1, groups=1)
    spark = on_plain_spark.session(workers, for_shoal=steps[step] is None)
    spark.conf.set("spark.sql.shuffle.partitions", PARTITIONS)
    chosen = steps[step]
    metrics: dict[str, float] = {}
    for _ in range(runs):
        before = cpu_by_kind_s()
        if chosen is not None:
            metrics = _on_spark(spark, data, warm_up_epochs, chosen)
        else:
            metrics = _on_shoal(spark, data, warm_up_epochs, single=step == "shoal-1-query")
        after = cpu_by_kind_s()
        for kind, used_s in after.items():
            metrics[f"cpu_ms.{kind.replace(' ', '_')}"] = (used_s - before[kind]) * 1000 / data.files
    return TrialOutcome(metrics)


def _spark_steps() -> dict[str, Step | None]:
    """Plain Spark, each step with a little more to do."""
    window = "30 seconds"

    def same(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from batches

    def stage(rows: DataFrame) -> DataFrame:
        return rows.mapInArrow(same, SPARK_SCHEMA)

    def exchange(rows: DataFrame) -> DataFrame:
        return stage(rows).repartition(PARTITIONS, "region")

    def aggregate(rows: DataFrame) -> DataFrame:
        windows = rows.withWatermark("ts", "0 seconds").groupBy("region", f.window("ts", window, "1 second"))
        return windows.agg(f.avg("speed").alias("avg_speed"))

    return {
        "spark-aggregate": aggregate,
        "spark-read": lambda rows: rows,
        "spark-python": stage,
        "spark-python-exchange": exchange,
        "spark-python-exchange-python": lambda rows: stage(exchange(rows)),
    }


def _on_spark(spark: SparkSession, data: Dataset, warm: int, step: Step) -> dict[str, float]:
    rows = on_plain_spark.files(spark, data.path, SPARK_SCHEMA, 1)
    found = on_plain_spark.run(spark, {"fixed_cost": step(rows)}, sink="noop")
    if found.rows != data.rows:
        raise RunError(f"Spark took in {found.rows} rows; expected {data.rows}")
    # AvailableNow may append a micro-batch without data.
    return phases.metrics(phases.of_spark(report) for report in found.reports[warm : data.files])


def _on_shoal(spark: SparkSession, data: Dataset, warm: int, *, single: bool) -> dict[str, float]:
    source = shoal.Files(str(data.path), files_per_epoch=1, follow=False)
    asked = [_single_query()] if single else list(queries(100))
    followed = on_shoal.follow(spark, shoal.Job.of("fixed_cost", asked, {STREAM: source}), PARTITIONS)
    if followed.run.tally.events != data.rows:
        raise RunError(f"Shoal took in {followed.run.tally.events} rows; expected {data.rows}")
    return phases.metrics(phases.of_shoal(followed, phases.stages(spark))[warm : data.files])


def _single_query() -> shoal.Query:
    windows = vehicles().key_by("region").window(shoal.hop(30, 1))
    return windows.aggregate(avg_speed=shoal.mean("speed")).sink("avg_speed")
