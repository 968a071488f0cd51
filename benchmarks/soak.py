"""Hours in minutes: a workload at a fixed rate with durable results, and whether anything grows.

    python benchmarks/soak.py --quick
    python benchmarks/soak.py --minutes 30 --rate 100000
    python benchmarks/soak.py --minutes 28 --workload nexmark --rate 10000

Every few seconds: resident memory of the driver, the JVM and the Python workers, bytes of state, files in
the checkpoint, epoch time and latency. A series is flat if its trend over the last two thirds of the run
is small against its size or lost in its noise. `traffic` runs until its time is over, and its full windows are checked;
any other workload has as many events as the time and the rate make, and all its results are checked by its oracle.
The figures are docs/figures/soak.png and soak_<workload>.png, drawn by `report.py`.
"""

import argparse
import os
import shutil
import statistics
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb
import engine_spark
import figure
import numpy as np
import psutil
import pyarrow as pa
import record
import table

import shoal
from shoal.experiments.machine import cores, described, sentence
from shoal.model.control.messages import EpochCommitted
from shoal.session.digest import differences
from shoal.workloads.catalog import WORKLOADS
from shoal.workloads.traffic.events import TrafficEvents
from shoal.workloads.traffic.queries import STREAM, queries
from shoal.workloads.workload import Amount

REGIONS = 100
BOUNDED = {"nexmark": {"queries": "3,4,5,7,8"}}
"""Settings that leave out what needs no state (0 to 2) and what keeps every seller forever, as query 6 does."""
FLAT_SHARE = 0.10
"""A trend smaller than this share of the median over the judged part of the run counts as flat."""
SERIES = {
    "driver_mb": "driver, MB",
    "jvm_mb": "JVM, MB",
    "python_workers_mb": "Python workers, MB",
    "state_kb": "state, kB",
    "checkpoint_files": "files in the checkpoint",
    "epoch_ms": "epoch, ms",
    "latency_ms": "latency, ms",
}


@dataclass
class Samples:
    """Samples of a run; epochs come from the run, samples from the clock."""

    checkpoint: Path
    began_s: float = field(default_factory=time.monotonic)
    rows: list[dict[str, float]] = field(default_factory=list)
    _epochs: list[EpochCommitted] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def epoch(self, _: shoal.Run, event: EpochCommitted) -> None:
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
                "at_s": round(time.monotonic() - self.began_s, 1),
                **_memory_mb(),
                "state_kb": round(statistics.mean(epoch.state_bytes for epoch in epochs) / 1e3, 1),
                "checkpoint_files": sum(len(files) for _, _, files in os.walk(self.checkpoint)),
                "epoch_ms": round(statistics.median(epoch.duration_s for epoch in epochs) * 1000, 1),
                "latency_ms": round(statistics.median(epoch.latency_s for epoch in epochs) * 1000, 1),
                "events": sum(epoch.rows for epoch in epochs),
            }
        )

    def keep_taking(self, interval_s: float, done: threading.Event) -> None:
        while not done.wait(interval_s):
            self.take()


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
    return {kind: round(size / 1e6, 1) for kind, size in found.items()}


def verdicts(samples: list[dict[str, float]]) -> list[dict[str, Any]]:
    """The trend of every series over the last two thirds of the run."""
    late = samples[len(samples) // 3 :]
    at_s = np.array([sample["at_s"] for sample in late])
    found = []
    for name, title in SERIES.items():
        values = np.array([sample[name] for sample in late])
        slope, start = np.polyfit(at_s, values, 1)
        drift = slope * (at_s[-1] - at_s[0])
        noise = float(np.std(values - (slope * at_s + start)))
        median = float(np.median(values))
        flat = abs(drift) <= max(FLAT_SHARE * median, 2 * noise)
        found.append(
            {
                "series": title,
                "median": round(median, 1),
                "drift": round(float(drift), 2),
                "drift_per_hour": round(float(slope) * 3600, 2),
                "noise": round(noise, 2),
                "flat": bool(flat),
            }
        )
    return found


def wrong_counts(results: Path, events: TrafficEvents) -> str:
    """Compare every full window's vehicle counts with what the generator promises; says what is wrong."""
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
        return f"{bad} of {number} counts are wrong, over {ends} windows of {REGIONS} regions"
    return ""


@dataclass(frozen=True)
class Task:
    """What to run, whether it must be drained, and what is wrong with its results."""

    job: shoal.Job
    endless: bool
    wrong: Callable[[shoal.Run, shoal.ParquetSink], str]


def task(options: argparse.Namespace) -> Task:
    """A workload whose event time goes as fast as the clock."""
    if options.workload == "traffic":
        events = TrafficEvents(vehicles=options.rate, regions=REGIONS)
        source = shoal.Generator(events, rate=options.rate, rows_per_epoch=4 * options.rate)
        job = shoal.Job.of("soak", queries(REGIONS), {STREAM: source})
        return Task(job, True, lambda _, sink: wrong_counts(Path(sink.path), events))
    workload = WORKLOADS[options.workload]
    clock = {"per_s": str(options.rate)} if "per_s" in workload.settings else {}
    amount = Amount(round(options.rate * options.minutes * 60), options.rate, 4 * options.rate)
    ready = workload.ready(0, amount, {**clock, **BOUNDED.get(workload.name, {})})

    def wrong(run: shoal.Run, sink: shoal.ParquetSink) -> str:
        found = {name: sink.table(name) for name in sink.names()}
        return "; ".join(differences(found, ready.expected(run.consumed)))

    return Task(ready.job, False, wrong)


def soak(options: argparse.Namespace, directory: Path) -> tuple[list[dict[str, float]], dict[str, Any]]:
    """Run, sample, drain, check."""
    asked = task(options)
    spark = engine_spark.session(options.cores)
    samples = Samples(directory / "checkpoint")
    sink = shoal.ParquetSink(str(directory / "results"))
    run = shoal.start(asked.job, spark=spark, workers=options.cores, checkpoint=str(samples.checkpoint), sink=sink)
    done = threading.Event()
    sampler = threading.Thread(target=samples.keep_taking, args=(options.interval_s, done))
    sampler.start()
    timer = threading.Timer(options.minutes * 60, run.drain)
    if asked.endless:
        timer.start()
    try:
        tally = run.wait(samples.epoch)
    finally:
        done.set()
        timer.cancel()
        sampler.join()
    wrong = asked.wrong(run, sink)
    if wrong:
        raise RuntimeError(f"the results are wrong: {wrong}")
    totals = {
        "events": tally.events,
        "elapsed_s": round(tally.elapsed_s, 1),
        "events_per_s": round(tally.events / tally.elapsed_s),
        "epochs": tally.epochs,
        "results": tally.results,
        "latency_ms": tally.latency_ms(),
    }
    return samples.rows, totals


def rows_of_table(found: list[dict[str, Any]]) -> tuple[list[str], list[list[str]]]:
    header = ["series", "median", "drift", "drift/hour", "noise", "verdict"]
    rows = [
        [
            verdict["series"],
            f"{verdict['median']:,.0f}",
            f"{verdict['drift']:+,.1f}",
            f"{verdict['drift_per_hour']:+,.1f}",
            f"{verdict['noise']:,.1f}",
            "flat" if verdict["flat"] else "GROWS" if verdict["drift"] > 0 else "shrinks",
        ]
        for verdict in found
    ]
    return header, rows


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    record.add_options(parser, quick="half a minute, a sample every 2 s")
    parser.add_argument("--workload", default="traffic", choices=list(WORKLOADS), help="what to run (default traffic)")
    parser.add_argument("--minutes", type=float, help="how long (default 30; quick: 0.4)")
    parser.add_argument("--rate", type=int, help="events per second (default 200000; quick: 50000)")
    parser.add_argument("--interval-s", type=float, help="seconds between samples (default 10; quick: 2)")
    parser.add_argument("--cores", type=int, default=cores(), help="cores of the Spark session (default: all)")
    parser.add_argument("--place", type=Path, help="directory for checkpoint and results (default: temporary)")
    options = parser.parse_args()
    options.minutes = options.minutes or (0.4 if options.quick else 30)
    options.rate = options.rate or (50_000 if options.quick else 200_000)
    options.interval_s = options.interval_s or (2 if options.quick else 10)
    machine = described()
    print(sentence(machine), flush=True)
    directory = options.place or Path(tempfile.mkdtemp(prefix="benchmark-"))
    try:
        samples, totals = soak(options, directory)
    finally:
        if options.place is None:
            shutil.rmtree(directory, ignore_errors=True)
    found = verdicts(samples)
    print("results right; " + ", ".join(f"{name} {value}" for name, value in totals.items()))
    print(table.plain(*rows_of_table(found)))
    if options.quick:
        print("a quick run ends before the windows are full: its trends mean nothing")
    measured = {
        "workload": options.workload,
        "rate": options.rate,
        "minutes": options.minutes,
        "totals": totals,
        "verdicts": found,
        "samples": samples,
    }
    name = "soak" if options.workload == "traffic" else f"soak_{options.workload.replace('-', '_')}"
    path = record.written(name, measured, machine, options)
    figure.soak(measured, SERIES, machine, path.with_suffix(".png"))
    print(f"written to {path}")


if __name__ == "__main__":
    main()
