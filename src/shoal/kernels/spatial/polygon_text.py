"""Polygons as text: WKT, read and checked by shapely."""

import numpy as np
from numpy.typing import NDArray

from shoal.errors import SchemaError

Floats = NDArray[np.float64]


def rings_of(text: str) -> Floats:
    """The coordinates of a POLYGON or MULTIPOLYGON: closed rings x, y, x, y, ..., divided by a pair of NaN.

    Rejects a text that is no polygon, and a polygon whose rings cross.

    >>> rings_of("POLYGON ((0 0, 2 0, 0 2, 0 0))").tolist()
    [0.0, 0.0, 2.0, 0.0, 0.0, 2.0, 0.0, 0.0]
    """
    import shapely

    try:
        region = shapely.from_wkt(text)
    except (shapely.errors.ShapelyError, TypeError) as error:
        reason = f"{error}".strip().removeprefix("IllegalArgumentException: ").removeprefix("ParseException: ").lower()
        raise SchemaError(
            f"a polygon must be a WKT text such as POLYGON ((0 0, 1 0, 0 1, 0 0)); got {text!r}: {reason}"
        ) from error
    if region is None or region.geom_type not in ("Polygon", "MultiPolygon") or region.is_empty:
        raise SchemaError(f"a polygon must be a POLYGON or MULTIPOLYGON with corners; got {text!r}")
    if not region.is_valid:
        raise SchemaError(f"the polygon {text!r} is not valid: {shapely.is_valid_reason(region).lower()}")
    parts = [shapely.get_coordinates(ring) for ring in shapely.get_rings(shapely.get_parts(region))]
    divided = [piece for part in parts for piece in (np.full((1, 2), np.nan), part)]
    coordinates: Floats = np.concatenate(divided[1:]).reshape(-1)
    return coordinates
