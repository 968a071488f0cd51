"""Column expressions: small frozen trees that know their type and their canonical form, not how to run.

>>> (col("speed") / 3.6 > 20).data()
['gt', ['div', ['col', 'speed'], ['lit', 3.6]], ['lit', 20]]
"""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from shoal.errors import GraphError
from shoal.model.query.schema import FieldType, Schema

Value = int | float | str | bool
LITERAL_TYPES: dict[type, FieldType] = {bool: "bool", int: "int64", float: "float64", str: "string"}
_NUMERIC = ("int64", "float64")
_ARITHMETIC = ("add", "sub", "mul", "div", "floordiv", "mod")
_COMPARISON = ("eq", "ne", "lt", "le", "gt", "ge")
_LOGIC = ("and", "or")


@dataclass(frozen=True, eq=False)
class Expression:
    """An expression over the columns of one row; compare two of them by `text`, since == builds a new one."""

    def data(self) -> list[Any]:
        """The expression as plain lists, the inverse of `from_data`."""
        raise TypeError(f"{type(self).__name__} has no plain form")

    def type_in(self, schema: Schema, where: str) -> FieldType:
        """Type of the value for rows of a schema; errors begin with `where`."""
        raise GraphError(f"{where}: {type(self).__name__} has no type for {schema.names}")

    def children(self) -> tuple["Expression", ...]:
        """The expressions this one is made of."""
        return ()

    def may_be_null(self, schema: Schema) -> bool:
        """Whether the value can be null for rows of a schema: if one of the values it is made of can."""
        return any(child.may_be_null(schema) for child in self.children())

    @property
    def text(self) -> str:
        """Canonical text: equal for equal expressions."""
        return json.dumps(self.data(), separators=(",", ":"))

    def columns(self) -> Iterator[str]:
        """Names of the columns read, with repetition."""
        for child in self.children():
            yield from child.columns()

    def is_in(self, values: Iterable[Value]) -> "Expression":
        """Whether the value is one of a fixed list."""
        if isinstance(values, str) or not isinstance(values, Iterable):
            raise GraphError(f"is_in needs a list of values; got {values!r}")
        return IsIn(self, tuple(sorted(values, key=by_type)))

    def __bool__(self) -> bool:
        """Reject `and`, `or`, `not` and chained comparisons, which Python would decide too early."""
        raise GraphError("an expression has no truth value; use &, | and ~ instead of and, or and not")

    def __add__(self, other: Any) -> "Expression":
        """Sum."""
        return _binary("add", self, other)

    def __radd__(self, other: Any) -> "Expression":
        """Sum."""
        return _binary("add", other, self)

    def __sub__(self, other: Any) -> "Expression":
        """Difference."""
        return _binary("sub", self, other)

    def __rsub__(self, other: Any) -> "Expression":
        """Difference."""
        return _binary("sub", other, self)

    def __mul__(self, other: Any) -> "Expression":
        """Product."""
        return _binary("mul", self, other)

    def __rmul__(self, other: Any) -> "Expression":
        """Product."""
        return _binary("mul", other, self)

    def __truediv__(self, other: Any) -> "Expression":
        """Quotient, always a float."""
        return _binary("div", self, other)

    def __rtruediv__(self, other: Any) -> "Expression":
        """Quotient, always a float."""
        return _binary("div", other, self)

    def __floordiv__(self, other: Any) -> "Expression":
        """Quotient rounded down; the divisor must be a constant other than 0."""
        return _binary("floordiv", self, other)

    def __rfloordiv__(self, other: Any) -> "Expression":
        """Quotient rounded down."""
        return _binary("floordiv", other, self)

    def __mod__(self, other: Any) -> "Expression":
        """Remainder with the sign of the divisor; the divisor must be a constant other than 0."""
        return _binary("mod", self, other)

    def __rmod__(self, other: Any) -> "Expression":
        """Remainder with the sign of the divisor."""
        return _binary("mod", other, self)

    def __eq__(self, other: object) -> "Expression":  # type: ignore[override]
        """Equality of values."""
        return _binary("eq", self, other)

    def __ne__(self, other: object) -> "Expression":  # type: ignore[override]
        """Inequality of values."""
        return _binary("ne", self, other)

    __hash__ = object.__hash__

    def __lt__(self, other: Any) -> "Expression":
        """Less than."""
        return _binary("lt", self, other)

    def __le__(self, other: Any) -> "Expression":
        """Less than or equal."""
        return _binary("le", self, other)

    def __gt__(self, other: Any) -> "Expression":
        """Greater than."""
        return _binary("gt", self, other)

    def __ge__(self, other: Any) -> "Expression":
        """Greater than or equal."""
        return _binary("ge", self, other)

    def __and__(self, other: Any) -> "Expression":
        """Both conditions hold."""
        return _binary("and", self, other)

    def __or__(self, other: Any) -> "Expression":
        """One of the conditions holds."""
        return _binary("or", self, other)

    def __invert__(self) -> "Expression":
        """The condition does not hold."""
        return Not(self)


@dataclass(frozen=True, eq=False)
class Column(Expression):
    """The value of a column."""

    name: str

    def data(self) -> list[Any]:
        """Plain form."""
        return ["col", self.name]

    def columns(self) -> Iterator[str]:
        """The column itself."""
        yield self.name

    def may_be_null(self, schema: Schema) -> bool:
        """Whether the column may be null."""
        return self.name not in schema or schema.may_be_null(self.name)

    def type_in(self, schema: Schema, where: str) -> FieldType:
        """The column's type."""
        if self.name not in schema:
            raise GraphError(f"{where} names unknown column {self.name!r}; there are {', '.join(schema.names)}")
        return schema.type_of(self.name)


@dataclass(frozen=True, eq=False)
class Constant(Expression):
    """The same value for every row."""

    value: Value

    def __post_init__(self) -> None:
        """Reject values no column can hold."""
        if type(self.value) not in LITERAL_TYPES:
            raise GraphError(
                f"a constant must be an int, float, str or bool; got {type(self.value).__name__} {self.value!r}"
            )
        if self.value != self.value:
            raise GraphError("a constant must not be NaN")
        if type(self.value) is int and not -(2**63) <= self.value < 2**63:
            raise GraphError(f"an integer constant must fit 64 bits; got {self.value}")

    def data(self) -> list[Any]:
        """Plain form."""
        return ["lit", self.value]

    def type_in(self, schema: Schema, where: str) -> FieldType:  # noqa: ARG002  (a constant is what it is everywhere)
        """The constant's type."""
        return LITERAL_TYPES[type(self.value)]


@dataclass(frozen=True, eq=False)
class Binary(Expression):
    """An operation on two values."""

    op: str
    left: Expression
    right: Expression

    def data(self) -> list[Any]:
        """Plain form."""
        return [self.op, self.left.data(), self.right.data()]

    def children(self) -> tuple[Expression, ...]:
        """Both sides."""
        return (self.left, self.right)

    def type_in(self, schema: Schema, where: str) -> FieldType:
        """Type of the operation; both sides must fit it and each other."""
        left, right = self.left.type_in(schema, where), self.right.type_in(schema, where)
        if self.op in _LOGIC:
            self._require(left == right == "bool", "two conditions", left, right, where)
            return "bool"
        both_numeric = left in _NUMERIC and right in _NUMERIC
        if self.op in _COMPARISON:
            times = {left, right} <= {"timestamp", "int64"} and "timestamp" in (left, right)
            alike = left == right and not left.startswith("list")
            self._require(both_numeric or alike or times, "values of the same kind", left, right, where)
            return "bool"
        if "timestamp" in (left, right) and self.op in ("add", "sub"):
            return self._time_type(left, right, where)
        self._require(both_numeric, "numbers", left, right, where)
        if self.op in ("floordiv", "mod"):
            constant = isinstance(self.right, Constant) and self.right.value != 0
            self._require(constant, "a constant divisor other than 0", left, right, where)
        if self.op == "div" or "float64" in (left, right):
            return "float64"
        return "int64"

    def _time_type(self, left: str, right: str, where: str) -> FieldType:
        """A time and a number of microseconds give a time; the difference of two times is microseconds."""
        if self.op == "sub" and left == right:
            return "int64"
        moved = (left, right) == ("timestamp", "int64") or (
            self.op == "add" and (left, right) == ("int64", "timestamp")
        )
        self._require(moved, "a time and whole microseconds, or the difference of two times", left, right, where)
        return "timestamp"

    def _require(self, holds: bool, what: str, left: str, right: str, where: str) -> None:
        if not holds:
            raise GraphError(f"{where}: {self.op!r} needs {what}; got {left} and {right} in {self.text}")


@dataclass(frozen=True, eq=False)
class Not(Expression):
    """The opposite of a condition."""

    condition: Expression

    def data(self) -> list[Any]:
        """Plain form."""
        return ["not", self.condition.data()]

    def children(self) -> tuple[Expression, ...]:
        """The condition."""
        return (self.condition,)

    def type_in(self, schema: Schema, where: str) -> FieldType:
        """A condition again."""
        type_ = self.condition.type_in(schema, where)
        if type_ != "bool":
            raise GraphError(f"{where}: ~ needs a condition; got {type_} in {self.text}")
        return "bool"


@dataclass(frozen=True, eq=False)
class IsIn(Expression):
    """Whether a value is one of a fixed list."""

    value: Expression
    choices: tuple[Value, ...]

    def __post_init__(self) -> None:
        """Reject choices no column can hold."""
        for choice in self.choices:
            Constant(choice)

    def data(self) -> list[Any]:
        """Plain form."""
        return ["in", self.value.data(), list(self.choices)]

    def children(self) -> tuple[Expression, ...]:
        """The value looked for."""
        return (self.value,)

    def type_in(self, schema: Schema, where: str) -> FieldType:
        """A condition; the choices must be of the value's type, or microseconds since 1970 for a time."""
        type_ = self.value.type_in(schema, where)
        wanted = "int64" if type_ == "timestamp" else type_
        for choice in self.choices:
            if LITERAL_TYPES[type(choice)] != wanted:
                raise GraphError(f"{where}: is_in needs choices of type {wanted}; got {choice!r}")
        return "bool"


def col(name: str) -> Column:
    """The value of a column.

    >>> (col("speed") > 0).data()
    ['gt', ['col', 'speed'], ['lit', 0]]
    """
    return Column(name)


def lit(value: Value) -> Constant:
    """The same value for every row."""
    return Constant(value)


def as_expression(value: Any, *, column: bool = False) -> Expression:
    """An expression as it is; a text as a column name where `column` is set; anything else as a constant."""
    if isinstance(value, Expression):
        return value
    return Column(value) if column and isinstance(value, str) else Constant(value)


Rebuild = Callable[[Sequence[Any], Callable[[Any], Expression]], Expression]
_FORMS: dict[str, Rebuild] = {}


def register_form(name: str, rebuild: Rebuild) -> None:
    """Tell `from_data` how to rebuild expressions of another module."""
    _FORMS[name] = rebuild


def from_data(data: Sequence[Any]) -> Expression:
    """Rebuild an expression from its plain form."""
    match data:
        case [str(form), *_] if form in _FORMS:
            return _FORMS[form](data, from_data)
        case ["col", str(name)]:
            return Column(name)
        case ["lit", value]:
            return Constant(value)
        case ["not", condition]:
            return Not(from_data(condition))
        case ["in", value, [*choices]]:
            return IsIn(from_data(value), tuple(choices))
        case [str(op), left, right] if op in _ARITHMETIC + _COMPARISON + _LOGIC:
            return Binary(op, from_data(left), from_data(right))
        case _:
            raise GraphError(f"unknown expression {data!r}")


def by_type(value: Any) -> tuple[str, Any]:
    """Order for values of mixed types, so that equal sets of values have equal texts."""
    return type(value).__name__, value if type(value) in LITERAL_TYPES else repr(value)


def _binary(op: str, left: Any, right: Any) -> Binary:
    return Binary(op, as_expression(left), as_expression(right))
