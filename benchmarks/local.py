"""The local runtime: throughput, latency at half load, ablation, number of queries, stepped input, settings, peers.

    python benchmarks/local.py --quick

Every part is an experiment of `shoal bench`, which can be run by itself; trials are processes of their own.
"""

import argparse
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from record import add_options, written
from record import kept as kept_before
from table import markdown, plain

from shoal.experiments import figure, report
from shoal.experiments import variants as declared
from shoal.experiments.machine import described
from shoal.experiments.variants import MeasuredPoint, Point, Variants
from shoal.experiments.workload_trial import WorkloadOutcome, WorkloadTrial

PEERS = ("shoal-local", "duckdb", "spark-sql", "flink")
STEPS = {"ysb": "5000000,30000000@5,5000000@10", "linear-road": "100000,600000@5,100000@10"}
FIGURES = ("ysb ablation", "ysb queries", "ysb steps", "ysb blocks")
BLOCKS = ("1024", "8192", "32768", "131072", "262144")


def experiments(quick: bool) -> list[tuple[str, Variants, bool]]:
    """What is measured, under the name it is kept by; and whether latency at half load follows."""

    def base(name: str, events: int) -> WorkloadTrial:
        return WorkloadTrial(name, events=events if quick else None)

    few = {"ysb": 2_000_000, "nyt": 1_000_000, "linear-road": 200_000, "mixed": 300_000}
    found = [(name, declared.engines(name, ["shoal-local"], base(name, few[name])), True) for name in few]
    peers = [engine for engine in PEERS if engine != "flink" or os.environ.get("SHOAL_FLINK_PYTHON")]
    for name in ("ysb", "nyt"):
        trial = WorkloadTrial(name, events=few[name] if quick else declared.PEER_EVENTS[name])
        found.append((f"{name} and peers", declared.engines(name, peers[:2] if quick else peers, trial), False))
    found += [
        (f"{name} ablation", declared.ablation(name, ["memory", "scheduling"], base(name, 300_000)), False)
        for name in ("ysb", "nyt")
    ]
    numbers = (1, 2) if quick else (1, 2, 3, 5, 10)
    found += [
        (f"{name} queries", declared.scaling(name, numbers, base(name, few[name])), False)
        for name in ("ysb", "nyt", "mixed")
    ]
    seconds = 2.0 if quick else 15.0
    found += [
        (f"{name} steps", declared.dynamic(name, rate, seconds, WorkloadTrial(name)), False)
        for name, rate in STEPS.items()
    ]
    blocks = BLOCKS[-1:] if quick else BLOCKS
    found.append(("ysb blocks", declared.sensitivity("ysb", "block_rows", blocks, base("ysb", 2_000_000)), False))
    chunks = ("4",) if quick else ("1", "2", "4", "8")
    found.append(("ysb chunks", declared.sensitivity("ysb", "chunk_blocks", chunks, base("ysb", 2_000_000)), False))
    return found


def measured(options: argparse.Namespace) -> dict[str, Any]:
    """Run everything, one after another."""
    kept: dict[str, Any] = {}
    for name, experiment, at_load in experiments(options.quick):
        if options.only and name not in options.only:
            continue
        found = declared.run(experiment, options.repeat, print)
        if at_load:
            point = declared.half_load(found[0], 2.0 if options.quick else 10.0, 0.5)
            found += declared.run(Variants("load", "", (point,)), options.repeat, print)
        print(plain(*rows_of(found)))
        kept[name] = report.data(experiment, found)
    return kept


def rows_of(found: Sequence[MeasuredPoint]) -> tuple[list[str], list[list[str]]]:
    """Header and rows."""
    return list(report.HEADER), report.rows(found)


def sections(kept: dict[str, Any]) -> list[str]:
    """The tables of the page."""
    parts = []
    for name, found in kept["experiments"].items():
        measured = [_measured(point) for point in found["points"]]
        times = f"{len(measured[0].outcomes)} runs, load before {found['machine']['load_1min']}"
        parts += [f"**{name}** ({times})", markdown(*rows_of(measured))]
    return parts


def _measured(point: dict[str, Any]) -> MeasuredPoint:
    """A point as it was when it was measured."""
    outcomes = [WorkloadOutcome(**outcome) for outcome in point["outcomes"]]
    return MeasuredPoint(Point(point["label"], WorkloadTrial(**point["trial"]), point["x"]), outcomes)


def draw(kept: dict[str, Any], directory: Path) -> None:
    """The figures of the page."""
    for name in FIGURES:
        if name in kept:
            figure.draw(kept[name], directory / f"local_{name.replace(' ', '_')}.png")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    add_options(parser, "few events, one repetition: does it run, are the results right")
    parser.add_argument("--repeat", type=int, help="repetitions of every trial (3; 1 with --quick)")
    parser.add_argument("--only", nargs="*", help="names of experiments")
    options = parser.parse_args()
    options.repeat = options.repeat or (1 if options.quick else 3)
    found = measured(options)
    if options.only:
        before = kept_before("local") or {"experiments": {}}
        found = {**before["experiments"], **found}
    print(f"written to {written('local', {'repeat': options.repeat, 'experiments': found}, described(), options)}")


if __name__ == "__main__":
    main()
