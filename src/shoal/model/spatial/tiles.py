"""Tiles: rectangles of cells that divide a grid among the instances of an operator.

A grid has columns and rows of cells, numbered row by row. A layout is a set of tiles that cover the grid exactly.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from shoal.errors import PartitioningError

Axis = Literal["column", "row"]
Cells = NDArray[np.int64]
LARGEST_GRID = 1 << 20
"""The most cells of a grid."""


@dataclass(frozen=True, order=True)
class Tile:
    """The cells of some columns and rows; `right` and `bottom` are the first ones behind it."""

    left: int
    top: int
    right: int
    bottom: int

    def __post_init__(self) -> None:
        """Reject a tile without cells."""
        if not (0 <= self.left < self.right and 0 <= self.top < self.bottom):
            raise PartitioningError(
                f"a tile must have cells; got columns {self.left} to {self.right}, rows {self.top} to {self.bottom}"
            )

    @property
    def columns(self) -> int:
        """How many columns it has."""
        return self.right - self.left

    @property
    def rows(self) -> int:
        """How many rows it has."""
        return self.bottom - self.top

    @property
    def cells(self) -> int:
        """How many cells it has."""
        return self.columns * self.rows

    def cut(self, axis: Axis, at: int) -> tuple["Tile", "Tile"]:
        """The two tiles before and behind a column or row, which is the first of the second.

        >>> Tile(0, 0, 4, 2).cut("column", 1)
        (Tile(left=0, top=0, right=1, bottom=2), Tile(left=1, top=0, right=4, bottom=2))
        """
        first, last = (self.left, self.right) if axis == "column" else (self.top, self.bottom)
        if not first < at < last:
            raise PartitioningError(f"a tile with {axis}s {first} to {last} cannot be cut at {axis} {at}")
        if axis == "column":
            return replace(self, right=at), replace(self, left=at)
        return replace(self, bottom=at), replace(self, top=at)

    def halved(self) -> tuple["Tile", "Tile"]:
        """Two halves, across the longer side."""
        if self.columns >= self.rows:
            return self.cut("column", (self.left + self.right) // 2)
        return self.cut("row", (self.top + self.bottom) // 2)


def joined(tiles: Sequence[Tile]) -> Tile:
    """The rectangle that tiles form; rejects tiles that form none.

    >>> joined([Tile(0, 0, 2, 2), Tile(2, 0, 3, 2)])
    Tile(left=0, top=0, right=3, bottom=2)
    """
    whole = Tile(
        min(tile.left for tile in tiles),
        min(tile.top for tile in tiles),
        max(tile.right for tile in tiles),
        max(tile.bottom for tile in tiles),
    )
    if whole.cells != sum(tile.cells for tile in tiles):
        raise PartitioningError("the tiles form no rectangle, so that they cannot be merged")
    return whole


def halvings(columns: int, rows: int, parts: int) -> tuple[Tile, ...]:
    """A grid cut into parts: the largest is halved, again and again.

    >>> [tile.cells for tile in halvings(8, 4, 3)]
    [8, 8, 16]
    """
    check_grid(columns, rows)
    if not 1 <= parts <= columns * rows:
        raise PartitioningError(f"a grid of {columns} x {rows} cells can have 1 to {columns * rows} parts; got {parts}")
    return tuple(sorted(_halved([Tile(0, 0, columns, rows)], parts)))


def halves(tile: Tile, parts: int) -> tuple[Tile, ...]:
    """A tile cut into parts in the same way."""
    if not 1 <= parts <= tile.cells:
        raise PartitioningError(f"a tile of {tile.cells} cells can be split into up to {tile.cells} parts; got {parts}")
    return tuple(sorted(_halved([tile], parts)))


def _halved(tiles: list[Tile], parts: int) -> list[Tile]:
    while len(tiles) < parts:
        largest = min(range(len(tiles)), key=lambda place: (-tiles[place].cells, tiles[place]))
        tiles.extend(tiles.pop(largest).halved())
    return tiles


def check_grid(columns: int, rows: int) -> None:
    """Reject a grid without cells, or with too many."""
    if columns < 1 or rows < 1 or columns * rows > LARGEST_GRID:
        raise PartitioningError(f"a grid must have 1 to {LARGEST_GRID} cells; got {columns} x {rows}")


def painted(columns: int, rows: int, tiles: Mapping[int, Tile]) -> Cells:
    """The number of the tile that has each cell, row by row; rejects tiles that overlap or leave cells out.

    >>> painted(3, 1, {7: Tile(0, 0, 2, 1), 4: Tile(2, 0, 3, 1)}).tolist()
    [7, 7, 4]
    """
    cells = np.full((rows, columns), -1, np.int64)
    for number, tile in tiles.items():
        part = cells[tile.top : tile.bottom, tile.left : tile.right]
        if part.size != tile.cells or (part >= 0).any():
            raise PartitioningError(f"tile {number} overlaps another, or is not within the grid")
        part[:] = number
    if (cells < 0).any():
        row, column = np.argwhere(cells < 0)[0].tolist()
        raise PartitioningError(f"no tile has the cell in column {column} and row {row}")
    return cells.reshape(-1)


def overlapped(columns: int, cells: Cells, tiles: Mapping[int, Tile], area: Tile) -> list[int]:
    """The numbers of the tiles that an area overlaps, found by walking from border to border.

    The walk begins in the first cell. At each tile that is new it goes on right of the tile, in the same row, and below
    it, in the same column, so that it visits tiles and not all cells.
    """
    found: dict[int, None] = {}
    visited: set[tuple[int, int]] = set()
    waiting = deque([(area.left, area.top)])
    while waiting:
        column, row = waiting.pop()
        if column >= area.right or row >= area.bottom or (column, row) in visited:
            continue
        visited.add((column, row))
        number = int(cells[row * columns + column])
        tile = tiles[number]
        found[number] = None
        waiting.extend([(tile.right, row), (column, tile.bottom)])
    return list(found)
