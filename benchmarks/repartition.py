"""State on other workers: how long no result is emitted when their number changes, and when large state moves.

    python benchmarks/repartition.py --quick

Parts (`--only`):

    workers   4, then 8, then 3 workers. Shoal rebinds while it runs; Spark's own stateful aggregation is brought to an
              end, its state repartitioned offline, and started again. Measured: the time between the last result
              before and the first result after, against the usual time between two results.
    moves     two executors, a large state of which little changes, half of it moves repeatedly: in steps
              (gradual), all at once (lazy), or announced an epoch before and read ahead (pre-copy)

Every trial runs in its own process, and its results are checked before they are reported.
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

import record
import table
from dataset import cache
from repartition_trial import Trial, gaps, run_trial
from spread import Spread
from spread import text as spread_text

from shoal.experiments.machine import cores, described, sentence
from shoal.runtimes.spark.driver.position import MECHANISMS

PARTS = ("workers", "moves")
ENGINES = {"shoal": "Shoal, rebound while it runs", "spark": "Spark, stopped and repartitioned offline"}
CLUSTER = {"spark.master": "local-cluster[2,1,2048]", "spark.executor.memory": "1800m", "spark.log.level": "OFF"}
LATE = 1.2
"""An epoch that takes more than this many times the usual time counts as delayed."""


def in_its_own_process(trial: Trial) -> dict[str, Any]:
    """Run a trial elsewhere; what it printed last is its outcome."""
    command = [sys.executable, __file__, "--trial", json.dumps(asdict(trial))]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"trial {trial} failed:\n{done.stderr[-3000:]}")
    outcome = dict(json.loads(done.stdout.splitlines()[-1]))
    if outcome["wrong"]:
        raise RuntimeError(f"trial {trial} gave wrong results: {'; '.join(outcome['wrong'])}")
    return outcome


def trials_of(part: str, options: argparse.Namespace) -> Iterator[Trial]:
    if part == "workers":
        usual = Trial("shoal", data=str(options.data), cores=options.cores)
        small = replace(usual, rows=2_000, phases=((4, 14), (8, 3), (3, 3)))
        for kind in ENGINES:
            yield replace(small if options.quick else usual, kind=kind)
    else:
        usual = Trial("moves", phases=((4, 0),), keys=3_000_000, moves=5, conf=CLUSTER)
        small = replace(usual, keys=64_000, rows=20_000, moves=1)
        for mechanism in MECHANISMS:
            yield replace(small if options.quick else usual, mechanism=mechanism)


def measured(part: str, options: argparse.Namespace) -> list[dict[str, Any]]:
    """All trials of a part, round by round."""
    found = [(trial, []) for trial in trials_of(part, options)]
    for number in range(options.repeat):
        for trial, outcomes in found:
            name = trial.kind if part == "workers" else trial.mechanism
            print(f"{part} {number + 1}/{options.repeat}: {name} ...", flush=True)
            outcomes.append(in_its_own_process(trial))
    return [{"trial": asdict(trial), "outcomes": outcomes} for trial, outcomes in found]


def rows_of_workers(found: Sequence[dict[str, Any]]) -> tuple[list[str], list[list[str]]]:
    """A row for each engine and change of its number of workers."""
    header = [
        "", "workers", "ms between results before", "after", "ms without results", "of which offline", "times the usual"
    ]  # fmt: skip
    rows = []
    for each in found:
        every = [gaps(outcome["given"]) for outcome in each["outcomes"]]
        sizes = [workers for workers, _ in each["trial"]["phases"]]
        for number, (before, after) in enumerate(pairwise(sizes)):
            usual = [[_usual(run, size) for size in (before, after)] for run in every]
            without = [next(gap for *change, gap in run if change == [before, after]) for run in every]
            offline = [outcome["moving_s"][number] for outcome in each["outcomes"] if "moving_s" in outcome]
            ratios = [gap / max(around) for gap, around in zip(without, usual, strict=True)]
            rows.append(
                [
                    ENGINES[each["trial"]["kind"]],
                    f"{before} -> {after}",
                    _ms([around[0] for around in usual]),
                    _ms([around[1] for around in usual]),
                    _ms(without),
                    _ms(offline) if offline else "0",
                    spread_text(Spread.of(ratios).data()),
                ]
            )
    return header, rows


def _usual(run: Sequence[tuple[int, int, float]], workers: int) -> float:
    """The median time between two results with this number of workers."""
    return median(gap for before, after, gap in run if before == after == workers)


def rows_of_moves(found: Sequence[dict[str, Any]]) -> tuple[list[str], list[list[str]]]:
    """A row for each mechanism; epochs with moves, and those without, are compared with the median of the latter."""
    header = [
        "", "epoch ms", "with moves ms", "times the usual", f"over {LATE:g}", f"others over {LATE:g}", "MB state",
        "epochs per rebinding", "MB moved per epoch", "of which fetched late", "MB read ahead"
    ]  # fmt: skip
    rows = []
    for each in found:
        epochs = [epoch for outcome in each["outcomes"] for epoch in outcome["epochs"]]
        moving = [epoch for epoch in epochs if epoch["moves"]]
        usual = median(epoch["s"] for epoch in epochs if not epoch["moves"])
        still = [epoch["s"] / usual for epoch in epochs if not epoch["moves"]]
        ratios = [epoch["s"] / usual for epoch in moving]
        rebindings = each["trial"]["moves"] * len(each["outcomes"])
        announcing = [epoch["ahead_bytes"] for epoch in epochs if epoch["ahead_bytes"]]
        rows.append(
            [
                each["trial"]["mechanism"],
                f"{usual * 1000:.0f}",
                _ms([epoch["s"] for epoch in moving]),
                spread_text(Spread.of(ratios).data()),
                f"{sum(ratio > LATE for ratio in ratios)} of {len(ratios)}",
                f"{sum(ratio > LATE for ratio in still)} of {len(still)}",
                f"{median(epoch['state_bytes'] for epoch in epochs) / 1e6:.0f}",
                f"{len(moving) / rebindings:.1f}",
                f"{median(epoch['moved_bytes'] for epoch in moving) / 1e6:.0f}",
                f"{median(epoch['late_bytes'] for epoch in moving) / 1e6:.0f}",
                f"{median(announcing) / 1e6:.0f}" if announcing else "0",
            ]
        )
    return header, rows


def _ms(values: Sequence[float]) -> str:
    return spread_text(Spread.of(value * 1000 for value in values).data())


ROWS = {"workers": rows_of_workers, "moves": rows_of_moves}


def sections(kept: dict[str, Any]) -> list[str]:
    """The tables of the page."""
    parts = []
    for name, found in kept["parts"].items():
        times = len(found[0]["outcomes"])
        parts += [f"**{name}** ({times} run{'s' if times > 1 else ''})", table.markdown(*ROWS[name](found))]
    return parts


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    record.add_options(parser, quick="few vehicles and epochs, one repetition, workers only")
    parser.add_argument("--repeat", type=int, help="runs of every trial (3; 1 with --quick)")
    parser.add_argument("--only", nargs="*", choices=PARTS, help="some parts")
    parser.add_argument("--cores", type=int, default=cores(), help="cores of the Spark session (default: all)")
    parser.add_argument("--data", type=Path, default=cache(), help="where the Parquet files are kept")
    parser.add_argument("--trial", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.trial:
        print(json.dumps(run_trial(Trial(**json.loads(options.trial)))))
        return
    options.repeat = options.repeat or (1 if options.quick else 3)
    machine = described()
    print(sentence(machine), flush=True)
    chosen = options.only or (["workers"] if options.quick else list(PARTS))
    found = {part: measured(part, options) for part in chosen}
    for part in chosen:
        print(table.plain(*ROWS[part](found[part])))
    before = record.kept("repartition") if options.only else None
    parts = {**(before or {"parts": {}})["parts"], **found}
    print(f"written to {record.written('repartition', {'parts': parts}, machine, options)}")


if __name__ == "__main__":
    main()
