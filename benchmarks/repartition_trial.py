"""Trials of `repartition.py`: the number of workers changes while results keep coming; large state moves."""

import shutil
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import duckdb
import engine_spark
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from dataset import Dataset, made
from pyspark import cloudpickle
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

import shoal
from shoal.model.control.binding import Binding
from shoal.model.control.messages import Drain, EpochCommitted, Rebind, RunEnded
from shoal.policies.binding.static import round_robin
from shoal.runtimes.spark.cluster.session import spark_session
from shoal.runtimes.spark.driver.runtime import SparkRuntime, SparkSetup
from shoal.session.digest import differences
from shoal.workloads.traffic.events import TrafficEvents
from shoal.workloads.traffic.queries import STREAM, vehicles

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # Spark's Python workers do not import from this directory
LATENESS_S = 10
GROUPS = 64
PERIOD = 18
"""Epochs from one rebinding to the next."""
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
SCHEMA = "ts timestamp, vehicle long, region long, vehicle_type string, speed double"


@dataclass(frozen=True)
class Trial:
    """One run: `phases` are numbers of workers, and how many epochs each lasts."""

    kind: str
    data: str = ""
    cores: int = 2
    rows: int = 100_000
    phases: tuple[tuple[int, int], ...] = ((4, 24), (8, 12), (3, 12))
    keys: int = 0
    moves: int = 0
    mechanism: str = "all-at-once"
    hot: bool = True
    conf: Mapping[str, str] = field(default_factory=dict)


def data_of(trial: Trial) -> Dataset:
    """A file for every second; `trial.rows` vehicles report once a second."""
    events = TrafficEvents(vehicles=trial.rows, regions=100)
    files = sum(epochs for _, epochs in trial.phases)
    return made(Path(trial.data), f"traffic-{trial.rows}-vehicles", events, files, trial.rows, groups=2)


def expected(data: Dataset) -> dict[str, pa.Table]:
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


def shoal_trial(trial: Trial) -> dict[str, Any]:
    """Rebind while it runs."""
    data = data_of(trial)
    seconds = vehicles(LATENESS_S).partition_by("vehicle", groups=GROUPS).window(shoal.tumbling(1))
    query = seconds.aggregate(n=shoal.count(), speed=shoal.mean("speed")).sink("speeds")
    source = shoal.Files(str(data.path), rows_per_epoch=trial.rows, follow=False)
    job = shoal.Job.of("repartition", [query], {STREAM: source})
    spark = engine_spark.session(trial.cores)
    directory = tempfile.mkdtemp(prefix="benchmark-")
    given: list[list[float]] = []
    later, left = list(trial.phases[1:]), trial.phases[0][1]

    def watch(run: shoal.Run, done: EpochCommitted) -> None:
        nonlocal left
        if done.rows:
            given.append([time.time(), done.results, done.snapshot.binding.workers])
        left -= 1
        if left == 0 and later:
            workers, left = later.pop(0)
            run.rebind(round_robin(run.job.graph, workers))

    run = shoal.start(job, spark=spark, workers=trial.phases[0][0], checkpoint=directory, sink=shoal.MemorySink())
    run.wait(watch)
    assert isinstance(run.sink, shoal.MemorySink)
    results = {"speeds": _closed(run.sink.table("speeds"), data)}
    spark.stop()
    shutil.rmtree(directory, ignore_errors=True)
    return {"given": given, "wrong": differences(results, expected(data))}


def spark_trial(trial: Trial) -> dict[str, Any]:
    """Let the query end, repartition its state, start it again, as Spark's manual describes.

    Spark can repartition only the state of a query whose last micro-batch is finished, which a trigger for what is
    available sees to, and only in RocksDB.
    """
    data = data_of(trial)
    spark = engine_spark.session(trial.cores)
    spark.conf.set("spark.sql.streaming.stateStore.providerClass", ROCKSDB)
    spark.conf.set("spark.sql.shuffle.partitions", str(trial.phases[0][0]))
    directory = Path(tempfile.mkdtemp(prefix="benchmark-"))
    (directory / "input").mkdir()
    given: list[list[float]] = []
    tables: list[pa.Table] = []
    moving_s, taken = [], 0
    for number, (workers, epochs) in enumerate(trial.phases):

        def keep(batch: DataFrame, _: int, workers: int = workers) -> None:
            rows = batch.toArrow()
            tables.append(rows)
            given.append([time.time(), rows.num_rows, workers])

        for name in sorted(path.name for path in data.path.iterdir())[taken : taken + epochs]:
            (directory / "input" / name).hardlink_to(data.path / name)
        taken += epochs
        began = time.time()
        if number:
            manager = spark._streamingCheckpointManager  # noqa: SLF001  (no public interface yet)
            manager.repartition(str(directory / "checkpoint"), workers)
            moving_s.append(time.time() - began)
        query = _spark_query(spark, directory / "input").writeStream.foreachBatch(keep)
        query = query.option("checkpointLocation", str(directory / "checkpoint")).outputMode("append")
        query.trigger(availableNow=True).start().awaitTermination()
    spark.stop()
    shutil.rmtree(directory, ignore_errors=True)
    results = {"speeds": _closed(pa.concat_tables(table for table in tables if table.num_rows), data)}
    return {"given": given, "moving_s": moving_s, "wrong": differences(results, expected(data))}


def _spark_query(spark: Any, path: Path) -> DataFrame:
    rows = engine_spark.files(spark, path, SCHEMA, 1).withWatermark("ts", f"{LATENESS_S} seconds")
    grouped = rows.groupBy(f.window("ts", "1 second").alias("window"), "vehicle")
    values = grouped.agg(f.count("*").alias("n"), f.avg("speed").alias("speed"))
    return values.select("vehicle", f.col("window.end").alias("window_end"), "n", "speed")


@dataclass(frozen=True)
class Readings:
    """Readings of so many meters: one of each to begin with, then epoch after epoch of one meter in sixteen."""

    keys: int
    rows: int

    def numbers(self, start: int, stop: int) -> np.ndarray:
        n = np.arange(start, stop)
        mixed = n * 2_654_435_761 % (1 << 32)
        part = (n - self.keys) // self.rows * 4 + mixed % 4
        later = part % GROUPS + GROUPS * (mixed // 64 % (self.keys // GROUPS))
        return np.where(n < self.keys, n, later)

    def batch(self, start: int, stop: int) -> pa.RecordBatch:
        key = self.numbers(start, stop)
        times = pa.array(1_700_000_000_000_000 + np.arange(start, stop), pa.timestamp("us"))
        columns = [times, pa.array(key), pa.array(key % GROUPS), pa.array(key % 1000 / 8)]
        return pa.RecordBatch.from_arrays(columns, names=["ts", "key", "part", "x"])


def moves_trial(trial: Trial) -> dict[str, Any]:
    """Large state of which each epoch changes little; half of it moves repeatedly."""
    readings = Readings(trial.keys, trial.rows)
    stream = shoal.Stream("meters", {"ts": "timestamp", "key": "int64", "part": "int64", "x": "float64"}, time="ts")
    day = stream.partition_by("part", groups=GROUPS).key_by("key").window(shoal.tumbling(86_400))
    query = day.aggregate(n=shoal.count(), x=shoal.mean("x")).sink("days")
    source = shoal.Generator(readings, rows_per_epoch=trial.rows)
    graph, workers = shoal.Job.of("moves", [query], {"meters": source}).graph, trial.phases[0][0]
    spark = spark_session(trial.conf)
    directory, sink = tempfile.mkdtemp(prefix="benchmark-"), shoal.MemorySink()
    setup = SparkSetup(spark, directory, {"meters": source}, sink, mechanism=trial.mechanism, hot=trial.hot)
    runtime = SparkRuntime(setup)
    runtime.start(graph, round_robin(graph, workers))
    first = trial.keys // trial.rows + 6
    epochs: list[dict[str, Any]] = []
    for event in runtime.events():
        if isinstance(event, RunEnded) and event.error is not None:
            raise event.error
        if not isinstance(event, EpochCommitted) or event.epoch < first or not event.rows:
            continue
        epochs.append(_epoch(event))
        since = event.epoch - first
        if since >= PERIOD * trial.moves:
            runtime.apply(Drain())
        elif since % PERIOD == 3:
            runtime.apply(Rebind(_swapped(event.snapshot.binding)))
    days, consumed = sink.table("days"), runtime.consumed
    spark.stop()
    shutil.rmtree(directory, ignore_errors=True)
    return {"epochs": epochs, "wrong": _wrong(days, readings.numbers(0, consumed))}


def _swapped(binding: Binding) -> Binding:
    """Swap half of each worker's instances with those of a worker on the other executor."""
    half = binding.workers // 2
    moved = {
        instance: (worker + half) % binding.workers
        for number, (instance, worker) in enumerate(binding.worker_of.items())
        if number // binding.workers % 2
    }
    return Binding.of(moved, binding.workers)


def _epoch(event: EpochCommitted) -> dict[str, Any]:
    return {
        "s": event.latency_s,
        "moves": event.moves,
        "nodes": event.snapshot.topology.nodes if event.snapshot.topology else 1,
        "state_bytes": event.state_bytes,
        "moved_bytes": event.state_bytes_moved,
        "late_bytes": event.state_bytes_late,
        "ahead_bytes": event.state_bytes_ahead,
    }


def _wrong(days: pa.Table, keys: np.ndarray) -> list[str]:
    order = np.argsort(days["key"].to_numpy())
    counted = np.bincount(keys)
    right = np.array_equal(days["n"].to_numpy()[order], counted[counted > 0])
    mean = np.flatnonzero(counted) % 1000 / 8
    return [] if right and np.allclose(days["x"].to_numpy()[order], mean) else ["counts or means are not right"]


def run_trial(trial: Trial) -> dict[str, Any]:
    """Run it in this process."""
    return {"shoal": shoal_trial, "spark": spark_trial, "moves": moves_trial}[trial.kind](trial)


def gaps(given: Sequence[Sequence[float]]) -> list[tuple[int, int, float]]:
    """Workers before and after each result but the first, and the seconds without one in between."""
    results = [each for each in given if each[1]]
    return [(int(before[2]), int(after[2]), after[0] - before[0]) for before, after in pairwise(results)]
