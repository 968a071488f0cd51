"""Which polygons, given as texts, contain the points beside them."""

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from shoal.kernels.columns.block import Column, encoded
from shoal.kernels.spatial.shape_columns import floats, polygon_shapes


def in_polygons(texts: pa.Array, x: Column, y: Column, *, degrees: bool = False) -> NDArray[np.bool_]:
    """Whether the polygon of each row contains the point of the row, its border included.

    Every distinct text is read once. A null or NaN lies nowhere.

    >>> text = pa.array(["POLYGON ((0 0, 2 0, 0 2, 0 0))"] * 2)
    >>> in_polygons(text, np.array([0.5, 2.0]), np.array([0.5, 2.0])).tolist()
    [True, False]
    """
    dictionary = encoded(texts)
    there = np.asarray(dictionary.indices.is_valid())
    numbers = np.asarray(dictionary.indices.fill_null(0), np.int64)
    used = np.unique(numbers[there])
    inside = np.zeros(there.size, bool)
    if not used.size:
        return inside
    shapes = polygon_shapes(dictionary.dictionary.take(pa.array(used)).to_pylist(), degrees=degrees)
    rows = np.flatnonzero(there)
    inside[rows] = shapes.contain(floats(x), floats(y), rows, np.searchsorted(used, numbers[rows]))
    return inside
