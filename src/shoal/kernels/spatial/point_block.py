"""Blocks of points as they are compared with ranges: their keys numbered, in an order in which memory is read once."""

from dataclasses import dataclass

import numpy as np

from shoal.kernels.columns.numbering import numbered
from shoal.kernels.compiled import compiled
from shoal.kernels.spatial.range_layout import BITS, LayoutArrays, Places, RangeLayout, fine, sorted_by
from shoal.kernels.spatial.shapes import Floats, Ints, read_only
from shoal.model.spatial.tiles import LARGEST_GRID

PointArrays = tuple[Ints, Ints, Floats, Floats, Ints]


def keys_of(instance: Ints, cell: Ints) -> Ints:
    """Instance and cell as one number."""
    return instance * LARGEST_GRID + cell


@dataclass(frozen=True)
class PointBlock:
    """Points: the row of each in its block, the number of its key among `keys`, its place and its time."""

    keys: Ints
    rows: Ints
    number: Ints
    x: Floats
    y: Floats
    time: Ints

    @classmethod
    def of(cls, instance: Ints, cell: Ints, x: Floats, y: Floats, time: Ints) -> "PointBlock":
        """The points of a block, in its order."""
        number, keys = numbered(keys_of(instance, cell))
        x, y, time = read_only(x, y, time)
        return cls(keys, np.arange(number.size), number, x, y, time)

    @property
    def arrays(self) -> PointArrays:
        """What a search needs of it: rows, numbers of keys, places, times."""
        rows, number, x, y, time = read_only(self.rows, self.number, self.x, self.y, self.time)
        return rows, number, x, y, time

    def near(self, layout: RangeLayout, ranges: int) -> "PointBlock":
        """The points in the order of the ranges nearby in a layout of so many ranges.

        Points of one key are one after another, if the layout has the key.
        """
        shift = (ranges // max(1, self.rows.size)).bit_length()
        near = np.empty(self.rows.size, np.int32)
        _locate(self.arrays, layout.groups(self.keys), layout.arrays, shift, near)
        order, _ = sorted_by(near, (ranges >> shift) + 2)
        taken = np.empty_like(self.number), np.empty_like(self.x), np.empty_like(self.y), np.empty_like(self.time)
        _reorder(order, self.arrays, *taken)
        return PointBlock(self.keys, self.rows[order], *taken)


@compiled
def _locate(points: PointArrays, groups: Places, layout: LayoutArrays, shift: int, near: Places) -> None:
    """About where the ranges near each point begin, from 1 on; 0 for a point without a group."""
    _, number, x, y, _ = points
    frames, level_starts, levels, starts = layout
    for point in range(number.size):
        group = groups[number[point]]
        near[point] = 0
        if group >= 0:
            level = level_starts[group + 1] - 1
            column = fine(x[point], frames[group, 0], frames[group, 2]) >> (BITS - levels[level, 0])
            row = fine(y[point], frames[group, 1], frames[group, 3]) >> (BITS - levels[level, 1])
            near[point] = 1 + (starts[levels[level, 4] + (row << levels[level, 0]) + column] >> shift)


@compiled
def _reorder(order: Ints, points: PointArrays, number: Ints, x: Floats, y: Floats, time: Ints) -> None:
    _, old_number, old_x, old_y, old_time = points
    for i in range(order.size):
        row = order[i]
        number[i], x[i], y[i], time[i] = old_number[row], old_x[row], old_y[row], old_time[row]
