"""What a move of much state costs, by mechanism: freeze, latency spike, time and bytes, on Spark and between threads.

    python benchmarks/mechanisms.py --quick

A hop window by user holds about 200 MB of state in 16 instances on two workers. After some time half of the instances
change their worker, once. Every trial is a process of its own and takes in the same events; results are compared by
digest before anything is said, except those of mechanisms that lose state.
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

import pyarrow as pa
from record import add_options, written
from table import markdown, plain

import shoal
from shoal.connectors.sinks import MemorySink
from shoal.connectors.sources.generator import Generator
from shoal.experiments.machine import described
from shoal.mechanisms.catalog import LOSSY
from shoal.model.control.binding import Binding
from shoal.model.control.messages import EpochCommitted
from shoal.model.query.aggregate import count, max_, mean, min_
from shoal.model.query.window import hop
from shoal.runtimes.registry import kinds
from shoal.session.digest import result_digest
from shoal.session.job import Job
from shoal.session.run import Run, start
from shoal.workloads.ysb.events import SCHEMA, YsbEvents

GROUPS, WORKERS = 16, 2
WINDOW_S, SLIDE_S = 20, 4
PER_S = 200_000
"""Events per second of event time, of a million users."""
HEADER = ["", "freeze ms", "spike ms", "usual ms", "move s", "state MB", "results"]


@dataclass(frozen=True)
class Trial:
    """A run in which half of the state moves by a mechanism; none moves without one."""

    on: str
    mechanism: str | None
    events: int
    rate: float | None = None
    epoch_rows: int = 500_000

    @property
    def label(self) -> str:
        """Its name in the table."""
        return f"{self.on}, {self.mechanism or 'no move'}"


def job(trial: Trial) -> Job:
    """The query and its events."""
    types = {
        name: "timestamp" if pa.types.is_timestamp(type_) else "int64"
        for name, type_ in zip(SCHEMA.names, SCHEMA.types, strict=True)
    }
    ads = shoal.Stream("ads", types, time="event_time")
    windows = ads.partition_by("user_id", groups=GROUPS).window(hop(WINDOW_S, SLIDE_S))
    busy = windows.aggregate(n=count(), ads=mean("ad_id"), first=min_("page_id"), last=max_("page_id"), ip=max_("ip"))
    query = busy.filter(shoal.col("n") > 12).sink("users")
    events = Generator(YsbEvents(per_s=PER_S), trial.events, trial.rate, trial.epoch_rows)
    return Job("users", shoal.Graph.of([query]), {"ads": events})


def run_trial(trial: Trial) -> dict[str, Any]:
    """Run in this process; half of the instances move when five sixths of the events have been read."""
    given: dict[str, Any] = {}
    if trial.on == "spark":
        from shoal.runtimes.spark.cluster.session import spark_session

        given["spark"] = spark_session({})
    before_s, after_s, asked = list[float](), list[float](), list[str]()

    def act(run: Run, event: EpochCommitted) -> None:
        latency_s = event.latency.max_s if event.latency is not None else event.duration_s
        if event.rows and (event.results or trial.on == "spark"):
            (after_s if asked else before_s).append(latency_s)
        if trial.mechanism is not None and not asked and run.consumed > trial.events * 5 / 6:
            asked.append(run.rebind(Binding.of(swapped(run), WORKERS), trial.mechanism))

    run = start(job(trial), on=trial.on, workers=WORKERS, policy="round-robin", mechanism=trial.mechanism, **given)
    run.wait(act)
    assert isinstance(run.sink, MemorySink)
    moves = [move for event in run.finished for move in event.moves if not move.aborted]
    tables = {name: run.sink.table(name) for name in run.sink.names() if name != "dead_letters"}
    usual_s = median(before_s[len(before_s) // 2 :])
    return {
        "frozen_s": max((move.frozen_s or 0.0 for move in moves), default=0.0),
        "usual_s": usual_s,
        "spike_s": max(after_s, default=usual_s) - usual_s,
        "seconds": max((move.seconds or 0.0 for move in moves), default=0.0),
        "moved_mb": sum(move.state_bytes for move in moves) / 1e6,
        "moves": len(moves),
        "results": sum(table.num_rows for table in tables.values()),
        "digest": result_digest(tables),
    }


def swapped(run: Run) -> dict[Any, int]:
    """The binding with every other instance on another worker."""
    graph = run.job.graph
    now = {} if run.binding is None else run.binding.worker_of
    return {
        instance: (now.get(instance, 0) + number % 2) % WORKERS
        for number, instance in enumerate(graph.stateful_instances)
    }


def in_its_own_process(trial: Trial) -> dict[str, Any]:
    """Run a trial elsewhere; what it printed last is its outcome."""
    command = [sys.executable, __file__, "--trial", json.dumps(asdict(trial))]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"trial {trial.label} failed:\n{done.stderr[-3000:]}")
    return dict(json.loads(done.stdout.splitlines()[-1]))


def trials(only: Sequence[str], quick: bool) -> list[Trial]:
    """A trial per mechanism of each runtime, and one without a move."""
    events = 2_400_000 if quick else 7_200_000
    found = []
    for kind in kinds():
        name = kind.capabilities.name
        if name in only:
            rate = None if name == "spark" else events / 15
            rows = events // 12
            found += [Trial(name, each, events, rate, rows) for each in (None, *kind.capabilities.mechanisms)]
    return found


def row(trial: Trial, outcome: dict[str, Any], equal: bool) -> list[str]:
    """A line of the table."""
    ms = [f"{1000 * outcome[name]:,.0f}" for name in ("frozen_s", "spike_s", "usual_s")]
    results = "equal" if equal else "lost state" if trial.mechanism in LOSSY else "DIFFERENT"
    return [trial.label, *ms, f"{outcome['seconds']:.2f}", f"{outcome['moved_mb']:.0f}", results]


def main() -> int:
    """Run all trials and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_options(parser, "a third of the events")
    parser.add_argument("--only", nargs="+", default=["spark", "local"], choices=["spark", "local"])
    parser.add_argument("--repeat", type=int, default=1, help="runs of every trial; the median is shown")
    parser.add_argument("--trial", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.trial:
        print(json.dumps(run_trial(Trial(**json.loads(options.trial)))))
        return 0
    rows, measured, wrong, reference = [], [], 0, dict[str, str]()
    for trial in trials(options.only, options.quick):
        outcomes = [in_its_own_process(trial) for _ in range(options.repeat)]
        equal = all(each["digest"] == reference.setdefault(trial.on, each["digest"]) for each in outcomes)
        wrong += not equal and trial.mechanism not in LOSSY
        outcome = {name: median(each[name] for each in outcomes) for name in outcomes[0] if name != "digest"}
        rows.append(row(trial, outcome, equal))
        measured.append({"label": trial.label, **outcome, "equal": equal, "all": outcomes})
        print(" ".join(rows[-1]), flush=True)
    print(plain(HEADER, rows))
    written("mechanisms", {"trials": measured, "table": markdown(HEADER, rows)}, described(), options)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
