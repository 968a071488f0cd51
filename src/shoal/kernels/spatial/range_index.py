"""An index of ranges that have cells: which of them contain a point of the same instance and cell.

A point looks, in each level of its group, at the sub-cells from which a range can reach it. They are some rows of
neighbours, each of which is contiguous in memory. The cost of a point depends on its group only, and, with many ranges
in it, on those nearby.
"""

from dataclasses import dataclass, replace

import numpy as np

from shoal.kernels.compiled import compiled
from shoal.kernels.spatial.range_layout import (
    BITS,
    LayoutArrays,
    Places,
    RangeLayout,
    fine,
    laid_out,
    look_up,
    sorted_by,
)
from shoal.kernels.spatial.shapes import Floats, Ints, read_only
from shoal.model.spatial.tiles import LARGEST_GRID

PointArrays = tuple[Places, Ints, Floats, Floats, Ints]
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

    @classmethod
    def of(
        cls, instance: Ints, cell: Ints, box: Floats, since: Ints, until: Ints, *, degrees: bool = False
    ) -> "RangeIndex":
        """An index of ranges, one per row."""
        layout, order = laid_out(keys_of(instance, cell), box, degrees=degrees)
        return cls(layout, box[order], since[order], until[order], order, degrees)

    def __len__(self) -> int:
        """Number of ranges."""
        return len(self.box)

    @property
    def nbytes(self) -> int:
        """Memory the index takes, boxes and times included."""
        order = 0 if self.order is None else self.order.nbytes
        return self.layout.nbytes + self.box.nbytes + self.since.nbytes + self.until.nbytes + order

    def with_until(self, until: Ints) -> "RangeIndex":
        """The same ranges with other ends, in the order of the index."""
        return replace(self, until=until)

    def matches(self, instance: Ints, cell: Ints, x: Floats, y: Floats, time: Ints) -> tuple[Ints, Ints]:
        """The rows of points and of the ranges that match them, as pairs, in no particular order.

        A range matches a point of its instance and cell if its box contains it and `since <= time < until`.

        >>> zero = np.zeros(1, np.int64)
        >>> index = RangeIndex.of(zero, zero, np.array([[0.0, 0.0, 2.0, 1.0]]), zero, zero + 10)
        >>> two = np.zeros(2, np.int64)
        >>> index.matches(two, two, np.array([1.0, 2.0]), np.array([1.0, 0.0]), np.array([10, 9]))
        (array([1]), array([0]))
        """
        groups = self.groups(keys_of(instance, cell))
        x, y, time = read_only(x, y, time)
        order = self._order(groups, x, y)
        points, ranges = _match((groups, order, x, y, time), self.layout.arrays, self._columns(), self.degrees)
        return points, ranges if self.order is None else self.order[ranges]

    def groups(self, keys: Ints) -> Places:
        """The group of each key, or -1."""
        found = np.empty(keys.size, np.int32)
        look_up(found, *read_only(keys, self.layout.keys, self.layout.slots))
        return found

    def equal(self, keys: Ints, box: Floats, since: Ints) -> tuple[Ints, Ints]:
        """The rows of given ranges and of the indexed ranges that equal them in key, box and start, as pairs.

        Rows of the index are in its own order.
        """
        box, since = read_only(box, since)
        return _find_equal(self.groups(keys), box, since, self.layout.arrays, self._columns())

    def _order(self, groups: Places, x: Floats, y: Floats) -> Ints:
        """Points in the order of the ranges nearby, so that memory is read from front to back."""
        shift = (len(self) // max(1, groups.size)).bit_length()
        near = np.empty(groups.size, np.int32)
        _locate((groups, x, y), self.layout.arrays, shift, near)
        return sorted_by(near, (len(self) >> shift) + 2)[0]

    def _columns(self) -> RangeArrays:
        box, since, until = read_only(self.box, self.since, self.until)
        return box, since, until


def keys_of(instance: Ints, cell: Ints) -> Ints:
    """Instance and cell as one number."""
    return instance * LARGEST_GRID + cell


@compiled
def _locate(places: tuple[Places, Floats, Floats], layout: LayoutArrays, shift: int, near: Places) -> None:
    """About where the ranges near each point begin, from 1 on; 0 for a point without a group."""
    groups, x, y = places
    frames, level_starts, levels, starts = layout
    for point in range(groups.size):
        group = groups[point]
        near[point] = 0
        if group >= 0:
            level = level_starts[group + 1] - 1
            column = fine(x[point], frames[group, 0], frames[group, 2]) >> (BITS - levels[level, 0])
            row = fine(y[point], frames[group, 1], frames[group, 3]) >> (BITS - levels[level, 1])
            near[point] = 1 + (starts[levels[level, 4] + (row << levels[level, 0]) + column] >> shift)


@compiled
def _match(rows: PointArrays, layout: LayoutArrays, columns: RangeArrays, degrees: bool) -> tuple[Ints, Ints]:
    """All pairs, one level of one point after another."""
    groups, order, x, y, time = rows
    frames, level_starts, levels, starts = layout
    box, since, until = columns
    points, ranges = np.empty(4 * order.size + 64, np.int64), np.empty(4 * order.size + 64, np.int64)
    count = 0
    for point in order:
        group = groups[point]
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
                    points[count], ranges[count] = point, i
                    count += inside & beside
    return points[:count], ranges[:count]


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
