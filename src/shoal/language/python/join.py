"""Joins and unions in queries: operators with several inputs."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any, Literal, TypeAlias, cast, get_args

import pyarrow as pa

from shoal.errors import GraphError, SchemaError
from shoal.language.python.flow import WINDOW_END, Flow
from shoal.model.query.aggregate import Aggregate
from shoal.model.query.duration import Duration, duration_us
from shoal.model.query.expression import Expression
from shoal.model.query.graph import Operator
from shoal.model.query.nulls import narrowed
from shoal.model.query.pattern import uses_previous
from shoal.model.query.schema import TIME, Field, FieldType, Schema
from shoal.model.query.window import LARGEST_US, AnyWindow

Band = tuple[str, str, float | None, float | None]
"""Column here, column there, least and most of there less here; None leaves a side open."""
Table: TypeAlias = "pa.Table | Mapping[str, Sequence[Any]]"
"""A static table: Arrow, or columns by name."""
How = Literal["inner", "left", "full"]
HOWS: tuple[How, ...] = get_args(How)
HAS_LEFT, HAS_RIGHT = "has_left", "has_right"
_PLAIN_TYPES: Mapping[FieldType, type] = {
    "int64": int,
    "float64": float,
    "string": str,
    "bool": bool,
    "timestamp": int,
    "list<int64>": list,
    "list<float64>": list,
}
SUFFIX = "_right"
"""What is appended, by default, to the name of a right column that a left one has, too."""
LARGEST_TABLE = 1_000_000


@dataclass(frozen=True)
class Terms:
    """The terms of a join, as the user gave them."""

    keys: tuple[tuple[str, str], ...]
    lower_us: int
    upper_us: int
    band: Band | None
    where: Expression | None
    how: How
    defaults: Mapping[str, Any]
    suffix: str
    groups: int

    @classmethod
    def of(
        cls,
        on: str | Iterable[str] | Mapping[str, str],
        within_s: tuple[Duration, Duration],
        band: Band | None,
        where: Expression | None,
        how: str,
        defaults: Mapping[str, Any],
        suffix: str,
        groups: int,
    ) -> "Terms":
        """Terms from what the user wrote."""
        if how not in HOWS:
            raise GraphError(f"a join must be {', '.join(HOWS)}; got {how!r}")
        keys = _pairs(on)
        lower, upper = _bounds_us(within_s)
        return cls(keys, lower, upper, band, where, how, defaults, suffix, groups)


def _pairs(on: Any) -> tuple[tuple[str, str], ...]:
    """The keys of a join: one name, several, or names here and there."""
    names = (on,) if isinstance(on, str) else on
    if not isinstance(names, Iterable):
        raise GraphError(f"a join's keys must be names of columns, or names here and there; got on={on!r}")
    pairs = tuple(names.items()) if isinstance(names, Mapping) else tuple((name, name) for name in names)
    if not all(isinstance(name, str) for pair in pairs for name in pair):
        raise GraphError(f"a join's keys must be names of columns; got on={on!r}")
    return pairs


def _bounds_us(within_s: Any) -> tuple[int, int]:
    """The time bounds of a join in microseconds."""
    pair: Sequence[Any] = within_s if isinstance(within_s, Sequence) and len(within_s) == 2 else (None, None)
    try:
        lower, upper = (duration_us(bound, "bound") for bound in pair)
    except GraphError:
        lower, upper = 1, 0
    if lower > upper or max(abs(lower), abs(upper)) > LARGEST_US:
        raise GraphError(f"a join's time bounds must be (least, most) seconds; got within_s={within_s!r}")
    return lower, upper


def check_flow(flow: object, where: str) -> None:
    """Reject what is no flow."""
    if not isinstance(flow, Flow):
        raise GraphError(f"{where} needs another flow; got {flow!r}")


def joined(left: Flow, right: Flow, terms: Terms) -> Flow:
    """Two flows joined into one."""
    check_flow(right, left.location("join"))
    for flow in (left, right):
        flow.not_inside_window("join")
        flow.without_keys("join")
        flow.check_time("join")
    where = left.location("join")
    _check_keys(left, right, terms, where)
    ours, theirs = _columns(left, right, terms)
    fields = _fields(left, right, terms, ours, theirs)
    if terms.how == "full":
        fields.append(Field(HAS_LEFT, "bool", nullable=False))
    if terms.how != "inner":
        fields.append(Field(HAS_RIGHT, "bool", nullable=False))
    try:
        schema = Schema(tuple(fields))
    except SchemaError as error:
        raise GraphError(f"{where}: {error}; select columns or choose another suffix") from error
    defaults = _defaults(schema, terms, ours, theirs, where)
    if terms.where is not None:
        check_where(terms.where, schema, where)
        schema = narrowed(schema, terms.where) if terms.how == "inner" else schema
    parameters: dict[str, Any] = {
        "keys": [list(pair) for pair in terms.keys],
        "within_us": [terms.lower_us, terms.upper_us],
        "band": None if terms.band is None else list(terms.band),
        "where": None if terms.where is None else terms.where.data(),
        "how": terms.how,
        "columns": [ours, theirs],
        "defaults": defaults,
        "types": [left.schema.types, right.schema.types],
        "time": [left.time, right.time],
    }
    if terms.groups > 1:
        parameters["groups"] = terms.groups
    operators = all_operators((left, right))
    operator = Operator("join", parameters, (left.operators[-1].id, right.operators[-1].id))
    return Flow((*operators, operator), schema, TIME)


def _fields(left: Flow, right: Flow, terms: Terms, ours: Mapping[str, str], theirs: Mapping[str, str]) -> list[Field]:
    """The columns of both sides; those of a side that may be missing may be null unless they have a default.

    What is compared is not null in a pair: an inner join has no nulls in its keys and its band.
    """
    fields = []
    for side, (flow, columns) in enumerate(((left, ours), (right, theirs))):
        compared = [pair[side] for pair in terms.keys] + ([terms.band[side]] if terms.band else [])
        missing = terms.how == "full" or (terms.how == "left" and side == 1)
        matched = terms.how == "inner" or (terms.how == "left" and side == 1)
        for name, column in columns.items():
            field = flow.schema.field(column)
            nullable = field.nullable and not (matched and column in compared)
            if missing and (column, column) in terms.keys:  # the value of either side
                nullable = nullable or right.schema.may_be_null(column)
            elif missing:
                nullable = nullable or terms.defaults.get(name) is None
            fields.append(replace(field, name=name, nullable=nullable))
    return fields


def check_where(condition: Expression, schema: Schema, where: str) -> None:
    """Reject what is no condition on the rows of a schema."""
    if not isinstance(condition, Expression):
        raise GraphError(f"{where} needs a condition for where, such as col('price') > 0; got {condition!r}")
    if uses_previous(condition):
        raise GraphError(f"{where} cannot read the previous row; prev is for the conditions of a match")
    if condition.type_in(schema, f"{where} where") != "bool":
        raise GraphError(f"{where} needs a condition for where; got {condition.text}")


def _check_keys(left: Flow, right: Flow, terms: Terms, where: str) -> None:
    for ours, theirs in terms.keys:
        left.check_key(ours, "join")
        right.check_key(theirs, "join")
        types = left.schema.type_of(ours), right.schema.type_of(theirs)
        if types[0] != types[1]:
            raise GraphError(f"{where} needs keys of one type; {ours!r} is {types[0]} and {theirs!r} is {types[1]}")
    left.check_groups(terms.groups, "join")
    if terms.groups > 1 and not terms.keys:
        raise GraphError(f"{where} needs keys to be cut into {terms.groups} groups; name them in on=")
    if terms.band is not None:
        _check_band(left, right, terms.band, where)


def _check_band(left: Flow, right: Flow, band: Any, where: str) -> None:
    shape = isinstance(band, Sequence) and len(band) == 4
    if not shape or not all(bound is None or isinstance(bound, Real) for bound in band[2:]):
        raise GraphError(f"{where} needs band=(column here, column there, least, most); got {band!r}")
    if band[2] is None and band[3] is None:
        raise GraphError(f"{where} needs band=(column here, column there, least, most) with a bound; got {band!r}")
    for flow, name in ((left, band[0]), (right, band[1])):
        if name not in flow.schema or flow.schema.type_of(name) not in ("int64", "float64", "timestamp"):
            raise GraphError(f"{where}: band needs a column of numbers or times; got {name!r} of {flow.schema.types}")
    if (left.schema.type_of(band[0]) == "float64") != (right.schema.type_of(band[1]) == "float64"):
        raise GraphError(
            f"{where}: band needs two columns of one type; convert one of {band[0]!r} and {band[1]!r} before"
        )


def _columns(left: Flow, right: Flow, terms: Terms) -> tuple[dict[str, str], dict[str, str]]:
    """The name of each side's columns in the result; keys of the same name appear once."""
    same = {ours for ours, theirs in terms.keys if ours == theirs}
    ours = {name: name for name in left.schema.names}
    theirs = {name + terms.suffix if name in ours else name: name for name in right.schema.names if name not in same}
    return ours, theirs


def _defaults(
    schema: Schema, terms: Terms, ours: Mapping[str, str], theirs: Mapping[str, str], where: str
) -> dict[str, Any]:
    """The defaults that the user gave, of columns that may be missing; keys of both sides are never missing."""
    if terms.how == "inner":
        if terms.defaults:
            raise GraphError(f"{where}: an inner join misses nothing and takes no defaults")
        return {}
    same = {ours for ours, theirs in terms.keys if ours == theirs}
    absent = [*theirs, *(name for name in ours if name not in same and terms.how == "full")]
    if unknown := [name for name in terms.defaults if name not in absent]:
        raise GraphError(
            f"{where} has a default for {unknown[0]!r}, which is never missing; there are {', '.join(absent)}"
        )
    return {
        name: default_of(schema.type_of(name), given, f"{where} {name!r}")
        for name, given in terms.defaults.items()
        if given is not None
    }


def default_of(type_: FieldType, given: Any, where: str) -> Any:
    """The default that the user gave for a column, if its type fits."""
    if type(given) is int and type_ == "float64":
        given = float(given)
    of_type = type(given) is _PLAIN_TYPES[type_]
    if isinstance(given, list):
        of_type = of_type and all(f"list<{type(each).__name__}64>" == type_ for each in given)
    if not of_type:
        raise GraphError(f"{where}: default must be {type_}; got {given!r}")
    return given


def cogrouped(
    flows: tuple[Flow, Flow],
    window: AnyWindow,
    names: tuple[str, ...],
    aggregates: tuple[Mapping[str, Aggregate], Mapping[str, Aggregate]],
    groups: int,
) -> Flow:
    """The windows of two flows by key; a side without rows has the results of no values: 0, an empty list, or null."""
    cut = [flow.key_by(*names) if groups == 1 else flow.partition_by(*names, groups=groups) for flow in flows]
    ours, theirs = (side.window(window).aggregate(**chosen) for side, chosen in zip(cut, aggregates, strict=True))
    defaults = {name: each.of_nothing for name, each in aggregates[0].items()}
    defaults |= {
        name + SUFFIX if name in ours.schema else name: each.of_nothing for name, each in aggregates[1].items()
    }
    return ours.join(theirs, on=(*names, WINDOW_END), within_s=(0, 0), how="full", defaults=defaults, groups=groups)


def united(flows: Sequence[Flow]) -> Flow:
    """Several flows with the same columns as one."""
    first = flows[0]
    if len(flows) < 2:
        raise GraphError(f"{first.location('union')} needs at least one other flow")
    for flow in flows:
        check_flow(flow, first.location("union"))
        flow.not_inside_window("union")
        flow.without_keys("union")
        if list(flow.schema.types.items()) != list(first.schema.types.items()):
            raise GraphError(
                f"{first.location('union')} needs flows with the same columns; got {first.schema.types} "
                f"and {flow.schema.types}"
            )
    if len({flow.time for flow in flows}) > 1 or len({flow.operators[-1].id for flow in flows}) < len(flows):
        flows = [flow if flow.time == TIME else flow.retime(flow.time) for flow in flows]
    operators = all_operators(flows)
    inputs = tuple(flow.operators[-1].id for flow in flows)
    never_null = [name for name in first.schema.names if not any(flow.schema.may_be_null(name) for flow in flows)]
    schema = Schema.of(first.schema.types).required(never_null)
    return Flow((*operators, Operator("union", {}, inputs)), schema, flows[0].time)


def looked_up(flow: Flow, table: Table, on: str | Mapping[str, str], how: str, defaults: Mapping[str, Any]) -> Flow:
    """A flow with the columns of a static table."""
    flow.not_inside_window("lookup_join")
    where = flow.location("lookup_join")
    pairs = list(on.items()) if isinstance(on, Mapping) else [(on, on)]
    if len(pairs) != 1:
        raise GraphError(f"{where} goes by one column; got {on!r}")
    [(column, key)] = pairs
    arrow = _arrow(table, where)
    if how not in ("inner", "left"):
        raise GraphError(f"{where} must be inner or left; got {how!r}")
    if key not in arrow.column_names:
        raise GraphError(f"{where}: the table has no column {key!r}; there are {', '.join(arrow.column_names)}")
    if arrow.num_rows > LARGEST_TABLE:
        raise GraphError(f"{where} takes tables of at most {LARGEST_TABLE} rows; got {arrow.num_rows}")
    types = {name: _type_of(arrow.schema.field(name).type, f"{where} {name!r}") for name in arrow.column_names}
    flow.check_key(column, "lookup_join")
    if types[key] != flow.schema.type_of(column) or types[key] not in ("int64", "string"):
        raise GraphError(
            f"{where} needs an int64 or string key on both sides; {column!r} is {flow.schema.type_of(column)}, "
            f"{key!r} of the table {types[key]}"
        )
    keys = arrow.column(key).to_pylist()
    if len(set(keys)) < len(keys) or None in keys:
        raise GraphError(f"{where} needs a table with every {key!r} once, and none of them null")
    added = {name: type_ for name, type_ in types.items() if name != key}
    missing = [name for name in added if how == "left" and defaults.get(name) is None]
    schema = flow.schema.required([column]) if how == "inner" else flow.schema
    fields = list(schema.fields)
    for name, type_ in added.items():
        fields.append(Field(name, type_, nullable=name in missing or arrow.column(name).null_count > 0))
    if how == "left":
        fields.append(Field(HAS_RIGHT, "bool", nullable=False))
    try:
        schema = Schema(tuple(fields))
    except SchemaError as error:
        raise GraphError(f"{where}: {error}") from error
    if how == "inner" and defaults:
        raise GraphError(f"{where}: an inner join misses nothing and takes no defaults")
    parameters = {
        "on": column,
        "keys": keys,
        "columns": {name: [type_, _plain(arrow.column(name))] for name, type_ in added.items()},
        "how": how,
        "defaults": _lookup_defaults(added, defaults, where) if how == "left" else {},
    }
    return flow.then("lookup", parameters, schema)


def _arrow(table: Table, where: str) -> pa.Table:
    """A static table as Arrow."""
    if isinstance(table, pa.Table):
        return table
    try:
        return pa.table(dict(table))
    except (TypeError, ValueError, OverflowError, pa.ArrowException) as error:
        raise GraphError(f"{where} needs an Arrow table, or columns of equal length by name: {error}") from error


def _lookup_defaults(added: Mapping[str, FieldType], given: Mapping[str, Any], where: str) -> dict[str, Any]:
    if unknown := [name for name in given if name not in added]:
        raise GraphError(f"{where} has a default for {unknown[0]!r}; the table adds {', '.join(added)}")
    return {
        name: default_of(added[name], value, f"{where} {name!r}") for name, value in given.items() if value is not None
    }


def _type_of(type_: pa.DataType, where: str) -> FieldType:
    if pa.types.is_timestamp(type_):
        return "timestamp"
    if pa.types.is_integer(type_):
        return "int64"
    if pa.types.is_floating(type_):
        return "float64"
    names: dict[pa.DataType, str] = {pa.string(): "string", pa.large_string(): "string", pa.bool_(): "bool"}
    if type_ not in names:
        raise GraphError(f"{where} must be of a type a stream can have; got {type_}")
    return cast(FieldType, names[type_])


def _plain(column: pa.ChunkedArray) -> list[Any]:
    """A column as plain data; times as microseconds since 1970."""
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("us")).cast(pa.int64())
    return column.to_pylist()


def all_operators(flows: Sequence[Flow]) -> tuple[Operator, ...]:
    """The operators of several flows, each once, inputs first."""
    return tuple({operator.id: operator for flow in flows for operator in flow.operators}.values())
