"""The layout of ranges in an index: groups, levels and sub-cells.

Ranges of one instance and cell are a group. How the ranges of each group are laid out:

1. A frame is laid over the group, from a sample of its ranges. Coordinates become whole numbers 0..4095 in it; what
   lies outside belongs to the border. Rounding never changes the order of two coordinates.
2. Ranges of about the same width and height form a level. It has a sub-grid of 2^k by 2^m sub-cells, which are at least
   half as wide and high as its ranges. A level with fewer ranges than half its sub-cells joins a coarser one.
3. A range is stored once, in the sub-cell of its lower left corner. Rows are sorted by sub-cell, row by row.
4. A level knows its reach: how many sub-cells its widest and highest ranges extend.
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from shoal.kernels.columns.numbering import numbered
from shoal.kernels.compiled import compiled
from shoal.kernels.spatial.shapes import Floats, Ints, read_only

Places = NDArray[np.int32]
LayoutArrays = tuple[Floats, Places, Places, Places]
BITS = 12
"""Digits of coordinates in a frame."""
_FINE = 1 << BITS
_SAMPLE = 32
"""Ranges of a group that its frame is chosen by."""
_FEW = 12
"""A group of so many ranges has a single sub-cell."""


@dataclass(frozen=True)
class RangeLayout:
    """Where rows that are sorted by sub-cell are; see the module.

    Group g has key `keys[g]`, frame `frames[g]` (x, y, and fine units per length in both) and the levels from
    `level_starts[g]` on. Level l has columns, rows (as digits), reach in both directions, and its first sub-cell. The
    rows of sub-cell s begin at `starts[s]`. `slots` finds groups by key: open addressing, numbers from 1 on.
    """

    keys: Ints
    slots: Places
    frames: Floats
    level_starts: Places
    levels: Places
    starts: Places

    @property
    def nbytes(self) -> int:
        """Memory the layout takes."""
        return int(sum(array.nbytes for array in (self.keys, self.slots, *self.arrays)))

    @cached_property
    def arrays(self) -> LayoutArrays:
        """What a search needs of it: frames, starts of levels, levels, starts of sub-cells."""
        frames, level_starts, levels, starts = read_only(self.frames, self.level_starts, self.levels, self.starts)
        return frames, level_starts, levels, starts

    def groups(self, keys: Ints) -> Places:
        """The group of each key, or -1."""
        found = np.empty(keys.size, np.int32)
        _look_up(found, *read_only(keys, self.keys, self.slots))
        return found

    def thinned(self, kept: NDArray[np.bool_]) -> "RangeLayout":
        """The layout of the rows that a mask keeps, in the same order."""
        before = np.zeros(kept.size + 1, np.int32)
        np.cumsum(kept, out=before[1:])
        return replace(self, starts=before[self.starts])


def laid_out(keys: Ints, box: Floats) -> tuple[RangeLayout, Ints]:
    """The layout of ranges with the given keys, and the order of rows in it."""
    groups, distinct = numbered(keys)
    frames = np.zeros((distinct.size, 4))
    level_starts = np.zeros(distinct.size + 1, np.int32)
    sub_cells = np.empty(keys.size, np.int32)
    members, member_starts = sorted_by(groups, distinct.size)
    levels = _divide(frames, level_starts, sub_cells, *read_only(member_starts, np.take(box, members, axis=0)))
    total = int(levels[-1, 4]) + (1 << int(levels[-1, 0] + levels[-1, 1])) if len(levels) else 0
    order, starts = sorted_by(sub_cells, total)
    slots = np.zeros(1 << max(4, int(2 * distinct.size).bit_length()), np.int32)
    _fill_slots(distinct, slots)
    layout = RangeLayout(distinct.copy(), slots, frames, level_starts, levels, starts)
    return layout, members[order]


def sorted_by(numbers: NDArray[np.integer], count: int) -> tuple[Ints, Places]:
    """Rows in the order of their numbers 0..count-1, and where each number begins."""
    order, starts = np.empty(numbers.size, np.int64), np.zeros(count + 2, np.int32)
    _count_and_place(starts, order, *read_only(numbers))
    return order, starts[: count + 1]


@compiled
def _count_and_place(starts: Places, order: Ints, numbers: NDArray[np.integer]) -> None:
    """Counting sort; `starts` has two places more than there are numbers."""
    for number in numbers:
        starts[number + 2] += 1
    for number in range(2, starts.size):
        starts[number] += starts[number - 1]
    for row in range(numbers.size):
        at = starts[numbers[row] + 1]
        order[at] = row
        starts[numbers[row] + 1] = at + 1


@compiled
def _slot(key: int, mask: np.uint64) -> np.uint64:
    mixed = np.uint64(key) * np.uint64(0x9E3779B97F4A7C15)
    return (mixed ^ (mixed >> np.uint64(32))) & mask


@compiled
def _fill_slots(keys: Ints, slots: Places) -> None:
    mask = np.uint64(slots.size - 1)
    for number in range(keys.size):
        slot = _slot(keys[number], mask)
        while slots[slot] != 0:
            slot = (slot + np.uint64(1)) & mask
        slots[slot] = number + 1


@compiled
def _look_up(found: Places, wanted: Ints, keys: Ints, slots: Places) -> None:
    """Find the group of each wanted key, or -1."""
    mask = np.uint64(slots.size - 1)
    for row in range(wanted.size):
        slot = _slot(wanted[row], mask)
        while slots[slot] != 0 and keys[slots[slot] - 1] != wanted[row]:
            slot = (slot + np.uint64(1)) & mask
        found[row] = slots[slot] - 1


@compiled
def fine(value: float, origin: float, scale: float) -> int:
    """A coordinate in a frame; never smaller for a larger value."""
    at = (value - origin) * scale
    if not at > 0:
        return 0
    return _FINE - 1 if at >= _FINE else int(at)


@compiled
def _divide(frames: Floats, level_starts: Places, sub_cells: Places, member_starts: Places, box: Floats) -> Places:
    """Choose frames and levels of all groups, and the sub-cell of every row; returns the levels.

    Rows are in the order of groups.
    """
    levels = np.zeros((64, 5), np.int32)
    steps, numbers = np.empty((len(box), 2), np.int8), np.empty((BITS + 1, BITS + 1), np.int32)
    counts, sample = np.zeros((BITS + 1, BITS + 1), np.int64), np.empty(_SAMPLE)
    first, used = 0, 0
    for group in range(member_starts.size - 1):
        begin, end = member_starts[group], member_starts[group + 1]
        level_starts[group] = used
        if used + counts.size > len(levels):
            larger = np.zeros((2 * len(levels) + counts.size, 5), np.int32)
            larger[:used] = levels[:used]
            levels = larger
        if end - begin <= _FEW:
            levels[used, 4] = first
            sub_cells[begin:end] = first
            used, first = used + 1, first + 1
            continue
        frame, most = frames[group], 0
        while most < BITS and 1 << most < 2 * (end - begin):
            most += 1
        _frame(box[begin:end], 0, sample, frame)
        _frame(box[begin:end], 1, sample, frame)
        for i in range(begin, end):
            across, up = _digits(box[i], frame, most)
            steps[i, 0], steps[i, 1] = across, up
            counts[across, up] += 1
        used, first = _choose(counts, most, numbers, levels, used, first)
        for i in range(begin, end):
            sub_cells[i] = _placed(box[i], frame, levels[numbers[steps[i, 0], steps[i, 1]]])
    level_starts[-1] = used
    return levels[:used].copy()


@compiled
def _frame(box: Floats, axis: int, sample: Floats, frame: Floats) -> None:
    """Choose where a frame begins and how fine it is in one direction.

    The outer sixteenths of a sample are left out, since few ranges may extend far, and extrapolated from the rest.
    """
    size = min(_SAMPLE, len(box))
    for i in range(size):
        row = i * len(box) // size
        sample[i] = (box[row, axis] + box[row, axis + 2]) / 2
    _sort(sample[:size])
    aside = max(1, size // 16)
    low, high = sample[aside], sample[size - 1 - aside]
    margin = (high - low) * aside / (size - 2 * aside)
    width = high - low + 2 * margin
    if width > 0 and np.isfinite(_FINE / width):
        frame[axis], frame[axis + 2] = low - margin, _FINE / width


@compiled
def _sort(values: Floats) -> None:
    """Sort a few values, by insertion."""
    for i in range(1, values.size):
        value, at = values[i], i
        while at > 0 and values[at - 1] > value:
            values[at] = values[at - 1]
            at -= 1
        values[at] = value


@compiled
def _digits(box: Floats, frame: Floats, most: int) -> tuple[int, int]:
    """The digits of the finest sub-grid whose sub-cells are at least half as wide and high as a range.

    A range across the date line, whose corner may be right of it, needs a sub-grid of one column.
    """
    width = fine(box[2], frame[0], frame[2]) - fine(box[0], frame[0], frame[2])
    height = fine(box[3], frame[1], frame[3]) - fine(box[1], frame[1], frame[3])
    across, up = most, most
    while across > 0 and 2 * (_FINE >> across) < width:
        across -= 1
    while up > 0 and 2 * (_FINE >> up) < height:
        up -= 1
    return (0 if box[0] > box[2] else across), up


@compiled
def _choose(counts: Ints, most: int, numbers: Places, levels: Places, used: int, first: int) -> tuple[int, int]:
    """Number the levels of a group; returns how many levels and sub-cells there are then.

    `counts`: how many ranges have which digits, up to `most`; all zero afterwards. Digits with few ranges get the
    number of digits with one less in the finer direction.
    """
    for total in range(2 * most, 0, -1):
        for across in range(max(0, total - most), min(most, total) + 1):
            up = total - across
            if 2 * counts[across, up] < 1 << total:
                coarser = (across - 1, up) if across >= up else (across, up - 1)
                counts[coarser] += counts[across, up]
                counts[across, up] = 0
    for total in range(2 * most + 1):
        for across in range(max(0, total - most), min(most, total) + 1):
            up = total - across
            if counts[across, up] > 0:
                counts[across, up] = 0
                numbers[across, up] = used
                levels[used, 0], levels[used, 1], levels[used, 4] = across, up, first
                used, first = used + 1, first + (1 << total)
            elif total > 0:
                numbers[across, up] = numbers[across - 1, up] if across >= up else numbers[across, up - 1]
    return used, first


@compiled
def _placed(box: Floats, frame: Floats, level: Places) -> int:
    """The sub-cell of a range in its level, whose reach grows with it."""
    across, up = BITS - level[0], BITS - level[1]
    column, row = fine(box[0], frame[0], frame[2]) >> across, fine(box[1], frame[1], frame[3]) >> up
    level[2] = max(level[2], (fine(box[2], frame[0], frame[2]) >> across) - column)
    level[3] = max(level[3], (fine(box[3], frame[1], frame[3]) >> up) - row)
    return level[4] + (row << level[0]) + column
