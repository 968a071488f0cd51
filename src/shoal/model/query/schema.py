"""Schemas: the names and types of a stream's columns, and which of them may be null."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Literal, cast, get_args

from shoal.errors import SchemaError

FieldType = Literal["int64", "float64", "string", "bool", "timestamp", "list<int64>", "list<float64>"]
FIELD_TYPES: tuple[FieldType, ...] = get_args(FieldType)
STREAM_TYPES: tuple[FieldType, ...] = ("int64", "float64", "string", "bool", "timestamp")
"""Types a stream may declare; lists only come out of aggregates."""
NOT_NULL = " not null"
"""What follows the type of a column that has a value in every row."""
TIME = "#time"
"""Event time of rows that operators have emitted; present even if a select drops all columns."""


@dataclass(frozen=True)
class Field:
    """One named, typed column; unless `nullable`, it has a value in every row."""

    name: str
    type: FieldType
    nullable: bool = True

    def __post_init__(self) -> None:
        """Reject names and types that cannot be a column."""
        if not self.name.isidentifier():
            raise SchemaError(f"column name must be an identifier; got {self.name!r}")
        if self.type not in FIELD_TYPES:
            raise SchemaError(
                f"column {self.name!r} must have one of the types {', '.join(FIELD_TYPES)}; got {self.type!r}"
            )


@dataclass(frozen=True)
class Schema:
    """The columns of a stream, in order.

    >>> cars = Schema.of({"ts": "timestamp", "speed": "float64"})
    >>> cars.names
    ('ts', 'speed')
    >>> cars.type_of("speed")
    'float64'
    >>> Schema.of({"lane": "int64 not null"}).may_be_null("lane")
    False
    """

    fields: tuple[Field, ...]

    def __post_init__(self) -> None:
        """Reject an empty schema and duplicate names."""
        if not self.fields:
            raise SchemaError("a schema must have at least one column")
        known: set[str] = set()
        for field in self.fields:
            if field.name in known:
                raise SchemaError(f"column {field.name!r} is declared twice")
            known.add(field.name)

    @classmethod
    def of(cls, types: Mapping[str, str]) -> "Schema":
        """Build a schema from a mapping of column names to type names, such as `int64` or `int64 not null`."""
        return cls(tuple(_field(name, type_) for name, type_ in types.items()))

    @property
    def names(self) -> tuple[str, ...]:
        """Column names in order."""
        return tuple(field.name for field in self.fields)

    def __contains__(self, name: object) -> bool:
        """Whether a column of that name exists."""
        return any(field.name == name for field in self.fields)

    def type_of(self, name: str) -> FieldType:
        """Type of a column; the caller has checked that it exists."""
        return self.field(name).type

    def field(self, name: str) -> Field:
        """A column; the caller has checked that it exists."""
        for field in self.fields:
            if field.name == name:
                return field
        raise SchemaError(f"unknown column {name!r}; there are {', '.join(self.names)}")

    def may_be_null(self, name: str) -> bool:
        """Whether a column may be null; the caller has checked that it exists."""
        return any(field.nullable for field in self.fields if field.name == name)

    def required(self, names: Collection[str]) -> "Schema":
        """The schema with some columns that are no longer null."""
        return Schema(tuple(replace(f, nullable=f.nullable and f.name not in names) for f in self.fields))

    @property
    def nullable(self) -> tuple[str, ...]:
        """Names of the columns that may be null."""
        return tuple(field.name for field in self.fields if field.nullable)

    def as_dict(self) -> dict[str, str]:
        """The schema as plain data, the inverse of `of`."""
        return {field.name: field.type if field.nullable else field.type + NOT_NULL for field in self.fields}

    @property
    def types(self) -> dict[str, str]:
        """The type of every column, whether it may be null or not."""
        return {field.name: field.type for field in self.fields}


def _field(name: str, type_: str) -> Field:
    if not isinstance(type_, str):
        raise SchemaError(f"type of column {name!r} must be a text such as 'int64'; got {type_!r}")
    words = type_.lower().split()
    is_required = words[-2:] == NOT_NULL.split()
    return Field(name, cast(FieldType, " ".join(words[:-2] if is_required else words)), nullable=not is_required)


def not_null(types: Mapping[str, str]) -> dict[str, str]:
    """The same columns, each with a value in every row.

    >>> not_null({"lane": "int64", "speed": "float64 not null"})
    {'lane': 'int64 not null', 'speed': 'float64 not null'}
    """
    return {name: type_ if type_.endswith(NOT_NULL) else type_ + NOT_NULL for name, type_ in types.items()}
