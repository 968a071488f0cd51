"""Shapes of ranges from the columns of their rows, which hold neither nulls nor NaN."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache

import numpy as np
import pyarrow as pa

from shoal.errors import SchemaError
from shoal.kernels.columns.block import Column, plain
from shoal.kernels.columns.nullable import Nullable
from shoal.kernels.spatial.coverage import around, unbounded
from shoal.kernels.spatial.polygon_text import rings_of
from shoal.kernels.spatial.shapes import POLE, Floats, Shapes
from shoal.model.spatial.grid import TURN, Grid
from shoal.model.spatial.shape import Shape

POLYGONS = 65_536
"""How many polygons are kept as coordinates, so that a text is read once."""


def shapes_of(grid: Grid, shape: Shape, columns: Sequence[Column]) -> Shapes:
    """The ranges of rows, with their boxes; rejects a text that is no polygon."""
    return _within_turn(_shapes(shape, columns, degrees=grid.units == "degrees"))


def polygon_shapes(texts: Sequence[str], *, degrees: bool) -> Shapes:
    """The polygons of texts; rejects one that is no polygon."""
    return _within_turn(Shapes.polygons([_rings(text, degrees) for text in texts], degrees=degrees))


def _within_turn(shapes: Shapes) -> Shapes:
    return replace(shapes, box=_boxes_around(shapes.box)) if shapes.degrees else shapes


def _shapes(shape: Shape, columns: Sequence[Column], *, degrees: bool) -> Shapes:
    if shape.kind == "polygon":
        return Shapes.polygons([_rings(text, degrees) for text in _texts(columns[0])], degrees=degrees)
    values = [floats(column) for column in columns]
    if shape.kind == "circle":
        return Shapes.circles(values[0], values[1], values[2], degrees=degrees)
    return Shapes.rectangles(np.column_stack(values), degrees=degrees)


@unbounded
def _boxes_around(boxes: Floats) -> Floats:
    """Boxes whose longitudes are those of `around`; one that goes once around has all of them."""
    west, low, east, high = boxes.T
    everywhere = east - west >= TURN
    west, east = np.where(everywhere, -TURN / 2, around(west)), np.where(everywhere, TURN / 2, around(east))
    return np.column_stack([west, low, east, high])


def coordinates(grid: Grid, point: tuple[str, str], columns: Mapping[str, Column]) -> tuple[Floats, Floats]:
    """The coordinates of points, as the boxes of ranges have them."""
    x, y = (floats(columns[name]) for name in point)
    return around(x) if grid.units == "degrees" else x, y


def floats(column: Column) -> Floats:
    """A column of numbers as floats."""
    return np.asarray(column.values if isinstance(column, Nullable) else column, np.float64)


@lru_cache(maxsize=POLYGONS)
def _rings(text: str, degrees: bool) -> Floats:
    """The coordinates of a polygon; in degrees its west is from -180 to below 180."""
    rings = rings_of(text)
    if degrees:
        beyond = rings[1::2][np.abs(rings[1::2]) > POLE]
        if len(beyond):
            raise SchemaError(f"latitudes of a polygon must be from -90 to 90; got {beyond[0]:g} in {text!r}")
        west = np.nanmin(rings[::2], keepdims=True)
        rings[::2] += around(west) - west
    return rings


def _texts(column: pa.Array) -> list[str]:
    texts: list[str] = plain(column).to_pylist()
    return texts
