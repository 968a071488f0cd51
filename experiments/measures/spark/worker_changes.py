"""Another number of workers while results keep coming: 4, then 8, then 3.

Shoal rebinds while it runs. Spark's own stateful aggregation is brought to an end, its state repartitioned offline, and
started again, as Spark's manual describes. Measured is the time between the last result before a change and the first
one after it, against the usual time between two results.
"""

import shutil
import tempfile
import time
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

import shoal
from measures.outcome import checked
from measures.spark import on_plain_spark
from measures.spark.dataset import Dataset, made
from shoal.errors import RunError
from shoal.experiments.experiment import TrialOutcome
from shoal.model.control.messages import EpochCommitted
from shoal.policies.binding.static import round_robin
from shoal.session.digest import differences
from shoal.workloads.traffic.events import TrafficEvents
from shoal.workloads.traffic.queries import STREAM, vehicles

WORKERS = (4, 8, 3)
LATENESS_S = 10
GROUPS = 64
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
SCHEMA = "ts timestamp, vehicle long, region long, vehicle_type string, speed double"


@dataclass
class Changes:
    """When results were given, how many and with how many workers; and the seconds that changes took offline."""

    given: list[tuple[float, int, int]] = field(default_factory=list)
    offline_s: list[float] = field(default_factory=list)

    def metrics(self) -> dict[str, float]:
        """For each change, the time without results, and how many times the usual time that is."""
        results = [each for each in self.given if each[1]]
        gaps = [(before[2], after[2], after[0] - before[0]) for before, after in pairwise(results)]
        found: dict[str, float] = {}
        for number, (before, after) in enumerate(pairwise(WORKERS)):
            usual_s = [median(gap for old, new, gap in gaps if old == new == size) for size in (before, after)]
            without_s = next(gap for old, new, gap in gaps if (old, new) == (before, after))
            name = f"from_{before}_to_{after}"
            found |= {
                f"{name}.without_results_ms": 1000 * without_s,
                f"{name}.usual_before_ms": 1000 * usual_s[0],
                f"{name}.usual_after_ms": 1000 * usual_s[1],
                f"{name}.times_the_usual": without_s / max(usual_s),
                f"{name}.offline_ms": 1000 * self.offline_s[number] if self.offline_s else 0.0,
            }
        return found


def workers(
    engine: str, rows_per_epoch: int = 100_000, first_epochs: int = 24, later_epochs: int = 12, cores: int = 2
) -> TrialOutcome:
    """Count and mean speed of every vehicle and second, with three numbers of workers in turn."""
    epochs = (first_epochs, later_epochs, later_epochs)
    events = TrafficEvents(vehicles=rows_per_epoch, regions=100)
    data = made(f"traffic-{rows_per_epoch}-vehicles", events, sum(epochs), rows_per_epoch, groups=2)
    found, table = (_on_spark if engine == "spark-sql" else _on_shoal)(data, epochs, cores)
    return checked(found.metrics(), differences({"speeds": _closed(table, data)}, _expected(data)))


def _expected(data: Dataset) -> dict[str, pa.Table]:
    """Reports and mean speed of every vehicle in every second, as far as both engines have closed it at the end."""
    with duckdb.connect() as database:
        table = database.sql(f"""
            SELECT vehicle, make_timestamp((epoch_us(ts) // 1000000 + 1) * 1000000) AS window_end, count(*) AS n,
                   avg(speed) AS speed
            FROM read_parquet('{data.glob}') GROUP BY ALL
        """).to_arrow_table()
    return {"speeds": _closed(table, data)}


def _closed(table: pa.Table, data: Dataset) -> pa.Table:
    ends = table["window_end"].cast(pa.timestamp("us"))
    last = pa.scalar(data.newest("ts"), pa.timestamp("us")).cast(pa.int64()).as_py() - LATENESS_S * 1_000_000
    rows = table.set_column(table.column_names.index("window_end"), "window_end", ends)
    return rows.filter(pc.less_equal(ends.cast(pa.int64()), last))


def _on_shoal(data: Dataset, epochs: tuple[int, ...], cores: int) -> tuple[Changes, pa.Table]:
    """Rebind while it runs."""
    seconds = vehicles(LATENESS_S).partition_by("vehicle", groups=GROUPS).window(shoal.tumbling(1))
    query = seconds.aggregate(n=shoal.count(), speed=shoal.mean("speed")).sink("speeds")
    source = shoal.Files(str(data.path), rows_per_epoch=data.rows_per_file, follow=False)
    job = shoal.Job.of("workers", [query], {STREAM: source})
    spark, found = on_plain_spark.session(cores, for_shoal=True), Changes()
    later = list(zip(WORKERS, epochs, strict=True))
    _, left = later.pop(0)

    def watch(run: shoal.Run, done: EpochCommitted) -> None:
        nonlocal left
        if done.rows:
            found.given.append((time.time(), done.results, done.snapshot.binding.workers))
        left -= 1
        if left == 0 and later:
            number, left = later.pop(0)
            run.rebind(round_robin(run.job.graph, number))

    with tempfile.TemporaryDirectory(prefix="experiment-", ignore_cleanup_errors=True) as directory:
        run = shoal.start(job, spark=spark, workers=WORKERS[0], checkpoint=directory, sink=shoal.MemorySink())
        run.wait(watch)
        if not isinstance(run.sink, shoal.MemorySink):
            raise RunError(f"results must be in memory to be compared; got {type(run.sink).__name__}")
        table = run.sink.table("speeds")
        spark.stop()
    return found, table


def _on_spark(data: Dataset, epochs: tuple[int, ...], cores: int) -> tuple[Changes, pa.Table]:
    """Let the query end, repartition its state, start it again.

    Spark can repartition only the state of a query whose last micro-batch is finished, which a trigger for what is
    available sees to, and only in RocksDB.
    """
    spark, found = on_plain_spark.session(cores), Changes()
    spark.conf.set("spark.sql.streaming.stateStore.providerClass", ROCKSDB)
    spark.conf.set("spark.sql.shuffle.partitions", str(WORKERS[0]))
    directory = Path(tempfile.mkdtemp(prefix="experiment-"))
    (directory / "input").mkdir()
    tables: list[pa.Table] = []
    names = sorted(path.name for path in data.path.iterdir())
    for number, workers in enumerate(WORKERS):

        def keep(batch: DataFrame, _: int, workers: int = workers) -> None:
            tables.append(batch.toArrow())
            found.given.append((time.time(), tables[-1].num_rows, workers))

        for name in names[sum(epochs[:number]) : sum(epochs[: number + 1])]:
            (directory / "input" / name).hardlink_to(data.path / name)
        if number:
            began_s = time.time()
            manager = spark._streamingCheckpointManager  # noqa: SLF001  (no public interface yet)
            manager.repartition(str(directory / "checkpoint"), workers)
            found.offline_s.append(time.time() - began_s)
        query = _query(spark, directory / "input").writeStream.foreachBatch(keep)
        query = query.option("checkpointLocation", str(directory / "checkpoint")).outputMode("append")
        query.trigger(availableNow=True).start().awaitTermination()
    spark.stop()
    shutil.rmtree(directory, ignore_errors=True)
    return found, pa.concat_tables(table for table in tables if table.num_rows)


def _query(spark: Any, path: Path) -> DataFrame:
    rows = on_plain_spark.files(spark, path, SCHEMA, 1).withWatermark("ts", f"{LATENESS_S} seconds")
    grouped = rows.groupBy(f.window("ts", "1 second").alias("window"), "vehicle")
    values = grouped.agg(f.count("*").alias("n"), f.avg("speed").alias("speed"))
    return values.select("vehicle", f.col("window.end").alias("window_end"), "n", "speed")
