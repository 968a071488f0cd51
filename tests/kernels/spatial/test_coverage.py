"""The cells of points and boxes: what is in a box is in one of its cells, and a box has no other cells."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from shoal.compiler.cover import Cover
from shoal.kernels.columns.block import Block
from shoal.kernels.spatial.coverage import covered
from shoal.kernels.spatial.shape_columns import coordinates, shapes_of
from shoal.kernels.spatial.shapes import EARTH_RADIUS_M, Shapes, circle_boxes, haversine_m, in_box
from shoal.model.spatial.grid import WORLD, Grid
from shoal.model.spatial.shape import Shape, circle, point, rectangle

PLANE = Grid((-2.0, 0.0, 2.0, 3.0), 4, 3)
GRIDS = (
    PLANE,
    Grid((0.1, 0.1, 0.7, 1e6), 7, 3),
    Grid((-1e300, -1e300, 1e300, 1e300), 3, 3),
    Grid(WORLD, 7, 5, "degrees"),
    Grid((0.0, -90.0, 360.0, 90.0), 12, 3, "degrees"),
    Grid((13.1, 52.3, 13.8, 52.7), 9, 7, "degrees"),
)
BOX, RING = rectangle("a", "b", "c", "d"), circle("a", "b", "c")
number = st.one_of(
    st.integers(-8, 8).map(lambda each: each / 2),
    st.sampled_from([180.0, -180.0, 179.99999999999997, 360.0, 13.1, 52.3, 90.0, -90.0, 1e308, -1e308, 5e-324]),
    st.floats(-400, 400),
    st.floats(allow_nan=False),
)


def cells(grid: Grid, shape: Shape, *values: float) -> list[int]:
    """The cells of one row, as the operator gives them."""
    columns = {name: np.array([float(value)]) for name, value in zip(shape.columns, values, strict=True)}
    made = Cover(grid, shape, "cell").apply(Block(columns, 1))
    found: list[int] = made.columns["cell"].tolist()
    assert all(0 <= cell < grid.cells for cell in found)
    return found


@settings(deadline=None, max_examples=150)
@given(st.sampled_from(GRIDS), number, number, number, number, number, number)
@example(GRIDS[3], 170.0, 0.0, 190.0, 1.0, 540.0000000000001, 0.5)
@example(GRIDS[3], math.inf, 0.0, 1.0, 1.0, math.inf, 0.5)
def test_a_point_in_a_box_is_in_one_of_its_cells(
    grid: Grid, least_x: float, least_y: float, most_x: float, most_y: float, x: float, y: float
) -> None:
    found = cells(grid, BOX, least_x, least_y, most_x, most_y)
    assert len(found) == len(set(found))
    for place in ((x, y), (least_x, least_y), (most_x, most_y), (least_x, most_y)):
        if inside(grid, BOX, [least_x, least_y, most_x, most_y], *place):
            (cell,) = cells(grid, point("a", "b"), *place)
            assert cell in found


def inside(grid: Grid, shape: Shape, values: list[float], x: float, y: float) -> bool:
    """Whether a range contains a point, by the rule that ranges are matched with."""
    shapes: Shapes = shapes_of(grid, shape, [np.array([value]) for value in values])
    xs, ys = coordinates(grid, ("x", "y"), {"x": np.array([x]), "y": np.array([y])})
    zero = np.zeros(1, np.int64)
    return bool(shapes.contain(xs, ys, zero, zero)[0])


@settings(deadline=None, max_examples=100)
@given(st.sampled_from(GRIDS), number, number, number, st.floats(0, 1), st.floats(0, 2 * math.pi))
def test_a_point_in_a_circle_is_in_one_of_its_cells(
    grid: Grid, x: float, y: float, radius: float, share: float, bearing: float
) -> None:
    scale = 1e5 if grid.units == "degrees" else 1.0
    radius = radius * scale
    found = cells(grid, RING, x, y, radius)
    away = share * radius / (111_195.1 if grid.units == "degrees" else 1)
    for place in ((x, y), (x + away * math.cos(bearing), y + away * math.sin(bearing)), (x, y + away), (x - away, y)):
        if not any(map(math.isnan, place)) and inside(grid, RING, [x, y, radius], *place):
            (cell,) = cells(grid, point("a", "b"), *place)
            assert cell in found


quarter = st.integers(-16, 16).map(lambda each: each / 4)


@settings(deadline=None, max_examples=100)
@given(quarter, quarter, quarter, quarter)
def test_a_box_in_the_plane_has_the_cells_it_overlaps(
    least_x: float, least_y: float, most_x: float, most_y: float
) -> None:
    def overlapped(least: float, most: float, start: float, size: float, parts: int) -> list[int]:
        """The parts of a line that a closed interval meets; the first and the last have no outer end."""
        ends = [(start + size * part / parts, start + size * (part + 1) / parts) for part in range(parts)]
        ends[0], ends[-1] = (-math.inf, ends[0][1]), (ends[-1][0], math.inf)
        return [part for part, (low, high) in enumerate(ends) if least <= most and least < high and low <= most]

    columns, rows = overlapped(least_x, most_x, -2, 4, 4), overlapped(least_y, most_y, 0, 3, 3)
    assert cells(PLANE, BOX, least_x, least_y, most_x, most_y) == [
        4 * row + column for row in rows for column in columns
    ]


@settings(deadline=None, max_examples=100)
@given(
    st.sampled_from([Grid(WORLD, 8, 1, "degrees"), Grid((-90.0, -9.0, 90.0, 9.0), 4, 1, "degrees")]),
    *[st.integers(-40, 40).map(lambda each: each * 22.5)] * 2,
)
def test_a_box_in_degrees_has_the_columns_it_overlaps_on_its_way_east(grid: Grid, west: float, east: float) -> None:
    least, width = Fraction(grid.space[0]), Fraction(grid.space[2] - grid.space[0])
    length = Fraction(360) if east - west >= 360 else Fraction(east - west) % 360

    def overlaps(column: int) -> bool:
        low = least + width * column / grid.columns
        high = least + (360 if column == grid.columns - 1 else width * (column + 1) / grid.columns)
        return (low - Fraction(west)) % 360 <= length or (Fraction(west) - low) % 360 < high - low

    wanted = [column for column in range(grid.columns) if overlaps(column)]
    assert sorted(cells(grid, BOX, west, 0, east, 1)) == wanted


@settings(deadline=None, max_examples=200)
@given(
    st.one_of(st.floats(-180, 180), st.sampled_from([-180.0, 180.0, 179.9999])),
    st.one_of(st.floats(-90, 90), st.sampled_from([-90.0, 90.0, 89.9999, 0.0])),
    st.one_of(st.floats(0, 2.1e7), st.floats(0, 10), st.sampled_from([0.0, 1e7, math.pi * EARTH_RADIUS_M])),
    st.one_of(st.floats(0, 2 * math.pi), st.sampled_from([math.pi / 2, math.pi, 1.5 * math.pi])),
    st.one_of(st.floats(0, 1), st.sampled_from([1.0, 1 - 1e-12])),
)
def test_the_box_of_a_circle_on_a_sphere_contains_the_circle(
    x: float, y: float, radius: float, bearing: float, share: float
) -> None:
    place = reached(x, y, radius * share, bearing)
    ((west, low, east, high),) = circle_boxes(np.array([x]), np.array([y]), np.array([radius]), degrees=True).tolist()
    if haversine_m(x, y, *place) <= radius:
        assert in_box(west, low, east, high, True, *place)


def reached(x: float, y: float, metres: float, bearing: float) -> tuple[float, float]:
    """Where one comes on a great circle, with a longitude from -180 to 180."""
    latitude, angle = math.radians(y), metres / EARTH_RADIUS_M
    up = math.sin(latitude) * math.cos(angle) + math.cos(latitude) * math.sin(angle) * math.cos(bearing)
    up = min(1.0, max(-1.0, up))
    east = math.atan2(
        math.sin(bearing) * math.sin(angle) * math.cos(latitude), math.cos(angle) - math.sin(latitude) * up
    )
    return (x + math.degrees(east) + 180) % 360 - 180, math.degrees(math.asin(up))


@pytest.mark.parametrize("grid", GRIDS, ids=str)
def test_what_is_not_a_number_or_not_on_the_globe_has_no_cell(grid: Grid) -> None:
    assert cells(grid, point("a", "b"), math.nan, 1) == cells(grid, point("a", "b"), 1, math.nan) == []
    assert cells(grid, RING, math.inf, 1, 1) == cells(grid, RING, 1, 1, math.nan) == []
    if grid.units == "degrees":
        assert cells(grid, point("a", "b"), math.inf, 1) == cells(grid, BOX, 0, 0, -math.inf, 1) == []


def test_no_boxes_have_no_cells() -> None:
    rows, found = covered(PLANE, np.zeros((0, 4)))
    assert not rows.size
    assert not found.size


def test_copies_of_ranges_share_the_points_of_a_crowd_evenly() -> None:
    drawn, copies, size = np.random.default_rng(1), 22, 22_000
    crowd = {"x": 13.4 + drawn.random(size) / 100, "y": 52.5 + drawn.random(size) / 100}
    made = Cover(GRIDS[-1], point("x", "y"), "cell", copies).apply(Block(crowd, size))
    shares = np.bincount(made.columns["cell"], minlength=copies)
    assert abs(shares - size / copies).max() < 150
