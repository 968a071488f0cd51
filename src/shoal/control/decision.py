"""The decision model: whether a better place is worth the move (seed 002, IV.6.2).

A place has a score, larger is better. A move costs the share of outputs that come while the instance is on its way, of
all that come until the move is amortised; the benefit of a place is its score less that share. An instance goes where
the benefit is largest, so it stays unless another place is better by more than its cost.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean, pstdev

from shoal.errors import ConfigError


def amortisation_s(deviation_percent: float, least_s: float, most_s: float) -> float:
    """How long a move may take to pay: the longer, the steadier the scores of its target have been.

    >>> amortisation_s(0, 1.0, 61.0), amortisation_s(50, 1.0, 61.0), amortisation_s(250, 1.0, 61.0)
    (61.0, 31.0, 1.0)
    """
    return min(most_s, max(least_s, least_s + (most_s - least_s) / 100 * (100 - deviation_percent)))


def deviation_percent(scores: Sequence[float]) -> float:
    """Relative standard deviation of past scores, in percent; a place nobody knows yet counts as steady.

    >>> deviation_percent([1.0, 1.0]), deviation_percent([1.0, 3.0]), deviation_percent([])
    (0.0, 50.0, 0.0)
    """
    middle = fmean(scores) if scores else 0.0
    return 0.0 if middle == 0 else 100 * pstdev(scores) / middle


def cost(weight: float, outputs_meanwhile: float, outputs_until_amortised: float) -> float:
    """The share of outputs that a move holds up; nothing where none are expected.

    >>> cost(1.0, outputs_meanwhile=100, outputs_until_amortised=1000)
    0.1
    """
    return 0.0 if outputs_until_amortised == 0 else weight * outputs_meanwhile / outputs_until_amortised


@dataclass(frozen=True)
class Place:
    """A worker as a place for an instance: its score, the cost of going there, and until when that must have paid.

    >>> Place(worker=1, score=2.5, cost=0.15).benefit
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


def best(places: Iterable[Place]) -> Place:
    """The place with the largest benefit; the first of equals, so name the current one first."""
    return max(places, key=lambda place: place.benefit)


@dataclass(frozen=True)
class Model:
    """The numbers of the decision model.

    `weight` is how much an output held up counts against one that is not; `least_s` and `most_s` bound the time in
    which a move must have paid.
    """

    weight: float = 1.0
    least_s: float = 1.0
    most_s: float = 60.0

    def __post_init__(self) -> None:
        """Reject times that are not positive, and a negative weight."""
        if not 0 < self.least_s <= self.most_s:
            raise ConfigError(
                f"a move must have paid within a time from least_s to most_s; got {self.least_s} to {self.most_s}"
            )
        if not self.weight >= 0:
            raise ConfigError(f"weight must be 0 or more; got {self.weight}")

    def place(self, worker: int, score: float, past: Sequence[float], outputs_per_s: float, moving_s: float) -> Place:
        """Another worker as a place for an instance, by its score now and those of the past, and the time to move."""
        until_s = amortisation_s(deviation_percent(past), self.least_s, self.most_s)
        share = cost(self.weight, outputs_per_s * moving_s, outputs_per_s * until_s)
        return Place(worker, score, share, until_s)
