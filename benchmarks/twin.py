"""Is the mechanism that the twin chooses as good as the best one, in scenarios of all kinds?

Every scenario is a random migration: operator, keys, skew, rates, windows, link, workers, and perhaps a disconnection.
It is executed with every mechanism, with real kernels in simulated time (`twin_trial.py`), and its cost measured by the
objective. The twin chooses from what is known before. Its choice is as good as the best if it costs at most 5 % more.

    python benchmarks/twin.py [--quick] [--first SEED] [--scenarios N] [--objective TERM:WEIGHT,...]
"""

import argparse
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
from record import add_options, written
from table import plain
from twin_trial import Scenario, Trials

from shoal.control.twin.choice import Objective, choose
from shoal.experiments.machine import described
from shoal.mechanisms.catalog import MECHANISMS

TOLERANCE = 1.05
SCENARIOS, QUICK = 100, 3
HEADER = ["mechanism", "as good as the best", "chosen", "median regret", "90 %", "largest"]


def outcome(scenario: Scenario, objective: Objective) -> dict[str, Any]:
    """What every mechanism costs in a scenario, as predicted and as measured, and which one the twin chooses."""
    trials = Trials(scenario)
    profile = trials.profile()
    began_s = time.perf_counter()
    table = [each for each in choose(profile, objective) if each.prediction is not None]
    choosing_s = time.perf_counter() - began_s
    measured = {each.mechanism: trials.measured(each.mechanism) for each in table}
    costs = {name: objective.cost(each, profile.rate) for name, each in measured.items()}
    return {
        "scenario": asdict(scenario),
        "chosen": table[0].mechanism,
        "best": min(costs, key=costs.__getitem__),
        "cost": costs,
        "predicted": {each.mechanism: each.cost for each in table},
        "measured": {name: asdict(each) for name, each in measured.items()},
        "fragments": len(profile.fragments),
        "choosing_s": choosing_s,
    }


def outcomes(seeds: Sequence[int], objective: Objective) -> Iterator[dict[str, Any]]:
    """One scenario after another, with a line for each."""
    for seed in seeds:
        found = outcome(Scenario.of(seed), objective)
        regret = found["cost"][found["chosen"]] / max(found["cost"][found["best"]], 1e-9)
        what = f"{found['scenario']['operator']:12} chosen {found['chosen']:20} best {found['best']:20}"
        print(f"{seed:5} {what} regret {regret:.3f}", flush=True)
        yield found


def regrets(found: Sequence[dict[str, Any]], mechanism: str | None) -> list[float]:
    """The cost of a mechanism over the least cost, in every scenario; infinite where it is impossible."""
    return [
        each["cost"].get(mechanism or each["chosen"], float("inf")) / max(each["cost"][each["best"]], 1e-9)
        for each in found
    ]


def rows(found: Sequence[dict[str, Any]]) -> list[list[str]]:
    """A row for the twin, and one for every mechanism."""
    lines = []
    for name in (None, *MECHANISMS):
        values = np.array(regrets(found, name))
        chosen = sum(each["chosen"] == name for each in found)
        figures = [f"{value:,.3g}" for value in (*np.quantile(values, [0.5, 0.9], method="lower"), values.max())]
        good = f"{int((values <= TOLERANCE).sum())} of {len(found)}"
        lines.append([name or "chosen by the twin", good, "" if name is None else str(chosen), *figures])
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    add_options(parser, f"{QUICK} scenarios: does it run")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--scenarios", type=int, default=SCENARIOS, help="how many seeds")
    parser.add_argument("--objective", default="", help="weights as TERM:WEIGHT, several with commas")
    options = parser.parse_args()
    number = QUICK if options.quick else options.scenarios
    seeds = range(options.first, options.first + number)
    found = list(outcomes(seeds, Objective.of(options.objective)))
    print(plain(HEADER, rows(found)))
    slowest = max(each["choosing_s"] for each in found)
    print(f"the twin took {slowest * 1e3:.0f} ms at most for all mechanisms")
    kept = {"objective": options.objective, "tolerance": TOLERANCE, "scenarios": found}
    print(f"written to {written('twin', kept, described(), options)}")


if __name__ == "__main__":
    main()
