"""A hot key group: one of 64 has 40 or 70 % of the events. With and without splitting it, on Spark and on threads.

    python benchmarks/hot_group.py --quick

The query looks for a pattern per vehicle, whose key groups are bound to workers one by one. Both runs of a runtime take
in the same events under the policy `guarded`; in one it may split instances, in the other (`split=0`) not. Every trial
is a process of its own, and results are compared by digest, with those of the single-threaded reference runtime as
well, before anything is said. On Spark there are four slots, on the local runtime two threads.
"""

import argparse
import json
import subprocess
import sys
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa
from record import add_options, written
from table import plain

from shoal.connectors.sinks import MemorySink
from shoal.connectors.sources.generator import Generator
from shoal.control.settings import ControlSettings
from shoal.experiments.machine import described
from shoal.language.python.stream import Stream
from shoal.model.query.expression import col
from shoal.model.query.graph import Query
from shoal.model.query.pattern import prev
from shoal.session.digest import result_digest
from shoal.session.job import Job
from shoal.session.run import start

GROUPS, HOT_GROUP = 64, 7
SHARES = (0.4, 0.7)
"""Parts of all events that the hot group has."""
VEHICLES_PER_GROUP = 500
PER_S = 20_000
"""Events per second of event time."""
HEADER = ["", "M events/s", "mean ms", "p99 ms", "splits", "instances", "moves", "results"]


@dataclass(frozen=True)
class HotGroupEvents:
    """Vehicles and speeds, each a function of its number; vehicles of one key group have a share of the events."""

    share: float

    def batch(self, start: int, stop: int) -> pa.RecordBatch:
        number = np.arange(start, stop, dtype=np.uint64)
        mixed = (number + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
        mixed ^= mixed >> np.uint64(31)
        mixed *= np.uint64(0xD6E8FEB86659FD93)
        mixed ^= mixed >> np.uint64(29)
        hot = (mixed % np.uint64(1000)) < np.uint64(1000 * self.share)
        group = np.where(hot, HOT_GROUP, (mixed >> np.uint64(10)) % np.uint64(GROUPS)).astype(np.int64)
        member = ((mixed >> np.uint64(20)) % np.uint64(VEHICLES_PER_GROUP)).astype(np.int64)
        speed = ((mixed >> np.uint64(40)) % np.uint64(200)).astype(np.int64)
        times = (number.astype(np.int64) * 1_000_000) // PER_S
        return pa.RecordBatch.from_arrays(
            [pa.array(times, pa.timestamp("us")), pa.array(group + GROUPS * member), pa.array(speed)],
            names=["ts", "vehicle", "speed"],
        )


def query() -> Query:
    """Vehicles that slow down three times in a row, each time from a lower speed."""
    reports = Stream("reports", {"ts": "timestamp", "vehicle": "int64", "speed": "int64"}, time="ts", max_ahead_s=None)
    slower = col("speed") < prev("speed")
    found = reports.partition_by("vehicle", groups=GROUPS).match(
        "A B B C",
        within_s=20,
        define={"B": slower, "C": slower & (col("speed") < 60)},
        measures={"first": "first(A.speed)", "last": "last(C.speed)"},
        after="next_row",
    )
    return found.sink("slowing")


@dataclass(frozen=True)
class Trial:
    """One run and its label."""

    label: str
    on: str
    events: int
    workers: int
    epoch_rows: int
    split: bool
    share: float


def run_trial(trial: Trial) -> dict[str, Any]:
    """Run the trial in this process."""
    source = Generator(HotGroupEvents(trial.share), trial.events, rows_per_epoch=trial.epoch_rows)
    job = Job.of("hot-group", [query()], {"reports": source})
    given: dict[str, Any] = {}
    if trial.on == "spark":
        from shoal.runtimes.spark.cluster.session import spark_session

        given["spark"] = spark_session(cores=trial.workers)
    if trial.on != "reference":
        given["policy"] = "guarded"
    control = {"window_s": "0.5", "rest_s": "0.5", "split": "1.1" if trial.split else "0"}
    run = start(job, on=trial.on, workers=trial.workers, control=ControlSettings.of(control), **given)
    tally = run.wait()
    assert isinstance(run.sink, MemorySink)
    return {
        "events": tally.events,
        "events_per_s": tally.events / tally.elapsed_s,
        "latency_ms": tally.latency_ms(),
        "moves": tally.moves,
        "splits": run.partitioning.version,
        "instances": len(run.instances),
        "results": tally.results,
        "digest": result_digest({"slowing": run.sink.table("slowing")}),
    }


def in_its_own_process(trial: Trial) -> dict[str, Any]:
    command = [sys.executable, __file__, "--trial", json.dumps(asdict(trial))]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"trial {trial.label} failed:\n{done.stderr[-3000:]}")
    return dict(json.loads(done.stdout.splitlines()[-1]))


def trials(quick: bool) -> list[list[Trial]]:
    """Groups of trials with the same events; the first of each is the reference."""
    spark, local = (800_000, 400_000) if quick else (3_000_000, 3_000_000)
    return [
        [
            Trial(f"{on} {share:.0%}, reference runtime", "reference", events, 1, rows, split=False, share=share),
            Trial(f"{on} {share:.0%}, whole", on, events, workers, rows, split=False, share=share),
            Trial(f"{on} {share:.0%}, split", on, events, workers, rows, split=True, share=share),
        ]
        for share in SHARES
        for on, events, workers, rows in (("spark", spark, 4, 200_000), ("local", local, 2, 200_000))
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_options(parser, "a tenth of the events, once")
    parser.add_argument("--repeat", type=int, default=3, help="runs of every trial, in turn")
    parser.add_argument("--trial", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.trial:
        print(json.dumps(run_trial(Trial(**json.loads(options.trial)))))
        return
    measured: dict[str, list[dict[str, Any]]] = {}
    for group in trials(options.quick):
        digests = set()
        for number in range(1 if options.quick else options.repeat):
            for trial in group[1:] if number else group:
                found = in_its_own_process(trial)
                digests.add(found["digest"])
                measured.setdefault(trial.label, []).append(found)
        if len(digests) != 1:
            raise RuntimeError(f"results of {group[1].on} differ: {digests}")
    print(plain(HEADER, [_row(label, runs) for label, runs in measured.items()]))
    print("results of all trials of a runtime are equal by digest")
    print(written("hot_group", {"trials": measured}, described(), options))


def _row(label: str, runs: list[dict[str, Any]]) -> list[str]:
    def middle(values: list[float]) -> str:
        spread = f" ({min(values):.3g}-{max(values):.3g})" if len(values) > 1 else ""
        return f"{median(values):.3g}{spread}"

    return [
        label,
        middle([run["events_per_s"] / 1e6 for run in runs]),
        middle([run["latency_ms"]["mean"] for run in runs]),
        middle([run["latency_ms"]["p99"] for run in runs]),
        *(str(runs[-1][name]) for name in ("splits", "instances", "moves", "results")),
    ]


if __name__ == "__main__":
    main()
