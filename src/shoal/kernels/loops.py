"""The compiled loops: each adds events, or merges partial results, into cells.

`cells[i]` is the cell of item i. Loops named `add_*` take events; loops named `merge_*` take partial
results and the rows to read, so that the same partial can go into several cells (one per window).
Float sums are kept as two floats (sum, rounding error), so the order of addition does not show.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from shoal.kernels.compiled import compiled

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Numbers = NDArray[Any]


@compiled
def add_one(cells: Ints, counts: Ints, sample: Ints) -> None:
    """Count the events of each cell and remember one event of it."""
    for i in range(cells.size):
        cell = cells[i]
        counts[cell] += 1
        sample[cell] = i


@compiled
def add_int(cells: Ints, values: Ints, sums: Ints) -> None:
    """Add integers up."""
    for i in range(cells.size):
        sums[cells[i]] += values[i]


@compiled
def add_float(cells: Ints, values: Floats, sums: Floats) -> None:
    """Add floats up, with the rounding error of each addition kept beside the sum."""
    for i in range(cells.size):
        cell = cells[i]
        value = values[i]
        old = sums[cell, 0]
        new = old + value
        back = new - old
        sums[cell, 0] = new
        sums[cell, 1] += (old - (new - back)) + (value - back)


@compiled
def add_min(cells: Ints, values: Numbers, smallest: Numbers) -> None:
    """Keep the smallest value; cells start at the largest possible one."""
    for i in range(cells.size):
        smallest[cells[i]] = min(smallest[cells[i]], values[i])


@compiled
def add_max(cells: Ints, values: Numbers, largest: Numbers) -> None:
    """Keep the largest value; cells start at the smallest possible one."""
    for i in range(cells.size):
        largest[cells[i]] = max(largest[cells[i]], values[i])


@compiled
def _insert(top: Numbers, filled: int, value: float) -> None:
    """Insert a value into a descending row whose first `filled` entries are taken."""
    at = min(filled, top.size - 1)
    while at > 0 and top[at - 1] < value:
        top[at] = top[at - 1]
        at -= 1
    top[at] = value


@compiled
def add_top(cells: Ints, values: Numbers, tops: Numbers, filled: Ints) -> None:
    """Keep the k largest values of each cell, largest first."""
    k = tops.shape[1]
    for i in range(cells.size):
        cell = cells[i]
        if filled[cell] < k:
            _insert(tops[cell], filled[cell], values[i])
            filled[cell] += 1
        elif values[i] > tops[cell, k - 1]:
            _insert(tops[cell], k, values[i])


@compiled
def merge_int(rows: Ints, cells: Ints, partial: Ints, sums: Ints) -> None:
    """Add partial integer sums or counts up."""
    for i in range(cells.size):
        sums[cells[i]] += partial[rows[i]]


@compiled
def merge_float(rows: Ints, cells: Ints, partial: Floats, sums: Floats) -> None:
    """Add partial float sums up, errors included."""
    for i in range(cells.size):
        cell = cells[i]
        value = partial[rows[i], 0]
        old = sums[cell, 0]
        new = old + value
        back = new - old
        sums[cell, 0] = new
        sums[cell, 1] += ((old - (new - back)) + (value - back)) + partial[rows[i], 1]


@compiled
def merge_min(rows: Ints, cells: Ints, partial: Numbers, smallest: Numbers) -> None:
    """Keep the smallest of partial minima."""
    for i in range(cells.size):
        smallest[cells[i]] = min(smallest[cells[i]], partial[rows[i]])


@compiled
def merge_max(rows: Ints, cells: Ints, partial: Numbers, largest: Numbers) -> None:
    """Keep the largest of partial maxima."""
    for i in range(cells.size):
        largest[cells[i]] = max(largest[cells[i]], partial[rows[i]])


@compiled
def merge_top(rows: Ints, cells: Ints, partial: Numbers, counts: Ints, tops: Numbers, filled: Ints) -> None:
    """Keep the k largest of partial tops; `counts` says how many events each partial has seen."""
    k = tops.shape[1]
    for i in range(cells.size):
        cell = cells[i]
        row = rows[i]
        for j in range(min(counts[row], k)):
            value = partial[row, j]
            if filled[cell] < k:
                _insert(tops[cell], filled[cell], value)
                filled[cell] += 1
            elif value > tops[cell, k - 1]:
                _insert(tops[cell], k, value)
            else:
                break


@compiled
def combine(cells: Ints, codes: Ints, size: int) -> None:
    """Refine cells by one more key: cell * size + code."""
    for i in range(cells.size):
        cells[i] = cells[i] * size + codes[i]


@compiled
def panes_of(times: Ints, slide_us: int, panes: Ints) -> None:
    """Number of the pane each time lies in, rounded down for times before 1970 too.

    A float product is several times faster than a 64-bit division; the two comparisons repair its rounding.
    """
    inverse = 1.0 / slide_us
    for i in range(times.size):
        pane = np.int64(np.floor(times[i] * inverse))
        start = pane * slide_us
        if start > times[i]:
            pane -= 1
        elif times[i] - start >= slide_us:
            pane += 1
        panes[i] = pane


@compiled
def range_of(values: Ints) -> tuple[int, int]:
    """Smallest and largest value of a non-empty array, in one pass."""
    low = values[0]
    high = values[0]
    for i in range(values.size):
        low = min(low, values[i])
        high = max(high, values[i])
    return low, high


@compiled
def translate(codes: Ints, low: int, table: Ints, out: Ints) -> None:
    """Look values up in a dense table that starts at `low`; values outside it become -1."""
    for i in range(codes.size):
        at = codes[i] - low
        out[i] = table[at] if 0 <= at < table.size else -1


@compiled
def expand(panes: Ints, first: int, last: int, span: int, rows: Ints, windows: Ints) -> int:
    """List (row, window) for every window first..last that a row's pane belongs to; returns how many."""
    used = 0
    for i in range(panes.size):
        for window in range(max(first, panes[i] + 1), min(last, panes[i] + span) + 1):
            rows[used] = i
            windows[used] = window
            used += 1
    return used
