"""The decision model: whether a better worker is worth the move (seed 002, IV.6.2).

1. Every worker has a score; larger is better.
2. A move costs a share: the outputs that are due during the move, of all that are due until it is amortised.
3. The benefit of a worker is its score less that share. Staying costs nothing.
4. An instance goes where the benefit is largest, so it stays unless another worker is better by more than the cost.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean, pstdev

from shoal.errors import ConfigError


def amortisation_s(deviation_percent: float, least_s: float, most_s: float) -> float:
    """The time within which a move must pay off; longer if the scores of its target have been steady.

    >>> amortisation_s(0, 1.0, 61.0), amortisation_s(50, 1.0, 61.0), amortisation_s(250, 1.0, 61.0)
    (61.0, 31.0, 1.0)
    """
    return min(most_s, max(least_s, least_s + (most_s - least_s) / 100 * (100 - deviation_percent)))


def deviation_percent(scores: Sequence[float]) -> float:
    """Relative standard deviation of past scores, in percent; a worker without past scores counts as steady.

    >>> deviation_percent([1.0, 1.0]), deviation_percent([1.0, 3.0]), deviation_percent([])
    (0.0, 50.0, 0.0)
    """
    middle = fmean(scores) if scores else 0.0
    return 0.0 if middle == 0 else 100 * pstdev(scores) / middle


def cost(weight: float, outputs_meanwhile: float, outputs_until_amortised: float) -> float:
    """The share of outputs that a move delays; 0 if none are expected.

    >>> cost(1.0, outputs_meanwhile=100, outputs_until_amortised=1000)
    0.1
    """
    return 0.0 if outputs_until_amortised == 0 else weight * outputs_meanwhile / outputs_until_amortised


@dataclass(frozen=True)
class Choice:
    """A worker that an instance could be on: its score, the cost of the move, and the time in which that must pay off.

    >>> Choice(worker=1, score=2.5, cost=0.15).benefit
    2.125
    """

    worker: int
    score: float
    cost: float = 0.0
    amortisation_s: float = 0.0

    @property
    def benefit(self) -> float:
        """The score, less the share that the move costs."""
        return self.score * (1 - self.cost)


def best(choices: Iterable[Choice]) -> Choice:
    """The choice with the largest benefit; the first of equals, so list the current worker first."""
    return max(choices, key=lambda choice: choice.benefit)


@dataclass(frozen=True)
class Model:
    """The parameters of the decision model.

    `weight` is what a delayed output counts; `least_s` and `most_s` bound the time within which a move must pay off.
    """

    weight: float = 1.0
    least_s: float = 1.0
    most_s: float = 60.0

    def __post_init__(self) -> None:
        """Reject times that are not positive, and a negative weight."""
        if not 0 < self.least_s <= self.most_s:
            raise ConfigError(
                f"a move must pay off within a time from least_s to most_s; got {self.least_s} to {self.most_s}"
            )
        if not self.weight >= 0:
            raise ConfigError(f"weight must be 0 or more; got {self.weight}")

    def choice(self, worker: int, score: float, past: Sequence[float], outputs_per_s: float, moving_s: float) -> Choice:
        """The choice to move to another worker, by its score, its past scores and the time of the move."""
        return self.choice_within(self.until_s(past), worker, score, outputs_per_s, moving_s)

    def until_s(self, past: Sequence[float]) -> float:
        """The time within which a move must pay off, by past scores of its target."""
        return amortisation_s(deviation_percent(past), self.least_s, self.most_s)

    def choice_within(self, until_s: float, worker: int, score: float, outputs_per_s: float, moving_s: float) -> Choice:
        """The choice to move to another worker, if the move must pay off within a time."""
        share = cost(self.weight, outputs_per_s * moving_s, outputs_per_s * until_s)
        return Choice(worker, score, share, until_s)
