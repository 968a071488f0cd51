"""Two executors and a large state of which little changes; half of it moves repeatedly.

It moves in steps (gradual), all at once (lazy), or announced an epoch before and read ahead (pre-copy). Epochs with
moves, and those without, are compared with the median of the latter.
"""

import sys
import tempfile
from dataclasses import dataclass
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark import cloudpickle

import shoal
from measures.outcome import checked
from shoal.experiments.experiment import TrialOutcome
from shoal.model.control.binding import Binding
from shoal.model.control.messages import Drain, EpochCommitted, Rebind, RunEnded
from shoal.policies.binding.static import round_robin
from shoal.runtimes.spark.cluster.session import spark_session
from shoal.runtimes.spark.driver.runtime import SparkRuntime, SparkSetup

GROUPS, WORKERS = 64, 4
PERIOD = 18
"""Epochs from one rebinding to the next."""
WARMING = 6
"""Epochs after the state is there that do not count."""
LATE = 1.2
"""An epoch that takes more than this many times the usual time counts as delayed."""
CLUSTER = {"spark.master": "local-cluster[2,1,2048]", "spark.executor.memory": "1800m", "spark.log.level": "OFF"}


@dataclass(frozen=True)
class Readings:
    """Readings of so many meters: one of each to begin with, then epoch after epoch of one meter in sixteen."""

    keys: int
    rows: int

    def numbers(self, start: int, stop: int) -> np.ndarray:
        """The meters of readings start .. stop - 1."""
        n = np.arange(start, stop)
        mixed = n * 2_654_435_761 % (1 << 32)
        part = (n - self.keys) // self.rows * 4 + mixed % 4
        later = part % GROUPS + GROUPS * (mixed // 64 % (self.keys // GROUPS))
        return np.where(n < self.keys, n, later)

    def batch(self, start: int, stop: int) -> pa.RecordBatch:
        """Readings number start .. stop - 1."""
        key = self.numbers(start, stop)
        times = pa.array(1_700_000_000_000_000 + np.arange(start, stop), pa.timestamp("us"))
        columns = [times, pa.array(key), pa.array(key % GROUPS), pa.array(key % 1000 / 8)]
        return pa.RecordBatch.from_arrays(columns, names=["ts", "key", "part", "x"])


def moves(mechanism: str, keys: int = 3_000_000, rows_per_epoch: int = 100_000, rebindings: int = 5) -> TrialOutcome:
    """Run until half of the state has moved so many times."""
    register: Any = cloudpickle.register_pickle_by_value
    register(sys.modules[Readings.__module__])  # executors do not import from here
    readings = Readings(keys, rows_per_epoch)
    stream = shoal.Stream("meters", {"ts": "timestamp", "key": "int64", "part": "int64", "x": "float64"}, time="ts")
    day = stream.partition_by("part", groups=GROUPS).key_by("key").window(shoal.tumbling(86_400))
    query = day.aggregate(n=shoal.count(), x=shoal.mean("x")).sink("days")
    source = shoal.Generator(readings, rows_per_epoch=rows_per_epoch)
    graph = shoal.Job.of("moves", [query], {"meters": source}).graph
    spark, sink = spark_session(CLUSTER), shoal.MemorySink()
    with tempfile.TemporaryDirectory(prefix="experiment-", ignore_cleanup_errors=True) as directory:
        runtime = SparkRuntime(SparkSetup(spark, directory, {"meters": source}, sink, mechanism=mechanism, hot=True))
        runtime.start(graph, round_robin(graph, WORKERS))
        epochs = _followed(runtime, keys // rows_per_epoch + WARMING, rebindings)
        wrong = _wrong(sink.table("days"), readings.numbers(0, runtime.consumed))
        spark.stop()
    return checked(_metrics(epochs, rebindings), wrong)


def _followed(runtime: SparkRuntime, first: int, rebindings: int) -> list[EpochCommitted]:
    """Rebind at a fixed distance, and end after the last time."""
    epochs: list[EpochCommitted] = []
    for event in runtime.events():
        if isinstance(event, RunEnded) and event.error is not None:
            raise event.error
        if not isinstance(event, EpochCommitted) or event.epoch < first or not event.rows:
            continue
        epochs.append(event)
        since = event.epoch - first
        if since >= PERIOD * rebindings:
            runtime.apply(Drain())
        elif since % PERIOD == 3:
            runtime.apply(Rebind(_swapped(event.snapshot.binding)))
    return epochs


def _swapped(binding: Binding) -> Binding:
    """Swap half of each worker's instances with those of a worker on the other executor."""
    half = binding.workers // 2
    moved = {
        instance: (worker + half) % binding.workers
        for number, (instance, worker) in enumerate(binding.worker_of.items())
        if number // binding.workers % 2
    }
    return Binding.of(moved, binding.workers)


def _metrics(epochs: list[EpochCommitted], rebindings: int) -> dict[str, float]:
    moving = [epoch for epoch in epochs if epoch.moves]
    usual_s = median(epoch.latency_s for epoch in epochs if not epoch.moves)
    still = [epoch.latency_s / usual_s for epoch in epochs if not epoch.moves]
    ratios = [epoch.latency_s / usual_s for epoch in moving]
    ahead = [epoch.state_bytes_ahead for epoch in epochs if epoch.state_bytes_ahead]
    return {
        "epoch_ms": 1000 * usual_s,
        "moving_epoch_ms": 1000 * median(epoch.latency_s for epoch in moving),
        "times_the_usual": median(ratios),
        "late_percent.moving": 100 * sum(ratio > LATE for ratio in ratios) / len(ratios),
        "late_percent.others": 100 * sum(ratio > LATE for ratio in still) / len(still),
        "state_mb": median(epoch.state_bytes for epoch in epochs) / 1e6,
        "epochs_per_rebinding": len(moving) / rebindings,
        "moved_mb_per_epoch": median(epoch.state_bytes_moved for epoch in moving) / 1e6,
        "late_mb_per_epoch": median(epoch.state_bytes_late for epoch in moving) / 1e6,
        "read_ahead_mb": median(ahead) / 1e6 if ahead else 0.0,
    }


def _wrong(days: pa.Table, keys: np.ndarray) -> list[str]:
    order = np.argsort(days["key"].to_numpy())
    counted = np.bincount(keys)
    right = np.array_equal(days["n"].to_numpy()[order], counted[counted > 0])
    mean = np.flatnonzero(counted) % 1000 / 8
    return [] if right and np.allclose(days["x"].to_numpy()[order], mean) else ["counts or means are not right"]
