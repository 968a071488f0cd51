"""An index of ranges that have cells: which of them contain a point of the same instance and cell.

A point looks, in each level of its group, at the sub-cells from which a range can reach it. They are some rows of
neighbours, each of which is contiguous in memory. The cost of a point depends on its group only, and, with many ranges
in it, on those nearby.
"""

from dataclasses import dataclass

import numpy as np

from shoal.kernels.compiled import compiled
from shoal.kernels.spatial.point_block import PointArrays, PointBlock, keys_of
from shoal.kernels.spatial.range_layout import BITS, LayoutArrays, Places, RangeLayout, fine, laid_out
from shoal.kernels.spatial.shapes import Floats, Ints, read_only

RangeArrays = tuple[Floats, Ints, Ints]


@dataclass(frozen=True)
class RangeIndex:
    """Ranges in the order of a layout: boxes, and the times from and until which they are alive."""

    layout: RangeLayout
    box: Floats
    since: Ints
    until: Ints
    order: Ints | None = None
    """The row of each range in the arrays that the index was made from; None if they had this order."""
    degrees: bool = False
    """Whether a box with min_x > max_x crosses the date line; it contains nothing otherwise."""

    @classmethod
    def of(
        cls, instance: Ints, cell: Ints, box: Floats, since: Ints, until: Ints, *, degrees: bool = False
    ) -> "RangeIndex":
        """An index of ranges, one per row."""
        layout, order = laid_out(keys_of(instance, cell), box)
        return cls(layout, np.take(box, order, axis=0), since[order], until[order], order, degrees)

    def __len__(self) -> int:
        """Number of ranges."""
        return len(self.box)

    @property
    def nbytes(self) -> int:
        """Memory the index takes, boxes and times included."""
        order = 0 if self.order is None else self.order.nbytes
        return self.layout.nbytes + self.box.nbytes + self.since.nbytes + self.until.nbytes + order

    def matches(self, instance: Ints, cell: Ints, x: Floats, y: Floats, time: Ints) -> tuple[Ints, Ints]:
        """The rows of points and of the ranges that match them, as pairs, in no particular order.

        A range matches a point of its instance and cell if its box contains it and `since <= time < until`.

        >>> zero = np.zeros(1, np.int64)
        >>> index = RangeIndex.of(zero, zero, np.array([[0.0, 0.0, 2.0, 1.0]]), zero, zero + 10)
        >>> two = np.zeros(2, np.int64)
        >>> index.matches(two, two, np.array([1.0, 2.0]), np.array([1.0, 0.0]), np.array([10, 9]))
        (array([1]), array([0]))
        """
        points = PointBlock.of(instance, cell, x, y, time)
        return self.search(points.near(self.layout, len(self)))

    def search(self, points: PointBlock) -> tuple[Ints, Ints]:
        """The same for points in an order that suits; fast if points of one key are one after another."""
        groups = self.layout.groups(points.keys)
        found, ranges = _match(points.arrays, groups, self.layout.arrays, self._columns(), self.degrees)
        return found, ranges if self.order is None else self.order[ranges]

    def met(self, points: PointBlock) -> Ints:
        """How many ranges `search` compares each point with, by the row of the point."""
        found = np.zeros(points.rows.size, np.int64)
        _count_met(points.arrays, self.layout.groups(points.keys), self.layout.arrays, found)
        return found

    def equal(self, keys: Ints, box: Floats, since: Ints) -> tuple[Ints, Ints]:
        """The rows of given ranges and of the indexed ranges that equal them in key, box and start, as pairs.

        Rows of the index are in its own order.
        """
        box, since = read_only(box, since)
        return _find_equal(self.layout.groups(keys), box, since, self.layout.arrays, self._columns())

    def _columns(self) -> RangeArrays:
        box, since, until = read_only(self.box, self.since, self.until)
        return box, since, until


@compiled
def _match(
    block: PointArrays, groups: Places, layout: LayoutArrays, columns: RangeArrays, degrees: bool
) -> tuple[Ints, Ints]:
    """All pairs, one level of one point after another."""
    rows, number, x, y, time = block
    frames, level_starts, levels, starts = layout
    box, since, until = columns
    points, ranges = np.empty(4 * rows.size + 64, np.int64), np.empty(4 * rows.size + 64, np.int64)
    count = 0
    for point in range(rows.size):
        group = groups[number[point]]
        if group < 0:
            continue
        across, up, at = x[point], y[point], time[point]
        fine_x = fine(across, frames[group, 0], frames[group, 2])
        fine_y = fine(up, frames[group, 1], frames[group, 3])
        for level in range(level_starts[group], level_starts[group + 1]):
            digits = levels[level, 0]
            column, row = fine_x >> (BITS - digits), fine_y >> (BITS - levels[level, 1])
            left = max(0, column - levels[level, 2])
            for each in range(max(0, row - levels[level, 3]), row + 1):
                begin = levels[level, 4] + (each << digits)
                first, last = starts[begin + left], starts[begin + column + 1]
                if count + last - first > points.size:
                    points, ranges = _grown(points, last - first), _grown(ranges, last - first)
                for i in range(first, last):
                    inside = (box[i, 1] <= up) & (up <= box[i, 3]) & (since[i] <= at) & (at < until[i])
                    beside = (box[i, 0] <= across) & (across <= box[i, 2])
                    if degrees and box[i, 0] > box[i, 2]:
                        beside = (box[i, 0] <= across) | (across <= box[i, 2])
                    points[count], ranges[count] = rows[point], i
                    count += inside & beside
    return points[:count], ranges[:count]


@compiled
def _count_met(block: PointArrays, groups: Places, layout: LayoutArrays, met: Ints) -> None:
    """The ranges in the sub-cells that `_match` goes through."""
    rows, number, x, y, _ = block
    frames, level_starts, levels, starts = layout
    for point in range(rows.size):
        group = groups[number[point]]
        if group < 0:
            continue
        fine_x = fine(x[point], frames[group, 0], frames[group, 2])
        fine_y = fine(y[point], frames[group, 1], frames[group, 3])
        for level in range(level_starts[group], level_starts[group + 1]):
            digits = levels[level, 0]
            column, row = fine_x >> (BITS - digits), fine_y >> (BITS - levels[level, 1])
            left = max(0, column - levels[level, 2])
            for each in range(max(0, row - levels[level, 3]), row + 1):
                begin = levels[level, 4] + (each << digits)
                met[rows[point]] += starts[begin + column + 1] - starts[begin + left]


@compiled
def _grown(array: Ints, more: int) -> Ints:
    larger = np.empty(2 * array.size + more, np.int64)
    larger[: array.size] = array
    return larger


@compiled
def _find_equal(
    groups: Places, wanted: Floats, wanted_since: Ints, layout: LayoutArrays, columns: RangeArrays
) -> tuple[Ints, Ints]:
    """Pairs of equal ranges: a range is in the sub-cell of its corner, in one of the levels."""
    frames, level_starts, levels, starts = layout
    box, since, _ = columns
    given, found = np.empty(groups.size + 64, np.int64), np.empty(groups.size + 64, np.int64)
    count = 0
    for row in range(groups.size):
        group = groups[row]
        if group < 0:
            continue
        a, b, c, d = wanted[row]
        fine_x = fine(a, frames[group, 0], frames[group, 2])
        fine_y = fine(b, frames[group, 1], frames[group, 3])
        for level in range(level_starts[group], level_starts[group + 1]):
            column, up = fine_x >> (BITS - levels[level, 0]), fine_y >> (BITS - levels[level, 1])
            at = levels[level, 4] + (up << levels[level, 0]) + column
            for i in range(starts[at], starts[at + 1]):
                same = (box[i, 0] == a) & (box[i, 1] == b) & (box[i, 2] == c) & (box[i, 3] == d)
                if same and since[i] == wanted_since[row]:
                    if count == given.size:
                        given, found = _grown(given, 0), _grown(found, 0)
                    given[count], found[count] = row, i
                    count += 1
    return given[:count], found[:count]
