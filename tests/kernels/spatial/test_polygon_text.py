"""Polygons as text: what is read and what is rejected."""

import numpy as np
import pytest

from shoal.errors import SchemaError
from shoal.kernels.spatial.polygon_text import rings_of


def test_rings_of_all_parts_are_divided_by_nan() -> None:
    found = rings_of("MULTIPOLYGON (((0 0, 1 0, 0 1, 0 0)), ((5 5, 9 5, 5 9, 5 5), (6 6, 7 6, 6 7, 6 6)))")
    rings = found.reshape(-1, 2)
    assert np.flatnonzero(np.isnan(rings[:, 0])).tolist() == [4, 9]
    assert rings[[0, 5, 10]].tolist() == [[0, 0], [5, 5], [6, 6]]


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        pytest.param("POLYGON 1 2", "must be a WKT text", id="a text that is no WKT"),
        pytest.param("POLYGON ((0 0, 1 0, 1 1, 0 1))", "linestring", id="a ring that is not closed"),
        pytest.param("POINT (1 2)", "must be a POLYGON or MULTIPOLYGON", id="a point"),
        pytest.param("POLYGON EMPTY", "must be a POLYGON or MULTIPOLYGON", id="a polygon without corners"),
        pytest.param("POLYGON ((0 0, 2 2, 2 0, 0 2, 0 0))", "self-intersection", id="a ring that crosses itself"),
    ],
)
def test_a_text_that_is_no_valid_polygon_is_rejected(text: str, fault: str) -> None:
    with pytest.raises(SchemaError, match=fault):
        rings_of(text)
