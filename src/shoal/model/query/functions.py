"""Functions in expressions: the built-in ones by name, and the user's own on whole columns.

>>> round_(col("speed") / 3.6).data()
['call', 'round', ['div', ['col', 'speed'], ['lit', 3.6]]]
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from shoal.errors import GraphError
from shoal.model.query.code import code_of
from shoal.model.query.expression import Expression, Value, as_expression, col, register_form
from shoal.model.query.schema import STREAM_TYPES, FieldType, Schema

Types = Sequence[FieldType]
_NUMBERS = ("int64", "float64")


@dataclass(frozen=True)
class Signature:
    """What a built-in function takes, in words, and the type it gives; None for arguments it does not take."""

    takes: str
    gives: Callable[[Types], FieldType | None]


def _of(*wanted: tuple[str, ...], gives: FieldType | None = None) -> Callable[[Types], FieldType | None]:
    """Arguments of fixed types; the type given, or else that of the first argument."""

    def type_of(types: Types) -> FieldType | None:
        fits = len(types) == len(wanted) and all(type_ in allowed for type_, allowed in zip(types, wanted, strict=True))
        return (gives or types[0]) if fits else None

    return type_of


def _alike(types: Types) -> FieldType | None:
    """Two or more values of one type, or numbers of both."""
    if len(types) < 2 or any(type_.startswith("list") for type_ in types):
        return None
    if len(set(types)) == 1:
        return types[0]
    return "float64" if set(types) == set(_NUMBERS) else None


def _pair(gives: FieldType | None = None) -> Callable[[Types], FieldType | None]:
    """Two values of one type, or numbers of both; the type given, or else that of the first."""
    return lambda types: (gives or types[0]) if len(types) == 2 and _alike(types) else None


def _conditional(types: Types) -> FieldType | None:
    return _alike(types[1:]) if len(types) == 3 and types[0] == "bool" else None


def _texts(types: Types) -> FieldType | None:
    return "string" if len(types) >= 2 and set(types) == {"string"} else None


_ANY = ("int64", "float64", "string", "bool", "timestamp")
FUNCTIONS: Mapping[str, Signature] = {
    "abs": Signature("a number", _of(_NUMBERS)),
    "floor": Signature("a number", _of(_NUMBERS, gives="int64")),
    "ceil": Signature("a number", _of(_NUMBERS, gives="int64")),
    "round": Signature("a number", _of(_NUMBERS, gives="int64")),
    "sqrt": Signature("a number", _of(_NUMBERS, gives="float64")),
    "exp": Signature("a number", _of(_NUMBERS, gives="float64")),
    "ln": Signature("a number", _of(_NUMBERS, gives="float64")),
    "power": Signature("two numbers", _of(_NUMBERS, _NUMBERS, gives="float64")),
    "distance": Signature("four numbers: x and y of two points", _of(*[_NUMBERS] * 4, gives="float64")),
    "haversine": Signature("four numbers: longitude and latitude of two points", _of(*[_NUMBERS] * 4, gives="float64")),
    "in_polygon": Signature("a WKT text, x and y", _of(("string",), _NUMBERS, _NUMBERS, gives="bool")),
    "in_polygon_degrees": Signature(
        "a WKT text, a longitude and a latitude", _of(("string",), _NUMBERS, _NUMBERS, gives="bool")
    ),
    "least": Signature("two or more values of one type", _alike),
    "greatest": Signature("two or more values of one type", _alike),
    "if": Signature("a condition and two values of one type", _conditional),
    "upper": Signature("a text", _of(("string",))),
    "lower": Signature("a text", _of(("string",))),
    "length": Signature("a text", _of(("string",), gives="int64")),
    "concat": Signature("two or more texts", _texts),
    "substring": Signature("a text, a first position from 1 and a length", _of(("string",), ("int64",), ("int64",))),
    "starts_with": Signature("two texts", _of(("string",), ("string",), gives="bool")),
    "contains": Signature("two texts", _of(("string",), ("string",), gives="bool")),
    "hour": Signature("a time", _of(("timestamp",), gives="int64")),
    "minute": Signature("a time", _of(("timestamp",), gives="int64")),
    "second": Signature("a time", _of(("timestamp",), gives="int64")),
    "as_int64": Signature("a number, condition, time or text of digits", _of(_ANY, gives="int64")),
    "as_float64": Signature("a number", _of(_NUMBERS, gives="float64")),
    "as_string": Signature("an integer, condition or text", _of(("int64", "bool", "string"), gives="string")),
    "is_null": Signature("a value", _of(_ANY, gives="bool")),
    "coalesce": Signature("two or more values of one type", _alike),
    "nullif": Signature("two values of one type", _pair()),
    "is_same": Signature("two values of one type", _pair(gives="bool")),
    "as_timestamp": Signature("microseconds since 1970", _of(("int64", "timestamp"), gives="timestamp")),
}


@dataclass(frozen=True, eq=False)
class Call(Expression):
    """A built-in function of some values."""

    function: str
    arguments: tuple[Expression, ...]

    def __post_init__(self) -> None:
        """Reject an unknown function."""
        if self.function not in FUNCTIONS:
            raise GraphError(f"there is no function {self.function!r}; there are {', '.join(FUNCTIONS)}")

    def data(self) -> list[Any]:
        """Plain form."""
        return ["call", self.function, *(argument.data() for argument in self.arguments)]

    def children(self) -> tuple[Expression, ...]:
        """The arguments."""
        return self.arguments

    def type_in(self, schema: Schema, where: str) -> FieldType:
        """The type the function gives for the arguments' types."""
        types = [argument.type_in(schema, where) for argument in self.arguments]
        signature = FUNCTIONS[self.function]
        given = signature.gives(types)
        if given is None:
            got = ", ".join(types) or "nothing"
            raise GraphError(f"{where}: {self.function} needs {signature.takes}; got {got}")
        return given

    def may_be_null(self, schema: Schema) -> bool:
        """As the arguments, but for the functions that are about nulls."""
        if self.function in ("is_null", "is_same"):
            return False
        if self.function == "nullif":
            return True
        given = self.arguments[1:] if self.function == "if" else self.arguments  # an unknown condition is a false one
        each = [argument.may_be_null(schema) for argument in given]
        return all(each) if self.function in ("coalesce", "least", "greatest") else any(each)


@dataclass(frozen=True, eq=False)
class Udf(Expression):
    """A user function, called with whole columns as NumPy arrays (texts as lists of str)."""

    name: str
    code: str
    type: FieldType
    arguments: tuple[Expression, ...]

    def __post_init__(self) -> None:
        """Reject types no column of a stream can have."""
        if self.type not in STREAM_TYPES:
            raise GraphError(f"function {self.name!r} must give one of {', '.join(STREAM_TYPES)}; got {self.type!r}")

    def data(self) -> list[Any]:
        """Plain form."""
        return ["udf", self.name, self.code, self.type, *(argument.data() for argument in self.arguments)]

    def children(self) -> tuple[Expression, ...]:
        """The arguments."""
        return self.arguments

    def type_in(self, schema: Schema, where: str) -> FieldType:
        """The declared type; the arguments must exist."""
        for argument in self.arguments:
            argument.type_in(schema, where)
        return self.type

    def may_be_null(self, schema: Schema) -> bool:  # noqa: ARG002  (whatever it is given, it may give None)
        """Always."""
        return True


@dataclass(frozen=True, eq=False)
class Null(Expression):
    """A null of some type."""

    type: FieldType

    def __post_init__(self) -> None:
        """Reject types no column of a stream can have."""
        if self.type not in STREAM_TYPES:
            raise GraphError(f"a null must have one of the types {', '.join(STREAM_TYPES)}; got {self.type!r}")

    def data(self) -> list[Any]:
        """Plain form."""
        return ["null", self.type]

    def type_in(self, schema: Schema, where: str) -> FieldType:  # noqa: ARG002  (a null is what it is everywhere)
        """The type it was given."""
        return self.type

    def may_be_null(self, schema: Schema) -> bool:  # noqa: ARG002  (a null is what it is everywhere)
        """Always."""
        return True


@dataclass(frozen=True)
class Function:
    """A Python function made usable in expressions: call it with columns, get an expression."""

    name: str
    code: str
    type: FieldType

    def __call__(self, *arguments: Any) -> Udf:
        """The function of some columns (by name) or expressions."""
        return Udf(self.name, self.code, self.type, tuple(as_expression(a, column=True) for a in arguments))


def udf(type_: str) -> Callable[[Callable[..., Any]], Function]:
    """Make a function on columns usable in expressions; it is called once per block, not once per row.

    It must be a pure function of its arguments, row by row, or results will depend on where operators run. Rows in
    which an argument is null are not passed to it and give null; it gives nulls as a masked array, or None in a list.

    >>> @udf("int64")
    ... def cell(latitude, longitude):
    ...     return (latitude // 1).astype(int) * 360 + (longitude // 1).astype(int)
    >>> cell("lat", "lon").type
    'int64'
    """
    return lambda function: Function(function.__name__, code_of(function), cast(FieldType, type_))


def call(function: str, *arguments: Any) -> Call:
    """A built-in function by name; texts are column names.

    >>> call("greatest", "a", "b").data()
    ['call', 'greatest', ['col', 'a'], ['col', 'b']]
    """
    return Call(function, tuple(as_expression(argument, column=True) for argument in arguments))


def abs_(value: Any) -> Call:
    """The value without its sign."""
    return call("abs", value)


def floor(value: Any) -> Call:
    """The next integer below."""
    return call("floor", value)


def round_(value: Any) -> Call:
    """The nearest integer, halves to the even one."""
    return call("round", value)


def if_(condition: Expression, then: Expression | Value, otherwise: Expression | Value) -> Call:
    """One value where a condition holds, another one elsewhere.

    >>> if_(col("speed") > 80, 1, 0).data()
    ['call', 'if', ['gt', ['col', 'speed'], ['lit', 80]], ['lit', 1], ['lit', 0]]
    """
    return Call("if", (condition, as_expression(then), as_expression(otherwise)))


def is_null(value: Any) -> Call:
    """Whether a value is null; never null itself.

    >>> is_null("speed").data()
    ['call', 'is_null', ['col', 'speed']]
    """
    return call("is_null", value)


def coalesce(*values: Any) -> Call:
    """The first of some values that is not null; texts are column names, `lit("text")` is a text."""
    return call("coalesce", *values)


def nullif(value: Any, other: Any) -> Call:
    """The value, or null where it equals the other one."""
    return call("nullif", value, other)


def is_same(value: Any, other: Any) -> Call:
    """Whether two values are equal or both null; never null itself (SQL: IS NOT DISTINCT FROM)."""
    return call("is_same", value, other)


def distance(x: Any, y: Any, other_x: Any, other_y: Any) -> Call:
    """The distance of two points in the plane; texts are column names.

    >>> distance("x", "y", 0.0, 0.0).data()
    ['call', 'distance', ['col', 'x'], ['col', 'y'], ['lit', 0.0], ['lit', 0.0]]
    """
    return call("distance", x, y, other_x, other_y)


def haversine(longitude: Any, latitude: Any, other_longitude: Any, other_latitude: Any) -> Call:
    """Metres between two points in degrees, along a great circle of a sphere; texts are column names."""
    return call("haversine", longitude, latitude, other_longitude, other_latitude)


def null(type_: str) -> Null:
    """A null of some type."""
    return Null(cast(FieldType, type_))


def _null_from(data: Sequence[Any], rebuild: Callable[[Any], Expression]) -> Expression:  # noqa: ARG001
    match data:
        case [_, str(type_)]:
            return null(type_)
        case _:
            raise GraphError(f"unknown expression {data!r}")


def _call_from(data: Sequence[Any], rebuild: Callable[[Any], Expression]) -> Expression:
    match data:
        case [_, str(function), *arguments]:
            return Call(function, tuple(rebuild(argument) for argument in arguments))
        case _:
            raise GraphError(f"unknown expression {data!r}")


def _udf_from(data: Sequence[Any], rebuild: Callable[[Any], Expression]) -> Expression:
    match data:
        case [_, str(name), str(code), str(type_), *arguments]:
            return Udf(name, code, cast(FieldType, type_), tuple(rebuild(argument) for argument in arguments))
        case _:
            raise GraphError(f"unknown expression {data!r}")


register_form("call", _call_from)
register_form("udf", _udf_from)
register_form("null", _null_from)
__all__ = [
    "FUNCTIONS",
    "Call",
    "Function",
    "Null",
    "Udf",
    "abs_",
    "call",
    "coalesce",
    "col",
    "distance",
    "floor",
    "haversine",
    "if_",
    "is_null",
    "is_same",
    "null",
    "nullif",
    "round_",
    "udf",
]
