"""Operators that go by place, row by row: cells, versions, and ranges that contain points.

Polygons are shapely's. Longitudes are compared by how far east one is of another.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import shapely
from tests.naive_expressions import Row, order_of, value_of
from tests.naive_windows import TIME, by_key

from shoal.model.query.graph import Operator

Box = tuple[float, float, float, float]
_TURN = 360.0
_EARTH_M = 6371008.8
_SLACK = 1e-12
"""Boxes of circles are larger than the circles by this, relative to the numbers they are made of."""


def cover(operator: Operator, rows: Sequence[Row]) -> list[Row]:
    """Every row with its cell, or once for each cell that its box overlaps."""
    parameters = operator.parameters
    grid, (kind, *names) = parameters["grid"], parameters["shape"]
    made: list[Row] = []
    for row in rows:
        values = [row[name] for name in names]
        if all(_located(value) for value in values):
            found = [_cell(grid, *values)] if kind == "point" else _cells(grid, _box(grid, kind, values))
            made += [{**row, parameters["column"]: cell} for cell in found]
    return made


def _located(value: Any) -> bool:
    return value is not None and not (isinstance(value, float) and math.isnan(value))


def _cell(grid: Mapping[str, Any], x: float, y: float) -> int:
    return _row(grid, y) * int(grid["cells"][0]) + _column(grid, x)


def _column(grid: Mapping[str, Any], x: float) -> int:
    least, _, most, _ = grid["space"]
    distance = _east(least, x) if grid["units"] == "degrees" else x - least
    return _part(distance / (most - least), grid["cells"][0])


def _row(grid: Mapping[str, Any], y: float) -> int:
    _, least, _, most = grid["space"]
    return _part((y - least) / (most - least), grid["cells"][1])


def _part(share: float, parts: int) -> int:
    return 0 if share < 0 else parts - 1 if share >= 1 else math.floor(share * parts)


def _east(west: float, x: float) -> float:
    """How many degrees x is east of a meridian."""
    return (x - west) % _TURN


def _cells(grid: Mapping[str, Any], box: Box) -> list[int]:
    """The cells that a box overlaps, in any order."""
    west, low, east, high = box
    if not low <= high:
        return []
    rows = range(_row(grid, low), _row(grid, high) + 1)
    if grid["units"] == "plane":
        columns = set(range(_column(grid, west), _column(grid, east) + 1)) if west <= east else set()
    else:
        columns = {_column(grid, x) for x in (west, east, *_borders(grid)) if _between(west, x, east)}
    return [row * int(grid["cells"][0]) + column for row in rows for column in columns]


def _borders(grid: Mapping[str, Any]) -> Iterator[float]:
    """Where each column begins, and where the space ends."""
    least, _, most, _ = grid["space"]
    columns = grid["cells"][0]
    return (least + number * (most - least) / columns for number in range(columns + 1))


def _between(west: float, x: float, east: float) -> bool:
    """Whether a longitude is met on the way east from one to another."""
    return east - west >= _TURN or _east(west, x) <= _east(west, east)


def _box(grid: Mapping[str, Any], kind: str, values: Sequence[Any]) -> Box:
    if kind == "polygon":
        least_x, least_y, most_x, most_y = shapely.from_wkt(values[0]).bounds
        return least_x, least_y, most_x, most_y
    if kind == "rectangle":
        return values[0], values[1], values[2], values[3]
    x, y, radius = values
    if grid["units"] == "plane":
        wide = radius + _SLACK * (abs(radius) + max(abs(x), abs(y)))
        return x - wide, y - wide, x + wide, y + wide
    aside, high = _extent(y, radius)
    return x - aside, max(y - high, -90), x + aside, min(y + high, 90)


def _extent(y: float, radius: float) -> tuple[float, float]:
    """How far a circle on the sphere reaches to the east, and to the north, in degrees."""
    high = math.degrees(radius / _EARTH_M) + _TURN * _SLACK
    if radius < 0:
        return 0, high
    if abs(y) + high >= 90:
        return _TURN / 2, high
    reach = math.degrees(math.asin(math.sin(radius / _EARTH_M) / math.cos(math.radians(y))))
    return reach * (1 + 1e-7) + _TURN * _SLACK, high


def contains(grid: Mapping[str, Any], kind: str, values: Sequence[Any], x: float, y: float) -> bool:
    """Whether a range contains a point, its borders included."""
    degrees = grid["units"] == "degrees"
    if kind == "rectangle":
        across = _between(values[0], x, values[2]) if degrees else values[0] <= x <= values[2]
        return bool(across and values[1] <= y <= values[3])
    if kind == "polygon":
        region = shapely.from_wkt(values[0])
        west = region.bounds[0]
        again = (west + _east(west, x), west + _east(west, x) + _TURN) if degrees else (x,)
        return any(region.covers(shapely.Point(each, y)) for each in again)
    center_x, center_y, radius = values
    if not degrees:
        return bool(radius >= 0 and math.hypot(x - center_x, y - center_y) <= radius)
    return bool(abs(y) <= 90 and _metres(center_x, center_y, x, y) <= radius)


def _metres(x: float, y: float, other_x: float, other_y: float) -> float:
    """The distance of two places, by the angle between their directions."""
    (a, b, c), (d, e, f) = _direction(x, y), _direction(other_x, other_y)
    across = math.hypot(b * f - c * e, c * d - a * f, a * e - b * d)
    return _EARTH_M * math.atan2(across, a * d + b * e + c * f)


def _direction(x: float, y: float) -> tuple[float, float, float]:
    u, v = math.radians(x), math.radians(y)
    return math.cos(v) * math.cos(u), math.cos(v) * math.sin(u), math.sin(v)


def versions(operator: Operator, rows: Sequence[Row]) -> list[Row]:
    """A row when a version begins, and another when it ends."""
    parameters = operator.parameters
    since, until = parameters["life"]
    made: list[Row] = []
    for of_key in by_key(rows, parameters["keys"]).values():
        current: Row | None = None
        for at, changes in sorted(by_key(of_key, (TIME,)).items()):
            if current is not None:
                made.append({**current, since: current[TIME], until: at[0], TIME: at[0]})
            current = _last_insert(changes, parameters)
            if current is not None:
                made.append({**current, since: current[TIME], until: None})
    return made


def _last_insert(changes: Sequence[Row], parameters: Mapping[str, Any]) -> Row | None:
    """Of the changes of one key and time, the last insert in the order of columns."""
    action, deleted = parameters["action"], parameters["deleted"]
    inserted = [row for row in changes if not action or row[action] != deleted]
    return max(inserted, key=lambda row: [order_of(row[name]) for name in parameters["types"]], default=None)


def match_ranges(operator: Operator, points: Sequence[Row], ranges: Sequence[Row]) -> list[Row]:
    """Every point with every range of its cell that contains it when it is there."""
    parameters = operator.parameters
    here, there = parameters["keys"]
    lives = list(_lives(ranges, parameters))
    made: list[Row] = []
    for point in points:
        for range_, since, until in lives:
            if point[here] == range_[there] and since <= point[TIME] < until and _inside(parameters, point, range_):
                made.append(_paired(parameters, point, range_))
    where = parameters["where"]
    return [row for row in made if where is None or value_of(where, row)]


def _lives(ranges: Sequence[Row], parameters: Mapping[str, Any]) -> Iterator[tuple[Row, int, float]]:
    """Every range with its beginning and its end."""
    if not parameters["life"]:
        yield from ((row, row[TIME], math.inf) for row in ranges)
        return
    since, until = parameters["life"]
    alike = [parameters["keys"][1], since, *parameters["id"]]
    ends = by_key([row for row in ranges if row[until] is not None], alike)
    for row in ranges:
        if row[until] is None:
            over = ends.get(tuple(row[name] for name in alike), ())
            yield row, row[since], min((end[until] for end in over), default=math.inf)


def _inside(parameters: Mapping[str, Any], point: Row, range_: Row) -> bool:
    kind, *names = parameters["shape"]
    x, y = (point[name] for name in parameters["point"])
    return contains(parameters["grid"], kind, [range_[name] for name in names], x, y)


def _paired(parameters: Mapping[str, Any], point: Row, range_: Row) -> Row:
    ours, theirs = parameters["columns"]
    row = {name: point[column] for name, column in ours.items()}
    return {**row, **{name: range_[column] for name, column in theirs.items()}, TIME: point[TIME]}


def geofence(operator: Operator, rows: Sequence[Row]) -> list[Row]:
    """Objects that enter, dwell in and leave fences, one time after another."""
    keys, fence, dwell_us = (operator.parameters[name] for name in ("keys", "fence", "dwell_us"))
    made: list[Row] = []
    for key, of_key in by_key(rows, keys).items():
        entered: dict[Any, int] = {}
        dwelt: set[Any] = set()

        def add(inside: Any, event: str, at: int, since: int, key: tuple[Any, ...] = key) -> None:
            of_object = dict(zip(keys, key, strict=True))
            made.append({**of_object, fence: inside, "event": event, "happened": at, "entered": since, TIME: at})

        for (at,), together in sorted(by_key(of_key, (TIME,)).items()):
            inside = {row[fence] for row in together} - {None}
            for left in entered.keys() - inside:
                add(left, "leave", at, entered.pop(left))
                dwelt.discard(left)
            for one in inside - entered.keys():
                entered[one] = at
                add(one, "enter", at, at)
            for one in inside - dwelt:
                if dwell_us is not None and at - entered[one] >= dwell_us:
                    dwelt.add(one)
                    add(one, "dwell", at, entered[one])
    return made
