"""Ranges from columns: what they contain near the date line, the poles and the borders, whatever the longitudes."""

import numpy as np
import pyarrow as pa
import pytest

from shoal.errors import SchemaError
from shoal.kernels.spatial.coverage import cells_of, covered
from shoal.kernels.spatial.range_index import RangeIndex
from shoal.kernels.spatial.shape_columns import coordinates, polygon_shapes, shapes_of
from shoal.model.spatial.grid import WORLD, Grid
from shoal.model.spatial.shape import Shape, circle, polygon, rectangle

GRID = Grid(WORLD, 36, 18, "degrees")
BOX, RING, TEXT = rectangle("a", "b", "c", "d"), circle("x", "y", "radius"), polygon("wkt")


def found(shape: Shape, values: list[object], x: float, y: float, grid: Grid = GRID) -> bool:
    """Whether a range contains a point, which must then be in one of its cells."""
    columns = [pa.array([value]) if isinstance(value, str) else np.array([value], float) for value in values]
    shapes = shapes_of(grid, shape, columns)
    xs, ys = coordinates(grid, ("x", "y"), {"x": np.array([x]), "y": np.array([y])})
    cell, zero = cells_of(grid, xs, ys), np.zeros(1, np.int64)
    rows, cells = covered(grid, shapes.box)
    nothing = np.zeros(cells.size, np.int64)
    box = shapes.box[rows]
    index = RangeIndex.of(nothing, cells, box, nothing, nothing + 1, degrees=shapes.degrees)
    ours, theirs = index.matches(zero, cell, xs, ys, zero)
    inside = shapes.contain(xs, ys, ours, rows[theirs])
    assert inside.sum() <= 1
    assert shapes.contain(xs, ys, zero, zero).all() == inside.any()
    return bool(inside.any())


@pytest.mark.parametrize(
    ("shape", "values", "inside", "outside"),
    [
        pytest.param(BOX, [170, 0, 180, 1], [(180, 0), (-180, 1), (175, 0.5)], [(-179, 0), (169, 0)], id="up to 180"),
        pytest.param(BOX, [-180, 0, -170, 1], [(180, 0), (-175, 0), (185, 0)], [(179, 0)], id="from -180 on"),
        pytest.param(BOX, [170, 0, -170, 1], [(180, 0), (175, 0), (-175, 0)], [(0, 0), (165, 0)], id="across 180"),
        pytest.param(BOX, [170, 0, 190, 1], [(180, 0), (175, 0), (-175, 0), (185, 0)], [(0, 0)], id="beyond 180"),
        pytest.param(BOX, [-180, -90, 180, 90], [(180, 0), (-180, 90), (0, -90), (540, 0)], [], id="everywhere"),
        pytest.param(BOX, [-200, 0, 200, 1], [(180, 0), (0, 1)], [(0, 2)], id="more than once around"),
        pytest.param(RING, [179.9, 0, 50_000], [(-179.9, 0), (180, 0), (179.5, 0)], [(-179, 0)], id="circle at 180"),
        pytest.param(RING, [0, 90.5, 500_000], [], [(0, 89), (180, 89), (0, 90)], id="circle beyond a pole"),
        pytest.param(RING, [0, 89.9, 50_000], [(180, 89.9), (90, 90), (-90, 89.8)], [(180, 89)], id="circle at a pole"),
        pytest.param(
            TEXT, ["POLYGON ((170 0, 180 0, 180 5, 170 0))"], [(180, 1), (-180, 4), (175, 1)], [(-179, 1)], id="polygon"
        ),
        pytest.param(
            TEXT,
            ["POLYGON ((190 0, 270 0, 270 9, 190 9, 190 0))"],
            [(-170, 0), (200, 5), (-90, 9), (550, 1)],
            [(180, 5), (-80, 5)],
            id="polygon beyond 180",
        ),
        pytest.param(
            TEXT,
            ["POLYGON ((0 0, 360 0, 360 9, 0 9, 0 0))"],
            [(0, 0), (-10, 5), (350, 5), (180, 9)],
            [(0, 10), (-10, -1)],
            id="polygon once around from 0 on",
        ),
    ],
)
def test_what_a_range_in_degrees_contains(
    shape: Shape, values: list[object], inside: list[tuple[float, float]], outside: list[tuple[float, float]]
) -> None:
    assert [place for place in inside if not found(shape, values, *place)] == []
    assert [place for place in outside if found(shape, values, *place)] == []


def test_a_polygon_in_degrees_with_a_latitude_beyond_a_pole_is_rejected() -> None:
    text = "POLYGON ((0 50, 9 50, 9 95, 0 95, 0 50))"
    with pytest.raises(SchemaError, match="latitudes of a polygon must be from -90 to 90; got 95 in 'POLYGON"):
        polygon_shapes([text], degrees=True)


def test_a_polygon_has_holes_and_borders() -> None:
    text = "POLYGON ((0 0, 10 0, 10 10, 0 10, 0 0), (4 4, 6 4, 6 6, 4 6, 4 4))"
    plane = Grid((0.0, 0.0, 10.0, 10.0), 7, 3)
    places = {0: True, 2: True, 4: True, 5: False, 6: True, 10: True, 11: False}
    assert {place: found(TEXT, [text], place, place, plane) for place in places} == places


@pytest.mark.parametrize("size", [1e300, 1e-200], ids=["huge", "tiny"])
def test_a_circle_of_any_size_does_not_contain_the_corners_of_its_box(size: float) -> None:
    plane = Grid((-1.0, -1.0, 1.0, 1.0), 1, 1)
    assert found(RING, [0.0, 0.0, size], size, 0.0, plane)
    assert not found(RING, [0.0, 0.0, size], size, size, plane)
