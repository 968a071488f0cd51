"""Points near others, in ranges of queries, and nearest to them: every runtime finds what brute force finds."""

import math
import random
from collections.abc import Iterable
from typing import Any

import pyarrow as pa
import pytest
from tests.runtimes.local.row_source import RowSource
from tests.small_city import result_tables

from shoal.errors import GraphError
from shoal.kernels.columns.block import arrow_schema
from shoal.language.python.containment import cell_borders, cell_center
from shoal.language.python.flow import Flow
from shoal.language.python.stream import Stream
from shoal.model.query.expression import col
from shoal.model.query.functions import call
from shoal.model.query.schema import Schema
from shoal.model.spatial.grid import WORLD, Grid
from shoal.model.spatial.shape import circle, point, polygon, rectangle
from shoal.session.digest import differences
from shoal.session.job import Job
from shoal.session.run import start

Row = dict[str, Any]
CAR = {"ts": "timestamp", "car": "int64", "x": "float64", "y": "float64"}
ASK = {"ts": "timestamp", "ask": "int64", "x": "float64", "y": "float64", "r": "float64"}
ASK |= dict.fromkeys(("x0", "y0", "x1", "y1"), "float64") | {"wkt": "string"}
CARS, ASKS = Stream("cars", CAR, time="ts"), Stream("asks", ASK, time="ts")
PLANE = Grid((0.0, 0.0, 100.0, 100.0), 7, 5)
DEGREES = Grid(WORLD, 36, 18, "degrees")
SECOND = 1_000_000
RUNTIMES = [
    pytest.param("reference", PLANE, id="reference"),
    pytest.param("reference", DEGREES, id="reference in degrees"),
    pytest.param("local", DEGREES, id="local"),
    pytest.param("spark", DEGREES, id="spark", marks=pytest.mark.slow),
]


def haversine(a: Row, b: Row) -> float:
    latitude, other = math.radians(a["y"]), math.radians(b["y"])
    up, aside = math.sin((other - latitude) / 2), math.sin(math.radians(b["x"] - a["x"]) / 2)
    return 2 * 6371008.8 * math.asin(min(1.0, math.sqrt(up**2 + math.cos(latitude) * math.cos(other) * aside**2)))


def apart(grid: Grid, a: Row, b: Row) -> float:
    return haversine(a, b) if grid.units == "degrees" else math.dist((a["x"], a["y"]), (b["x"], b["y"]))


def reach(grid: Grid) -> float:
    return 2_000_000.0 if grid.units == "degrees" else 9.0


def rows(grid: Grid, count: int, seed: int) -> tuple[list[Row], list[Row]]:
    """Cars and questions, some of them near the date line, the poles, and outside of the space."""
    draw = random.Random(seed)
    cars, asks = [], []
    for i in range(count):
        x, y = draw.uniform(-5, 105), draw.uniform(-5, 105)
        if grid.units == "degrees":
            x, y = draw.choice([draw.uniform(-180, 180), draw.uniform(170, 190)]), draw.choice([90, 60, 10]) - x % 3
        cars.append({"ts": i * SECOND, "car": draw.randrange(9), "x": x, "y": y})
        side = draw.choice([4, 40])
        box = {"x0": x - side, "y0": y - 5, "x1": x + side, "y1": min(y + 5, 90)}
        wkt = "POLYGON (({0} {1}, {2} {1}, {0} {3}, {0} {1}))".format(*(round(each, 3) for each in box.values()))
        asks.append({"ts": i * SECOND, "ask": i, "x": x + 1, "y": y, "r": reach(grid), **box, "wkt": wkt})
    return cars, asks


def found(flow: Flow, sources: tuple[list[Row], list[Row]], on: str) -> dict[str, pa.Table]:
    streams = {operator.parameters["stream"] for operator in flow.operators if operator.kind == "source"}
    given = {
        name: RowSource(each, arrow_schema(Schema.of(schema)), 20)
        for name, each, schema in (("cars", sources[0], CAR), ("asks", sources[1], ASK))
        if name in streams
    }
    run = start(Job.of("near", [flow.sink("found")], given), on=on, workers=2, policy="round-robin")
    run.wait()
    return result_tables(run)


def table(names: Iterable[str], pairs: Iterable[tuple[Any, ...]]) -> dict[str, pa.Table]:
    names = list(names)
    data = [{"query": "found", **dict(zip(names, pair, strict=True))} for pair in pairs]
    return {"found": pa.Table.from_pylist(data, pa.schema([("query", pa.string()), *((n, pa.int64()) for n in names)]))}


@pytest.mark.parametrize(("on", "grid"), RUNTIMES)
def test_near_finds_every_pair_once(on: str, grid: Grid) -> None:
    cars, asks = rows(grid, 120, seed=1)
    flow = ASKS.near(CARS, within=reach(grid), within_s=(-20, 5), grid=grid, groups=3).select("ask", "car")
    expected = [
        (ask["ask"], car["car"])
        for ask in asks
        for car in cars
        if -20 * SECOND <= car["ts"] - ask["ts"] <= 5 * SECOND and apart(grid, ask, car) <= reach(grid)
    ]
    assert len(expected) > 120
    assert differences(found(flow, (cars, asks), on), table(["ask", "car"], expected)) == []


def test_a_flow_with_itself_has_each_pair_of_two_cars_once() -> None:
    cars, asks = rows(PLANE, 150, seed=2)
    pairs = CARS.near(
        CARS, within=15, within_s=(-9, 9), grid=PLANE, where=col("car") < col("car_right"), column="metres"
    )
    expected = [
        (a["car"], b["car"], round(apart(PLANE, a, b) * 1000))
        for a in cars
        for b in cars
        if a["car"] < b["car"] and abs(a["ts"] - b["ts"]) <= 9 * SECOND and apart(PLANE, a, b) <= 15
    ]
    got = found(pairs, (cars, asks), "reference")["found"].to_pylist()
    assert sorted((row["car"], row["car_right"], round(row["metres"] * 1000)) for row in got) == sorted(expected)


SHAPES = [rectangle("x0", "y0", "x1", "y1"), circle("x", "y", "r"), polygon("wkt")]


@pytest.mark.parametrize("grid", [PLANE, DEGREES], ids=["plane", "degrees"])
@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.kind)
def test_a_query_gets_the_recent_points_that_a_standing_range_would_get(grid: Grid, shape: Any) -> None:
    """Points of the last 10 s are those of a range that began with the question, if time runs backwards."""
    cars, asks = rows(grid, 80, seed=3)
    if shape.kind == "polygon" and grid.units == "degrees":
        asks = [ask for ask in asks if ask["x0"] >= -180 and ask["x1"] < 180]
    flow = ASKS.points_in(CARS, shape, last_s=10, grid=grid).select("ask", "car")
    got = found(flow, (cars, asks), "reference")
    ends = 10**9 * SECOND
    later = [{**car, "ts": ends - car["ts"]} for car in reversed(cars)]
    begun = [{**ask, "ts": ends - ask["ts"]} for ask in reversed(asks)]
    both = CARS.match_ranges(ASKS, shape, grid=grid)
    recent = both.filter(call("as_int64", "ts") - call("as_int64", "ts_range") <= 10 * SECOND).select("ask", "car")
    wanted = found(recent, (later, begun), "reference")
    assert got["found"].num_rows > 20
    assert differences(got, wanted) == []


@pytest.mark.parametrize("grid", [PLANE, DEGREES], ids=["plane", "degrees"])
def test_nearest_are_the_first_of_all_by_distance(grid: Grid) -> None:
    cars, asks = rows(grid, 120, seed=4)
    flow = ASKS.nearest(CARS, 3, within=reach(grid), last_s=30, id="ask", grid=grid).select("ask", "car", "rank")
    expected = []
    for ask in asks:
        close = [car for car in cars if 0 <= ask["ts"] - car["ts"] <= 30 * SECOND]
        ranked = sorted((apart(grid, ask, car), car["car"]) for car in close if apart(grid, ask, car) <= reach(grid))
        expected += [(ask["ask"], car, rank) for rank, (_, car) in enumerate(ranked[:3], 1)]
    assert len(expected) > 120
    assert differences(found(flow, (cars, asks), "reference"), table(["ask", "car", "rank"], expected)) == []


def test_a_point_lies_within_the_borders_of_its_cell() -> None:
    drawn, _ = rows(PLANE, 100, seed=5)
    cars = [car for car in drawn if max(abs(car["x"] - 50), abs(car["y"] - 50)) <= 50]
    borders = CARS.cover(PLANE, point("x", "y")).with_columns(**cell_borders(PLANE))
    center = {f"center_{name}": each for name, each in cell_center(PLANE).items()}
    for row in found(borders.with_columns(**center), (cars, []), "reference")["found"].to_pylist():
        assert row["min_x"] <= row["x"] <= row["max_x"]
        assert row["min_y"] <= row["y"] <= row["max_y"]
        assert row["center_x"] == pytest.approx((row["min_x"] + row["max_x"]) / 2)
        assert row["center_y"] == pytest.approx((row["min_y"] + row["max_y"]) / 2)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        pytest.param(
            lambda: CARS.near(ASKS, within=-1, within_s=(0, 0), grid=PLANE),
            "near on stream 'cars' needs a distance that is a number of at least 0; got within=-1",
            id="a negative distance",
        ),
        pytest.param(
            lambda: CARS.near(ASKS, within=1, within_s=(0, 0), grid=PLANE, column="car"),
            "near on stream 'cars' adds a column 'car', which is there already; choose another with column=",
            id="a column that is there",
        ),
        pytest.param(
            lambda: ASKS.points_in(CARS, point("x", "y"), last_s=1, grid=PLANE),
            "points_in on stream 'asks' needs a shape of ranges: rectangle, circle or polygon; got "
            "Shape(kind='point', columns=('x', 'y'))",
            id="a point as a range",
        ),
        pytest.param(
            lambda: CARS.near(ASKS, within=1, within_s=(0, 0), grid=None),  # type: ignore[arg-type]
            "near on stream 'cars' needs a Grid such as Grid((0, 0, 100, 100)); got None",
            id="no grid",
        ),
    ],
)
def test_what_cannot_be_is_rejected(make: Any, message: str) -> None:
    with pytest.raises(GraphError) as caught:
        make()
    assert str(caught.value) == message
