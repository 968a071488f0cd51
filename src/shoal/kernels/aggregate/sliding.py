"""Sliding: the running values of all windows of a key from those of its panes, with few merges for each pane.

Panes are divided into blocks as long as a window. A window is then the end of one block and the beginning of the next,
so it is one merge of two running values: of the panes from its first to the end of their block, and of the panes from
the beginning of the next block to its last. Both are made by adding pane after pane. That is three merges for each
pane, where one for each window that it is in may be dozens.

It needs an entry for every key and pane, and running values that are numbers.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from shoal.kernels.aggregate.cells import Codes, is_dense
from shoal.kernels.aggregate.panes import Ints, PaneShape, PaneTable
from shoal.kernels.aggregate.slots import COUNT, Array, Slot, counting_slots
from shoal.kernels.compiled import compiled
from shoal.kernels.loops import Numbers, add_sum, exceeds, insert

KINDS = ("count", "present", "sum", "min", "max", "top")
"""Kinds of running values that can slide."""
FEWEST_PANES, FEWEST_WINDOWS = 4, 4
"""Windows of fewer panes, and fewer windows that close together, are merged one by one: that is as few merges."""


@dataclass(frozen=True)
class WindowValues:
    """Windows that have an event: a row of the table with the key of each, its number, and its running values."""

    rows: Ints
    windows: Ints
    slots: tuple[Array, ...]


def slid_values(shape: PaneShape, table: PaneTable, keys: Codes, first: int, last: int) -> WindowValues | None:
    """The windows number first..last of a merged table, by key and number; None if they cannot slide."""
    span = shape.window.panes
    first, last = max(first, int(table.pane.min()) + 1), min(last, int(table.pane.max()) + span)
    windows = last - first + 1
    panes = windows + span - 1
    if span < FEWEST_PANES or windows < FEWEST_WINDOWS or not is_dense(keys.size * panes * shape.width, len(table)):
        return None
    if any(slot.kind not in KINDS for slot in shape.slots):
        return None
    grid = np.full((keys.size, panes), -1, np.int64)
    fill_grid(keys.codes, table.pane, first - span, grid)
    owner = grid.max(axis=1)
    slots = _slid(shape.slots, table.slots, grid, windows)
    filled = np.flatnonzero(slots[0])
    return WindowValues(owner[filled // windows], first + filled % windows, tuple(slot[filled] for slot in slots))


def _slid(slots: Sequence[Slot], values: Sequence[Array], grid: Ints, windows: int) -> list[Array]:
    """The running values of all windows of all keys, key by key."""
    size = len(grid) * windows
    slid: list[Array] = []
    for slot, each, counting in zip(slots, values, counting_slots(slots), strict=True):
        if slot.kind == "present" and each is values[0]:
            slid.append(slid[0])
            continue
        into = slot.empty(size)
        if slot.kind == "top":
            slide_top(grid, windows, each, values[counting], into)
        elif slot.kind in ("min", "max"):
            slide_extreme(grid, windows, each, slot.kind == "max", into)
        elif into.ndim > 1:
            slide_float(grid, windows, each, into)
        else:
            slide_int(grid, windows, each, into)
        slid.append(into)
    return slid


def load_loops() -> None:
    """Run every loop once on made-up rows, so that its machine code is loaded in time."""
    one, grid = np.ones(1, np.int64), np.zeros((1, 1), np.int64)
    fill_grid(one - 1, one, 1, grid)
    for dtype in ("int64", "float64"):
        for kind in ("sum", "min", "max"):
            _slid([COUNT, Slot(kind, "made_up", dtype)], [one, Slot(kind, "made_up", dtype).empty(1)], grid, 1)
        _slid([COUNT, Slot("top", "made_up", dtype)], [one, np.zeros((1, 1), dtype)], grid, 1)


@compiled
def fill_grid(keys: Ints, panes: Ints, low: int, grid: Ints) -> None:
    """Put the number of each row at its key and pane; panes before `low` and behind the last are left out."""
    for i in range(keys.size):
        pane = panes[i] - low
        if 0 <= pane < grid.shape[1]:
            grid[keys[i], pane] = i


@compiled
def slide_int(grid: Ints, windows: int, values: Ints, into: Ints) -> None:
    """Sums of integers: each window is the one before, plus a pane, less a pane."""
    span = grid.shape[1] - windows + 1
    for key in range(len(grid)):
        total = 0
        for pane in range(grid.shape[1]):
            row = grid[key, pane]
            if row >= 0:
                total += values[row]
            window = pane - span + 1
            if window >= 0:
                into[key * windows + window] = total
                row = grid[key, window]
                if row >= 0:
                    total -= values[row]


@compiled
def slide_float(grid: Ints, windows: int, values: NDArray[np.float64], into: NDArray[np.float64]) -> None:
    """Sums of floats in three parts."""
    span = grid.shape[1] - windows + 1
    stop = ((windows - 1) // span + 1) * span
    ends, begin = np.zeros((stop, 3)), np.zeros((1, 3))
    for key in range(len(grid)):
        for pane in range(stop - 1, -1, -1):
            if (pane + 1) % span == 0:
                ends[pane] = 0.0
            else:
                ends[pane] = ends[pane + 1]
            row = grid[key, pane]
            if row >= 0:
                add_sum(ends, pane, values, row)
        for window in range(windows):
            at, pane = key * windows + window, window + span - 1
            into[at] = ends[window]
            if pane % span == 0:
                begin[0] = 0.0
            row = grid[key, pane]
            if window > 0 and row >= 0:
                add_sum(begin, 0, values, row)
            if window % span != 0:
                add_sum(into, at, begin, 0)


@compiled
def slide_extreme(grid: Ints, windows: int, values: Numbers, largest: bool, into: Numbers) -> None:
    """Smallest or largest values; `into` holds what is before any event."""
    span = grid.shape[1] - windows + 1
    stop = ((windows - 1) // span + 1) * span
    nothing = into[0]
    ends = np.empty(stop, into.dtype)
    for key in range(len(grid)):
        best = nothing
        for pane in range(stop - 1, -1, -1):
            if (pane + 1) % span == 0:
                best = nothing
            row = grid[key, pane]
            if row >= 0 and (exceeds(values[row], best) if largest else exceeds(best, values[row])):
                best = values[row]
            ends[pane] = best
        for window in range(windows):
            pane, end = window + span - 1, ends[window]
            if pane % span == 0:
                best = nothing
            row = grid[key, pane]
            if row >= 0 and (exceeds(values[row], best) if largest else exceeds(best, values[row])):
                best = values[row]
            use = window % span != 0 and (exceeds(best, end) if largest else exceeds(end, best))
            into[key * windows + window] = best if use else end


@compiled
def merge_into(top: Numbers, filled: int, others: Numbers, number: int) -> int:
    """Merge some descending values into a descending row of which `filled` entries are taken; returns how many are."""
    k = top.size
    for j in range(number):
        value = others[j]
        if filled < k:
            insert(top, filled, value)
            filled += 1
        elif exceeds(value, top[k - 1]):
            insert(top, k, value)
        else:
            break
    return filled


@compiled
def slide_top(grid: Ints, windows: int, values: Numbers, counts: Ints, into: Numbers) -> None:
    """The k largest values, largest first; `counts` is the number of events of each row."""
    span, k = grid.shape[1] - windows + 1, into.shape[1]
    stop = ((windows - 1) // span + 1) * span
    ends, filled = np.zeros((stop, k), into.dtype), np.zeros(stop, np.int64)
    begin = np.zeros(k, into.dtype)
    for key in range(len(grid)):
        for pane in range(stop - 1, -1, -1):
            if (pane + 1) % span == 0:
                filled[pane] = 0
            else:
                ends[pane] = ends[pane + 1]
                filled[pane] = filled[pane + 1]
            row = grid[key, pane]
            if row >= 0:
                filled[pane] = merge_into(ends[pane], filled[pane], values[row], min(counts[row], k))
        taken = 0
        for window in range(windows):
            at, pane = key * windows + window, window + span - 1
            into[at] = ends[window]
            if pane % span == 0:
                taken = 0
            row = grid[key, pane]
            if window > 0 and row >= 0:
                taken = merge_into(begin, taken, values[row], min(counts[row], k))
            if window % span != 0:
                merge_into(into[at], filled[window], begin, taken)
