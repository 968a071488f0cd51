"""Pairs of rows by place: points within a distance, in a range, and the nearest ones.

All of them are joins by cell. A point has one cell and a range a row for each cell that it overlaps, so that a pair
meets in exactly one cell; a condition on the pair then decides exactly.
"""

from dataclasses import dataclass
from math import isfinite
from numbers import Real
from typing import Any

from shoal.errors import GraphError
from shoal.language.python.containment import containing, distance_of
from shoal.language.python.flow import Flow
from shoal.language.python.join import check_flow
from shoal.language.python.spatial import free_name
from shoal.model.query.duration import Duration
from shoal.model.query.expression import Expression, col, lit
from shoal.model.spatial.grid import Grid
from shoal.model.spatial.shape import Shape, circle, point

Place = tuple[str, str]
"""The columns with the coordinates of a point."""


@dataclass(frozen=True)
class PairTerms:
    """The terms of pairs by place, as the user gave them."""

    grid: Grid
    within_s: tuple[Duration, Duration]
    where: Expression | None
    suffix: str
    groups: int


def near(flow: Flow, other: Flow, places: tuple[Place, Place], within: Any, column: str, terms: PairTerms) -> Flow:
    """Pairs of points within a distance, and how far they are apart."""
    where = flow.location("near")
    check_flow(other, where)
    _check_grid(terms.grid, where)
    if isinstance(within, bool) or not isinstance(within, Real) or not isfinite(within) or within < 0:
        raise GraphError(f"{where} needs a distance that is a number of at least 0; got within={within!r}")
    names = (*flow.schema.names, *other.schema.names)
    cell, radius = free_name("cell", names), free_name("radius", names)
    (x, y), (other_x, other_y) = places
    ours = flow.cover(terms.grid, point(x, y), column=cell)
    theirs = other.with_columns(**{radius: lit(float(within))})
    theirs = theirs.cover(terms.grid, circle(other_x, other_y, radius), column=cell)
    apart = distance_of(terms.grid, x, y, _called(flow, other_x, terms), _called(flow, other_y, terms))
    pairs = _paired(ours, theirs, cell, apart <= float(within), terms)
    if column in pairs.schema:
        raise GraphError(f"{where} adds a column {column!r}, which is there already; choose another with column=")
    kept = [name for name in pairs.schema.names if name not in (cell, radius)]
    return pairs.select(*kept, **{column: apart})


def points_in(queries: Flow, points: Flow, shape: Any, at: Place, terms: PairTerms) -> Flow:
    """Queries with the recent points in their range."""
    where = queries.location("points_in")
    check_flow(points, where)
    _check_grid(terms.grid, where)
    if not isinstance(shape, Shape) or shape.kind == "point":
        raise GraphError(f"{where} needs a shape of ranges: rectangle, circle or polygon; got {shape!r}")
    cell = free_name("cell", (*queries.schema.names, *points.schema.names))
    ours = queries.cover(terms.grid, shape, column=cell)
    theirs = points.cover(terms.grid, point(*at), column=cell)
    inside = containing(terms.grid, shape, _called(queries, at[0], terms), _called(queries, at[1], terms))
    pairs = _paired(ours, theirs, cell, inside, terms)
    return pairs.select(*(name for name in pairs.schema.names if name != cell))


def nearest(pairs: Flow, k: int, id_: str) -> Flow:
    """The first k of the pairs of each query: what `near` gives, ranked by distance."""
    pairs.column_name(id_, "nearest")
    return pairs.key_by(id_).rank([("distance", False)], k)


def _paired(ours: Flow, theirs: Flow, cell: str, condition: Expression, terms: PairTerms) -> Flow:
    """Rows of one cell that are close in time and satisfy a condition."""
    if terms.where is not None:
        condition = condition & terms.where
    return ours.join(
        theirs, on=cell, within_s=terms.within_s, where=condition, suffix=terms.suffix, groups=terms.groups
    )


def _called(flow: Flow, name: str, terms: PairTerms) -> Expression:
    """A column of the other flow in the joined row."""
    return col(name + terms.suffix if name in flow.schema else name)


def _check_grid(grid: Any, where: str) -> None:
    if not isinstance(grid, Grid):
        raise GraphError(f"{where} needs a Grid such as Grid((0, 0, 100, 100)); got {grid!r}")
