"""Bindings that follow the load, against those that do not: latency and throughput under a hotspot that moves.

    python benchmarks/rebinding.py --quick

The workload is `skew`: range joins, patterns and a costly function per cell. Parts (`--only`):

    local       two threads, every policy at 80 and 95 % of what `guarded` can do; hot cells move every 10 s
    blocking    two threads, random moves every 2, 0.2 and 0.02 s, without anybody waiting and with all at a barrier
    swinging    two threads, a hotspot that swings every half second: a policy should stay where it is
    spark       four slots on Spark, as fast as possible, hot cells that move every eight epochs: adaptive, static
    join        the same with the range join alone, and Spark's own stream-stream join on hash partitions

Every trial is a process of its own. Trials of a part take in the same events, and their results are compared by digest
with each other, and one of them with the oracle, before anything is said; a peer's with the oracle each time.
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from statistics import median
from typing import Any

import rebinding_epochs
from rebinding_trial import Trial, run_trial
from record import add_options, written
from record import kept as kept_before
from table import markdown, plain

from shoal.experiments.machine import described

OWN_QUEUES = "guarded, a queue per worker"
QUEUED = ("single-queue", "node-queue")
POLICIES = (
    "round-robin", "partition", "greedy", "two-level", "metis", "dynamic-metis", *QUEUED, "guarded", OWN_QUEUES
)  # fmt: skip
QUICK = ("round-robin", "guarded")
PER_S = 20_000
"""Reports per second of event time."""
LOCAL = {"block_rows": "8192"}
STUDIES = {"trigger": "periodic:1", "decision": "always", "window_s": "0.5", "rest_s": "0.5"}
"""Policies of the studies are asked every second, and their proposals are always enacted."""
OURS = {"window_s": "0.5", "rest_s": "0.5"}
HEADER = [
    "", "M events/s", "mean ms", "p99 ms", "max ms", "moves", "state MB", "migration", "policy", "results"
]  # fmt: skip


def in_its_own_process(trial: Trial) -> dict[str, Any]:
    """Run a trial elsewhere; what it printed last is its outcome."""
    command = [sys.executable, __file__, "--trial", json.dumps(asdict(trial))]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"trial {trial.label} failed:\n{done.stderr[-3000:]}")
    return dict(json.loads(done.stdout.splitlines()[-1]))


def trials_of(part: str, quick: bool, capacity: float) -> Iterator[list[Trial]]:
    """Groups of trials with the same events; `capacity` is what two threads do with `guarded`."""
    seconds = 3 if quick else 24
    if part == "local":
        for load in (0.8,) if quick else (0.8, 0.95):
            rate = load * capacity
            settings = {"move_s": f"{10 * rate / PER_S:.3f}"}
            yield [
                Trial(
                    f"{name} at {load:.0%}",
                    name.partition(",")[0],
                    int(rate * seconds),
                    rate=rate,
                    settings=settings,
                    control=OURS if name.startswith("guarded") else STUDIES,
                    conf={**LOCAL, "queues": "worker-queue"} if name == OWN_QUEUES else LOCAL,
                )
                for name in (QUICK if quick else POLICIES)
            ]
    if part == "blocking":
        rate = 0.5 * capacity
        every = (0.2,) if quick else (2.0, 0.2, 0.02)
        still = [Trial("no moves", "round-robin", int(rate * seconds), rate=rate, settings=EVEN, conf=LOCAL)]
        yield still + [
            Trial(
                f"{mechanism}, every {each:g} s",
                "round-robin",
                int(rate * seconds),
                rate=rate,
                settings=EVEN,
                conf=LOCAL,
                mechanism=mechanism,
                move_every_s=each,
            )
            for each in every
            for mechanism in ("megaphone", "all-at-once")
        ]
    if part == "swinging":
        rate = 0.5 * capacity
        settings = {"profile": "oscillating", "move_s": f"{0.5 * rate / PER_S:.3f}"}
        yield [
            Trial(policy, policy, int(rate * seconds), rate=rate, settings=settings, control=OURS, conf=LOCAL)
            for policy in ("round-robin", "guarded")
        ]
    if part in ("spark", "join"):
        yield spark_trials(part == "join", quick)


def spark_trials(join: bool, quick: bool) -> list[Trial]:
    """Static, adaptive and, for the join alone, Spark's own; the same hot cells for eight epochs of some rows."""
    epoch_rows = 10_000 if quick else 20_000 if join else 40_000
    trial = Trial(
        "round-robin on Spark",
        "round-robin",
        epoch_rows * (6 if quick else 24),
        on="spark",
        workers=4,
        settings={"move_s": f"{8 * epoch_rows / PER_S:g}", **({"queries": "join"} if join else {})},
        conf={"spark.master": "local[4,4]"},
        epoch_rows=epoch_rows,
    )
    trials = [trial, replace(trial, label="guarded on Spark", policy="guarded")]
    return [*trials, replace(trial, label="Spark's own join", on="spark-sql")] if join else trials


EVEN = {"hot": "16", "heat": "0.25", "skew": "0", "move_s": "0"}
"""No cell is hotter than another, so that the benefit of moves does not hide their cost."""


def capacity_of(quick: bool) -> float:
    """Events per second of two threads as fast as possible, with hot cells that move about every ten seconds."""
    events, runs = (200_000, 1) if quick else (1_500_000, 3)
    trial = Trial("capacity", "guarded", events, settings={"move_s": "35"}, control=OURS, conf=LOCAL)
    outcomes = [in_its_own_process(trial) for _ in range(runs)]
    return float(median(outcome["events"] / outcome["elapsed_s"] for outcome in outcomes))


def measured(part: str, options: argparse.Namespace, capacity: float) -> list[dict[str, Any]]:
    """All trials of a part, round by round, results compared."""
    found: list[dict[str, Any]] = []
    for group in trials_of(part, options.quick, capacity):
        outcomes: dict[str, list[dict[str, Any]]] = {trial.label: [] for trial in group}
        for number in range(options.repeat):
            for trial in group:
                checked = Trial(**{**asdict(trial), "check": number == 0 and trial is group[0]})
                print(f"{part} {number + 1}/{options.repeat}: {trial.label} ...", flush=True)
                outcomes[trial.label].append(in_its_own_process(checked))
        every = [outcome for several in outcomes.values() for outcome in several]
        if any(outcome["wrong"] for outcome in every) or len({o["digest"] for o in every if o["digest"]}) != 1:
            raise RuntimeError(f"the trials of {part} gave different results; the measurements are not valid")
        found += [{"trial": asdict(trial), "outcomes": outcomes[trial.label]} for trial in group]
    print(plain(HEADER, rows(found)))
    if epochs := rebinding_epochs.rows(found):
        print(plain(*epochs))
    return found


def rows(found: Sequence[dict[str, Any]]) -> list[list[str]]:
    """A row per trial, medians of its repetitions."""
    table = []
    for each in found:
        outcomes = each["outcomes"]

        def middle(get: Any, outcomes: Any = outcomes) -> float:
            return float(median(get(outcome) for outcome in outcomes))

        total = middle(lambda o: o["compute_s"] + o["migration_s"] + o["policy_s"]) or 1.0
        table.append(
            [
                each["trial"]["label"],
                f"{middle(lambda o: o['events'] / o['elapsed_s']) / 1e6:.4f}",
                *(_spread([o["latency_ms"][name] for o in outcomes]) for name in ("mean", "p99", "max")),
                f"{middle(lambda o: o['moves']):,.0f}",
                f"{middle(lambda o: o['state_bytes_moved']) / 1e6:.1f}",
                f"{middle(lambda o: o['migration_s']) / total:.3%}",
                f"{middle(lambda o: o['policy_s']) / total:.3%}",
                "equal",
            ]
        )
    return table


def _spread(values: Sequence[float]) -> str:
    low, high = min(values), max(values)
    middle = f"{median(values):,.3g}" if median(values) < 1000 else f"{median(values):,.0f}"
    return middle if len(values) == 1 else f"{middle} ({low:,.3g}-{high:,.3g})"


def sections(kept: dict[str, Any]) -> list[str]:
    """The tables of the page."""
    parts = []
    for name, found in kept["parts"].items():
        times = len(found[0]["outcomes"])
        parts += [f"**{name}** ({times} run{'s' if times > 1 else ''})", markdown(HEADER, rows(found))]
        if epochs := rebinding_epochs.rows(found):
            parts += [f"**epochs of {name}**, the first {rebinding_epochs.WARMING} left out", markdown(*epochs)]
    return parts


PARTS = ("local", "blocking", "swinging", "spark", "join")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    add_options(parser, "few events, few policies, one repetition: does it run, are the results right")
    parser.add_argument("--repeat", type=int, help="repetitions of every trial (3; 1 with --quick)")
    parser.add_argument("--only", nargs="*", choices=PARTS, help="some parts")
    parser.add_argument("--trial", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.trial:
        print(json.dumps(run_trial(Trial(**json.loads(options.trial)))))
        return
    options.repeat = options.repeat or (1 if options.quick else 3)
    chosen = options.only or (["local", "blocking"] if options.quick else list(PARTS))
    capacity = capacity_of(options.quick) if {"local", "blocking", "swinging"} & set(chosen) else 0.0
    if capacity:
        print(f"two threads do {capacity:,.0f} events/s with guarded")
    found = {part: measured(part, options, capacity) for part in chosen}
    before = kept_before("rebinding") if options.only else None
    parts = {**(before or {"parts": {}})["parts"], **found}
    capacity = capacity or (before or {}).get("capacity", 0.0)
    kept = {"repeat": options.repeat, "capacity": capacity, "parts": parts}
    print(f"written to {written('rebinding', kept, described(), options)}")


if __name__ == "__main__":
    main()
