"""Aggregates over a window: what to compute, not how."""

from dataclasses import dataclass
from typing import Any, Literal, get_args

from shoal.errors import GraphError
from shoal.model.query.code import code_of
from shoal.model.query.schema import FIELD_TYPES, FieldType, Schema

AggregateKind = Literal[
    "count", "sum", "mean", "min", "max", "top_k", "variance", "stddev", "count_distinct", "approx_distinct", "user"
]
AGGREGATE_KINDS: tuple[AggregateKind, ...] = get_args(AggregateKind)
_ACCEPTS: dict[AggregateKind, tuple[FieldType, ...]] = {
    "sum": ("int64", "float64"),
    "mean": ("int64", "float64"),
    "min": ("int64", "float64", "timestamp"),
    "max": ("int64", "float64", "timestamp"),
    "top_k": ("int64", "float64"),
    "variance": ("int64", "float64"),
    "stddev": ("int64", "float64"),
    "count_distinct": ("int64", "string", "bool", "timestamp"),
    "approx_distinct": ("int64", "string", "bool", "timestamp"),
    "user": ("int64", "float64", "string", "bool", "timestamp"),
}
LARGEST_K = 1024


@dataclass(frozen=True)
class Aggregate:
    """One aggregate of one column, which skips nulls; `count` without a column counts events; only `top_k` has a `k`.

    An aggregate of the user's own has the `code` that computes it (see `shoal.model.query.code`) and a `type`.
    """

    kind: AggregateKind
    column: str = ""
    k: int = 0
    code: str = ""
    type: FieldType = "float64"

    def __post_init__(self) -> None:
        """Reject a wrong kind, column or k."""
        if self.kind not in AGGREGATE_KINDS:
            raise GraphError(f"aggregate must be one of {', '.join(AGGREGATE_KINDS)}; got {self.kind!r}")
        if self.kind != "count" and not self.column:
            raise GraphError(f"aggregate {self.kind!r} needs a column")
        if self.kind != "top_k" and self.k:
            raise GraphError(f"aggregate {self.kind!r} takes no k; got {self.k}")
        if (self.kind == "user") != bool(self.code):
            raise GraphError(f"aggregate {self.kind!r} {'takes no code' if self.code else 'needs code'}")
        if self.type not in FIELD_TYPES:
            raise GraphError(f"type of an aggregate must be one of {', '.join(FIELD_TYPES)}; got {self.type!r}")
        if self.kind == "top_k" and not 1 <= self.k <= LARGEST_K:
            raise GraphError(f"top_k({self.column!r}) must keep between 1 and {LARGEST_K} values; got {self.k}")

    def data(self) -> list[Any]:
        """The aggregate as plain data: the arguments to make it again."""
        plain = [self.kind, self.column, self.k]
        return [*plain, self.code, self.type] if self.kind == "user" else plain

    def check(self, schema: Schema, where: str) -> None:
        """Reject a column that is missing or of a type this aggregate cannot take."""
        if not self.column:
            return
        if self.column not in schema:
            raise GraphError(f"{where} names unknown column {self.column!r}; there are {', '.join(schema.names)}")
        type_ = schema.type_of(self.column)
        if self.kind != "count" and type_ not in _ACCEPTS[self.kind]:
            raise GraphError(
                f"{where}: {self.kind}({self.column!r}) needs a column of type "
                f"{' or '.join(_ACCEPTS[self.kind])}; {self.column!r} is {type_}"
            )

    def output_type(self, schema: Schema) -> FieldType:
        """Type of the result."""
        if self.kind in ("count", "count_distinct", "approx_distinct"):
            return "int64"
        if self.kind in ("mean", "variance", "stddev"):
            return "float64"
        if self.kind == "user":
            return self.type
        if self.kind == "top_k":
            return "list<int64>" if schema.type_of(self.column) == "int64" else "list<float64>"
        return schema.type_of(self.column)

    def may_be_null(self, schema: Schema) -> bool:
        """Whether the result can be null: if every value of a window can. Counts and lists of nothing are no null."""
        return self.of_nothing is None and (self.kind == "user" or schema.may_be_null(self.column))

    @property
    def of_nothing(self) -> Any:
        """The result without any value; None is null."""
        if self.kind in ("count", "count_distinct", "approx_distinct"):
            return 0
        return [] if self.kind == "top_k" else None


def count(column: str = "") -> Aggregate:
    """Count the events of a window, or those in which a column is not null."""
    return Aggregate("count", column)


def sum_(column: str) -> Aggregate:
    """Add a column up; integers wrap around at 64 bits.

    Floats are added without rounding over 14 orders of magnitude and more, so the order of events does not matter.
    """
    return Aggregate("sum", column)


def mean(column: str) -> Aggregate:
    """Average a column, as floats; they are added as by `sum_`, so the order of events does not matter."""
    return Aggregate("mean", column)


def min_(column: str) -> Aggregate:
    """Take the smallest value of a column; NaN, which only expressions make, is the largest of all."""
    return Aggregate("min", column)


def max_(column: str) -> Aggregate:
    """Take the largest value of a column; NaN, which only expressions make, is the largest of all."""
    return Aggregate("max", column)


def top_k(column: str, k: int) -> Aggregate:
    """Keep the k largest values of a column, largest first.

    >>> top_k("speed", 0)
    Traceback (most recent call last):
    shoal.errors.GraphError: top_k('speed') must keep between 1 and 1024 values; got 0
    """
    return Aggregate("top_k", column, k)


def variance(column: str) -> Aggregate:
    """Sample variance of a column; 0 for a single event. Sums are exact, so the order of events does not matter."""
    return Aggregate("variance", column)


def stddev(column: str) -> Aggregate:
    """Sample standard deviation of a column; 0 for a single event."""
    return Aggregate("stddev", column)


def count_distinct(column: str) -> Aggregate:
    """Count the different values of a column, exactly; the state holds each of them."""
    return Aggregate("count_distinct", column)


def approx_distinct(column: str) -> Aggregate:
    """Estimate the number of different values of a column with 2 % standard error, in 2 KB per key and pane."""
    return Aggregate("approx_distinct", column)


@dataclass(frozen=True)
class OwnAggregate:
    """An aggregate of the user's own under the name by which files use it."""

    name: str
    code: str

    def __call__(self, column: str, type_: FieldType = "float64") -> Aggregate:
        """The aggregate of a column, and the type of its result."""
        return Aggregate("user", column, 0, self.code, type_)


def is_aggregate(thing: object) -> bool:
    """Whether something is a class with the methods of an aggregate."""
    return isinstance(thing, type) and not _missing(thing)


def user_aggregate(kind: type, column: str, type_: FieldType = "float64") -> Aggregate:
    """An aggregate of your own: a class with `zero()`, `add(state, values)`, `merge(a, b)` and `result(state)`.

    The state must be plain data (numbers, texts, lists, dicts); `values` is a list of one cell's values, without nulls.
    The result is null if it is None, and if all values of a window are null.
    `merge` must not care about order or grouping, or results will depend on where operators run.
    """
    if missing := _missing(kind):
        raise GraphError(
            f"user aggregate {kind!r} must have the methods zero, add, merge and result; {missing[0]} is missing"
        )
    return OwnAggregate(kind.__name__, code_of(kind))(column, type_)


def _missing(kind: type) -> list[str]:
    return [name for name in ("zero", "add", "merge", "result") if not callable(getattr(kind, name, None))]
