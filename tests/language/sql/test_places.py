"""Places in SQL: every table function is the operator of the same name in Python."""

import pytest

from shoal.errors import SqlError
from shoal.language.python.flow import Flow
from shoal.language.python.stream import Stream
from shoal.language.sql.script import parse_script
from shoal.model.query.aggregate import count
from shoal.model.query.functions import distance
from shoal.model.query.window import tumbling
from shoal.model.spatial.grid import Grid
from shoal.model.spatial.shape import circle, point, polygon

CARS = Stream("cars", {"ts": "timestamp", "car": "int64", "x": "float64", "y": "float64"}, time="ts")
AREA = {"ts": "timestamp", "area": "int64", "action": "string", "lon": "float64", "lat": "float64", "r": "float64"}
AREAS = Stream("areas", AREA | {"wkt": "string"}, time="ts")
STREAMS = {"cars": CARS, "areas": AREAS}
PLANE, GLOBE = Grid((-10, 0, 100, 50.5)), Grid((-180, -90, 180, 90), 36, 18, "degrees")
ROUND = circle("lon", "lat", "r")
IN_PLANE, ON_GLOBE = "GRID => GRID(-10, 0, 100, 50.5)", "GRID => GRID(-180, -90, 180, 90, 36, 18, 'degrees')"
FENCES = "GEOFENCE(POINTS => TABLE cars, FENCES => TABLE areas, SHAPE => CIRCLE(lon, lat, r), OBJECT => DESCRIPTOR(car)"
SAME: dict[str, tuple[str, Flow]] = {
    "cover": (
        f"SELECT car, cell FROM TABLE(COVER(DATA => TABLE cars, SHAPE => POINT(x, y), {IN_PLANE}))",
        CARS.cover(PLANE, point("x", "y")).select("car", "cell"),
    ),
    "match_ranges": (
        (
            "SELECT m.car, m.area FROM TABLE(MATCH_RANGES(POINTS => TABLE cars, RANGES => TABLE areas, "
            f"SHAPE => POLYGON(wkt), {IN_PLANE}, ID => DESCRIPTOR(area), ACTION => DESCRIPTOR(action))) AS m"
        ),
        CARS.match_ranges(AREAS, polygon("wkt"), grid=PLANE, id="area", action="action").select("car", "area"),
    ),
    "geofence": (
        (
            f"SELECT * FROM TABLE({FENCES}, ID => DESCRIPTOR(area), {ON_GLOBE}, AT => POINT(x, y), "
            "DWELL => INTERVAL '15' SECOND))"
        ),
        CARS.geofence(AREAS, ROUND, object="car", id="area", grid=GLOBE, dwell_s=15),
    ),
    "events in windows": (
        (
            f"SELECT event, COUNT(*) AS n FROM TABLE({FENCES}, ID => DESCRIPTOR(area), {ON_GLOBE})) "
            "GROUP BY event, TUMBLE(happened, INTERVAL '1' MINUTE)"
        ),
        CARS.geofence(AREAS, ROUND, object="car", id="area", grid=GLOBE)
        .key_by("event")
        .window(tumbling(60))
        .aggregate(n=count())
        .select("event", "n"),
    ),
    "near": (
        (
            "SELECT car, area, distance FROM TABLE(NEAR(DATA => TABLE cars, OTHER => TABLE areas, WITHIN => 2.5, "
            f"BEFORE => INTERVAL '9' SECOND, AFTER => INTERVAL '0' SECOND, {ON_GLOBE}, OTHER_AT => POINT(lon, lat)))"
        ),
        CARS.near(AREAS, within=2.5, within_s=(-9, 0), grid=GLOBE, other_at=("lon", "lat")).select(
            "car", "area", "distance"
        ),
    ),
    "points_in": (
        (
            "SELECT area, car FROM TABLE(POINTS_IN(QUERIES => TABLE areas, POINTS => TABLE cars, "
            f"SHAPE => CIRCLE(lon, lat, r), LAST => INTERVAL '1' MINUTE, {IN_PLANE}))"
        ),
        AREAS.points_in(CARS, ROUND, last_s=60, grid=PLANE).select("area", "car"),
    ),
    "nearest": (
        (
            "SELECT area, car, rank FROM TABLE(NEAREST(QUERIES => TABLE areas, POINTS => TABLE cars, K => 2, "
            f"WITHIN => 5, LAST => INTERVAL '1' MINUTE, ID => DESCRIPTOR(area), {IN_PLANE}, "
            "AT => POINT(lon, lat), POINTS_AT => POINT(x, y)))"
        ),
        AREAS.nearest(
            CARS, 2, within=5, last_s=60, id="area", grid=PLANE, at=("lon", "lat"), points_at=("x", "y")
        ).select("area", "car", "rank"),
    ),
    "a condition on the distance": (
        "SELECT car FROM cars WHERE ST_DWithin(ST_Point(x, y), ST_Point(1, 2), 5)",
        CARS.filter(distance("x", "y", 1, 2) <= 5).select("car"),
    ),
}


@pytest.mark.parametrize("name", SAME)
def test_a_function_of_sql_is_the_operator_of_python(name: str) -> None:
    text, flow = SAME[name]
    (query,) = parse_script(f"INSERT INTO found {text}", streams=STREAMS).queries
    assert [operator.text for operator in query.operators] == [
        operator.text for operator in flow.sink("found").operators
    ]


COVER = "SELECT car FROM TABLE(COVER(DATA => TABLE cars, SHAPE => {}, GRID => GRID({})))"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param(
            COVER.format("SQUARE(x, y)", "0, 0, 1, 1"),
            "SHAPE of COVER must be POINT(x, y) or RECTANGLE(min_x, min_y, max_x, max_y) or CIRCLE(x, y, radius) or "
            "POLYGON(wkt) of columns; got 'SQUARE(x, y)'",
            id="an unknown shape",
        ),
        pytest.param(COVER.format("POINT(x, z)", "0, 0, 1, 1"), "unknown column 'z'", id="an unknown column"),
        pytest.param(
            COVER.format("POINT(x, y)", "0, 0, 1"),
            "must be GRID(min_x, min_y, max_x, max_y [, columns, rows [, 'degrees']]); got 'GRID(0, 0, 1)'",
            id="a grid without a side",
        ),
        pytest.param(COVER.format("POINT(x, y)", "0, 0, 1, 1, 2.5, 3"), "whole numbers", id="half a column"),
        pytest.param(
            COVER.format("POINT(x, y)", "0, 0, 1, 1, 2, 3, 'feet'"),
            "units of a space must be one of plane, degrees; got 'feet'",
            id="feet",
        ),
        pytest.param(
            "SELECT car FROM TABLE(COVER(DATA => TABLE cars, SHAPE => POINT(x, y)))",
            "COVER needs the arguments DATA, SHAPE, GRID, each as NAME => value, with DATA => TABLE t",
            id="no grid",
        ),
        pytest.param(
            f"SELECT car FROM TABLE({FENCES}, ID => area, {IN_PLANE}))",
            "ID of GEOFENCE must be DESCRIPTOR(column); got 'area'",
            id="a column without DESCRIPTOR",
        ),
        pytest.param(
            "SELECT car FROM cars WHERE ST_Distance(x, y) < 5",
            "write ST_Distance, ST_DistanceSphere or ST_DWithin of ST_Point(x, y) twice",
            id="a distance of numbers",
        ),
    ],
)
def test_what_has_no_meaning_is_refused(text: str, message: str) -> None:
    with pytest.raises(SqlError) as caught:
        parse_script(f"INSERT INTO found {text}", streams=STREAMS)
    assert message in str(caught.value)
