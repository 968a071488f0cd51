"""Plain Spark Structured Streaming: no part of Shoal but its session settings."""

import shutil
import tempfile
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import psutil
from pyspark.sql import DataFrame, SparkSession

from measures.spark.engine_run import EngineRun
from shoal.experiments.machine import cpu_s
from shoal.runtimes.spark.cluster.session import FULL_COMPILER, spark_session

# Settings that help plain Spark here; they have no effect on Shoal. The default state store takes a tenth to a
# quarter less CPU time than RocksDB; top-3 aggregates fall back to sorting at 128 keys by default; and large
# micro-batches spend their time in garbage collection with the 2 GB that are enough for Shoal.
STATE_STORE = "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"


def session(cores: int, *, for_shoal: bool = False) -> SparkSession:
    """Shoal's settings, of which plain Spark profits too, but for the compilers of the JVM, of which it gets all."""
    settings = {
        **({} if for_shoal else FULL_COMPILER),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": str(cores),
        "spark.sql.streaming.stateStore.providerClass": STATE_STORE,
        "spark.sql.objectHashAggregate.sortBased.fallbackThreshold": "1000000",
        "spark.driver.memory": f"{max(2, round(psutil.virtual_memory().total / 2**30 / 4))}g",
        "spark.sql.streaming.numRecentProgressUpdates": "10000",
    }
    return spark_session(settings, cores)


def files(spark: SparkSession, path: Any, schema: str, per_epoch: int) -> DataFrame:
    """A directory of Parquet files as a stream, with a number of files per micro-batch."""
    return spark.readStream.schema(schema).option("maxFilesPerTrigger", per_epoch).parquet(str(path))


def run(spark: SparkSession, queries: Mapping[str, DataFrame], sink: str = "memory") -> EngineRun:
    """Run queries side by side until the input ends; results go to Spark's memory sink.

    The time is from the first trigger to the end of the last micro-batch.
    """
    directory = tempfile.mkdtemp(prefix="experiment-")
    cpu_before_s = cpu_s()
    try:
        started = [
            frame.writeStream.format(sink)
            .queryName(name)
            .outputMode("append")
            .option("checkpointLocation", f"{directory}/{name}")
            .trigger(availableNow=True)
            .start()
            for name, frame in queries.items()
        ]
        for query in started:
            query.awaitTermination()
        used_s = cpu_s() - cpu_before_s
        progress = [query.recentProgress for query in started]
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    tables = {name: spark.table(name).toArrow() for name in queries} if sink == "memory" else {}
    begun = min(trigger_s(reports[0]) for reports in progress)
    ended = max(trigger_s(report) + phase_s(report, "triggerExecution") for reports in progress for report in reports)
    return EngineRun(
        rows=sum(report["numInputRows"] for report in progress[0]),
        elapsed_s=ended - begun,
        cpu_s=used_s,
        epochs_s=tuple(phase_s(report, "triggerExecution") for report in progress[0]),
        tables=tables,
        reports=tuple(progress[0]),
    )


def trigger_s(report: Any) -> float:
    """When a micro-batch was triggered."""
    return datetime.fromisoformat(report["timestamp"]).timestamp()


def phase_s(report: Any, phase: str) -> float:
    """How long a phase of a micro-batch took."""
    return report["durationMs"].get(phase, 0) / 1000
