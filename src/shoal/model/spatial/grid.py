"""Grids: a space divided into columns and rows of cells, which are the keys of spatial operators."""

from dataclasses import dataclass
from math import isfinite
from numbers import Real
from typing import Any, Literal, get_args

from shoal.errors import GraphError
from shoal.model.spatial.tiles import check_grid

Units = Literal["plane", "degrees"]
UNITS: tuple[Units, ...] = get_args(Units)
WORLD = (-180.0, -90.0, 180.0, 90.0)
TURN = 360.0
"""Degrees of longitude once around."""
CELLS = 100
"""Columns and rows of a grid unless the user says otherwise."""
Space = tuple[float, float, float, float]


@dataclass(frozen=True)
class Grid:
    """A space (min_x, min_y, max_x, max_y) in columns and rows; what lies outside of it is in the cells at its border.

    In `degrees`, x is a longitude and y a latitude: the space must not be wider than once around, x is taken modulo
    360, and distances are metres on a sphere. In the `plane`, distances have the unit of the coordinates.
    """

    space: Space
    columns: int = CELLS
    rows: int = CELLS
    units: Units = "plane"

    def __post_init__(self) -> None:
        """Reject a space without extent, and cells that cannot be."""
        if self.units not in UNITS:
            raise GraphError(f"units of a space must be one of {', '.join(UNITS)}; got {self.units!r}")
        if not all(isinstance(each, Real) and isfinite(each) for each in self.space):
            raise GraphError(f"a space must be (min_x, min_y, max_x, max_y) in finite numbers; got {self.space!r}")
        least_x, least_y, most_x, most_y = self.space
        if not (least_x < most_x and least_y < most_y):
            raise GraphError(f"a space must have min_x < max_x and min_y < max_y; got {self.space}")
        if self.units == "degrees" and (most_x - least_x > TURN or least_y < -90 or most_y > 90):
            raise GraphError(
                f"a space in degrees must be at most {TURN:g} wide and between -90 and 90 high; got {self.space}"
            )
        check_grid(self.columns, self.rows)

    @property
    def cells(self) -> int:
        """The number of cells."""
        return self.columns * self.rows

    def data(self) -> dict[str, Any]:
        """The grid as plain data."""
        return {"space": list(self.space), "cells": [self.columns, self.rows], "units": self.units}

    @classmethod
    def from_data(cls, data: Any) -> "Grid":
        """The inverse of `data`; cells and units may be left out."""
        space = tuple(float(each) if isinstance(each, Real) else each for each in data["space"])
        if len(space) != 4:
            raise GraphError(f"a space must be (min_x, min_y, max_x, max_y); got {data['space']}")
        columns, rows = data.get("cells", (CELLS, CELLS))
        return cls(space, columns, rows, data.get("units", "plane"))
