"""Forecasts: the rates expected until a horizon, predicted from past rates."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from shoal.errors import ConfigError
from shoal.policies.binding.loads import Floats

FEWEST = 3
"""Observations that a trend needs; with fewer, the newest one is the forecast."""

LEAST = 1e-9
"""Rates below this have no scale."""


class Forecast(Protocol):
    """Predicts rates from past rates alone: the same past gives the same forecast."""

    def predicted(self, past: Floats, step_s: float, horizon_s: float) -> Floats:
        """Called once per observation; returns the expected mean of each column until the horizon, never negative.

        `past` has a row per observation, the newest last, `step_s` apart, and a column per instance.
        """


@dataclass(frozen=True)
class Last:
    """Expects the newest rates to stay."""

    def predicted(self, past: Floats, step_s: float, horizon_s: float) -> Floats:  # noqa: ARG002
        """The newest row."""
        return past[-1]


@dataclass(frozen=True)
class Trend:
    """A straight line through the last observations, never below zero nor above `most` times the largest of them.

    >>> Trend().predicted(np.array([[1.0], [2.0], [3.0]]), step_s=1.0, horizon_s=2.0)
    array([4.])
    """

    observations: int = 6
    most: float = 2.0

    def __post_init__(self) -> None:
        """Reject a line through fewer than three points."""
        if self.observations < FEWEST:
            raise ConfigError(f"a trend needs at least {FEWEST} observations; got {self.observations}")

    def predicted(self, past: Floats, step_s: float, horizon_s: float) -> Floats:
        """The line half-way to the horizon, which is its mean."""
        recent = past[-self.observations :]
        if len(recent) < FEWEST:
            return past[-1]
        ahead = np.arange(len(recent)) - (len(recent) - 1) / 2
        slope = ahead @ recent / (ahead @ ahead)
        steps = ahead[-1] + horizon_s / 2 / step_s
        return np.clip(recent.mean(axis=0) + slope * steps, 0.0, self.most * recent.max(axis=0))


@dataclass(frozen=True)
class Seasonal:
    """The rates that followed one period ago, scaled to the current level; a trend until a whole period has passed.

    >>> season = np.tile([1.0, 2.0, 6.0, 3.0], 2)[:, None]
    >>> Seasonal(period_s=4.0).predicted(season[:6], step_s=1.0, horizon_s=2.0)
    array([4.5])
    """

    period_s: float
    before: Trend = Trend()

    def __post_init__(self) -> None:
        """Reject a non-positive period."""
        if not self.period_s > 0:
            raise ConfigError(f"a season must be longer than 0 s; got {self.period_s}")

    def predicted(self, past: Floats, step_s: float, horizon_s: float) -> Floats:
        """The mean over the horizon, one period ago, each column scaled to its current level."""
        period = max(1, round(self.period_s / step_s))
        ahead = max(1, round(horizon_s / step_s))
        if len(past) <= period:
            return self.before.predicted(past, step_s, horizon_s)
        then = len(past) - 1 - period
        # A column that was zero then has no scale.
        scale = np.divide(past[-1], past[then], out=np.ones_like(past[-1]), where=past[then] > LEAST)
        following = [past[min(len(past) - 1, then + 1 + step % period)] for step in range(ahead)]
        return np.clip(scale, 0.5, 2.0) * np.mean(following, axis=0)


def forecast_of(text: str) -> Forecast:
    """A forecast by name: none, trend, trend:OBSERVATIONS or season:SECONDS.

    >>> forecast_of("season:600")
    Seasonal(period_s=600.0, before=Trend(observations=6, most=2.0))
    """
    name, _, value = text.partition(":")
    try:
        if name == "none" and not value:
            return Last()
        if name == "trend":
            return Trend(int(value)) if value else Trend()
        if name == "season" and value:
            return Seasonal(float(value))
    except ValueError as error:
        if isinstance(error, ConfigError):
            raise
        raise ConfigError(f"forecast {text!r} must have a number after its colon") from error
    raise ConfigError(f"forecast must be none, trend, trend:OBSERVATIONS or season:SECONDS; got {text!r}")
