"""Schemas: the names and types of a stream's columns."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, cast, get_args

from shoal.errors import SchemaError

FieldType = Literal["int64", "float64", "string", "bool", "timestamp", "list<int64>", "list<float64>"]
FIELD_TYPES: tuple[FieldType, ...] = get_args(FieldType)
STREAM_TYPES: tuple[FieldType, ...] = ("int64", "float64", "string", "bool", "timestamp")
"""Types a stream may declare; lists only come out of aggregates."""
TIME = "#time"
"""Event time of rows that operators have emitted; present even if a select drops all columns."""


@dataclass(frozen=True)
class Field:
    """One named, typed, never-null column."""

    name: str
    type: FieldType

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
        """Build a schema from a mapping of column names to type names."""
        return cls(tuple(Field(name, cast(FieldType, type_)) for name, type_ in types.items()))

    @property
    def names(self) -> tuple[str, ...]:
        """Column names in order."""
        return tuple(field.name for field in self.fields)

    def __contains__(self, name: object) -> bool:
        """Whether a column of that name exists."""
        return any(field.name == name for field in self.fields)

    def type_of(self, name: str) -> FieldType:
        """Type of a column; the caller has checked that it exists."""
        for field in self.fields:
            if field.name == name:
                return field.type
        raise SchemaError(f"unknown column {name!r}; there are {', '.join(self.names)}")

    def as_dict(self) -> dict[str, str]:
        """The schema as plain data, the inverse of `of`."""
        return {field.name: field.type for field in self.fields}
