"""The built-in functions of expressions, on whole columns."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial, reduce
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from shoal.errors import RunError
from shoal.kernels.columns.block import Column, as_column, encoded, plain
from shoal.kernels.columns.nullable import Nullable, Valid, both_valid, nullable, present, valid_of, values_of
from shoal.kernels.expression.logic import compare
from shoal.kernels.spatial.distance import distances, haversines
from shoal.kernels.spatial.polygon_contains import in_polygons

DAY_US = 86_400_000_000


def call(function: str, arguments: Sequence[Column]) -> Column:
    """Apply a built-in function to columns of equal length; unless it is about nulls, a null makes its result null.

    >>> call("greatest", [np.array([1, 5]), np.array([3, 2])]).tolist()
    [3, 5]
    """
    apply = _FUNCTIONS[function]
    valid = None if function in _TAKE_NULLS else reduce(both_valid, map(valid_of, arguments))
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        if valid is None:
            return apply(*arguments)
        return _masked(apply(*(values_of(argument) for argument in arguments)), valid)


def _masked(column: Column, valid: Valid) -> Column:
    """A column with null in the rows that are not valid."""
    return pc.if_else(pa.array(valid), column, None) if isinstance(column, pa.Array) else nullable(column, valid)


def _integers(values: NDArray[Any]) -> NDArray[np.int64]:
    return np.asarray(values).astype(np.int64)


def _pick(condition: Column, then: Column, otherwise: Column) -> Column:
    """One value where the condition holds, the other where it is false or null."""
    holds = condition.values if isinstance(condition, Nullable) else np.asarray(condition, bool)
    if isinstance(then, pa.Array):
        return pc.if_else(pa.array(holds), plain(then), plain(otherwise))
    values = np.where(holds, values_of(then), values_of(otherwise))
    if not isinstance(then, Nullable) and not isinstance(otherwise, Nullable):
        return values
    return nullable(values, np.where(holds, present(then), present(otherwise)))


def _extreme(name: str) -> Callable[..., Column]:
    """The least or greatest of several values, nulls left out; NaN is greater than every other number."""
    numbers = np.fmin if name == "least" else np.maximum
    texts = pc.min_element_wise if name == "least" else pc.max_element_wise

    def of_two(left: Column, right: Column) -> Column:
        extreme = numbers(values_of(left), values_of(right))
        if not isinstance(left, Nullable) and not isinstance(right, Nullable):
            return extreme
        has_left, has_right = present(left), present(right)
        one = np.where(has_left, values_of(left), values_of(right))
        return nullable(np.where(has_left & has_right, extreme, one), has_left | has_right)

    def function(*arguments: Column) -> Column:
        if isinstance(arguments[0], pa.Array):
            return texts(*(plain(argument) for argument in arguments))
        return reduce(of_two, arguments)

    return function


def _is_null(column: Column) -> Column:
    return ~present(column)


def _coalesce(*columns: Column) -> Column:
    """The first value that is not null."""
    if isinstance(columns[0], pa.Array):
        return pc.coalesce(*(plain(column) for column in columns))
    type_ = np.result_type(*(values_of(column) for column in columns))
    found, valid = values_of(columns[0]).astype(type_, copy=False), valid_of(columns[0])
    for column in columns[1:]:
        if valid is None:
            break
        found = np.where(valid, found, values_of(column))
        valid = valid | present(column)
    return nullable(found, valid)


def _null_if(column: Column, other: Column) -> Column:
    """The value, null where it equals the other one."""
    equal = compare("eq", column, other)
    kept = ~(equal.values if isinstance(equal, Nullable) else equal)
    if isinstance(column, pa.Array):
        return _masked(plain(column), kept)
    return nullable(values_of(column), both_valid(valid_of(column), kept))


def _is_same(column: Column, other: Column) -> Column:
    """Whether two values are equal or both null."""
    equal = compare("eq", column, other)
    if not isinstance(equal, Nullable):
        return equal
    return equal.values | (_is_null(column) & _is_null(other))


def _by_entry(function: Callable[[pa.Array], pa.Array]) -> Callable[[Column], Column]:
    """A function of texts, computed once per distinct text; Arrow passes nulls on."""

    def apply(texts: pa.Array) -> Column:
        dictionary = encoded(texts)
        values = function(dictionary.dictionary)
        taken = values.take(dictionary.indices)
        return taken if pa.types.is_string(taken.type) else as_column(taken.cast(pa.int64()))

    return apply


def _substring(texts: pa.Array, first: NDArray[np.int64], length: NDArray[np.int64]) -> pa.Array:
    """Characters from a position that counts from 1; positions below 1 behave as in SQL."""
    rows = zip(plain(texts).to_pylist(), first.tolist(), length.tolist(), strict=True)
    return pa.array([text[max(at - 1, 0) : max(at - 1 + number, 0)] for text, at, number in rows], pa.string())


def _row_by_row(test: Callable[[str, str], bool]) -> Callable[..., Column]:
    def function(texts: pa.Array, others: pa.Array) -> Column:
        pairs = zip(plain(texts).to_pylist(), plain(others).to_pylist(), strict=True)
        return np.array([test(text, other) for text, other in pairs], bool)

    return function


def _to_string(column: Column) -> Column:
    if isinstance(column, pa.Array):
        return column
    return (column.to_arrow() if isinstance(column, Nullable) else pa.array(column)).cast(pa.string())


def _to_int(column: Column) -> Column:
    if isinstance(column, Nullable):
        return nullable(_integers(column.values), column.valid)
    if not isinstance(column, pa.Array):
        return _integers(column)
    try:
        return as_column(plain(column).cast(pa.int64()))
    except pa.ArrowInvalid as error:
        raise RunError(f"as_int64 needs texts of digits: {error}") from error


def _in_polygon(texts: pa.Array, x: Column, y: Column, *, degrees: bool) -> Column:
    """Whether polygons contain points; what stands in the place of a null is not read as a polygon."""
    inside = in_polygons(texts, x, y, degrees=degrees)
    valid = reduce(both_valid, map(valid_of, (texts, x, y)))
    return inside if valid is None else nullable(inside, valid)


_FUNCTIONS: Mapping[str, Callable[..., Column]] = {
    "abs": np.abs,
    "floor": lambda x: _integers(np.floor(x)),
    "ceil": lambda x: _integers(np.ceil(x)),
    "round": lambda x: _integers(x if x.dtype == np.int64 else np.rint(x)),
    "sqrt": np.sqrt,
    "exp": np.exp,
    "ln": np.log,
    "power": lambda x, y: np.power(np.asarray(x, np.float64), y),
    "distance": distances,
    "haversine": haversines,
    "in_polygon": partial(_in_polygon, degrees=False),
    "in_polygon_degrees": partial(_in_polygon, degrees=True),
    "least": _extreme("least"),
    "greatest": _extreme("greatest"),
    "if": _pick,
    "upper": _by_entry(pc.utf8_upper),
    "lower": _by_entry(pc.utf8_lower),
    "length": _by_entry(pc.utf8_length),
    "concat": lambda *texts: pc.binary_join_element_wise(*(plain(text) for text in texts), ""),
    "substring": _substring,
    "starts_with": _row_by_row(str.startswith),
    "contains": _row_by_row(lambda text, other: other in text),
    "hour": lambda t: np.mod(t, DAY_US) // 3_600_000_000,
    "minute": lambda t: np.mod(t, 3_600_000_000) // 60_000_000,
    "second": lambda t: np.mod(t, 60_000_000) // 1_000_000,
    "as_int64": _to_int,
    "as_float64": lambda x: np.asarray(x, np.float64),
    "as_string": _to_string,
    "as_timestamp": _integers,
    "is_null": _is_null,
    "coalesce": _coalesce,
    "nullif": _null_if,
    "is_same": _is_same,
}
_ABOUT_NULLS = frozenset({"is_null", "coalesce", "nullif", "is_same", "if", "least", "greatest"})
_PASS_NULLS = frozenset({"upper", "lower", "length", "as_int64", "as_string", "in_polygon", "in_polygon_degrees"})
_TAKE_NULLS = _ABOUT_NULLS | _PASS_NULLS
"""Functions that are given nulls; others only see something in their place, and are null there."""
