"""Shapes of ranges in columns, and which points they contain.

Every range has a bounding box: min_x, min_y, max_x, max_y. The box of a rectangle is the rectangle itself. A circle has
three numbers more (x, y, radius), a polygon the coordinates of its rings.

- Borders belong to the range: those of rectangles, circles and polygons, and those of the holes of a polygon.
- A polygon is one list x, y, x, y, ... Each ring ends where it began, and a pair of NaN divides rings. A point is
  inside if a ray from it crosses the rings an odd number of times, so that holes and islands are rings like any other.
- In degrees x is the longitude and y the latitude. Radii and distances are metres along a great circle. Edges of
  polygons are straight lines in longitude and latitude. A box with min_x > max_x crosses the date line; the longitudes
  of a polygon in such a box continue beyond 180.
- NaN lies nowhere and contains nothing. So does a latitude beyond a pole; a polygon that has one is rejected.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from shoal.kernels.compiled import compiled

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Kinds = NDArray[np.uint8]
Parts = tuple[float, float]
"""A number as the sum of two doubles: its rounded value, and the rest."""
RECTANGLE, CIRCLE, POLYGON = 0, 1, 2
EARTH_RADIUS_M = 6371008.8
"""Mean radius of the earth."""
POLE = 90.0
"""The largest latitude."""
_SLACK = 1e-12
"""Relative width by which boxes of circles are larger, so that rounding leaves no point of a circle outside its box."""
_SPLITTER = 134217729.0
_CERTAIN = 3.3306690738754716e-16
"""Relative error below which the sign of a determinant of doubles is certain: (3 + 16 e) e, e = 2^-53."""


@dataclass(frozen=True)
class Shapes:
    """Ranges in columns: kind, box, and the numbers of range i in `numbers[starts[i] : starts[i + 1]]`."""

    kind: Kinds
    box: Floats
    starts: Ints
    numbers: Floats
    degrees: bool = False

    @classmethod
    def rectangles(cls, box: Floats, *, degrees: bool = False) -> "Shapes":
        """Rectangles that equal their boxes, an array of four columns."""
        count = len(box)
        nothing = np.zeros(count + 1, np.int64)
        return cls(np.full(count, RECTANGLE, np.uint8), _rows_of_four(box), nothing, np.zeros(0), degrees)

    @classmethod
    def circles(cls, x: Floats, y: Floats, radius: Floats, *, degrees: bool = False) -> "Shapes":
        """Circles around points; in degrees the radius is in metres.

        >>> Shapes.circles(np.array([5.0]), np.array([5.0]), np.array([1.0])).box.round(6).tolist()
        [[4.0, 4.0, 6.0, 6.0]]
        """
        numbers = np.column_stack([x, y, radius]).astype(np.float64).reshape(-1)
        box = circle_boxes(x, y, radius, degrees=degrees)
        return cls(np.full(len(box), CIRCLE, np.uint8), box, np.arange(len(box) + 1) * 3, numbers, degrees)

    @classmethod
    def polygons(cls, coordinates: Sequence[Floats], *, degrees: bool = False) -> "Shapes":
        """Polygons with the given coordinates: closed rings, divided by a pair of NaN."""
        starts = np.cumsum([0, *(len(each) for each in coordinates)], dtype=np.int64)
        numbers = np.concatenate([np.zeros(0), *coordinates])
        box = polygon_boxes(starts, numbers, degrees=degrees)
        return cls(np.full(len(box), POLYGON, np.uint8), box, starts, numbers, degrees)

    @classmethod
    def of_lists(cls, box: Floats, lists: pa.ListArray, *, degrees: bool = False) -> "Shapes":
        """Ranges with a list of numbers each: none for a rectangle, three for a circle, more for a polygon."""
        starts = lists.offsets.to_numpy().astype(np.int64)
        sizes = np.diff(starts)
        kind = np.where(sizes == 0, RECTANGLE, np.where(sizes == 3, CIRCLE, POLYGON)).astype(np.uint8)
        return cls(kind, _rows_of_four(box), starts, lists.values.to_numpy(zero_copy_only=False), degrees)

    def lists(self) -> pa.ListArray:
        """The numbers of all ranges, a list for each: the inverse of `of_lists`."""
        return pa.ListArray.from_arrays(pa.array(self.starts, pa.int32()), pa.array(self.numbers))

    def __len__(self) -> int:
        """Number of ranges."""
        return len(self.kind)

    def contain(self, x: Floats, y: Floats, points: Ints, ranges: Ints) -> NDArray[np.bool_]:
        """Whether range `ranges[i]` contains the point in row `points[i]` of the coordinates, for each i.

        >>> shapes = Shapes.rectangles(np.array([[0.0, 0.0, 2.0, 1.0]]))
        >>> shapes.contain(np.array([2.0, 3.0]), np.array([1.0, 1.0]), np.array([0, 1]), np.array([0, 0])).tolist()
        [True, False]
        """
        inside = np.empty(points.size, np.bool_)
        columns = read_only(self.kind, self.box, self.starts, self.numbers, x, y, points, ranges)
        _contain(self.degrees, inside, *columns)
        return inside


def read_only(*arrays: NDArray[Any]) -> list[NDArray[Any]]:
    """Views that cannot be written, so that a loop is compiled once for arrays of Arrow and of NumPy."""
    views = [np.ascontiguousarray(array).view() for array in arrays]
    for view in views:
        view.flags.writeable = False
    return views


@np.errstate(over="ignore", invalid="ignore")
def circle_boxes(x: Floats, y: Floats, radius: Floats, *, degrees: bool = False) -> Floats:
    """Boxes around circles; in degrees one that has a pole inside has all longitudes.

    One around a latitude beyond a pole is nowhere: its box has NaN.

    >>> circle_boxes(np.array([179.5]), np.array([0.0]), np.array([111195.1]), degrees=True).round(3).tolist()
    [[178.5, -1.0, -179.5, 1.0]]
    """
    x, y, radius = (np.asarray(column, np.float64) for column in (x, y, radius))
    if not degrees:
        wide = radius + _SLACK * (np.abs(radius) + np.maximum(np.abs(x), np.abs(y)))
        return np.column_stack([x - wide, y - wide, x + wide, y + wide])
    angle = radius / EARTH_RADIUS_M
    high = np.degrees(angle) + 360 * _SLACK
    ratio = np.sin(np.minimum(angle, math.pi / 2)) / np.maximum(np.cos(np.radians(y)), 1e-300)
    everywhere = (np.abs(y) + high >= 90) | (ratio >= 1)
    aside = np.degrees(np.arcsin(np.clip(ratio, -1, 1))) * (1 + 1e-7) + 360 * _SLACK
    low_x, high_x = x - aside, x + aside
    west, east = np.where(low_x < -180, low_x + 360, low_x), np.where(high_x > 180, high_x - 360, high_x)
    everywhere |= 2 * aside >= 360
    west, east = np.where(everywhere, -180.0, west), np.where(everywhere, 180.0, east)
    low = np.where(np.abs(y) > POLE, np.nan, np.maximum(y - high, -POLE))
    return np.column_stack([west, low, east, np.minimum(y + high, POLE)])


def polygon_boxes(starts: Ints, numbers: Floats, *, degrees: bool = False) -> Floats:
    """Boxes around polygons; in degrees one with longitudes beyond 180 crosses the date line."""
    box = np.full((len(starts) - 1, 4), np.nan)
    for i, (first, last) in enumerate(zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True)):
        if last > first:
            x, y = numbers[first:last:2], numbers[first + 1 : last : 2]
            box[i] = np.nanmin(x), np.nanmin(y), np.nanmax(x), np.nanmax(y)
    if degrees:
        everywhere = box[:, 2] - box[:, 0] >= 360
        box[:, 2] = np.where(box[:, 2] > 180, box[:, 2] - 360, box[:, 2])
        box[everywhere, 0], box[everywhere, 2] = -180, 180
    return box


def _rows_of_four(box: Floats) -> Floats:
    return np.ascontiguousarray(box, np.float64).reshape(-1, 4)


@compiled
def in_box(min_x: float, min_y: float, max_x: float, max_y: float, degrees: bool, x: float, y: float) -> bool:
    """Whether a point lies in a box, its borders included."""
    if not min_y <= y <= max_y:
        return False
    if degrees and min_x > max_x:
        return x >= min_x or x <= max_x
    return min_x <= x <= max_x


@compiled
def haversine_m(x: float, y: float, other_x: float, other_y: float) -> float:
    """Metres between two points in degrees, along a great circle."""
    latitude, other_latitude = math.radians(y), math.radians(other_y)
    up = math.sin((other_latitude - latitude) / 2)
    aside = math.sin(math.radians(other_x - x) / 2)
    square = up * up + math.cos(latitude) * math.cos(other_latitude) * aside * aside
    return 2 * EARTH_RADIUS_M * math.asin(min(1.0, math.sqrt(square)))


@compiled
def in_circle(center_x: float, center_y: float, radius: float, degrees: bool, x: float, y: float) -> bool:
    """Whether a point lies within a radius of another."""
    if degrees:
        return haversine_m(center_x, center_y, x, y) <= radius
    across, up, square = x - center_x, y - center_y, radius * radius
    if 1e-290 < square < math.inf:
        return radius > 0 and across * across + up * up <= square
    return math.hypot(across, up) <= radius  # the squares of such numbers have too few digits, or none


@compiled
def in_rings(numbers: Floats, first: int, last: int, x: float, y: float) -> bool:
    """Whether a point lies in the rings of a polygon, `numbers[first:last]`, or on one of them.

    Counts the edges that a ray to the right crosses. An edge contains its lower end and not its upper one, so that a
    ray through a corner crosses one of two edges that go on in the same direction, and both or neither at a peak.
    """
    inside = False
    for i in range(first + 2, last, 2):
        x1, y1, x2, y2 = numbers[i - 2], numbers[i - 1], numbers[i], numbers[i + 1]
        if math.isnan(x1) or math.isnan(x2) or (x1 < x and x2 < x):
            continue
        if x2 == x and y2 == y:
            return True
        if y1 == y and y2 == y:
            if min(x1, x2) <= x <= max(x1, x2):
                return True
        elif (y1 > y) != (y2 > y):
            side = _side(x1, y1, x2, y2, x, y)
            if side == 0:
                return True
            if (side > 0) == (y2 > y1):
                inside = not inside
    return inside


@compiled
def _side(x1: float, y1: float, x2: float, y2: float, x: float, y: float) -> int:
    """1 if a point is left of the line from one point to another, -1 if right, 0 if on it.

    The determinant of rounded differences has a certain sign unless it is tiny; then it is computed without rounding.
    """
    left, right = (x1 - x) * (y2 - y), (y1 - y) * (x2 - x)
    found = left - right
    if abs(found) <= _CERTAIN * (abs(left) + abs(right)):
        found = _exact_sign(_subtracted(x1, x), _subtracted(y2, y), _subtracted(y1, y), _subtracted(x2, x))
    return 1 if found > 0 else (-1 if found < 0 else 0)


@compiled
def _exact_sign(a: Parts, b: Parts, c: Parts, d: Parts) -> float:
    """A number with the sign of a b - c d, where each factor is the sum of two doubles.

    The eight products are sums of two doubles too. All are added to a sum of doubles that do not overlap, the smallest
    first, as Shewchuk's "grow expansion" does: the last that is not zero has the sign.
    """
    parts = np.zeros(16)
    size = 0
    for i in range(2):
        for j in range(2):
            for sign, (high, low) in ((1.0, _multiplied(a[i], b[j])), (-1.0, _multiplied(c[i], d[j]))):
                size = _grown(parts, size, sign * low)
                size = _grown(parts, size, sign * high)
    for i in range(size - 1, -1, -1):
        if parts[i] != 0:
            return parts[i]
    return 0.0


@compiled
def _grown(parts: Floats, size: int, value: float) -> int:
    for i in range(size):
        total = value + parts[i]
        part = total - value
        parts[i] = (value - (total - part)) + (parts[i] - part)
        value = total
    parts[size] = value
    return size + 1


@compiled
def _subtracted(a: float, b: float) -> Parts:
    """A difference, and its rounding error."""
    difference = a - b
    part = difference - a
    return difference, (a - (difference - part)) - (b + part)


@compiled
def _multiplied(a: float, b: float) -> Parts:
    """A product, and its rounding error: both factors are split into halves of 26 digits."""
    product = a * b
    a_scaled, b_scaled = _SPLITTER * a, _SPLITTER * b
    a_high, b_high = a_scaled - (a_scaled - a), b_scaled - (b_scaled - b)
    a_low, b_low = a - a_high, b - b_high
    return product, ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low


@compiled
def _contain(
    degrees: bool,
    inside: NDArray[np.bool_],
    kind: Kinds,
    box: Floats,
    starts: Ints,
    numbers: Floats,
    x: Floats,
    y: Floats,
    points: Ints,
    ranges: Ints,
) -> None:
    for i in range(points.size):
        across, up, j = x[points[i]], y[points[i]], ranges[i]
        first, last = starts[j], starts[j + 1]
        found = in_box(box[j, 0], box[j, 1], box[j, 2], box[j, 3], degrees, across, up)
        if found and kind[j] == CIRCLE:
            found = in_circle(numbers[first], numbers[first + 1], numbers[first + 2], degrees, across, up)
        elif found and kind[j] == POLYGON:
            if degrees and box[j, 0] > box[j, 2] and across < box[j, 0]:
                across += 360
            found = in_rings(numbers, first, last, across, up)
            if degrees and not found and box[j, 2] - box[j, 0] >= 360:  # it goes once around, from any longitude on
                found = in_rings(numbers, first, last, across + 360, up)
        inside[i] = found
