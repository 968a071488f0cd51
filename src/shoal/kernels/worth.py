"""What utilities are computed from: the time in a state, rates of keys, and what was learned of the input.

The utility of a fragment is the number of events, or of results, that are expected to need it. Only ratios matter: a
selection compares the utilities of fragments of one kernel.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
ENDLESS_US = 1 << 61
"""Watermarks beyond this, in either direction, stand for no time: before the first event, or after the last."""


@dataclass(frozen=True)
class Learned:
    """What a kernel has learned from its input and cannot see in its state.

    `reached`: of all partial matches whose time is over, how many got at least as far as each stage of the pattern.

    >>> Learned((10, 4)).completion(0, stages=2), Learned((10, 4)).completion(1, stages=2)
    (0.416..., 1.0)
    """

    reached: tuple[int, ...] = ()

    def completion(self, stage: int, stages: int) -> float:
        """The probability that a partial match at a stage, counted from 0, reaches the last one.

        A transition that was never observed has the probability 1/2, and no observation makes it certain.
        """
        reached = self.reached or (0,) * stages
        share = 1.0
        for before, after in zip(reached[stage:], reached[stage + 1 :], strict=False):
            share *= (after + 1) / (before + 2)
        return share

    def plus(self, reached: Ints) -> "Learned":
        """What is known after further partial matches: how many of them got at least as far as each stage."""
        if not self.reached:
            return Learned(tuple(reached.tolist()))
        return Learned(tuple(old + new for old, new in zip(self.reached, reached.tolist(), strict=True)))


NOTHING_LEARNED = Learned()


def present_us(watermark_us: int, newest_us: int) -> int:
    """The time in a state: its watermark, or its newest event if that is later or there is no watermark."""
    return newest_us if abs(watermark_us) >= ENDLESS_US else max(watermark_us, newest_us)


def expected(counts: Ints, elapsed_us: Ints | int, left_us: Ints) -> Floats:
    """How many events are expected in the time left, after some events in the time that has elapsed.

    >>> expected(np.array([10, 10, 10]), 1000, np.array([500, 0, -3])).tolist()
    [5.0, 0.0, 0.0]
    """
    return counts * (np.maximum(left_us, 0) / np.maximum(elapsed_us, 1))


def counts_of(groups: Ints, weights: Ints | None = None, size: int = 0) -> Ints:
    """The number of rows of each group, or the sum of whole weights."""
    return np.bincount(groups, weights, minlength=size).astype(np.int64)
