"""Medians with intervals, and whether two sets of measurements differ; distribution-free, so few repetitions suffice.

No distribution is assumed and nothing is drawn at random, so every certainty that is given is exact also for five
repetitions, where a bootstrap would promise too much. The interval of a median lies between two measurements, chosen
by the binomial distribution. Two sets are compared by the rank-sum test of Mann and Whitney with its exact
distribution, and their ratio is the median of all ratios (Hodges and Lehmann), with the interval of the same test.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from statistics import mean, median, stdev

import numpy as np
import numpy.typing as npt

CERTAINTY = 0.95
EXACT_UP_TO = 40
"""The most measurements of both sides whose distribution is counted; above it, the normal distribution is used."""


@dataclass(frozen=True)
class Interval:
    """Where a true value lies, with this certainty."""

    low: float
    high: float
    certainty: float


@dataclass(frozen=True)
class Sample:
    """Measurements of one thing.

    >>> Sample((5.0, 1.0, 3.0)).interval
    Interval(low=1.0, high=5.0, certainty=0.75)
    """

    values: tuple[float, ...]

    @cached_property
    def median(self) -> float:
        """The middle value."""
        return median(self.values)

    @cached_property
    def interval(self) -> Interval:
        """The narrowest interval of the median with the wanted certainty; all values and less certainty if too few.

        The k-th smallest and k-th largest of n values enclose the median unless fewer than k values lie on one side.
        """
        ordered = sorted(self.values)
        number, outside, k = len(ordered), 0.0, 0
        while k < number // 2:
            more = outside + 2 * math.comb(number, k) / 2**number
            if k and 1 - more < CERTAINTY:
                break
            outside, k = more, k + 1
        k = max(k, 1)
        return Interval(ordered[k - 1], ordered[-k], max(0.0, 1 - outside) if number > 1 else 0.0)

    @property
    def rsd(self) -> float | None:
        """The relative standard deviation in percent; None for one value, or a mean of 0."""
        if len(self.values) < 2 or not mean(self.values):
            return None
        return 100 * stdev(self.values) / abs(mean(self.values))


@dataclass(frozen=True)
class SampleDifference:
    """What two samples tell about each other: the chance that equal ones differ so much, and their ratio.

    `knowable` is false if no outcome of so few repetitions could have told a difference.
    """

    p: float
    knowable: bool
    ratio: float | None
    interval: Interval | None

    @property
    def found(self) -> bool:
        """Whether they differ, with the wanted certainty."""
        return self.knowable and self.p <= 1 - CERTAINTY


def difference(first: Sample, second: Sample) -> SampleDifference:
    """Compare two samples; the ratio is that of the second to the first, None unless all values are positive."""
    n, m = len(first.values), len(second.values)
    knowable = 2 / math.comb(n + m, n) <= 1 - CERTAINTY
    p = _p_value(first.values, second.values)
    if min(*first.values, *second.values) <= 0:
        return SampleDifference(p, knowable, None, None)
    ratios = np.sort(np.divide.outer(second.values, first.values), axis=None)
    interval = None
    if knowable:
        skipped, outside = _critical(n, m)
        interval = Interval(float(ratios[skipped]), float(ratios[-1 - skipped]), 1 - outside)
    return SampleDifference(p, knowable, float(np.median(ratios)), interval)


def repetitions_needed() -> int:
    """How often each side must be measured before a difference can be told.

    >>> repetitions_needed()
    4
    """
    return next(n for n in range(2, 100) if 2 / math.comb(2 * n, n) <= 1 - CERTAINTY)


def _p_value(first: Sequence[float], second: Sequence[float]) -> float:
    """The chance that two samples of one distribution differ in ranks as much as these."""
    n, m = len(first), len(second)
    wins = float(np.sign(np.subtract.outer(second, first)).sum() + n * m) / 2
    distance = abs(wins - n * m / 2)
    if n + m > EXACT_UP_TO:
        return _approximate(first, second, distance)
    _, places, times = np.unique([*first, *second], return_inverse=True, return_counts=True)
    above = np.cumsum(times)
    doubled = (2 * above - times + 1)[places]
    counts = _rank_sums(tuple(sorted(int(each) for each in doubled)), m)
    # A sum of doubled ranks is twice the wins and m (m + 1); ties make their distribution lopsided.
    sums = np.arange(counts.size) - m * (m + 1) - n * m
    return float(counts[np.abs(sums) >= round(2 * distance)].sum()) / math.comb(n + m, m)


def _approximate(first: Sequence[float], second: Sequence[float], distance: float) -> float:
    """By the normal distribution, with the variance that ties leave and a correction for continuity."""
    n, m = len(first), len(second)
    _, times = np.unique([*first, *second], return_counts=True)
    both = n + m
    ties = float((times.astype(float) ** 3 - times).sum()) / (both * (both - 1))
    variance = n * m / 12 * (both + 1 - ties)
    if variance <= 0:
        return 1.0
    return math.erfc(max(0.0, distance - 0.5) / math.sqrt(2 * variance))


def _critical(n: int, m: int) -> tuple[int, float]:
    """How many of the sorted ratios lie outside on each side of an interval, and the chance to be outside."""
    if n + m > EXACT_UP_TO:
        deviation = math.sqrt(n * m * (n + m + 1) / 12)
        return max(0, math.floor(n * m / 2 - 1.959964 * deviation)), 1 - CERTAINTY
    counts = _rank_sums(tuple(range(2, 2 * (n + m) + 1, 2)), m)[m * (m + 1) :: 2]
    total, below, outside = math.comb(n + m, m), 0, 0.0
    for skipped, count in enumerate(counts.tolist()):
        more = 2 * (below + count) / total
        if more > 1 - CERTAINTY:
            return max(0, skipped - 1), outside
        below, outside = below + count, more
    return 0, outside


@lru_cache(maxsize=64)
def _rank_sums(ranks: tuple[int, ...], chosen: int) -> npt.NDArray[np.int64]:
    """In how many ways `chosen` of the ranks have the sum 0, 1, 2, ...; doubled ranks are whole, also those of ties."""
    counts = np.zeros((chosen + 1, sum(ranks) + 1), np.int64)
    counts[0, 0] = 1
    for rank in ranks:
        counts[1:, rank:] += counts[:-1, : counts.shape[1] - rank].copy()
    return counts[chosen]
