"""Hours in minutes: a workload on Spark at a fixed rate with durable results, and whether anything grows.

Every few seconds: resident memory of the driver, the JVM and the Python workers, bytes of state, files in the
checkpoint, epoch time and latency. A series is flat if its trend over the last two thirds of the run is small against
its size or lost in its noise.
"""

import os
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import duckdb
import numpy as np
import psutil
import pyarrow as pa

import shoal
from measures.outcome import checked
from measures.spark import on_plain_spark
from shoal.experiments.experiment import TrialOutcome
from shoal.model.control.messages import EpochCommitted
from shoal.session.digest import differences
from shoal.workloads.catalog import workload as workload_named
from shoal.workloads.traffic.events import TrafficEvents
from shoal.workloads.traffic.queries import STREAM, queries
from shoal.workloads.workload import Amount

REGIONS = 100
BOUNDED = {"nexmark": {"queries": "3,4,5,7,8"}}
"""Settings that leave out what needs no state (0 to 2) and what keeps every seller forever, as query 6 does."""
FLAT_SHARE = 0.10
"""A trend smaller than this share of the median over the judged part of the run counts as flat."""
SERIES = ("driver_mb", "jvm_mb", "python_workers_mb", "state_kb", "checkpoint_files", "epoch_ms", "latency_ms")
FEWEST_SAMPLES = 6
"""With less there is no trend."""


@dataclass
class Samples:
    """Samples of a run; epochs come from the run, samples from the clock."""

    checkpoint: Path
    began_s: float = field(default_factory=time.monotonic)
    rows: list[dict[str, float]] = field(default_factory=list)
    _epochs: list[EpochCommitted] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def epoch(self, _: shoal.Run, event: EpochCommitted) -> None:
        """Remember an epoch until the next sample."""
        with self._lock:
            self._epochs.append(event)

    def take(self) -> None:
        """One sample: memory now, and the epochs since the last one."""
        with self._lock:
            epochs, self._epochs = self._epochs, []
        if not epochs:
            return
        self.rows.append(
            {
                "at_s": time.monotonic() - self.began_s,
                **_memory_mb(),
                "state_kb": statistics.mean(epoch.state_bytes for epoch in epochs) / 1e3,
                "checkpoint_files": sum(len(files) for _, _, files in os.walk(self.checkpoint)),
                "epoch_ms": statistics.median(epoch.duration_s for epoch in epochs) * 1000,
                "latency_ms": statistics.median(epoch.latency_s for epoch in epochs) * 1000,
            }
        )

    def keep_taking(self, interval_s: float, done: threading.Event) -> None:
        """Take samples until the run is done."""
        while not done.wait(interval_s):
            self.take()


@dataclass(frozen=True)
class SoakTask:
    """What to run, whether it must be drained, and what is wrong with its results."""

    job: shoal.Job
    endless: bool
    wrong: Callable[[shoal.Run, shoal.ParquetSink], list[str]]


def run(workload: str, minutes: float, rate: int, interval_s: float = 10.0, workers: int = 2) -> TrialOutcome:
    """Run, sample, drain, check.

    `traffic` runs until its time is over, and its full windows are checked; any other workload has as many events as
    the time and the rate make, and all its results are checked by its oracle. A series has its median, its drift over
    the judged part, its noise and whether it `grows`.
    """
    task = _traffic(rate) if workload == "traffic" else _bounded(workload, minutes, rate)
    with tempfile.TemporaryDirectory(prefix="experiment-", ignore_cleanup_errors=True) as name:
        directory = Path(name)
        samples, sink = Samples(directory / "checkpoint"), shoal.ParquetSink(str(directory / "results"))
        spark = on_plain_spark.session(workers, for_shoal=True)
        started = shoal.start(task.job, spark=spark, workers=workers, checkpoint=str(samples.checkpoint), sink=sink)
        done = threading.Event()
        sampler = threading.Thread(target=samples.keep_taking, args=(interval_s, done))
        timer = threading.Timer(minutes * 60, started.drain)
        sampler.start()
        if task.endless:
            timer.start()
        try:
            tally = started.wait(samples.epoch)
        finally:
            done.set()
            timer.cancel()
            sampler.join()
        wrong = task.wrong(started, sink)
    metrics: dict[str, float] = {
        "events": tally.events,
        "events_per_s": tally.events / tally.elapsed_s,
        "epochs": tally.epochs,
        "results": tally.results,
        **{f"latency_ms.{each}": value for each, value in (tally.latency_ms() or {}).items()},
    }
    series = {each: [[row["at_s"], row[each]] for row in samples.rows] for each in SERIES}
    return checked({**metrics, **trends(series)}, wrong, series=series)


def trends(series: Mapping[str, list[list[float]]]) -> dict[str, float]:
    """The trend of every series over the last two thirds of the run; none if there are too few samples.

    >>> trends({"mb": [[float(at), 100.0 + at] for at in range(90)]})["mb.grows"]
    1.0
    """
    metrics: dict[str, float] = {}
    for name, samples in series.items():
        late = np.array(samples[len(samples) // 3 :])
        if len(late) < FEWEST_SAMPLES:
            continue
        at_s, values = late.T
        slope, start = np.polyfit(at_s, values, 1)
        drift = slope * (at_s[-1] - at_s[0])
        noise, median = float(np.std(values - (slope * at_s + start))), float(np.median(values))
        grows = drift > max(FLAT_SHARE * median, 2 * noise)
        metrics |= {
            f"{name}.median": median,
            f"{name}.drift": float(drift),
            f"{name}.drift_per_hour": float(slope) * 3600,
            f"{name}.noise": noise,
            f"{name}.grows": float(grows),
        }
    return metrics


def _traffic(rate: int) -> SoakTask:
    """Event time goes as fast as the clock."""
    events = TrafficEvents(vehicles=rate, regions=REGIONS)
    source = shoal.Generator(events, rate=rate, rows_per_epoch=4 * rate)
    job = shoal.Job.of("soak", queries(REGIONS), {STREAM: source})
    return SoakTask(job, True, lambda _, sink: _wrong_counts(Path(sink.path), events))


def _bounded(name: str, minutes: float, rate: int) -> SoakTask:
    chosen = workload_named(name)
    clock = {"per_s": str(rate)} if "per_s" in chosen.settings else {}
    amount = Amount(round(rate * minutes * 60), rate, 4 * rate)
    ready = chosen.ready(0, amount, {**clock, **BOUNDED.get(chosen.name, {})})

    def wrong(run: shoal.Run, sink: shoal.ParquetSink) -> list[str]:
        found = {name: sink.table(name) for name in sink.names()}
        return differences(found, ready.expected(run.consumed))

    return SoakTask(ready.job, False, wrong)


def _memory_mb() -> dict[str, float]:
    """Resident memory by kind of process."""
    driver = psutil.Process()
    found = {"driver_mb": driver.memory_info().rss, "jvm_mb": 0, "python_workers_mb": 0}
    for process in driver.children(recursive=True):
        try:
            kind = "jvm_mb" if process.name() == "java" else "python_workers_mb"
            found[kind] += process.memory_info().rss
        except psutil.NoSuchProcess:
            continue
    return {kind: size / 1e6 for kind, size in found.items()}


def _wrong_counts(results: Path, events: TrafficEvents) -> list[str]:
    """Compare every full window's vehicle counts with what the generator promises."""
    wanted = pa.table({"region": range(REGIONS), "wanted": 10 * events.counts(0)})
    start = f"make_timestamp({events.start_us})"
    with duckdb.connect() as database:
        database.from_arrow(wanted).create_view("promised")
        database.read_parquet(f"{results}/vehicle_count/*.parquet").create_view("counted")
        # The last windows hold less, because the stream ended inside them.
        [(number, bad, ends)] = database.sql(f"""
            SELECT count(*), count(*) FILTER (vehicle_count <> wanted), count(DISTINCT window_end)
            FROM counted JOIN promised USING (region)
            WHERE window_end >= {start} + INTERVAL 10 SECOND
              AND window_end <= (SELECT max(window_end) FROM counted) - INTERVAL 10 SECOND
        """).fetchall()
    if not number or bad or number != ends * REGIONS:
        return [f"{bad} of {number} counts are wrong, over {ends} windows of {REGIONS} regions"]
    return []
