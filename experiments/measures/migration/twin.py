"""Is the mechanism that the twin chooses as good as the best one, in migrations of all kinds?

Every scenario is a random migration. It is executed with every mechanism, with real kernels in simulated time, and its
cost measured by the objective. The twin chooses from what is known before. A mechanism is as good as the best if it
costs at most 5 % more; its regret is its cost over the least one.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from measures.migration.link_scenario import LinkScenario
from measures.migration.link_trials import LinkTrials
from shoal.control.twin.choice import Objective, choose
from shoal.experiments.experiment import TrialOutcome
from shoal.mechanisms.catalog import MECHANISMS

TOLERANCE = 1.05
TWIN = "twin"


@dataclass(frozen=True)
class Judged:
    """What every possible mechanism cost in a scenario, which one was chosen, and how long choosing took."""

    costs: Mapping[str, float]
    chosen: str
    choosing_s: float

    def regret(self, mechanism: str) -> float:
        """The cost over the least one; infinite if the mechanism was impossible."""
        name = self.chosen if mechanism == TWIN else mechanism
        return self.costs.get(name, float("inf")) / max(min(self.costs.values()), 1e-9)


def judged(seed: int, objective: Objective) -> Judged:
    """The twin's choice in the scenario of a seed, and what each mechanism really costs there."""
    trials = LinkTrials(LinkScenario.of(seed))
    profile = trials.profile()
    began_s = time.perf_counter()
    table = [each for each in choose(profile, objective) if each.prediction is not None]
    choosing_s = time.perf_counter() - began_s
    costs = {each.mechanism: objective.cost(trials.measured(each.mechanism), profile.rate) for each in table}
    return Judged(costs, table[0].mechanism, choosing_s)


def choices(scenarios: int = 100, first_seed: int = 0, objective: str = "") -> TrialOutcome:
    """How often the twin, and each mechanism by itself, is as good as the best."""
    asked = Objective.of(objective)
    found = [judged(seed, asked) for seed in range(first_seed, first_seed + scenarios)]
    metrics: dict[str, float] = {"choosing_ms.max": 1000 * max(each.choosing_s for each in found)}
    for name in (TWIN, *MECHANISMS):
        regrets = np.array([each.regret(name) for each in found])
        metrics[f"as_good_percent.{name}"] = float(100 * (regrets <= TOLERANCE).mean())
        if np.isfinite(regrets).all():
            metrics[f"regret.{name}.p90"] = float(np.quantile(regrets, 0.9, method="lower"))
            metrics[f"regret.{name}.max"] = float(regrets.max())
    return TrialOutcome(metrics)
