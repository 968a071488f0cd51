"""Shapes: which columns of a row say where it lies."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from shoal.errors import GraphError, did_you_mean

ShapeKind = Literal["point", "rectangle", "circle", "polygon"]
COLUMNS: Mapping[str, tuple[str, ...]] = {
    "point": ("x", "y"),
    "rectangle": ("min_x", "min_y", "max_x", "max_y"),
    "circle": ("x", "y", "radius"),
    "polygon": ("wkt",),
}
"""What the columns of each kind of shape are."""


@dataclass(frozen=True)
class Shape:
    """A kind of shape, and the columns that hold it, in the order of `COLUMNS`.

    Borders belong to the shape. A rectangle in degrees with min_x > max_x crosses the date line. The radius of a circle
    in degrees is in metres. A polygon is a WKT text: a POLYGON or a MULTIPOLYGON, which must not cross the date line.
    """

    kind: ShapeKind
    columns: tuple[str, ...]

    def __post_init__(self) -> None:
        """Reject an unknown kind, and a wrong number of columns."""
        if self.kind not in COLUMNS:
            raise GraphError(
                f"a shape must be one of {', '.join(COLUMNS)}; got {self.kind!r}{did_you_mean(self.kind, COLUMNS)}"
            )
        wanted = COLUMNS[self.kind]
        if len(self.columns) != len(wanted) or not all(isinstance(name, str) for name in self.columns):
            raise GraphError(
                f"a {self.kind} needs the columns {', '.join(wanted)}; got {', '.join(map(str, self.columns))}"
            )

    def data(self) -> list[str]:
        """The shape as plain data."""
        return [self.kind, *self.columns]

    @classmethod
    def from_data(cls, data: Any) -> "Shape":
        """The inverse of `data`."""
        if not isinstance(data, list | tuple) or not data:
            raise GraphError(f"a shape must be a list such as [circle, x, y, radius]; got {data!r}")
        return cls(data[0], tuple(data[1:]))


def point(x: str, y: str) -> Shape:
    """A point by its two columns."""
    return Shape("point", (x, y))


def rectangle(min_x: str, min_y: str, max_x: str, max_y: str) -> Shape:
    """A rectangle by the columns of its borders, which belong to it."""
    return Shape("rectangle", (min_x, min_y, max_x, max_y))


def circle(x: str, y: str, radius: str) -> Shape:
    """A circle by the columns of its centre and radius; in degrees the radius is in metres."""
    return Shape("circle", (x, y, radius))


def polygon(wkt: str) -> Shape:
    """A polygon, or several, by the column of its WKT text."""
    return Shape("polygon", (wkt,))
