"""The function of the `skew` workload: an upper bound of a median, by the bootstrap; costly, and not incremental.

A bootstrap draws a sample of the same size many times and takes the median of each. These medians cannot be merged
from parts, so the state is the values themselves, and the work is done where the instance is bound, when its window
closes.
"""

import numpy as np
import numpy.typing as npt

from shoal.kernels.compiled import compiled
from shoal.workloads.scatter import below, mix

Ints = npt.NDArray[np.int64]

RESAMPLES = 2000
BOUND = RESAMPLES * 39 // 40
"""Rank of the median that is the result, from 0: the upper end of an interval of 95 %."""


class MedianBound:
    """The upper end of the 95 % confidence interval of a median, as an aggregate of whole numbers.

    >>> aggregate = MedianBound()
    >>> aggregate.result(aggregate.merge([3, 1], [2]))
    3
    >>> aggregate.result(list(range(1000)))
    529
    """

    def zero(self) -> list[int]:
        """No values."""
        return []

    def add(self, state: list[int], values: list[int]) -> list[int]:
        """Keep the values."""
        return state + values

    def merge(self, one: list[int], other: list[int]) -> list[int]:
        """Keep the values of both."""
        return one + other

    def result(self, state: list[int]) -> int:
        """The bound; values are sorted first, so that the order of merges does not matter."""
        values = np.sort(np.array(state, np.int64))
        return int(values[np.sort(medians(values.size, RESAMPLES))[BOUND]])


@compiled
def medians(size: int, resamples: int) -> Ints:
    """The index of the median of each draw among `size` ordered values, the lower one of two.

    Draw r takes value number `below(size, mix(r * 2**32 + i))` as its i-th.
    """
    found = np.empty(resamples, np.int64)
    drawn = np.empty(size, np.int32)
    for r in range(resamples):
        drawn[:] = 0
        for i in range(size):
            drawn[below(size, mix(np.uint64(r) << np.uint64(32) | np.uint64(i)))] += 1
        counted, index = np.int64(drawn[0]), 0
        while counted <= (size - 1) // 2:
            index += 1
            counted += drawn[index]
        found[r] = index
    return found
