"""Static tables in expressions: the value that belongs to a key."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from shoal.errors import GraphError
from shoal.model.query.expression import (
    LITERAL_TYPES,
    Constant,
    Expression,
    Value,
    as_expression,
    by_type,
    register_form,
)
from shoal.model.query.schema import FieldType, Schema


@dataclass(frozen=True, eq=False)
class Lookup(Expression):
    """A static table: the value belonging to an integer or string key, or a default for unknown keys."""

    key: Expression
    table: tuple[tuple[Value, Value], ...]
    default: Value

    def __post_init__(self) -> None:
        """Reject values no column can hold, and keys with two values."""
        for value in (self.default, *(value for pair in self.table for value in pair)):
            Constant(value)
        keys = [key for key, _ in self.table]
        if len(set(keys)) < len(keys):
            twice = next(key for key in keys if keys.count(key) > 1)
            raise GraphError(f"lookup holds key {twice!r} twice")

    def data(self) -> list[Any]:
        """Plain form."""
        return ["lookup", self.key.data(), [list(pair) for pair in self.table], self.default]

    def children(self) -> tuple[Expression, ...]:
        """The key."""
        return (self.key,)

    def type_in(self, schema: Schema, where: str) -> FieldType:
        """Type of the table's values; keys must be of the key's type."""
        key_type = self.key.type_in(schema, where)
        if key_type not in ("int64", "string"):
            raise GraphError(f"{where}: lookup needs an int64 or string key; got {key_type}")
        for key, value in self.table:
            if LITERAL_TYPES[type(key)] != key_type or type(value) is not type(self.default):
                raise GraphError(
                    f"{where}: lookup needs keys of type {key_type} and values of the default's type "
                    f"{type(self.default).__name__}; got {key!r}: {value!r}"
                )
        return LITERAL_TYPES[type(self.default)]

    def may_be_null(self, schema: Schema) -> bool:  # noqa: ARG002  (a key that is null has the default)
        """Never."""
        return False


def lookup(key: str | Expression, table: Mapping[Any, Value], default: Value) -> Lookup:
    """The value that a static table holds for a key, e.g. the campaign of an ad.

    >>> lookup("ad", {1: 10, 2: 20}, default=-1).data()
    ['lookup', ['col', 'ad'], [[1, 10], [2, 20]], -1]
    """
    pairs = sorted(table.items(), key=lambda pair: by_type(pair[0]))
    return Lookup(as_expression(key, column=True), tuple(pairs), default)


def _lookup_from(data: Sequence[Any], rebuild: Callable[[Any], Expression]) -> Expression:
    match data:
        case [_, key, [*pairs], default] if all(len(pair) == 2 for pair in pairs):
            return Lookup(rebuild(key), tuple((key, value) for key, value in pairs), default)
        case _:
            raise GraphError(f"unknown expression {data!r}")


register_form("lookup", _lookup_from)
