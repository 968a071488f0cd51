"""The boxes of shapes, from their columns, which hold neither nulls nor NaN."""

from collections.abc import Sequence

import numpy as np

from shoal.kernels.columns.block import Column
from shoal.kernels.columns.nullable import Nullable
from shoal.kernels.spatial.coverage import Boxes, Floats, circle_boxes
from shoal.model.spatial.grid import Grid
from shoal.model.spatial.shape import Shape


def shape_boxes(grid: Grid, shape: Shape, columns: Sequence[Column]) -> Boxes:
    """The smallest boxes around shapes, or slightly larger ones."""
    values = [floats(column) for column in columns]
    if shape.kind == "circle":
        return circle_boxes(grid, values[0], values[1], values[2])
    return values[0], values[1], values[2], values[3]


def floats(column: Column) -> Floats:
    """A column of numbers as floats."""
    return np.asarray(column.values if isinstance(column, Nullable) else column, np.float64)
