"""History: past rates, scores and move costs, as forecast and decision need them."""

from collections import deque
from dataclasses import replace

import numpy as np

from shoal.control.forecast import Seasonal, forecast_of
from shoal.control.observation import Observation
from shoal.control.settings import ControlSettings
from shoal.model.control.binding import Binding
from shoal.model.control.costs import LinkCosts, MeasuredMoves
from shoal.model.control.messages import EpochCommitted
from shoal.policies.binding.loads import Floats, Loads

OBSERVATIONS = 60
"""Observations that are kept, unless a season needs more."""
SCORES = 12
"""Scores of every worker that are kept."""
UTILISATIONS = 6
"""Observations over which utilisation is averaged: a turn counts when it ends, perhaps in a later one than it began."""

IDLE = 1e-12
"""Share of the mean work below which a worker counts as idle; a quotient by less could overflow."""


class History:
    """Rates of every instance, scores of every worker, and the learned cost of moves."""

    def __init__(self, settings: ControlSettings) -> None:
        """Start empty."""
        self.costs = LinkCosts()
        self._binding: Binding | None = None
        self._horizon_s = settings.horizon_s
        self._forecast = forecast_of(settings.forecast)
        season_s = self._forecast.period_s if isinstance(self._forecast, Seasonal) else 0.0
        self._rates: deque[Floats] = deque(maxlen=max(OBSERVATIONS, 2 + round(2 * season_s / settings.window_s)))
        self._scores: deque[Floats] = deque(maxlen=SCORES)
        self._busy: deque[float] = deque(maxlen=UTILISATIONS)

    def learn(self, event: EpochCommitted) -> None:
        """Update the cost of moves with those of an epoch, if it had any."""
        if event.moves:
            self.costs = self.costs.learned(MeasuredMoves.of(event, self._binding))
        self._binding = event.snapshot.binding

    def ahead(self, loads: Loads, step_s: float) -> Loads:
        """The loads expected until the horizon, with the learned cost of moves."""
        past = np.array([*self._rates, loads.rate_per_s])
        rate_per_s = self._forecast.predicted(past, step_s, self._horizon_s)
        return replace(loads, rate_per_s=rate_per_s, costs=self.costs)

    def add(self, observation: Observation) -> None:
        """Append an observation."""
        self._rates.append(observation.loads.rate_per_s)
        self._busy.append(observation.busy)
        if self._scores and len(self._scores[-1]) != observation.binding.workers:
            self._scores.clear()
        self._scores.append(scores(observation.worker_s))

    @property
    def busy(self) -> float:
        """Utilisation of all workers over the last observations; 0 without any."""
        return sum(self._busy) / len(self._busy) if self._busy else 0.0

    def scores(self, worker: int) -> list[float]:
        """Past scores of a worker, the oldest first."""
        return [float(past[worker]) for past in self._scores if worker < len(past)]

    def forget_workers(self) -> None:
        """Drop scores and utilisation: the workers have changed."""
        self._scores.clear()
        self._busy.clear()

    def forget(self) -> None:
        """Drop rates and scores: the instances have changed."""
        self._rates.clear()
        self._scores.clear()


def scores(worker_s: Floats) -> Floats:
    """The score of every worker: the mean work of all over its own, so that the idlest worker has the best score.

    >>> scores(np.array([1.0, 3.0]))
    array([2.        , 0.66666667])
    """
    mean = float(worker_s.mean())
    idle = np.full(len(worker_s), float(len(worker_s)))
    return np.divide(mean, worker_s, out=idle, where=worker_s > IDLE * mean)
