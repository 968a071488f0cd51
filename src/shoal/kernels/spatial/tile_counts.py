"""Tile counts: points and ranges that come to the tiles of a grid, counted by row and by column of each tile.

A point touches one row and one column. A range comes as one row for each of its cells: that in which its part within
the tile begins counts the range, and the first cell of every other row and column counts that it goes on.
So a range is clipped to the tile and counted once, in whatever order and in however many blocks its cells come.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from shoal.kernels.compiled import compiled
from shoal.model.spatial.arrivals import BEGUN, BEGUN_BEFORE, ENDED, KINDS, POINTS, TileArrivals
from shoal.model.spatial.tiles import Tile

Ints = NDArray[np.int64]
Flags = NDArray[np.int8]
GOES_UP, GOES_LEFT, ENDS = 1, 2, 4
"""A cell of a range: the range also has the cell in the row before, in the column before; and whether it ends."""


class PlacedRows(NamedTuple):
    """Rows with places: the cells of points, and the cells of ranges with their flags; `columns` of the grid."""

    columns: int
    points: Ints
    ranges: Ints
    flags: Flags

    @classmethod
    def of(cls, columns: int, points: Ints, ranges: Ints, first: Ints, ends: NDArray[np.bool_]) -> "PlacedRows":
        """Rows with places; `first` is the first cell of the range of each cell, and `ends` whether the range ends."""
        up, left = ranges // columns != first // columns, ranges % columns != first % columns
        return cls(columns, points, ranges, (up * GOES_UP + left * GOES_LEFT + ends * ENDS).astype(np.int8))


@dataclass(frozen=True, eq=False)
class TileBorders:
    """The tile of each number that has cells: borders, and where its rows and columns begin among all counters."""

    owners: Ints
    columns: int
    borders: Ints
    """left, top, right and bottom of every number; 0 if it has no cells."""
    first_row: Ints
    first_column: Ints

    @classmethod
    def of(cls, owners: Ints, columns: int) -> "TileBorders":
        """The tiles of a grid, given the number that owns each cell; the cells of a number form a rectangle."""
        owners = np.ascontiguousarray(owners)
        borders = np.zeros((int(owners.max(initial=-1)) + 1, 4), np.int64)
        _find_borders(owners, columns, borders)
        wide, high = borders[:, 2] - borders[:, 0], borders[:, 3] - borders[:, 1]
        return cls(owners, columns, borders, np.cumsum(high) - high, np.cumsum(wide) - wide)

    def tiles(self) -> dict[int, Tile]:
        """Every tile by its number."""
        return {n: Tile(*each) for n, each in enumerate(self.borders.tolist()) if each[2] > each[0]}


class TileCounts:
    """Counters of all tiles of a grid since the beginning; one thread writes, others may read."""

    def __init__(self, table: TileBorders) -> None:
        """Nothing has come."""
        self.table = table
        sizes = table.borders[:, 2:] - table.borders[:, :2]
        wide, high = sizes.sum(axis=0).tolist() if len(sizes) else (0, 0)
        self.rows = np.zeros((KINDS, high), np.int64)
        self.columns = np.zeros((KINDS, wide), np.int64)

    def add(self, placed: PlacedRows) -> None:
        """Count rows in the tiles that have their cells."""
        table = self.table
        places = (table.owners, table.columns, table.borders, table.first_row, table.first_column)
        if placed.points.size:
            _count_points(placed.points, *places, self.rows, self.columns)
        if placed.ranges.size:
            _count_ranges(placed.ranges, placed.flags, *places, self.rows, self.columns)

    def arrivals(self) -> list[TileArrivals]:
        """What has come to each tile; tiles without any are left out."""
        return self.between(self.table, None, (self.rows, self.columns))

    @staticmethod
    def between(table: TileBorders, before: tuple[Ints, Ints] | None, now: tuple[Ints, Ints]) -> list[TileArrivals]:
        """What has come to each tile while the counters of rows and columns went from some values to others."""
        rows, columns = now if before is None else (now[0] - before[0], now[1] - before[1])
        found = []
        for number, tile in table.tiles().items():
            row, column = int(table.first_row[number]), int(table.first_column[number])
            came = rows[:, row : row + tile.rows]
            if came.any():
                found.append(TileArrivals(tile, came.copy(), columns[:, column : column + tile.columns].copy()))
        return found


def counted(owners: Ints, placed: PlacedRows) -> list[TileArrivals]:
    """What rows bring to each tile; `owners` is the number that has each cell."""
    counts = TileCounts(TileBorders.of(owners, placed.columns))
    counts.add(placed)
    return counts.arrivals()


@compiled
def _find_borders(owners: Ints, columns: int, borders: Ints) -> None:
    for cell in range(owners.size):
        tile, row, column = borders[owners[cell]], cell // columns, cell % columns
        if tile[2] == 0:
            tile[0], tile[1] = column, row
        tile[2], tile[3] = max(tile[2], column + 1), row + 1


@compiled
def _count_points(
    cells: Ints, owners: Ints, wide: int, borders: Ints, first_row: Ints, first_column: Ints, rows: Ints, columns: Ints
) -> None:
    for i in range(cells.size):
        cell = cells[i]
        number, row = owners[cell], cell // wide
        rows[POINTS, first_row[number] + row - borders[number, 1]] += 1
        columns[POINTS, first_column[number] + cell - row * wide - borders[number, 0]] += 1


@compiled
def _count_ranges(
    cells: Ints,
    flags: Flags,
    owners: Ints,
    wide: int,
    borders: Ints,
    first_row: Ints,
    first_column: Ints,
    rows: Ints,
    columns: Ints,
) -> None:
    """Count the cells of ranges, each by what the range has before it within the tile."""
    for i in range(cells.size):
        number, row = owners[cells[i]], cells[i] // wide
        in_row, in_column = row - borders[number, 1], cells[i] - row * wide - borders[number, 0]
        goes_up, goes_left = flags[i] & GOES_UP != 0, flags[i] & GOES_LEFT != 0
        kind = ENDED if flags[i] & ENDS != 0 else BEGUN
        before = kind + BEGUN_BEFORE - BEGUN
        if in_column == 0 or not goes_left:  # the first cell of its row within the tile
            if goes_up:
                rows[before, first_row[number] + in_row] += 1
            if in_row == 0 or not goes_up:
                rows[kind, first_row[number] + in_row] += 1
        if in_row == 0 or not goes_up:  # the first cell of its column within the tile
            if goes_left:
                columns[before, first_column[number] + in_column] += 1
            if in_column == 0 or not goes_left:
                columns[kind, first_column[number] + in_column] += 1
