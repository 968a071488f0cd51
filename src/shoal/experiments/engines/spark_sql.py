"""Plain Spark Structured Streaming as a peer: the same events from Parquet files, a file per micro-batch."""

import json
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from shoal.experiments import files
from shoal.experiments.queries import peer_query
from shoal.experiments.workload_trial import WorkloadTrial
from shoal.workloads.workload import Ready
from shoal.workloads.ysb.events import YsbEvents

FAR_US = 4_000_000_000_000_000
LAST_ROWS = 1000
SETTINGS = {"spark.sql.session.timeZone": "UTC", "spark.driver.memory": "4g"}
TYPES = {"time": "timestamp", "long": "long", "double": "double", "text": "string"}


def run(
    trial: WorkloadTrial, made: Ready, report: Callable[[dict[str, Any]], None] | None = None
) -> tuple[float, Mapping[str, pa.Table]]:
    """Time from the first trigger to the last result, and the results, without windows that are still open.

    `report` is called with Spark's progress of every micro-batch.
    """
    from shoal.runtimes.spark.cluster.session import FULL_COMPILER, spark_session

    query = peer_query(trial.workload, trial.engine, trial.settings)
    source = files.generator(made, trial)
    with tempfile.TemporaryDirectory(prefix="shoal-bench-") as text:
        directory = Path(text)
        (directory / "events").mkdir()
        files.write(made, trial, directory / "events", "parquet")
        _write_last(directory / "events")
        settings = {**FULL_COMPILER, **SETTINGS, "spark.sql.shuffle.partitions": str(trial.workers)}
        spark = spark_session(settings, trial.workers)
        schema = ", ".join(f"{name} {TYPES[kind]}" for name, kind in query.columns)
        stream = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(directory / "events"))
        stream.withWatermark(query.time, "0 seconds").createOrReplaceTempView("events")
        if isinstance(source.made_by, YsbEvents):
            pairs = list(source.made_by.campaign_of_ad().items())
            spark.createDataFrame(pairs, "ad_id long, campaign long").createOrReplaceTempView("ads")
        result = spark.sql(query.spark)
        began = time.perf_counter()
        writing = result.writeStream.format("memory").queryName(query.table).outputMode("append")
        started = writing.option("checkpointLocation", str(directory / "state")).trigger(availableNow=True).start()
        started.awaitTermination()
        elapsed_s = time.perf_counter() - began
        if report is not None:
            for progress in started.recentProgress:
                report(json.loads(progress.json))
        table = pa.table(spark.table(query.table).toArrow())
        spark.stop()
    return elapsed_s, {query.table: _plain(table)}


def _write_last(directory: Path) -> None:
    """Events far in the future, so that Spark closes every window before it stops.

    There are many, because Spark filters before it advances the watermark: some of them pass.
    """
    import pyarrow.parquet as pq

    written = sorted(directory.glob("*.parquet"))
    newest = written[-1]
    last = pq.read_table(newest).slice(0, LAST_ROWS)
    far = pa.array([FAR_US] * last.num_rows, pa.int64())
    for name in last.schema.names:
        if pa.types.is_timestamp(last.schema.field(name).type):
            at = last.schema.get_field_index(name)
            last = last.set_column(at, name, far.cast(pa.timestamp("us")))
    for number in (len(written), len(written) + 1):
        path = directory / f"{number:06}.parquet"
        pq.write_table(last, path)
        files.in_order(path, number)


def _plain(table: pa.Table) -> pa.Table:
    """Times without a zone, as the oracle has them."""
    at = table.schema.get_field_index("window_end")
    return table.set_column(at, "window_end", table["window_end"].cast(pa.timestamp("us")))
