"""What is said of wrong uses of the operators that go by place."""

from collections.abc import Callable

import pytest

from shoal.errors import SchemaError, ShoalError
from shoal.kernels.spatial.polygon_text import rings_of
from shoal.language.python.stream import Stream
from shoal.model.spatial.grid import Grid
from shoal.model.spatial.shape import Shape, circle, point, polygon, rectangle

CARS = Stream("cars", {"ts": "timestamp", "x": "float64", "y": "float64", "kind": "string"}, time="ts")
ZONES = Stream("zones", {"ts": "timestamp", "id": "int64", "x": "float64", "r": "float64", "wkt": "string"}, time="ts")
GRID = Grid((0.0, 0.0, 8.0, 8.0), 4, 4)
ROUND = circle("x", "x", "r")


@pytest.mark.parametrize(
    ("use", "message"),
    [
        pytest.param(
            lambda: CARS.cover(GRID, point("x", "z")),
            "cover on stream 'cars': unknown column 'z' of a point; there are ts, x, y",
            id="unknown column",
        ),
        pytest.param(
            lambda: CARS.cover(GRID, point("x", "kind")),
            "'kind' of a point must be float64 or int64; it is string",
            id="coordinate that is no number",
        ),
        pytest.param(
            lambda: CARS.cover(GRID, polygon("x")), "'x' of a polygon must be string; it is float64", id="no text"
        ),
        pytest.param(
            lambda: CARS.cover((0, 0, 8, 8), point("x", "y")),  # type: ignore[arg-type]
            r"needs a Grid and a shape such as point\('x', 'y'\); got \(0, 0, 8, 8\)",
            id="space instead of a grid",
        ),
        pytest.param(
            lambda: Shape("circle", ("x", "y")), "a circle needs the columns x, y, radius; got x, y", id="radius"
        ),
        pytest.param(
            lambda: Shape("circel", ("x", "y", "r")),  # type: ignore[arg-type]
            "a shape must be one of .*; got 'circel'; did you mean 'circle'",
            id="misspelt shape",
        ),
        pytest.param(lambda: Grid((0, 0, 0, 8)), "min_x < max_x and min_y < max_y", id="space without extent"),
        pytest.param(lambda: Grid((0, 0, float("nan"), 8)), "in finite numbers; got .*nan", id="space of NaN"),
        pytest.param(lambda: Grid((0, 0, 361, 8), units="degrees"), "at most 360 wide", id="more than the globe"),
        pytest.param(
            lambda: Grid((0, 0, 8, 8), 2000, 2000), "1 to 1048576 cells; got 2000 x 2000", id="too many cells"
        ),
        pytest.param(lambda: Grid((0, 0, 8, 8), 0, 5), "1 to 1048576 cells; got 0 x 5", id="no columns"),
        pytest.param(
            lambda: CARS.match_ranges(ZONES, ROUND, grid=GRID, action="wkt"),
            "has an action 'wkt' but no id that says which range it is for",
            id="action without id",
        ),
        pytest.param(
            lambda: CARS.match_ranges(ZONES, ROUND, grid=GRID, id="id", action="x"),
            "action must be a column of texts; 'x' is not",
            id="action that is no text",
        ),
        pytest.param(
            lambda: CARS.match_ranges(ZONES, ROUND, grid=GRID, id="name"), "'name'", id="id that is no column"
        ),
        pytest.param(
            lambda: CARS.match_ranges(ZONES, point("x", "r"), grid=GRID),
            "needs a shape of ranges: rectangle, circle or polygon; got a point",
            id="points as ranges",
        ),
        pytest.param(
            lambda: CARS.match_ranges(ZONES, rectangle("x", "x", "r", "top"), grid=GRID),
            "unknown column 'top' of a rectangle",
            id="column of a range",
        ),
        pytest.param(
            lambda: ZONES.near(ZONES, within=1, within_s=(0, 1), grid=GRID, at=("lon", "lat")),
            "unknown column 'lon' of a point; .*; name the columns of points by at",
            id="columns of points",
        ),
        pytest.param(
            lambda: CARS.match_ranges(ZONES, ROUND, grid=GRID, partitions=17),
            "can have up to 16 partitions, one for each cell; got 17",
            id="more partitions than cells",
        ),
        pytest.param(CARS.versions, "needs key_by or partition_by before it", id="versions without a key"),
    ],
)
def test_a_wrong_use_is_rejected_when_it_is_written(use: Callable[[], object], message: str) -> None:
    with pytest.raises(ShoalError, match=message):
        use()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("POLYGON ((0 0, 1", "must be a WKT text such as POLYGON", id="broken"),
        pytest.param("circle", "must be a WKT text such as POLYGON .*; got 'circle'", id="not WKT"),
        pytest.param("POINT (1 2)", "must be a POLYGON or MULTIPOLYGON with corners", id="point"),
        pytest.param("POLYGON ((0 0, 2 2, 2 0, 0 2, 0 0))", "is not valid: self-intersection", id="crossing rings"),
    ],
)
def test_a_text_that_is_no_polygon_is_rejected_when_it_is_read(text: str, message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        rings_of(text)
