"""Places as expressions: distances, ranges that contain points, and the borders of cells."""

from typing import Any

from shoal.model.query.expression import Expression, as_expression, col, lit
from shoal.model.query.functions import call, distance, haversine, if_
from shoal.model.spatial.grid import TURN, Grid
from shoal.model.spatial.shape import Shape


def distance_of(grid: Grid, x: Any, y: Any, other_x: Any, other_y: Any) -> Expression:
    """The distance of two points in the units of a grid: of the coordinates, or metres for degrees."""
    return (haversine if grid.units == "degrees" else distance)(x, y, other_x, other_y)


def containing(grid: Grid, shape: Shape, x: Expression, y: Expression) -> Expression:
    """Whether a range contains a point, borders included; decides as `match_ranges` does."""
    if shape.kind == "circle":
        return _in_circle(grid, shape.columns, x, y)
    if shape.kind == "polygon":
        if grid.units == "degrees":
            return call("in_polygon_degrees", shape.columns[0], around(x), y)
        return call("in_polygon", shape.columns[0], x, y)
    low_x, low_y, high_x, high_y = (col(name) for name in shape.columns)
    high = (y >= low_y) & (y <= high_y)
    if grid.units == "plane":
        return high & (x >= low_x) & (x <= high_x)
    west, east, x = around(low_x), around(high_x), around(x)
    whole = high_x - low_x >= TURN
    ahead, behind = x >= west, x <= east
    return high & (whole | ((west <= east) & ahead & behind) | ((west > east) & (ahead | behind)))


def _in_circle(grid: Grid, columns: tuple[str, ...], x: Expression, y: Expression) -> Expression:
    center_x, center_y, radius = (call("as_float64", name) for name in columns)
    if grid.units == "degrees":
        return haversine(center_x, center_y, x, y) <= radius
    across, up = x - center_x, y - center_y
    return (radius >= 0) & (across * across + up * up <= radius * radius)


def around(x: Any) -> Expression:
    """A longitude from -180 to below 180."""
    value = as_expression(x, column=True)
    half = TURN / 2
    return if_((value >= -half) & (value < half), value, (value + half) % TURN - half)


def cell_borders(grid: Grid, cell: str = "cell") -> dict[str, Expression]:
    """The borders of a cell as expressions: min_x, min_y, max_x and max_y.

    >>> list(cell_borders(Grid((0, 0, 100, 100))))
    ['min_x', 'min_y', 'max_x', 'max_y']
    """
    return {
        "min_x": _across(grid, cell, 0.0),
        "min_y": _up(grid, cell, 0.0),
        "max_x": _across(grid, cell, 1.0),
        "max_y": _up(grid, cell, 1.0),
    }


def cell_center(grid: Grid, cell: str = "cell") -> dict[str, Expression]:
    """The centre of a cell as expressions: x and y.

    >>> list(cell_center(Grid((0, 0, 100, 100))))
    ['x', 'y']
    """
    return {"x": _across(grid, cell, 0.5), "y": _up(grid, cell, 0.5)}


def _across(grid: Grid, cell: str, part: float) -> Expression:
    """The x of a cell, some part of its width from its left border."""
    width = (grid.space[2] - grid.space[0]) / grid.columns
    return lit(float(grid.space[0])) + (col(cell) % grid.columns + part) * width


def _up(grid: Grid, cell: str, part: float) -> Expression:
    """The y of a cell, some part of its height from its lower border."""
    height = (grid.space[3] - grid.space[1]) / grid.rows
    return lit(float(grid.space[1])) + (col(cell) // grid.columns + part) * height
