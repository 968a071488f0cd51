"""Operators of random graphs that go by place: cells, versions, and points in ranges.

Places lie on a coarse grid, so that many are on borders and no rounding shows; some are far outside of the space, and
those in degrees are often at the date line or a pole.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

from hypothesis import strategies as st
from tests.random_branches import MOST_ROWS, Branch, Unfit, fresh
from tests.random_expressions import TEXTS, Draw, condition, names_of, quarters

from shoal.errors import GraphError
from shoal.language.python.flow import KEY_TYPES, Flow
from shoal.model.query.expression import Expression, col
from shoal.model.query.functions import if_
from shoal.model.query.lookup import lookup
from shoal.model.spatial.grid import WORLD, Grid
from shoal.model.spatial.shape import COLUMNS, Shape, ShapeKind

_GRIDS = (
    Grid((-2.0, -2.0, 2.0, 2.0), 4, 4),
    Grid((-4.0, -1.0, 4.0, 1.0), 8, 1),
    Grid(WORLD, 8, 4, "degrees"),
    Grid((0.0, -90.0, 360.0, 90.0), 4, 2, "degrees"),
    Grid((-90.0, -45.0, 90.0, 45.0), 4, 4, "degrees"),
)
_SCALES: Mapping[str, tuple[float, float]] = {"plane": (1.0, 1.0), "degrees": (45.0, 22.5)}
"""What columns are multiplied by, so that they reach the borders of the space."""
_FAR: Mapping[str, Sequence[float]] = {"plane": (1e300, -1e300, 1e9), "degrees": (720.0, -36_000.25, 90.0)}
_POLYGONS: Mapping[str, Sequence[str]] = {
    "plane": (
        "POLYGON ((-2 -2, 2 -2, 2 2, -2 2, -2 -2), (-1 -1, 1 -1, 1 1, -1 1, -1 -1))",
        "MULTIPOLYGON (((0 0, 4 0, 0 4, 0 0)), ((-4 -4, -3 -4, -3 -3, -4 -4)))",
        "POLYGON ((-9 0, 0 -1, 9 0, 0 1, -9 0))",
    ),
    "degrees": (
        "POLYGON ((170 -30, 200 -30, 200 30, 170 30, 170 -30))",
        "POLYGON ((-180 -90, 180 -90, 180 -45, -180 -45, -180 -90))",
        "POLYGON ((-45 0, 45 0, 0 90, -45 0))",
        "POLYGON ((190 -45, 270 -45, 270 45, 190 45, 190 -45))",
        "POLYGON ((0 0, 360 0, 360 45, 0 45, 0 0))",
    ),
}
_RADII_M = (0.0, -5.0, 300_000.5, 4_000_000.5, 12_000_000.5, 30_000_000.0)


@dataclass(frozen=True)
class Located:
    """A branch with the columns of a shape."""

    branch: Branch
    shape: Shape


def covered(draw: Draw, branch: Branch) -> Branch:
    """The cells of points or ranges."""
    grid = draw(st.sampled_from(_GRIDS))
    found = _located(draw, branch, grid, draw(st.sampled_from(sorted(COLUMNS))))
    most = branch.rows * (1 if found.shape.kind == "point" else grid.cells)
    if most > MOST_ROWS:
        raise Unfit
    flow = found.branch.flow.cover(grid, found.shape, column=fresh("cell", found.branch.types))
    return found.branch.then(flow, rows=most, due=branch.due)


def versioned(draw: Draw, branch: Branch) -> Branch:
    """The lives of rows by key."""
    branch = branch.hardened()
    flow = branch.keyed(draw, least=1)
    since, until = fresh("since", branch.types), fresh("until", branch.types)
    return branch.then(flow.versions(**_actions(draw, branch), since=since, until=until), rows=2 * branch.rows)


def in_ranges(draw: Draw, points: Branch, ranges: Branch) -> Branch:
    """Points with the ranges that contain them; ranges may have versions."""
    most = points.rows * ranges.rows
    if most > MOST_ROWS:
        raise Unfit
    grid = draw(st.sampled_from(_GRIDS))
    ids = [name for name, type_ in ranges.hard.items() if type_ in KEY_TYPES]
    id_ = draw(st.sampled_from([None, *ids]))
    ours = _located(draw, points, grid, "point")
    kind = draw(st.sampled_from([kind for kind in COLUMNS if kind != "point"]))
    theirs = _located(draw, ranges if id_ is None else ranges.hardened(), grid, kind)
    terms: dict[str, Any] = {"grid": grid, "at": ours.shape.columns, "id": id_}
    terms |= {} if id_ is None else _actions(draw, theirs.branch)
    terms["partitions"] = draw(st.sampled_from([1, 2, 5]))
    flow = _with_suffix(ours, theirs, terms)
    if draw(st.booleans()):
        flow = _with_suffix(ours, theirs, {**terms, "where": condition(draw, Branch(flow, 0).hard, 1)})
    return points.then(flow, rows=most, due=points.due)


def _actions(draw: Draw, branch: Branch) -> dict[str, Any]:
    texts = names_of(branch.hard, "string")
    if not texts or draw(st.booleans()):
        return {}
    return {"action": draw(st.sampled_from(texts)), "deleted": draw(st.sampled_from(TEXTS))}


def _located(draw: Draw, branch: Branch, grid: Grid, kind: ShapeKind) -> Located:
    """A branch with a shape made of its columns; rows without a number lie nowhere."""
    made: list[Expression]
    if kind == "polygon":
        made = [_text(draw, branch, grid)]
    elif kind == "rectangle":
        corner = _place(draw, branch, grid)
        sizes = [draw(quarters(-1, 4)) * scale for scale in _SCALES[grid.units]]
        made = [*corner, *(least + size for least, size in zip(corner, sizes, strict=True))]
    else:
        made = _place(draw, branch, grid)
        if kind == "circle":
            radii = _RADII_M if grid.units == "degrees" else (0.0, -1.0, 0.5, 2.0, 1.25, 1e300)
            made.append(if_(made[0] > 0, draw(st.sampled_from(radii)), draw(st.sampled_from(radii))))
    names: list[str] = []
    for _ in made:
        names.append(fresh("place", (*branch.types, *names)))
    flow = branch.flow.with_columns(**dict(zip(names, made, strict=True)))
    return Located(branch.then(flow, due=branch.due), Shape(kind, tuple(names)))


def _place(draw: Draw, branch: Branch, grid: Grid) -> list[Expression]:
    """Two coordinates; those above a bound are far away."""
    numbers = names_of(branch.hard, "int64", "float64")
    if not numbers:
        raise Unfit
    made: list[Expression] = []
    for scale in _SCALES[grid.units]:
        name = draw(st.sampled_from(numbers))
        value = col(name) * scale
        if not draw(st.integers(0, 3)):
            value = if_(col(name) > 2, draw(st.sampled_from(_FAR[grid.units])), value)
        made.append(value)
    return made


def _text(draw: Draw, branch: Branch, grid: Grid) -> Expression:
    """A polygon for each value of a column."""
    columns = names_of(branch.hard, "int64", "string")
    if not columns:
        raise Unfit
    name, texts = draw(st.sampled_from(columns)), st.sampled_from(_POLYGONS[grid.units])
    keys = range(4) if branch.types[name] == "int64" else TEXTS
    return lookup(name, {key: draw(texts) for key in keys}, draw(texts))


def _with_suffix(points: Located, ranges: Located, terms: dict[str, Any]) -> Flow:
    """The points in ranges with the first suffix that makes all names different."""
    for number in count(1):
        try:
            return points.branch.flow.match_ranges(
                ranges.branch.flow, ranges.shape, **terms, suffix="_range" if number == 1 else f"_range{number}"
            )
        except GraphError as error:
            if "declared twice" not in str(error) or number > 20:
                raise
    raise AssertionError
