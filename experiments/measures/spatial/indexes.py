"""Indexes of rectangles: each finds the rectangles that contain points, all on one core.

An index is built from rectangles (rows of min_x, min_y, max_x, max_y) and gives pairs of point and rectangle.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import duckdb
import numpy as np
import pyarrow as pa
import rtree.index
import shapely

from shoal.kernels.columns.table import INSTANCE, RowTable
from shoal.kernels.spatial.coverage import cells_of, covered
from shoal.kernels.spatial.range_run import BOX, CELL, ENDLESS_US, ID, SINCE, UNTIL
from shoal.kernels.spatial.range_table import RangeTable
from shoal.model.spatial.grid import Grid

GRID = Grid((0.0, 0.0, 1.0, 1.0))
AT_ONCE = 20_000
"""Points that the plain grid compares in one step, to bound its memory."""
Pairs = tuple[np.ndarray, np.ndarray]
Match = Callable[[np.ndarray, np.ndarray], Pairs]


@dataclass(frozen=True)
class RangeIndex:
    """How an index is built, and which part of the points it can do in reasonable time."""

    build: Callable[[np.ndarray], Match]
    share: float = 1.0


def range_rows(box: np.ndarray, first: int = 0) -> RowTable:
    """Rectangles as rows of a table of ranges, numbered from `first` on."""
    rows, cells = covered(GRID, box)
    return RowTable(
        {
            INSTANCE: np.zeros(rows.size, np.int64),
            CELL: cells,
            BOX: box[rows],
            SINCE: np.zeros(rows.size, np.int64),
            UNTIL: np.full(rows.size, ENDLESS_US),
            ID: rows + first,
        }
    )


def matcher(table: RangeTable) -> Match:
    """A table of ranges as an engine: cells of points, pairs, and the numbers of ranges are part of the time."""

    def match(x: np.ndarray, y: np.ndarray) -> Pairs:
        none = np.zeros(x.size, np.int64)
        points, rows = table.matches(none, cells_of(GRID, x, y), x, y, none)
        return points, table.rows(rows, [ID])[ID]

    return match


def shoal_table(box: np.ndarray) -> Match:
    """The table of ranges of the kernels."""
    return matcher(RangeTable.of(range_rows(box)).ready())


def strtree(box: np.ndarray) -> Match:
    """The packed tree of shapely."""
    tree = shapely.STRtree(shapely.box(*box.T))
    tree.query(shapely.points(0.5, 0.5))  # shapely builds the tree with the first query

    def match(x: np.ndarray, y: np.ndarray) -> Pairs:
        points, ranges = tree.query(shapely.points(x, y))
        return points, ranges

    return match


def r_tree(box: np.ndarray) -> Match:
    """The tree of libspatialindex."""
    index = rtree.index.Index((np.arange(len(box)), box[:, :2].copy(), box[:, 2:].copy()))

    def match(x: np.ndarray, y: np.ndarray) -> Pairs:
        places = np.column_stack([x, y])
        ranges, counts = index.intersection_v(places, places)  # type: ignore[no-untyped-call]  # rtree has no types for it
        return np.repeat(np.arange(x.size), counts.astype(np.int64)), ranges

    return match


def plain_grid(box: np.ndarray) -> Match:
    """All rectangles of a point's cell are compared with it, in NumPy."""
    rows, cells = covered(GRID, box)
    order = np.argsort(cells, kind="stable")
    rows = rows[order]
    sorted_box = box[rows]
    starts = np.searchsorted(cells[order], np.arange(GRID.cells + 1))

    def some(x: np.ndarray, y: np.ndarray) -> Pairs:
        cell = cells_of(GRID, x, y)
        counts = starts[cell + 1] - starts[cell]
        point = np.repeat(np.arange(x.size), counts)
        at = np.arange(point.size) - np.repeat(np.cumsum(counts) - counts, counts) + np.repeat(starts[cell], counts)
        a, b, c, d = sorted_box[at].T
        inside = (a <= x[point]) & (x[point] <= c) & (b <= y[point]) & (y[point] <= d)
        return point[inside], rows[at[inside]]

    def match(x: np.ndarray, y: np.ndarray) -> Pairs:
        parts = [
            (first, *some(x[first : first + AT_ONCE], y[first : first + AT_ONCE]))
            for first in range(0, x.size, AT_ONCE)
        ]
        return np.concatenate([first + points for first, points, _ in parts]), np.concatenate(
            [part[2] for part in parts]
        )

    return match


def _duckdb(box: np.ndarray, *, by_cell: bool) -> Match:
    connection = duckdb.connect(config={"threads": 1})
    rows, cells = covered(GRID, box) if by_cell else (np.arange(len(box)), np.zeros(len(box), np.int64))
    columns = dict(zip(("a", "b", "c", "d"), box[rows].T.copy(), strict=True))
    ranges = pa.table({"range": rows, "cell": cells, **columns})
    connection.execute("create table ranges as select * from ranges")
    inside = "x between a and c and y between b and d"
    condition = f"points.cell = ranges.cell and {inside}" if by_cell else inside

    def match(x: np.ndarray, y: np.ndarray) -> Pairs:
        points = pa.table({"point": np.arange(x.size), "x": x, "y": y, "cell": cells_of(GRID, x, y)})
        connection.register("points", points)
        found = connection.execute(f"select point, range from points join ranges on {condition}").fetchnumpy()
        return found["point"], found["range"]

    del ranges
    return match


INDEXES: Mapping[str, RangeIndex] = {
    "shoal": RangeIndex(shoal_table),
    "numpy-grid": RangeIndex(plain_grid, 0.2),
    "shapely-strtree": RangeIndex(strtree, 0.5),
    "rtree": RangeIndex(r_tree, 0.1),
    "duckdb-by-cell": RangeIndex(lambda box: _duckdb(box, by_cell=True), 0.5),
    "duckdb-by-range": RangeIndex(lambda box: _duckdb(box, by_cell=False), 0.0005),
}
