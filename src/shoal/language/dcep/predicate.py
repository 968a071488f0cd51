"""Predicates of DCEP-Sim's filters, the tracks they apply to, and the joins that use them."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from shoal.language.python.flow import KEY_TYPES, Flow
from shoal.language.yaml.document import YamlPart
from shoal.language.yaml.vertex import Vertex
from shoal.model.query.expression import Expression, col, lit

FILTER_KEYS = ("arg1", "op", "arg2")
ARGUMENT_KEYS = ("type", "value", "value-type", "offset")
_OPERATIONS: Mapping[str, Callable[[Expression, Any], Expression]] = {
    "larger_than": lambda a, b: a > b,
    "larger_than_or_equals": lambda a, b: a >= b,
    "smaller_than": lambda a, b: a < b,
    "smaller_than_or_equals": lambda a, b: a <= b,
    "equals": lambda a, b: a == b,
    "not_equals": lambda a, b: a != b,
}
OPERATIONS = (*_OPERATIONS, "in_list")
_CONSTANTS: Mapping[str, Callable[[Any], Any]] = {
    "int": int,
    "long": int,
    "timestamp": int,
    "long-timestamp": int,
    "float": float,
    "double": float,
    "string": str,
}


@dataclass(frozen=True)
class Operand:
    """One side of a filter: a field, moved by an offset, or a constant."""

    field: str
    offset: Any
    value: Any


@dataclass(frozen=True)
class Track:
    """A flow during translation: the names of its fields in the file, and what later operators will use."""

    flow: Flow
    fields: Mapping[str, str]
    keys: tuple[str, ...] = ()
    window: YamlPart | None = None
    storage_s: float | None = None
    join: "Join | None" = None

    def column(self, field: str, fail: Callable[[object], NoReturn]) -> str:
        """The column of a field, written `alias.field`, or `field` if the name is unique."""
        if field in self.fields:
            return self.fields[field]
        alike = [column for name, column in self.fields.items() if name.partition(".")[2] == field]
        if len(set(alike)) != 1:
            fail(f"there is no field {field!r}; there are {', '.join(self.fields)}")
        return alike[0]


@dataclass(frozen=True)
class Join:
    """A join whose predicates are not complete: both sides, and the filters so far."""

    left: Track
    right: Track
    predicates: tuple[tuple[Operand, str, Operand], ...] = ()


def predicate(vertex: Vertex, entries: Mapping[str, YamlPart]) -> tuple[Operand, str, Operand]:
    """A filter's arguments and their comparison."""
    if missing := [key for key in FILTER_KEYS if key not in entries]:
        vertex.fail(f"parameter {missing[0]!r} is missing; there must be arg1, op and arg2")
    operation = entries["op"].text("op").replace(" ", "_")
    if operation not in OPERATIONS:
        entries["op"].fail(f"op must be one of {', '.join(OPERATIONS)}; got {operation!r}")
    return _argument(entries["arg1"]), operation, _argument(entries["arg2"])


def _argument(part: YamlPart) -> Operand:
    entries = part.entries("argument", ARGUMENT_KEYS, hyphens=True)
    for key in ("type", "value"):
        if key not in entries:
            part.fail(f"an argument must have a {key}, e.g. {{type: attribute, value: B.price}}")
    type_ = entries["type"].text("type")
    if type_ not in ("attribute", "constant"):
        entries["type"].fail(f"type of an argument must be attribute or constant; got {type_!r}")
    if type_ == "attribute":
        return Operand(entries["value"].text("value"), entries["offset"].data() if "offset" in entries else 0, None)
    value, wanted = entries["value"].data(), entries["value-type"].text("value-type") if "value-type" in entries else ""
    if wanted and wanted not in _CONSTANTS:
        entries["value-type"].fail(f"value-type must be one of {', '.join(_CONSTANTS)}; got {wanted!r}")
    try:
        make = _CONSTANTS[wanted] if wanted else (lambda same: same)
        return Operand("", 0, [make(each) for each in value] if isinstance(value, list) else make(value))
    except (TypeError, ValueError):
        entries["value"].fail(f"value must be of type {wanted}; got {entries['value'].shown}")


def _side(vertex: Vertex, track: Track, argument: Operand) -> Expression:
    if not argument.field:
        return lit(argument.value)
    column = col(track.column(argument.field, vertex.fail))
    return column + argument.offset if argument.offset else column


def condition(vertex: Vertex, track: Track, left: Operand, operation: str, right: Operand) -> Expression:
    """A predicate as a condition on a track's columns."""
    if operation == "in_list":
        if not isinstance(right.value, list):
            vertex.fail("in_list needs a constant list as arg2, e.g. {type: constant, value: [1007, 1020]}")
        return _side(vertex, track, left).is_in(right.value)
    return _OPERATIONS[operation](_side(vertex, track, left), _side(vertex, track, right))


def joined(vertex: Vertex, track: Track) -> Track:
    """The track with its join made, if it has one, now that all predicates are known.

    Equalities become keys, the bounds of one pair of columns a band, and the rest a condition.
    """
    join = track.join
    if join is None:
        return track
    left, right = join.left, join.right
    keys: dict[str, str] = {}
    rest = []
    for first, operation, second in join.predicates:
        pair = _across(vertex, left, right, first, second)
        if operation == "equals" and pair and not (first.offset or second.offset) and _fit(left, right, *pair):
            keys[pair[0]] = pair[1]
        else:
            rest.append((first, operation, second))
    theirs = right.flow.schema.names
    names = {name: f"{name}_right" if name in left.flow.schema else name for name in theirs}
    names |= {right_: left_ for left_, right_ in keys.items() if left_ == right_}
    fields = {**left.fields, **{field: names[column] for field, column in right.fields.items()}}
    both = Track(left.flow, fields)
    where = None
    for first, operation, second in rest:
        holds = condition(vertex, both, first, operation, second)
        where = holds if where is None else where & holds
    assert left.storage_s is not None
    assert right.storage_s is not None
    within_s = (-right.storage_s, left.storage_s)
    flow = left.flow.join(right.flow, on=keys, within_s=within_s, band=_band(vertex, join, rest), where=where)
    return Track(flow, fields)


def _across(vertex: Vertex, left: Track, right: Track, first: Operand, second: Operand) -> tuple[str, str] | None:
    """The columns of a predicate between both sides, the left one first; None for any other predicate."""
    if first.field in left.fields and second.field in right.fields:
        return left.column(first.field, vertex.fail), right.column(second.field, vertex.fail)
    if first.field in right.fields and second.field in left.fields:
        return left.column(second.field, vertex.fail), right.column(first.field, vertex.fail)
    return None


def _fit(left: Track, right: Track, ours: str, theirs: str) -> bool:
    type_ = left.flow.schema.type_of(ours)
    return type_ in KEY_TYPES and type_ == right.flow.schema.type_of(theirs)


def _band(
    vertex: Vertex, join: Join, predicates: Sequence[tuple[Operand, str, Operand]]
) -> tuple[str, str, float | None, float | None] | None:
    """Bounds on right less left that the predicates on one pair of columns imply; they avoid most comparisons."""
    chosen: tuple[str, str] | None = None
    least, most = -math.inf, math.inf
    for first, operation, second in predicates:
        pair = _across(vertex, join.left, join.right, first, second)
        if pair is None or operation not in _OPERATIONS or operation == "not_equals" or chosen not in (None, pair):
            continue
        types = {join.left.flow.schema.type_of(pair[0]), join.right.flow.schema.type_of(pair[1])}
        if not types <= {"int64", "timestamp"} or type(first.offset) is not int or type(second.offset) is not int:
            continue
        chosen = pair
        here_first = first.field in join.left.fields
        apart = first.offset - second.offset if here_first else second.offset - first.offset
        larger = (
            operation.startswith("larger") == here_first
        )  # here is the larger one: there less here is bounded above
        strict = operation in ("larger_than", "smaller_than")
        if operation == "equals" or larger:
            most = min(most, apart - strict)
        if operation == "equals" or not larger:
            least = max(least, apart + strict)
    if chosen is None or least > most:
        return None
    return (*chosen, None if math.isinf(least) else least, None if math.isinf(most) else most)
