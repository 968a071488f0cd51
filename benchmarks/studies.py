"""The first two studies on simulated machines: latency over time and its distribution under all policies.

    python benchmarks/studies.py --study 001 --figure 2
    python benchmarks/studies.py --quick

Every trial simulates one policy on one point of a figure (see `studies_trial.py`). Latencies, moves and utilisation are
the same each time; only the processor time of policies is measured. The studies do not say what an event costs, so one
constant per study is chosen, `WORK`, and used for all its policies, workloads and machines.

With `--keep`, `results/studies.json` is replaced, from which the figures in docs/figures are drawn.
"""

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import record
import table
from studies_figure import draw
from studies_trial import POLICIES, Scenario, below, run_scenario

from shoal.experiments.machine import described

FIGURES = Path(__file__).parents[1] / "docs" / "figures"
WORK = {"000": 1.6, "001": 7.9}
"""000: a core that has three of the 50 operators for top speeds takes just under 20 ms for a step of 220,000 vehicles,
as the study's latencies under greedy imply. 001: 360,000 vehicles need 90 % of 24 cores, about the most that the
study's own policy carries here; in the study it just carries them."""
NUMA_24, NUMA_36 = "numa:2x12", "numa:2x18"
SCENARIOS = (
    Scenario("000", "3", "W1", NUMA_24, 220_000, 20, warm_up_s=10),
    Scenario("000", "4", "W3", NUMA_24, 300_000, 20),
    *(Scenario("001", "2", "W1", NUMA_24, number, 12) for number in (340_000, 360_000)),
    *(Scenario("001", "5", "W2", NUMA_24, number, 20) for number in (300_000, 320_000)),
    *(Scenario("001", "8", "W3", NUMA_24, number, 18) for number in (350_000, 400_000)),
    *(Scenario("001", "4", "W1", NUMA_36, number, 12) for number in (480_000, 500_000)),
    *(Scenario("001", "7", "W2", NUMA_36, number, 15) for number in (420_000, 430_000)),
    *(Scenario("001", "10", "W3", NUMA_36, number, 18) for number in (500_000, 550_000)),
    *(Scenario("001", "3", "W1", NUMA_36, number, 8) for number in (340_000, 360_000)),
    *(Scenario("001", "6", "W2", NUMA_36, number, 8) for number in (300_000, 320_000)),
    *(Scenario("001", "9", "W3", NUMA_36, number, 12) for number in (350_000, 400_000)),
)
"""Every point of every figure, and the simulated seconds of a run."""
QUICK = (Scenario("001", "2", "W1", NUMA_24, 360_000, 2),)
COLUMNS = ("policy", "mean, ms", "p99, ms", "< 20 ms", "< 60 ms", "< 90 ms", "busy", "moves", "migration + policy")


def row(outcome: Mapping[str, Any]) -> list[str]:
    """A policy in one line."""
    busy = outcome["busy"]
    overhead = (outcome["migration_s"] + outcome["policy_s"]) / max(outcome["compute_s"], 1e-9)
    return [
        outcome["policy"],
        f"{outcome['mean_ms']:,.1f}",
        f"{outcome['p99_ms']:,.1f}",
        *(f"{below(outcome, limit):.1%}" for limit in (20, 60, 90)),
        f"{sum(busy) / len(busy):.0%} ({min(busy):.0%}-{max(busy):.0%})",
        f"{outcome['moves']:,}",
        f"{overhead:.2%}",
    ]


def main() -> None:
    """Run what is asked for, print it, and keep it if asked to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    record.add_options(parser, "two simulated seconds of one point")
    parser.add_argument("--study", choices=sorted(WORK), help="one study only")
    parser.add_argument("--figure", help="one figure only, e.g. 2")
    parser.add_argument("--policy", action="append", choices=list(POLICIES), help="these policies only")
    parser.add_argument("--draw", action="store_true", help="only draw the figures of what was kept")
    options = parser.parse_args()
    if options.draw:
        kept = record.kept("studies")
        if kept is None:
            parser.error("nothing has been kept yet; run with --keep first")
        print("\n".join(map(str, draw(kept["outcomes"], FIGURES))))
        return
    chosen = [
        each
        for each in (QUICK if options.quick else SCENARIOS)
        if options.study in (None, each.study) and options.figure in (None, each.figure)
    ]
    if not chosen:
        parser.error(f"study {options.study or 'any'} has no figure {options.figure}")
    found: list[dict[str, Any]] = []
    for scenario in chosen:
        points = []
        for policy in options.policy or list(POLICIES):
            print(f"{scenario.name}: {policy}", file=sys.stderr, flush=True)
            points.append(run_scenario(scenario, policy, WORK[scenario.study]))
        print(f"\n{scenario.name}\n{table.plain(COLUMNS, [row(outcome) for outcome in points])}", flush=True)
        found += points
        measured = {"outcomes": with_kept(found) if options.keep else found}
        path = record.written("studies", measured, described(), options)
    print(f"written to {path}")


def with_kept(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What was found, and what was kept of other points and policies."""
    kept = (record.kept("studies") or {"outcomes": []})["outcomes"]
    both = {(each["scenario"]["name"], each["policy"]): each for each in (*kept, *found)}
    order = {scenario.name: place for place, scenario in enumerate(SCENARIOS)}
    ranks = {policy: place for place, policy in enumerate(POLICIES)}
    known = [each for each in both.items() if each[0][0] in order]
    return [each for _, each in sorted(known, key=lambda one: (order[one[0][0]], ranks[one[0][1]]))]


if __name__ == "__main__":
    main()
