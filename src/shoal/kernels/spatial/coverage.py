"""Coverage: the cell of each point, and the cells that each box overlaps.

A point that lies in a box is in one of the cells of the box: both go through the same monotone function from
coordinates to columns and rows. In degrees, longitudes are taken modulo 360, so that a box may cross the date line.
"""

import numpy as np
from numpy.typing import NDArray

from shoal.kernels.compiled import compiled
from shoal.model.spatial.grid import TURN, Grid

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
unbounded = np.errstate(over="ignore", invalid="ignore")
"""Coordinates may be infinite, and become so on the way: that is no reason for a warning."""


@unbounded
def cells_of(grid: Grid, x: Floats, y: Floats) -> Ints:
    """The cell of each point, whose coordinates are numbers, and in degrees finite ones."""
    return _rows(grid, y) * grid.columns + _columns(grid, x)


@unbounded
def covered(grid: Grid, boxes: Floats) -> tuple[Ints, Ints]:
    """The cells that boxes (min_x, min_y, max_x, max_y) overlap: for each the number of its box, and the cell.

    A box with NaN overlaps nothing.
    """
    somewhere = ~np.isnan(boxes).any(axis=1)
    least_x, least_y, most_x, most_y = boxes.T if somewhere.all() else np.where(somewhere, boxes.T, 0.0)
    first, last = _columns(grid, least_x), _columns(grid, most_x)
    count = last - first + 1
    if grid.units == "degrees":
        width = most_x - least_x
        wraps = _longitudes(grid, least_x) > _longitudes(grid, most_x)
        count = np.where(wraps, grid.columns - first + last + 1, count)
        count = np.where((width >= TURN) | (count > grid.columns), grid.columns, count)
    count = np.where((least_y > most_y) | ~somewhere, 0, count)
    if grid.units == "plane":
        count = np.maximum(np.where(least_x > most_x, 0, count), 0)
    top, bottom = _rows(grid, least_y), _rows(grid, most_y)
    high = np.where(count > 0, bottom - top + 1, 0)
    sizes = count * high
    of_range = np.repeat(np.arange(sizes.size), sizes)
    cells = np.empty(of_range.size, np.int64)
    _fill(first, count, top, high, grid.columns, cells)
    return of_range, cells


def around(x: Floats) -> Floats:
    """Longitudes from -180 to below 180: the same meridian has one number."""
    within = (x >= -TURN / 2) & (x < TURN / 2)
    if within.all():
        return x
    with np.errstate(invalid="ignore"):
        return np.where(within, x, np.mod(x + TURN / 2, TURN) - TURN / 2)


def _longitudes(grid: Grid, x: Floats) -> Floats:
    """Longitudes within one turn from the left border of the space."""
    with np.errstate(invalid="ignore"):
        found: Floats = np.mod(x - grid.space[0], TURN)
    return found


def _columns(grid: Grid, x: Floats) -> Ints:
    width = grid.space[2] - grid.space[0]
    from_left = _longitudes(grid, x) if grid.units == "degrees" else x - grid.space[0]
    return _clipped(from_left * (grid.columns / width), grid.columns)


def _rows(grid: Grid, y: Floats) -> Ints:
    height = grid.space[3] - grid.space[1]
    return _clipped((y - grid.space[1]) * (grid.rows / height), grid.rows)


def _clipped(places: Floats, size: int) -> Ints:
    return np.clip(np.floor(places), 0, size - 1).astype(np.int64)


@compiled
def _fill(first: Ints, count: Ints, top: Ints, high: Ints, columns: int, cells: Ints) -> None:
    """List the cells of boxes, each given by its first column and row and their numbers; columns go around."""
    used = 0
    for i in range(first.size):
        for row in range(top[i], top[i] + high[i]):
            for step in range(count[i]):
                cells[used] = row * columns + (first[i] + step) % columns
                used += 1
