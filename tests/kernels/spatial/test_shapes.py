"""Which points shapes contain: polygons against shapely, the rest against plain Python."""

import math
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
import shapely
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from shoal.kernels.spatial.polygon_text import rings_of
from shoal.kernels.spatial.shapes import EARTH_RADIUS_M, Shapes, _side, circle_boxes

Floats = NDArray[np.float64]
small = st.integers(-4, 4).map(float)
coordinate = st.one_of(small, st.floats(-5, 5).map(lambda value: round(value, 5)))
pair = st.tuples(coordinate, coordinate)
longitude, latitude = st.floats(-180, 180), st.floats(-90, 90)


def inside(shapes: Shapes, points: list[tuple[float, float]]) -> list[list[bool]]:
    """For each shape whether it contains each point."""
    x, y = np.array(points, float).reshape(-1, 2).T.copy()
    rows = np.arange(len(points))
    return [shapes.contain(x, y, rows, np.full(len(points), each)).tolist() for each in range(len(shapes))]


@settings(deadline=None, max_examples=50)
@given(st.lists(st.tuples(coordinate, coordinate, coordinate, coordinate), min_size=1), st.lists(pair), st.booleans())
def test_a_rectangle_contains_what_lies_between_its_borders(
    boxes: list[tuple[float, ...]], points: list[tuple[float, float]], degrees: bool
) -> None:
    def expected(box: tuple[float, ...], x: float, y: float) -> bool:
        across = min(box[0] <= x, x <= box[2]) if box[0] <= box[2] else degrees and (x >= box[0] or x <= box[2])
        return across and box[1] <= y <= box[3]

    wanted = [[expected(box, *point) for point in points] for box in boxes]
    assert inside(Shapes.rectangles(np.array(boxes), degrees=degrees), points) == wanted


@settings(deadline=None, max_examples=50)
@given(st.lists(st.tuples(coordinate, coordinate, coordinate), min_size=1), st.lists(pair))
def test_a_circle_contains_what_lies_within_its_radius(
    circles: list[tuple[float, float, float]], points: list[tuple[float, float]]
) -> None:
    wanted = [[r >= 0 and (x - a) ** 2 + (y - b) ** 2 <= r * r for x, y in points] for a, b, r in circles]
    assert inside(Shapes.circles(*np.array(circles).T), points) == wanted


def angle(a: tuple[float, float], b: tuple[float, float]) -> float:
    """The angle between two places, from their directions in space."""
    first, second = (
        np.array([math.cos(lat) * math.cos(lon), math.cos(lat) * math.sin(lon), math.sin(lat)])
        for lon, lat in (np.radians(a), np.radians(b))
    )
    return math.atan2(float(np.linalg.norm(np.cross(first, second))), float(first @ second))


@settings(deadline=None, max_examples=50)
@given(
    st.tuples(st.one_of(longitude, st.just(180.0)), st.one_of(latitude, st.just(90.0), st.just(-90.0))),
    st.floats(0, 3.2).map(lambda radians: radians * EARTH_RADIUS_M),
    st.lists(st.tuples(longitude, latitude)),
)
def test_a_circle_in_degrees_contains_what_lies_within_so_many_metres(
    centre: tuple[float, float], radius: float, points: list[tuple[float, float]]
) -> None:
    distances = [EARTH_RADIUS_M * angle(centre, point) for point in points]
    assume(all(abs(distance - radius) > 1 for distance in distances))
    circle = Shapes.circles(*(np.array([each]) for each in (*centre, radius)), degrees=True)
    assert inside(circle, points) == [[distance < radius for distance in distances]]


@pytest.mark.parametrize(
    ("centre", "radius", "wanted"),
    [
        pytest.param((10, 89.5), 111_195.1, [-180, 88.5, 180, 90], id="around a pole it has all longitudes"),
        pytest.param((-179.5, 0), 111_195.1, [179.5, -1, -178.5, 1], id="across the date line its west is its larger"),
        pytest.param((0, 0), 30e6, [-180, -90, 180, 90], id="around the whole earth it has everything"),
    ],
)
def test_the_box_of_a_circle_in_degrees(centre: tuple[float, float], radius: float, wanted: list[float]) -> None:
    columns = (np.array([float(each)]) for each in (*centre, radius))
    assert circle_boxes(*columns, degrees=True)[0] == pytest.approx(wanted, abs=1e-3)


@pytest.mark.parametrize("latitude", [90.5, -91.0, 269.0])
def test_a_circle_around_a_latitude_beyond_a_pole_is_nowhere(latitude: float) -> None:
    box = circle_boxes(np.array([0.0]), np.array([latitude]), np.array([500_000.0]), degrees=True)
    assert np.isnan(box).any()


@st.composite
def regions(draw: st.DrawFn) -> shapely.Geometry:
    """Any valid region: triangles that are united, cut off and cut out, so that it has parts and holes."""
    corner = draw(st.sampled_from([st.tuples(small, small), pair]))
    found = shapely.Polygon()
    for corners in draw(st.lists(st.tuples(corner, corner, corner), min_size=1, max_size=5)):
        triangle = shapely.Polygon(corners)
        if triangle.is_valid and triangle.area > 1e-6:
            found = draw(st.sampled_from([shapely.union, shapely.symmetric_difference]))(found, triangle)
    found = shapely.set_precision(found, 1e-5)  # shapely is not exact where sizes differ by many digits
    assume(found.is_valid and found.geom_type in ("Polygon", "MultiPolygon") and not found.is_empty)
    return found


def remarkable(region: shapely.Geometry) -> list[tuple[float, float]]:
    """Corners, and points on or close to the middle of edges."""
    corners = [(float(x), float(y)) for x, y in shapely.get_coordinates(region)]
    return corners + [((a + c) / 2, (b + d) / 2) for (a, b), (c, d) in pairwise(corners)]


@settings(deadline=None, max_examples=60)
@given(regions(), st.lists(pair, max_size=30))
def test_a_polygon_contains_what_shapely_says_it_covers(
    region: shapely.Geometry, points: list[tuple[float, float]]
) -> None:
    points = points + remarkable(region)
    found = inside(Shapes.polygons([rings_of(region.wkt)]), points)[0]
    wanted = shapely.intersects_xy(shapely.from_wkt(region.wkt), *np.array(points).T)
    assert found == wanted.tolist()


@settings(deadline=None, max_examples=50)
@given(
    *[st.floats(-5, 5) | small | st.floats(-1e-30, 1e-30)] * 4, st.sampled_from([0.0, 0.25, 0.5, 1.0]) | st.floats(0, 1)
)
def test_the_side_of_a_line_that_a_point_is_on_is_exact(
    x1: float, y1: float, x2: float, y2: float, share: float
) -> None:
    x, y = x1 + share * (x2 - x1), y1 + share * (y2 - y1)
    corners = [Fraction(each) for each in (x1, y1, x2, y2, x, y)]
    assume(all(each == 0 or abs(each) > 1e-60 for each in corners))
    a, b, c, d, e, f = corners
    determinant = (a - e) * (d - f) - (b - f) * (c - e)
    assert _side(x1, y1, x2, y2, x, y) == (determinant > 0) - (determinant < 0)


def test_a_hole_is_outside_and_its_border_inside() -> None:
    ring = Shapes.polygons([rings_of("POLYGON ((0 0, 9 0, 9 9, 0 9, 0 0), (3 3, 6 3, 6 6, 3 6, 3 3))")])
    assert inside(ring, [(1, 1), (4, 4), (3, 4), (0, 5), (10, 5)]) == [[True, False, True, True, False]]


def test_a_polygon_across_the_date_line_has_longitudes_beyond_180() -> None:
    fiji = Shapes.polygons([rings_of("POLYGON ((177 -20, 182 -20, 182 -15, 177 -15, 177 -20))")], degrees=True)
    assert fiji.box.tolist() == [[177, -20, -178, -15]]
    assert inside(fiji, [(178, -18), (-179, -18), (180, -18), (-177, -18), (0, -18)]) == [
        [True, True, True, False, False]
    ]


@pytest.mark.parametrize("point", [(math.nan, 0.0), (0.0, math.nan)], ids=["x", "y"])
@pytest.mark.parametrize("degrees", [False, True], ids=["plane", "degrees"])
def test_nan_lies_in_no_range(point: tuple[float, float], degrees: bool) -> None:
    one = np.ones(1)
    for shapes in (
        Shapes.rectangles(np.array([[-9.0, -9.0, 9.0, 9.0]]), degrees=degrees),
        Shapes.circles(one, one, one * 1e6, degrees=degrees),
        Shapes.polygons([rings_of("POLYGON ((-9 -9, 9 -9, 9 9, -9 -9))")], degrees=degrees),
    ):
        assert inside(shapes, [point]) == [[False]]


def test_lists_of_numbers_say_what_a_range_is() -> None:
    shapes = [
        Shapes.rectangles(np.array([[0.0, 0.0, 1.0, 1.0]])),
        Shapes.circles(np.array([5.0]), np.array([5.0]), np.array([1.0])),
        Shapes.polygons([rings_of("POLYGON ((0 0, 2 0, 0 2, 0 0))")]),
    ]
    for each in shapes:
        again = Shapes.of_lists(each.box, each.lists())
        assert again.kind.tolist() == each.kind.tolist()
        assert inside(again, [(0.5, 0.5), (5.0, 5.5), (0.9, 1.0)]) == inside(each, [(0.5, 0.5), (5.0, 5.5), (0.9, 1.0)])
