"""Numbering: equal values get equal numbers, by hashing, in the order in which they first appear."""

import numpy as np
from numpy.typing import NDArray

from shoal.kernels.compiled import compiled

Ints = NDArray[np.int64]


def numbered(values: Ints) -> tuple[Ints, Ints]:
    """The number of every value, and the distinct values by number.

    >>> numbers, distinct = numbered(np.array([7, 9, 7, -1]))
    >>> numbers.tolist(), distinct.tolist()
    ([0, 1, 0, 2], [7, 9, -1])
    """
    size = 1 << max(4, int(2 * values.size - 1).bit_length()) if values.size else 16
    numbers, distinct = np.empty(values.size, np.int64), np.empty(values.size, np.int64)
    count = _number(values, np.zeros(size, np.int32), numbers, distinct)
    return numbers, distinct[:count]


def numbered_by_run(values: Ints, runs: Ints, longest: int) -> tuple[Ints, int]:
    """The number of every pair of a run and a value, and how many there are.

    Equal runs must be next to each other, at most `longest` of them.

    >>> numbers, count = numbered_by_run(np.array([7, 7, 9, 7]), np.array([1, 1, 1, 2]), 3)
    >>> numbers.tolist(), count
    ([0, 0, 1, 2], 3)
    """
    size = 1 << max(4, int(2 * longest - 1).bit_length())
    numbers, distinct = np.empty(values.size, np.int64), np.empty(values.size, np.int64)
    return numbers, _number_by_run(values, runs, np.zeros(size, np.int32), numbers, distinct)


@compiled
def _number_by_run(values: Ints, runs: Ints, table: NDArray[np.int32], numbers: Ints, distinct: Ints) -> int:
    """As `_number`, with one table for all runs: entries of runs before count as empty."""
    mask = np.uint64(table.size - 1)
    count = before = 0
    for i in range(values.size):
        if i and runs[i] != runs[i - 1]:
            before = count
        value = values[i]
        mixed = np.uint64(value) * np.uint64(0x9E3779B97F4A7C15)
        slot = (mixed ^ (mixed >> np.uint64(32))) & mask
        number = table[slot]
        while number > before and distinct[number - 1] != value:
            slot = (slot + np.uint64(1)) & mask
            number = table[slot]
        if number <= before:
            distinct[count] = value
            count += 1
            number = np.int32(count)
            table[slot] = number
        numbers[i] = number - 1
    return count


@compiled
def _number(values: Ints, table: NDArray[np.int32], numbers: Ints, distinct: Ints) -> int:
    """Open addressing: `table` holds numbers from 1 on, or 0 if empty; its size is a power of two."""
    mask = np.uint64(table.size - 1)
    count = 0
    for i in range(values.size):
        mixed = np.uint64(values[i]) * np.uint64(0x9E3779B97F4A7C15)
        slot = (mixed ^ (mixed >> np.uint64(32))) & mask
        while table[slot] != 0 and distinct[table[slot] - 1] != values[i]:
            slot = (slot + np.uint64(1)) & mask
        if table[slot] == 0:
            distinct[count] = values[i]
            count += 1
            table[slot] = count
        numbers[i] = table[slot] - 1
    return count
