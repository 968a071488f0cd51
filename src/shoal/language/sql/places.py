"""Places in SQL: the operators that go by place, as table functions with named arguments.

>>> from shoal.language.sql.script import parse_script
>>> script = parse_script('''
...     CREATE TABLE cars (ts TIMESTAMP(3), car BIGINT, x DOUBLE, y DOUBLE, WATERMARK FOR ts AS ts)
...         WITH ('connector' = 'files', 'path' = 'cars', 'format' = 'csv');
...     INSERT INTO cells SELECT car, cell
...         FROM TABLE(COVER(DATA => TABLE cars, SHAPE => POINT(x, y), GRID => GRID(0, 0, 100, 100)));
... ''')
>>> [operator.kind for operator in script.queries[0].operators]
['source', 'cover', 'select', 'sink']
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from sqlglot import exp

from shoal.errors import ShoalError, SqlError
from shoal.kernels.geofence import HAPPENED
from shoal.language.python.flow import Flow
from shoal.language.sql.dialect import call_name, place, quoted
from shoal.language.sql.expressions import interval_us
from shoal.language.sql.relation import AT_ONCE, Relation
from shoal.model.query.duration import MICROSECONDS
from shoal.model.query.expression import col
from shoal.model.query.functions import Call
from shoal.model.spatial.grid import CELLS, Grid
from shoal.model.spatial.shape import COLUMNS, Shape

_GRID = "GRID(min_x, min_y, max_x, max_y [, columns, rows [, 'degrees']])"
_FORMS: Mapping[str, tuple[str, str]] = {
    "COVER": ("DATA SHAPE GRID", ""),
    "MATCH_RANGES": ("POINTS RANGES SHAPE GRID", "AT ID ACTION"),
    "GEOFENCE": ("POINTS FENCES SHAPE OBJECT ID GRID", "AT ACTION DWELL"),
    "NEAR": ("DATA OTHER WITHIN BEFORE AFTER GRID", "AT OTHER_AT"),
    "POINTS_IN": ("QUERIES POINTS SHAPE LAST GRID", "AT"),
    "NEAREST": ("QUERIES POINTS K WITHIN LAST ID GRID", "AT POINTS_AT"),
}
"""The arguments that each function needs, tables first, and those that it may have."""


@dataclass(frozen=True)
class _Arguments:
    """The named arguments of a call, and the tables among them in the order of its form."""

    call: exp.Expr
    named: Mapping[str, exp.Expr]
    tables: tuple[Relation, ...]
    where: str

    def flow(self, number: int) -> Flow:
        """A table with its visible columns."""
        return self.tables[number].settled(self.where).timed().output(self.where)

    def times(self, number: int) -> list[str]:
        """The visible columns that hold the event time of a table."""
        relation = self.tables[number]
        return [name for name, column in relation.columns.items() if relation.times.get(column) == AT_ONCE]

    def column(self, name: str) -> str | None:
        """The column of DESCRIPTOR(column)."""
        tree = self.named.get(name)
        if tree is None:
            return None
        if call_name(tree) != "DESCRIPTOR" or len(tree.expressions) != 1:
            raise self.wrong(name, "DESCRIPTOR(column)")
        return str(tree.expressions[0].name)

    def shape(self, name: str) -> Shape:
        """The shape of a call such as CIRCLE(x, y, radius)."""
        tree = self.named[name]
        kind = call_name(tree).lower()
        columns = tree.expressions if kind in COLUMNS else []
        if not columns or not all(isinstance(each, exp.Column) and not each.table for each in columns):
            forms = " or ".join(f"{kind.upper()}({', '.join(names)})" for kind, names in COLUMNS.items())
            raise self.wrong(name, f"{forms} of columns")
        return Shape.from_data([kind, *(each.name for each in columns)])

    def point(self, name: str) -> dict[str, Any]:
        """The coordinates of POINT(x, y) as an argument in Python, if they are given."""
        if name not in self.named:
            return {}
        found = self.shape(name)
        if found.kind != "point":
            raise self.wrong(name, "POINT(x, y)")
        return {name.lower(): found.columns}

    def number(self, name: str) -> Any:
        """A constant number."""
        if not _is_number(self.named[name]):
            raise self.wrong(name, "a number")
        return _number(self.named[name])

    def seconds(self, name: str) -> float:
        """The seconds of an interval."""
        return interval_us(self.named[name], self.where) / MICROSECONDS

    def grid(self) -> Grid:
        """The grid of GRID(...)."""
        tree = self.named["GRID"]
        values = tree.expressions
        units = values[6].name if len(values) == 7 and isinstance(values[6], exp.Literal) else "plane"
        if call_name(tree) != "GRID" or len(values) not in (4, 6, 7) or not all(map(_is_number, values[:6])):
            raise self.wrong("GRID", _GRID)
        sides = [_number(each) for each in values[:6]]
        columns, rows = sides[4:] or (CELLS, CELLS)
        if type(columns) is not int or type(rows) is not int:
            raise self.wrong("GRID", f"{_GRID} with whole numbers of columns and rows")
        return Grid.from_data({"space": sides[:4], "cells": (columns, rows), "units": units})

    def wrong(self, name: str, wanted: str) -> SqlError:
        """The error for an argument of another form."""
        return SqlError(
            f"{place(self.call, self.where)}: {name} of {call_name(self.call)} must be {wanted}; "
            f"got {quoted(self.named[name])!r}"
        )


def place_function(tree: exp.Expr, table: Callable[[exp.Table], Relation], where: str) -> Relation | None:
    """What a table function that goes by place gives; None for anything else."""
    call = tree.this if isinstance(tree, exp.Table) else None
    if call_name(call) == "TABLE" and call is not None and len(call.expressions) == 1:
        call = call.expressions[0]
    if call is None or call_name(call) not in _FORMS:
        return None
    arguments = _arguments(call, table, where)
    try:
        flow, times, latest = _CALLS[call_name(call)](arguments)
    except SqlError:
        raise
    except ShoalError as error:
        raise SqlError(f"{place(call, where)}: {error}") from None
    visible = {name: name for name in flow.schema.names}
    return Relation(flow, {tree.alias: visible}, dict.fromkeys(times, AT_ONCE), latest=latest)


def _arguments(call: exp.Expr, table: Callable[[exp.Table], Relation], where: str) -> _Arguments:
    name = call_name(call)
    needs, may = (words.split() for words in _FORMS[name])
    given = [each for each in call.expressions if isinstance(each, exp.Kwarg)]
    named = {each.this.name.upper(): each.expression for each in given}
    right = len(given) == len(call.expressions) == len(named) and set(needs) <= set(named) <= {*needs, *may}
    tables = [each for each in needs[:2] if each not in ("SHAPE", "WITHIN")]
    if not right or not all(isinstance(named[each], exp.Table) for each in tables):
        optional = f", and may have {', '.join(may)}" if may else ""
        raise SqlError(
            f"{place(call, where)}: {name} needs the arguments {', '.join(needs)}{optional}, each as NAME => value, "
            f"with {' and '.join(tables)} => TABLE t; got {quoted(call)!r}"
        )
    if any(named[each].args.get("partition") for each in tables):
        raise SqlError(f"{place(call, where)}: {name} takes tables without PARTITION BY; got {quoted(call)!r}")
    return _Arguments(call, named, tuple(table(named[each]) for each in tables), where)


Made = tuple[Flow, list[str], frozenset[str]]
"""A flow, the columns that hold its event time, and expressions that do."""


def _cover(given: _Arguments) -> Made:
    return given.flow(0).cover(given.grid(), given.shape("SHAPE")), given.times(0), frozenset()


def _match_ranges(given: _Arguments) -> Made:
    flow = given.flow(0).match_ranges(
        given.flow(1),
        given.shape("SHAPE"),
        grid=given.grid(),
        id=given.column("ID"),
        action=given.column("ACTION"),
        **given.point("AT"),
    )
    return flow, given.times(0), frozenset()


def _geofence(given: _Arguments) -> Made:
    flow = given.flow(0).geofence(
        given.flow(1),
        given.shape("SHAPE"),
        object=given.column("OBJECT") or "",
        id=given.column("ID") or "",
        action=given.column("ACTION"),
        dwell_s=given.seconds("DWELL") if "DWELL" in given.named else None,
        grid=given.grid(),
        **given.point("AT"),
    )
    return flow, [HAPPENED], frozenset()


def _near(given: _Arguments) -> Made:
    ours, theirs = given.flow(0), given.flow(1)
    flow = ours.near(
        theirs,
        within=given.number("WITHIN"),
        within_s=(-given.seconds("BEFORE"), given.seconds("AFTER")),
        grid=given.grid(),
        **given.point("AT"),
        **given.point("OTHER_AT"),
    )
    others = [name + "_right" if name in ours.schema else name for name in given.times(1)]
    pairs = [(one, other) for one in given.times(0) for other in others]
    both = [Call("greatest", (col(a), col(b))).text for pair in pairs for a, b in (pair, pair[::-1])]
    return flow, [], frozenset(both)


def _points_in(given: _Arguments) -> Made:
    flow = given.flow(0).points_in(
        given.flow(1), given.shape("SHAPE"), last_s=given.seconds("LAST"), grid=given.grid(), **given.point("AT")
    )
    return flow, given.times(0), frozenset()


def _nearest(given: _Arguments) -> Made:
    flow = given.flow(0).nearest(
        given.flow(1),
        given.number("K"),
        within=given.number("WITHIN"),
        last_s=given.seconds("LAST"),
        id=given.column("ID") or "",
        grid=given.grid(),
        **given.point("AT"),
        **given.point("POINTS_AT"),
    )
    return flow, given.times(0), frozenset()


_CALLS: Mapping[str, Callable[[_Arguments], Made]] = {
    "COVER": _cover,
    "MATCH_RANGES": _match_ranges,
    "GEOFENCE": _geofence,
    "NEAR": _near,
    "POINTS_IN": _points_in,
    "NEAREST": _nearest,
}


def _is_number(tree: exp.Expr) -> bool:
    inner = tree.this if isinstance(tree, exp.Neg) else tree
    return isinstance(inner, exp.Literal) and not inner.is_string


def _number(tree: exp.Expr) -> float:
    if isinstance(tree, exp.Neg):
        return -_number(tree.this)
    text = str(tree.this)
    return int(text) if text.isdigit() else float(text)
