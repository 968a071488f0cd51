"""The compiled loops over sets of distinct values, which lie one behind another in one array."""

import numpy as np
from numpy.typing import NDArray

from shoal.kernels.compiled import compiled
from shoal.kernels.loops import LARGEST_SIZE, range_of

Ints = NDArray[np.int64]


@compiled
def pair_with(cells: Ints, values: Ints, pairs: Ints) -> tuple[int, int]:
    """Each cell and value as one number, `cell * width + value - low`; returns low and width, 0 if they do not fit."""
    low, high = range_of(values)
    _, last = range_of(cells)
    if (float(last) + 1.0) * (float(high) - float(low) + 1.0) >= LARGEST_SIZE:
        return low, 0
    width = high - low + 1
    for i in range(cells.size):
        pairs[i] = cells[i] * width + (values[i] - low)
    return low, width


@compiled
def divide_distinct(pairs: Ints, size: int, low: int, offsets: Ints, values: Ints) -> int:
    """Divide each of some sorted numbers once by a size: the rests, from `low` on, are the values of their quotient.

    `offsets` are those of the quotients, which must be 0 before; returns how many values there are.
    """
    found = 0
    owner = begin = pairs[0] // size
    begin *= size
    for i in range(pairs.size):
        if i and pairs[i] == pairs[i - 1]:
            continue
        if pairs[i] >= begin + size:
            owner = pairs[i] // size
            begin = owner * size
        offsets[owner + 1] += 1
        values[found] = pairs[i] - begin + low
        found += 1
    for j in range(1, offsets.size):
        offsets[j] += offsets[j - 1]
    return found


@compiled
def unions(rows: Ints, cells: Ints, offsets: Ints, values: Ints, into: Ints) -> Ints:
    """The values of each cell, sorted and each once, from lists that are: row `rows[i]` goes into cell `cells[i]`.

    `offsets` are those of the lists. `into` receives those of the cells, and must be 0 before.
    """
    lists = np.zeros(into.size - 1, np.int64)
    for i in range(cells.size):
        length = offsets[rows[i] + 1] - offsets[rows[i]]
        into[cells[i] + 1] += length
        lists[cells[i]] += length > 0
    for j in range(1, into.size):
        into[j] += into[j - 1]
    found = np.empty(into[-1], np.int64)
    ends = into[:-1].copy()
    for i in range(cells.size):
        for at in range(offsets[rows[i]], offsets[rows[i] + 1]):
            found[ends[cells[i]]] = values[at]
            ends[cells[i]] += 1
    used = 0
    for cell in range(lists.size):
        begin, end = into[cell], ends[cell]
        into[cell] = used
        part = found[begin:end]
        if lists[cell] > 1:
            part.sort()
        for i in range(part.size):
            if i == 0 or part[i] != found[used - 1]:
                found[used] = part[i]
                used += 1
    into[lists.size] = used
    return found[:used].copy()
