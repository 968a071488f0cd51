"""Operators that go by place: cells of points and ranges, versions of ranges, and ranges that contain points.

A cell is a key: a point has one, and a range has a row for each cell that it overlaps. So spatial operators are
partitioned, moved and recovered like all operators with keys.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from shoal.errors import GraphError, SchemaError, did_you_mean
from shoal.language.python.flow import Flow
from shoal.language.python.join import all_operators, check_flow, check_where
from shoal.model.query.expression import Expression
from shoal.model.query.graph import Operator
from shoal.model.query.nulls import narrowed
from shoal.model.query.schema import TIME, Field, Schema
from shoal.model.spatial.grid import Grid
from shoal.model.spatial.shape import Shape


@dataclass(frozen=True)
class RangeTerms:
    """The terms of a match of points and ranges, as the user gave them."""

    grid: Grid
    point: Shape
    shape: Shape
    where: Expression | None
    suffix: str
    partitions: int
    ids: tuple[str, ...] = ()


def covering(flow: Flow, grid: Any, shape: Any, column: str) -> Flow:
    """A flow with the cells of its rows."""
    flow.not_inside_window("cover")
    where = flow.location("cover")
    if not isinstance(grid, Grid) or not isinstance(shape, Shape):
        raise GraphError(f"{where} needs a Grid and a shape such as point('x', 'y'); got {grid!r} and {shape!r}")
    for name in shape.columns:
        if name not in flow.schema:
            names = flow.schema.names
            hint = did_you_mean(name, names) or ("; name the columns of points by at" if shape.kind == "point" else "")
            raise GraphError(f"{where}: unknown column {name!r} of a {shape.kind}; there are {', '.join(names)}{hint}")
        type_ = flow.schema.type_of(name)
        wanted = ("string",) if shape.kind == "polygon" else ("float64", "int64")
        if type_ not in wanted:
            raise GraphError(f"{where}: {name!r} of a {shape.kind} must be {' or '.join(wanted)}; it is {type_}")
    schema = flow.made_of(
        (*flow.schema.required(shape.columns).fields, Field(column, "int64", nullable=False)), "cover"
    )
    parameters = {"grid": grid.data(), "shape": shape.data(), "column": column}
    return flow.then("cover", parameters, schema)


def versioned(flow: Flow, action: str | None, deleted: str, since: str, until: str) -> Flow:
    """A flow with the versions of its keyed rows."""
    flow.not_inside_window("versions")
    flow.check_time("versions")
    where = flow.location("versions")
    if not flow.keys:
        raise GraphError(f"{where} needs key_by or partition_by before it")
    if action is not None and flow.schema.type_of(flow.column_name(action, "versions")) != "string":
        raise GraphError(f"{where}: action must be a column of texts; {action!r} is not")
    added = (Field(since, "timestamp", nullable=False), Field(until, "timestamp"))
    schema = flow.made_of((*flow.schema.fields, *added), "versions")
    parameters = {"action": action or "", "deleted": deleted, "life": [since, until], **flow.grouped()}
    return flow.then("versions", parameters, schema).fresh()


def matching(points: Flow, ranges: Flow, terms: RangeTerms, id_: str | None, action: str | None, deleted: str) -> Flow:
    """Points with the ranges that contain them."""
    check_flow(ranges, points.location("match_ranges"))
    if id_ is None and action is not None:
        raise GraphError(
            f"{points.location('match_ranges')} has an action {action!r} but no id that says which range it is for"
        )
    points.check_groups(terms.partitions, "match_ranges")
    life: tuple[str, ...] = ()
    names = ranges.schema.names
    if id_ is not None:
        ranges.without_keys("match_ranges")
        since, until = free_name("since", names), free_name("until", names)
        keyed = ranges.key_by(id_) if terms.partitions == 1 else ranges.partition_by(id_, groups=terms.partitions)
        ranges, life = keyed.versions(action=action, deleted=deleted, since=since, until=until), (since, until)
    cells = free_name("cell", points.schema.names), free_name("cell", names)
    return range_match(
        points.cover(terms.grid, terms.point, column=cells[0]),
        ranges.cover(terms.grid, terms.shape, column=cells[1]),
        replace(terms, ids=() if id_ is None else (id_,)),
        cells,
        life,
    )


def range_match(points: Flow, ranges: Flow, terms: RangeTerms, cells: tuple[str, str], life: tuple[str, ...]) -> Flow:
    """Covered points with the covered ranges that contain them."""
    for flow in (points, ranges):
        flow.not_inside_window("match_ranges")
        flow.without_keys("match_ranges")
        flow.check_time("match_ranges")
    where = points.location("match_ranges")
    points.check_groups(terms.partitions, "match_ranges")
    if terms.shape.kind == "point":
        raise GraphError(f"{where} needs a shape of ranges: rectangle, circle or polygon; got a point")
    for flow, name in ((points, cells[0]), (ranges, cells[1])):
        if name not in flow.schema or flow.schema.type_of(name) != "int64":
            raise GraphError(f"{where} needs the cells of both flows; {name!r} is none; use cover")
    if terms.partitions > terms.grid.cells:
        raise GraphError(
            f"{where} can have up to {terms.grid.cells} partitions, one for each cell; got {terms.partitions}"
        )
    if life and not terms.ids:
        raise GraphError(f"{where} needs the id of ranges that begin and end")
    inner = {cells[1], *life}
    ours = {name: name for name in points.schema.names if name != cells[0]}
    theirs = {name + terms.suffix if name in ours else name: name for name in ranges.schema.names if name not in inner}
    schema = _schema(points, ranges, ours, theirs, where)
    if terms.where is not None:
        check_where(terms.where, schema, where)
        schema = narrowed(schema, terms.where)
    parameters: dict[str, Any] = {
        "grid": terms.grid.data(),
        "point": list(terms.point.columns),
        "shape": terms.shape.data(),
        "keys": list(cells),
        "id": list(terms.ids),
        "life": list(life),
        "where": None if terms.where is None else terms.where.data(),
        "columns": [ours, theirs],
        "types": [points.schema.types, ranges.schema.types],
        "time": [points.time, ranges.time],
    }
    if terms.partitions > 1:
        parameters["groups"] = terms.partitions
    operator = Operator("match_ranges", parameters, (points.operators[-1].id, ranges.operators[-1].id))
    return Flow((*all_operators((points, ranges)), operator), schema, TIME)


def _schema(points: Flow, ranges: Flow, ours: dict[str, str], theirs: dict[str, str], where: str) -> Schema:
    fields = [points.schema.field(name) for name in ours]
    for name, column in theirs.items():
        field = ranges.schema.field(column)
        fields.append(Field(name, field.type, nullable=field.nullable))
    try:
        return Schema(tuple(fields))
    except SchemaError as error:
        raise GraphError(f"{where}: {error}; select columns or choose another suffix") from error


def free_name(name: str, taken: Iterable[str]) -> str:
    """A name that no column has."""
    names = set(taken)
    while name in names:
        name += "_"
    return name
