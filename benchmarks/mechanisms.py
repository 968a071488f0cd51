"""What a move of much state costs, by mechanism: freeze, latency spike, time and bytes, on Spark and between threads.

    python benchmarks/mechanisms.py --quick

A hop window by user holds about 250 MB of state in 16 instances on two workers. When its windows are full, half of the
instances change their worker, once, and enough events follow that the move ends before they do; a row says so if it
does not. Every trial is a process of its own and takes in the same events; results are compared by digest before
anything is said, except those of mechanisms that lose state.
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
from record import add_options, kept, written
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
WINDOW_S, SLIDE_S = 16, 4
PER_S = 235_000
"""Events per second of event time, of a million users."""
HEADER = ["", "freeze ms", "spike ms", "usual ms", "move s", "moved MB", "state MB", "moves", "results"]
EPOCH_ROWS = PER_S * SLIDE_S
EPOCHS = {"spark": (7, 8), "local": (7, 6)}
"""Epochs' worth of events before the move, which fill the windows, and after it; a window closes in each."""
FULL = 3
"""The last results before the move, those of full windows, whose median latency is the usual one."""
NO_MOVE = "none"
TWICE = "twice"
NEVER = 1_000_000
RATE = 480_000
"""Events per second between threads; Spark reads as fast as it can."""


@dataclass(frozen=True)
class Trial:
    """A run in which half of the state moves by a mechanism; none moves without one."""

    on: str
    mechanism: str | None
    before: int
    after: int
    rate: float | None = None
    epoch_rows: int = EPOCH_ROWS
    twice: bool = False
    """Whether half of the users are aggregated a second time, as if their new worker received all events as well."""

    @property
    def events(self) -> int:
        """All events."""
        return self.before + self.after

    @property
    def label(self) -> str:
        """Its name in the table."""
        return f"{self.on}, {TWICE if self.twice else self.mechanism or 'no move'}"


def job(trial: Trial) -> Job:
    """The query and its events."""
    types = {
        name: "timestamp" if pa.types.is_timestamp(type_) else "int64"
        for name, type_ in zip(SCHEMA.names, SCHEMA.types, strict=True)
    }
    ads = shoal.Stream("ads", types, time="event_time")
    windows = ads.partition_by("user_id", groups=GROUPS).window(hop(WINDOW_S, SLIDE_S))
    busy = windows.aggregate(n=count(), ads=mean("ad_id"), first=min_("page_id"), last=max_("page_id"), ip=max_("ip"))
    queries = [busy.filter(shoal.col("n") > 12).sink("users")]
    if trial.twice:
        queries.append(_again(ads))
    events = Generator(YsbEvents(per_s=PER_S), trial.events, trial.rate, trial.epoch_rows)
    return Job("users", shoal.Graph.of(queries), {"ads": events})


def _again(ads: shoal.Stream) -> Any:
    """The same windows of every other user, none of whose results are emitted."""
    half = ads.filter(shoal.col("user_id") % 2 == 0).partition_by("user_id", groups=GROUPS // 2)
    busy = half.window(hop(WINDOW_S, SLIDE_S)).aggregate(
        n=count(), ads=mean("ad_id"), first=min_("page_id"), last=max_("page_id"), ip=max_("ip")
    )
    return busy.filter(shoal.col("n") > NEVER).sink("again")


def run_trial(trial: Trial) -> dict[str, Any]:
    """Run in this process; half of the instances move when the windows are full."""
    given: dict[str, Any] = {}
    if trial.on == "spark":
        from shoal.runtimes.spark.cluster.session import spark_session

        given["spark"] = spark_session({})
    before_s, after_s, asked, ended, state_bytes = list[float](), list[float](), list[str](), list[float](), [0]

    def act(run: Run, event: EpochCommitted) -> None:
        is_later = run.consumed > trial.before
        latency_s = event.latency.max_s if event.latency is not None else event.duration_s
        if event.rows and (event.results or trial.on == "spark"):
            (after_s if is_later else before_s).append(latency_s)
        if is_later and trial.mechanism is not None and not asked:
            state_bytes[0] = event.state_bytes
            asked.append(run.rebind(Binding.of(swapped(run), WORKERS), trial.mechanism))
        elif event.rows and any(each.rebind in asked for each in run.finished):
            ended.append(event.at_s)

    run = start(job(trial), on=trial.on, workers=WORKERS, policy="round-robin", mechanism=trial.mechanism, **given)
    run.wait(act)
    assert isinstance(run.sink, MemorySink)
    reports = [move for event in run.finished for move in event.moves]
    moves = [move for move in reports if not move.aborted]
    tables = {name: run.sink.table(name) for name in run.sink.names() if name == "users"}
    usual_s = median(before_s[-FULL:])
    return {
        "frozen_s": max((move.frozen_s or 0.0 for move in moves), default=0.0),
        "usual_s": usual_s,
        "spike_s": max(after_s, default=usual_s) - usual_s,
        "seconds": max((move.seconds or 0.0 for move in moves), default=0.0),
        "moved_mb": sum(move.state_bytes for move in moves) / 1e6,
        "state_mb": state_bytes[0] / 1e6,
        "moves": len(moves),
        "asked": len(reports),
        "in_time": bool(ended) or trial.mechanism is None,
        "results": sum(table.num_rows for table in tables.values()),
        "before_s": before_s,
        "after_s": after_s,
        "digest": result_digest(tables),
    }


def swapped(run: Run) -> dict[Any, int]:
    """The binding with half of the instances of each worker on the other one: the load stays even."""
    graph = run.job.graph
    now = {} if run.binding is None else run.binding.worker_of
    return {
        instance: (now.get(instance, 0) + number // WORKERS) % WORKERS
        for number, instance in enumerate(graph.stateful_instances)
    }


def in_its_own_process(trial: Trial) -> dict[str, Any]:
    """Run a trial elsewhere; what it printed last is its outcome."""
    command = [sys.executable, __file__, "--trial", json.dumps(asdict(trial))]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"trial {trial.label} failed:\n{done.stderr[-3000:]}")
    return dict(json.loads(done.stdout.splitlines()[-1]))


def trials(only: Sequence[str], mechanisms: Sequence[str], quick: bool) -> list[Trial]:
    """A trial per mechanism of each runtime, and one without a move, which the others are compared with."""
    rows = EPOCH_ROWS // 3 if quick else EPOCH_ROWS
    found = []
    for kind in kinds():
        name = kind.capabilities.name
        if name in only:
            before, after = EPOCHS[name]
            chosen = [
                each
                for each in (None, *kind.capabilities.mechanisms)
                if not mechanisms or (each or NO_MOVE) in mechanisms
            ]
            rate = None if name == "spark" else RATE
            found += [Trial(name, each, before * rows, after * rows, rate, rows) for each in chosen]
            if TWICE in mechanisms:
                found.append(Trial(name, None, before * rows, after * rows, rate, rows, twice=True))
    return found


def row(trial: Trial, outcomes: Sequence[dict[str, Any]], equal: bool) -> list[str]:
    """A line of the table: medians, and the range of freeze and spike if there are several runs."""
    ms = [_ranged([1000 * each[name] for each in outcomes]) for name in ("frozen_s", "spike_s", "usual_s")]
    middle = {name: median(each[name] for each in outcomes) for name in ("seconds", "moved_mb", "state_mb")}
    results = "equal" if equal else "lost state" if trial.mechanism in LOSSY else "DIFFERENT"
    sizes = [f"{middle['seconds']:.2f}", f"{middle['moved_mb']:.0f}", f"{middle['state_mb']:.0f}"]
    return [trial.label, *ms, *sizes, _ended(outcomes), results]


def _ranged(values: Sequence[float], digits: int = 0) -> str:
    middle, least, most = (f"{each:,.{digits}f}" for each in (median(values), min(values), max(values)))
    return middle if len(values) == 1 else f"{middle} ({least} to {most})"


def _ended(outcomes: Sequence[dict[str, Any]]) -> str:
    """How many moves were made, and whether they ended before the events did."""
    made, asked = min(each["moves"] for each in outcomes), max(each["asked"] for each in outcomes)
    late = sum(not each["in_time"] for each in outcomes)
    return f"{made} of {asked}" + (f", {late} runs NOT IN TIME" if late else "")


def both(measured: Sequence[dict[str, Any]]) -> tuple[list[str], list[list[str]]]:
    """One table with both runtimes: a mechanism in each line."""
    columns = {"frozen_s": "freeze ms", "spike_s": "spike ms", "seconds": "move s"}
    header = ["", *(f"{on}: {name}" for on in EPOCHS for name in columns.values()), "results"]
    found = {(each["on"], each["mechanism"]): each for each in measured if each["mechanism"] != TWICE}
    offered = {kind.capabilities.name: kind.capabilities.mechanisms for kind in kinds()}
    rows = []
    for mechanism in dict.fromkeys(mechanism for _, mechanism in found):
        cells = []
        for on in EPOCHS:
            outcomes = found[on, mechanism]["all"] if (on, mechanism) in found else []
            for name in columns:
                values = [each[name] for each in outcomes]
                scaled = [1000 * value for value in values] if name != "seconds" else values
                missing = "not measured" if mechanism in offered[on] else "not offered"
                cells.append(_ranged(scaled, 1 if name == "seconds" else 0) if values else missing)
        equal = all(each["equal"] for (_, named), each in found.items() if named == mechanism)
        ended = all(each["in_time"] for (_, named), one in found.items() if named == mechanism for each in one["all"])
        results = "equal" if equal else "lost state" if mechanism in LOSSY else "DIFFERENT"
        rows.append([mechanism or "no move", *cells, results if ended else f"{results}, move NOT IN TIME"])
    return header, rows


def sections(measured: dict[str, Any]) -> list[str]:
    """What the page of benchmarks says."""
    trials_ = measured["trials"]
    sizes = {on: [run["state_mb"] for each in trials_ if each["on"] == on for run in each["all"]] for on in EPOCHS}
    moved = [run["moved_mb"] for each in trials_ if each["mechanism"] == "all-at-once" for run in each["all"]]
    runs = {on: max(len(each["all"]) for each in trials_ if each["on"] == on) for on in EPOCHS if sizes[on]}
    text = "; ".join(
        f"{on}: {max(sizes[on]):.0f} MB of state, {number} {'run' if number == 1 else 'runs'} per mechanism"
        for on, number in runs.items()
    )
    parts = [
        f"{text}. {max(moved):.0f} MB move all-at-once. Medians, and the range where there are several runs.",
        markdown(*both(trials_)),
    ]
    usual_s = {each["label"]: median(each["all"][0]["before_s"]) for each in trials_ if "before_s" in each["all"][0]}
    for on in EPOCHS:
        if (label := f"{on}, {TWICE}") in usual_s and f"{on}, no move" in usual_s:
            once, again = (f"{1000 * usual_s[name]:,.0f} ms" for name in (f"{on}, no move", label))
            parts.append(f"On {on}, epochs before the move take {once}; if half of the state is built twice, {again}.")
    return parts


def main() -> int:
    """Run all trials and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_options(parser, "a third of the events")
    parser.add_argument("--only", nargs="+", default=["spark", "local"], choices=["spark", "local"])
    parser.add_argument(
        "--mechanisms",
        nargs="+",
        default=[],
        metavar="NAME",
        help="only these, none for the trial without a move, or twice for one without a move in which half of the "
        "state is built twice; with --keep they are added to what was kept",
    )
    parser.add_argument("--repeat", type=int, default=1, help="runs of every trial; medians and ranges are shown")
    parser.add_argument("--trial", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.trial:
        print(json.dumps(run_trial(Trial(**json.loads(options.trial)))))
        return 0
    before = (kept("mechanisms") or {"trials": []})["trials"] if options.keep and options.mechanisms else []
    measured = {each["label"]: each for each in before}
    reference = {each["on"]: each["all"][0]["digest"] for each in before if each["mechanism"] is None}
    rows, wrong = [], 0
    for trial in trials(options.only, options.mechanisms, options.quick):
        outcomes = [in_its_own_process(trial) for _ in range(options.repeat)]
        equal = all(each["digest"] == reference.setdefault(trial.on, each["digest"]) for each in outcomes)
        wrong += not equal and trial.mechanism not in LOSSY
        rows.append(row(trial, outcomes, equal))
        named = {"label": trial.label, "on": trial.on, "mechanism": TWICE if trial.twice else trial.mechanism}
        measured[trial.label] = {**named, "equal": equal, "all": outcomes}
        print(" ".join(rows[-1]), flush=True)
    print(plain(HEADER, rows))
    written("mechanisms", {"trials": list(measured.values())}, described(), options)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
