"""The compiled loops: each adds events, or merges partial results, into cells.

`cells[i]` is the cell of item i. Loops named `add_*` take events; loops named `merge_*` take partial
results and the rows to read, so that the same partial can go into several cells (one per window).

Float sums are kept as three floats: the sum, the sum of its rounding errors, and the sum of theirs. Their total is
exact, so the order of addition does not matter, while the cube of the number of addends, times the ratio of the largest
to the smallest of them, is below 2^107 and no sum overflows: 14 orders of magnitude for a million addends.
In comparisons NaN is the largest value, as in SQL, and zero has no sign, so order does not matter there either.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from shoal.kernels.compiled import compiled

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Numbers = NDArray[Any]
LARGEST_SIZE = 2.0**61
"""More combinations than this are not numbered, since their numbers might not fit."""


@compiled
def add_one(cells: Ints, counts: Ints, sample: Ints) -> None:
    """Count the events of each cell and remember one event of it."""
    for i in range(cells.size):
        cell = cells[i]
        counts[cell] += 1
        sample[cell] = i


@compiled
def add_int(cells: Ints, values: Ints, sums: Ints) -> None:
    """Add integers to the sums of their cells."""
    for i in range(cells.size):
        sums[cells[i]] += values[i]


@compiled
def two_sum(a: float, b: float) -> tuple[float, float]:
    """Sum and rounding error of two floats; their total is exact."""
    total = a + b
    back = total - a
    return total, (a - (total - back)) + (b - back)


@compiled
def add_float(cells: Ints, values: Floats, sums: Floats) -> None:
    """Add floats to the three-part sums of their cells."""
    for i in range(cells.size):
        cell = cells[i]
        sums[cell, 0], error = two_sum(sums[cell, 0], values[i])
        sums[cell, 1], error = two_sum(sums[cell, 1], error)
        sums[cell, 2] += error


@compiled
def exceeds(a: float, b: float) -> bool:
    """Whether a is larger than b, where NaN is larger than any other value."""
    return a > b or (np.isnan(a) and not np.isnan(b))


@compiled
def add_min(cells: Ints, values: Numbers, smallest: Numbers) -> None:
    """Keep the smallest value; cells start at the largest possible one."""
    for i in range(cells.size):
        value = values[i] + 0  # turns -0.0 into 0.0
        if exceeds(smallest[cells[i]], value):
            smallest[cells[i]] = value


@compiled
def add_max(cells: Ints, values: Numbers, largest: Numbers) -> None:
    """Keep the largest value; cells start at the smallest possible one."""
    for i in range(cells.size):
        value = values[i] + 0  # turns -0.0 into 0.0
        if exceeds(value, largest[cells[i]]):
            largest[cells[i]] = value


@compiled
def insert(top: Numbers, filled: int, value: float) -> None:
    """Insert a value into a descending row whose first `filled` entries are taken."""
    at = min(filled, top.size - 1)
    while at > 0 and exceeds(value, top[at - 1]):
        top[at] = top[at - 1]
        at -= 1
    top[at] = value


@compiled
def add_top(cells: Ints, values: Numbers, tops: Numbers, filled: Ints) -> None:
    """Keep the k largest values of each cell, largest first.

    The smallest value that each cell keeps is in an array of its own, small enough for the fastest cache. Most values
    are not above it and need nothing else.
    """
    k = tops.shape[1]
    bars = tops[:, k - 1].copy()
    for i in range(cells.size):
        cell = cells[i]
        value = values[i] + 0  # turns -0.0 into 0.0
        if value <= bars[cell] and filled[cell] == k:
            continue
        if filled[cell] < k:
            insert(tops[cell], filled[cell], value)
            filled[cell] += 1
        elif exceeds(value, bars[cell]):
            insert(tops[cell], k, value)
        bars[cell] = tops[cell, k - 1]


@compiled
def merge_int(rows: Ints, cells: Ints, partial: Ints, sums: Ints) -> None:
    """Merge partial integer sums or counts."""
    for i in range(cells.size):
        sums[cells[i]] += partial[rows[i]]


@compiled
def add_sum(sums: Floats, cell: int, partial: Floats, row: int) -> None:
    """Add a three-part sum to another."""
    sums[cell, 0], error = two_sum(sums[cell, 0], partial[row, 0])
    sums[cell, 1], error = two_sum(sums[cell, 1], error)
    sums[cell, 2] += error
    sums[cell, 1], error = two_sum(sums[cell, 1], partial[row, 1])
    sums[cell, 2] += error
    sums[cell, 2] += partial[row, 2]


@compiled
def merge_float(rows: Ints, cells: Ints, partial: Floats, sums: Floats) -> None:
    """Merge partial float sums, errors included."""
    for i in range(cells.size):
        add_sum(sums, cells[i], partial, rows[i])


@compiled
def merge_floats(cells: Ints, partial: Floats, sums: Floats) -> None:
    """Merge partial float sums, errors included, each into one cell."""
    for row in range(cells.size):
        add_sum(sums, cells[row], partial, row)


@compiled
def round_sums(sums: Floats, out: Floats) -> None:
    """The float nearest to the total of each sum's three parts.

    The two larger parts decide, unless their total is halfway between two floats: then the smallest part does.
    """
    for i in range(out.size):
        high, middle, low = sums[i, 0], sums[i, 1], sums[i, 2]
        if middle == 0.0 and low == 0.0:
            high += 0.0  # turns -0.0 into 0.0
        elif np.isfinite(high):
            middle, low = two_sum(middle, low)
            high, middle = two_sum(high, middle)
            middle, low = two_sum(middle, low)
            high, middle = two_sum(high, middle)
            next_float = high + 2 * middle
            if (middle > 0) == (low > 0) and low != 0 and next_float - high == 2 * middle:
                high = next_float
        out[i] = high


@compiled
def merge_min(rows: Ints, cells: Ints, partial: Numbers, smallest: Numbers) -> None:
    """Keep the smallest of partial minima."""
    for i in range(cells.size):
        if exceeds(smallest[cells[i]], partial[rows[i]]):
            smallest[cells[i]] = partial[rows[i]]


@compiled
def merge_max(rows: Ints, cells: Ints, partial: Numbers, largest: Numbers) -> None:
    """Keep the largest of partial maxima."""
    for i in range(cells.size):
        if exceeds(partial[rows[i]], largest[cells[i]]):
            largest[cells[i]] = partial[rows[i]]


@compiled
def merge_top(rows: Ints, cells: Ints, partial: Numbers, counts: Ints, tops: Numbers, filled: Ints) -> None:
    """Keep the k largest of partial tops; `counts` is the number of events of each partial."""
    k = tops.shape[1]
    for i in range(cells.size):
        cell = cells[i]
        row = rows[i]
        for j in range(min(counts[row], k)):
            value = partial[row, j]
            if filled[cell] < k:
                insert(tops[cell], filled[cell], value)
                filled[cell] += 1
            elif exceeds(value, tops[cell, k - 1]):
                insert(tops[cell], k, value)
            else:
                break


@compiled
def combine(cells: Ints, codes: Ints, size: int) -> None:
    """Refine cells by one more key: cell * size + code."""
    for i in range(cells.size):
        cells[i] = cells[i] * size + codes[i]


@compiled
def refine(cells: Ints, values: Ints, low: int, size: int) -> None:
    """Refine cells by a column of numbers from `low` on, less than `low + size`."""
    for i in range(cells.size):
        cells[i] = cells[i] * size + (values[i] - low)


@compiled
def number_all(columns: tuple[Ints, ...], cells: Ints) -> int:
    """Number the combinations of some columns by their offsets; returns how many there may be, 0 if too many."""
    size = 1
    for k in range(len(columns)):
        column = columns[k]
        low, high = range_of(column)
        if float(size) * (float(high) - float(low) + 1.0) >= LARGEST_SIZE:
            return 0
        width = high - low + 1
        for i in range(cells.size):
            before = cells[i] * width if k else 0
            cells[i] = before + (column[i] - low)
        size *= width
    return size


@compiled
def widen_ranges(columns: tuple[Ints, ...], lows: Ints, highs: Ints) -> None:
    """Widen a range per column so that it has all values of the column."""
    for k in range(len(columns)):
        column = columns[k]
        if column.size:
            low, high = range_of(column)
            lows[k] = min(lows[k], low)
            highs[k] = max(highs[k], high)


@compiled
def refine_all(cells: Ints, columns: tuple[Ints, ...], lows: Ints, widths: Ints) -> None:
    """Refine cells by some columns, one after another, each with its lowest value and the width of its range."""
    for k in range(len(columns)):
        refine(cells, columns[k], lows[k], widths[k])


@compiled
def place_all(cells: Ints, columns: tuple[Ints, ...], into: tuple[Ints, ...]) -> None:
    """Put each value of some columns into its cell."""
    for k in range(len(columns)):
        place(cells, columns[k], into[k])


@compiled
def place(cells: Ints, values: Numbers, into: Numbers) -> None:
    """Put each value into its cell."""
    for i in range(cells.size):
        into[cells[i]] = values[i]


@compiled
def count_buckets(codes: Ints, buckets: NDArray[np.uint8]) -> None:
    """Count how many codes fall into each of the buckets, which are a power of two: none, one or several."""
    mask = np.uint64(buckets.size - 1)
    for i in range(codes.size):
        mixed = np.uint64(codes[i]) * np.uint64(0x9E3779B97F4A7C15)
        bucket = (mixed ^ (mixed >> np.uint64(32))) & mask
        buckets[bucket] = min(buckets[bucket] + 1, 2)


@compiled
def in_full_buckets(codes: Ints, buckets: NDArray[np.uint8], rows: Ints) -> int:
    """List the codes that share their bucket; returns how many."""
    mask = np.uint64(buckets.size - 1)
    found = 0
    for i in range(codes.size):
        mixed = np.uint64(codes[i]) * np.uint64(0x9E3779B97F4A7C15)
        bucket = (mixed ^ (mixed >> np.uint64(32))) & mask
        rows[found] = i
        found += buckets[bucket] > 1
    return found


@compiled
def rows_between(values: Ints, first: int, stop: int) -> tuple[int, int, int]:
    """The first row of the values first .. stop - 1, the row behind the last, and the number of such rows."""
    begin = end = rows = 0
    for i in range(values.size):
        if first <= values[i] < stop:
            begin = begin if rows else i
            end = i + 1
            rows += 1
    return begin, end, rows


@compiled
def runs_of(values: Ints) -> tuple[int, int, int]:
    """Smallest and largest value, and the length of the longest run of equal ones; 0 if they do not ascend."""
    longest = begin = 0
    before = values[0]
    for i in range(1, values.size):
        value = values[i]
        if value != before:
            if value < before:
                low, high = range_of(values)
                return low, high, 0
            longest = max(longest, i - begin)
            begin = i
            before = value
    return values[0], before, max(longest, values.size - begin)


@compiled
def panes_of(times: Ints, slide_us: int, panes: Ints) -> None:
    """Number of the pane each time lies in, rounded down for times before 1970 too.

    A float product is several times faster than a 64-bit division, which corrects it in the few cases where it is off.
    """
    inverse = 1.0 / slide_us
    for i in range(times.size):
        pane = np.int64(np.floor(times[i] * inverse))
        rest = times[i] - pane * slide_us
        if rest < 0 or rest >= slide_us:
            pane += rest // slide_us
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
def expand(panes: Ints, first: int, last: int, span: int, rows: Ints, windows: Ints) -> None:
    """List (row, window) for every window first..last that a row's pane belongs to."""
    used = 0
    for i in range(panes.size):
        for window in range(max(first, panes[i] + 1), min(last, panes[i] + span) + 1):
            rows[used] = i
            windows[used] = window
            used += 1
