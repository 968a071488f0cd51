"""Runs of ranges: rows that are laid out for a search, as parts of a table of ranges."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from shoal.kernels.columns.table import Ints, RowTable, concat_rows
from shoal.kernels.spatial.point_block import PointBlock, keys_of
from shoal.kernels.spatial.range_index import RangeIndex
from shoal.kernels.spatial.range_layout import RangeLayout, laid_out
from shoal.kernels.spatial.shapes import Floats, Shapes

CELL, BOX, SINCE, UNTIL, ID = "#cell", "#box", "#since", "#until", "#id"
"""Columns of a range: its cell, its box (four numbers), when it begins and ends, and a number that identifies it."""
SHAPE = "#shape"
"""Column with the numbers of circles and polygons, as in `Shapes.of_lists`; without it all ranges are rectangles."""
ENDLESS_US = 1 << 62
"""The end of a range that nothing has ended."""
_MANY_DEAD = 3
"""Dead rows are dropped when they are one of so many."""


@dataclass(frozen=True)
class RangeRun:
    """Rows of ranges in the order of a layout; without a layout they cannot be searched yet."""

    rows: RowTable
    layout: RangeLayout | None = None
    ended: int = -1
    """How many rows have an end, or more if some got several; counted unless it is given."""

    def __post_init__(self) -> None:
        """Count the ends."""
        if self.ended < 0:
            object.__setattr__(self, "ended", int(np.count_nonzero(self.rows[UNTIL] < ENDLESS_US)))

    def __len__(self) -> int:
        """Number of rows."""
        return len(self.rows)

    @property
    def nbytes(self) -> int:
        """Memory the rows and their layout take."""
        return self.rows.nbytes + (0 if self.layout is None else self.layout.nbytes)

    @cached_property
    def index(self) -> RangeIndex:
        """The rows as an index."""
        if self.layout is None:
            raise ValueError("ranges must be laid out before they are searched; got rows without a layout")
        return RangeIndex(self.layout, self.rows[BOX], self.rows[SINCE], self.rows[UNTIL])

    def laid_out(self) -> "RangeRun":
        """The same rows, perhaps in another order, with a layout."""
        return self if self.layout is not None else joined_runs([self])

    def where(self, kept: NDArray[np.bool_]) -> "RangeRun":
        """The rows that a mask keeps, in their order; the layout stays."""
        layout = None if self.layout is None else self.layout.thinned(kept)
        return RangeRun(self.rows.take(np.flatnonzero(kept)), layout)

    def matches(self, points: PointBlock, x: Floats, y: Floats, *, degrees: bool) -> tuple[Ints, Ints]:
        """Pairs of points and rows that match them; x and y are in the order of the points' rows."""
        found, rows = replace(self.index, degrees=degrees).search(points)
        if SHAPE not in self.rows.columns or not rows.size:
            return found, rows
        shapes = Shapes.of_lists(self.rows[BOX], self.rows[SHAPE], degrees=degrees)
        inside = shapes.contain(x, y, found, rows)
        return found[inside], rows[inside]

    def with_ends(self, ends: RowTable) -> tuple["RangeRun", NDArray[np.bool_]]:
        """The rows with the ends of those that equal the given ranges; also says which of those were found."""
        given, rows = self.index.equal(keys_of(ends.instance, ends[CELL]), ends[BOX], ends[SINCE])
        same = ends[ID][given] == self.rows[ID][rows]
        given, rows = given[same], rows[same]
        found = np.zeros(len(ends), bool)
        found[given] = True
        if not rows.size:
            return self, found
        until = self.rows[UNTIL].copy()
        newly = np.count_nonzero(until[rows] == ENDLESS_US)
        np.minimum.at(until, rows, ends[UNTIL][given])
        return RangeRun(self.rows.with_columns(**{UNTIL: until}), self.layout, self.ended + int(newly)), found

    def without_dead(self, before_us: int) -> "RangeRun":
        """Without the ranges that ended at a time or before it, if they are many."""
        if self.ended * _MANY_DEAD < len(self):
            return self
        alive = self.rows[UNTIL] > before_us
        dead = len(self) - int(np.count_nonzero(alive))
        return self.where(alive) if dead * _MANY_DEAD >= len(self) else self


def joined_runs(runs: Sequence[RangeRun]) -> RangeRun:
    """The rows of runs as one, laid out again."""
    rows = concat_rows([run.rows for run in runs]) or runs[0].rows
    layout, order = laid_out(keys_of(rows.instance, rows[CELL]), rows[BOX])
    return RangeRun(rows.take(order), layout)
