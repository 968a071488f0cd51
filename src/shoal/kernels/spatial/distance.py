"""Distances between the points of two columns: in the plane, and in metres on a sphere."""

import math

import numpy as np

from shoal.kernels.compiled import compiled
from shoal.kernels.spatial.shapes import Floats, haversine_m, read_only


def distances(x: Floats, y: Floats, other_x: Floats, other_y: Floats) -> Floats:
    """Distances in the plane, in the unit of the coordinates.

    >>> distances(*(np.array([each]) for each in (0.0, 0.0, 3.0, 4.0))).tolist()
    [5.0]
    """
    across, up = np.subtract(other_x, x, dtype=np.float64), np.subtract(other_y, y, dtype=np.float64)
    found: Floats = np.sqrt(across * across + up * up)
    return found


def haversines(longitude: Floats, latitude: Floats, other_longitude: Floats, other_latitude: Floats) -> Floats:
    """Metres along great circles between points in degrees; NaN where a coordinate is NaN or infinite.

    >>> haversines(*(np.array([each]) for each in (0.0, 0.0, 0.0, 90.0))).round().tolist()
    [10007557.0]
    """
    columns = [np.asarray(each, np.float64) for each in (longitude, latitude, other_longitude, other_latitude)]
    found = np.empty(columns[0].size)
    _haversines(found, *read_only(*columns))
    return found


@compiled
def _haversines(found: Floats, x: Floats, y: Floats, other_x: Floats, other_y: Floats) -> None:
    for i in range(found.size):
        if math.isfinite(x[i] + y[i] + other_x[i] + other_y[i]):
            found[i] = haversine_m(x[i], y[i], other_x[i], other_y[i])
        else:
            found[i] = np.nan
