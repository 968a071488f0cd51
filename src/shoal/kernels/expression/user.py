"""User functions in expressions, called with whole columns.

Rows in which an argument is null are not passed to the function and are null in the result. The function makes a null
by None in a list, by a masked array or by the time NaT.
"""

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import numpy as np
import pyarrow as pa

from shoal.errors import FunctionError
from shoal.kernels.columns.block import ARROW_TYPES, Column, as_column, take
from shoal.kernels.columns.nullable import DTYPES, Valid, all_null, both_valid, nullable, valid_of, values_of
from shoal.kernels.expression.failing import failing_range, raised, shown
from shoal.model.query.code import load
from shoal.model.query.functions import Udf
from shoal.model.query.schema import FieldType


def call_user(udf: Udf, arguments: Sequence[Column], length: int) -> Column:
    """Apply a user-defined function: it receives texts as lists and must return one value per row, or one for all."""
    valid = reduce(both_valid, map(valid_of, arguments), None)
    if valid is None:
        return _called(udf, arguments, length)
    rows = np.flatnonzero(valid)
    if not rows.size:
        return all_null(udf.type, length)
    return _spread(_called(udf, [take(argument, rows) for argument in arguments], rows.size), valid)


def _called(udf: Udf, arguments: Sequence[Column], length: int) -> Column:
    plain_arguments = [a.to_pylist() if isinstance(a, pa.Array) else a for a in arguments]
    function = load(udf.code)
    try:
        given = function(*plain_arguments)
    except (Exception, SystemExit) as error:
        message = f"function {udf.name!r} raised {raised(error)}"
        raise FunctionError(message, _failing_arguments(function, plain_arguments, length)) from error
    try:
        column = _as_column(given, udf.type, length)
    except (TypeError, ValueError, pa.ArrowInvalid) as error:
        raise FunctionError(f"function {udf.name!r} must give {udf.type}; {error}") from error
    if len(column) != length:
        raise FunctionError(f"function {udf.name!r} must give a value for each of {length} rows; got {len(column)}")
    return column


def _failing_arguments(function: Callable[..., Any], arguments: Sequence[Any], length: int) -> str:
    """The arguments of a row for which a function raises, as text."""
    start, _stop = failing_range(lambda start, stop: function(*(each[start:stop] for each in arguments)), length)
    values = (each[start : start + 1] for each in arguments)
    return shown([value if isinstance(value, list) else value.tolist() for value in values]) if length else ""


def _as_column(given: Any, type_: FieldType, length: int) -> Column:
    """What a function gave, one value per row, as a column."""
    if given is None:
        return all_null(type_, length)
    if type_ == "string":
        return pa.array([given] * length if isinstance(given, str) else list(given), pa.string())
    valid = None if not isinstance(given, np.ma.MaskedArray) else ~np.ma.getmaskarray(given)
    numbers = np.broadcast_to(np.asarray(given), (length,)) if np.ndim(given) == 0 else np.asarray(given)
    if numbers.dtype == object:
        return as_column(pa.array(numbers.tolist(), ARROW_TYPES[type_], mask=None if valid is None else ~valid))
    if type_ == "timestamp" and numbers.dtype.kind == "M":
        valid = both_valid(valid, ~np.isnat(numbers))
        numbers = numbers.astype("datetime64[us]").view(np.int64)
    numbers = np.ascontiguousarray(numbers.astype(DTYPES[type_], casting="same_kind"))
    return nullable(numbers, None if valid is None else np.broadcast_to(valid, numbers.shape))


def _spread(column: Column, valid: Valid) -> Column:
    """A column of the rows that are valid, with null in the others."""
    at = np.cumsum(valid) - 1
    if isinstance(column, pa.Array):
        return column.take(pa.array(at, mask=~valid))
    rows = np.maximum(at, 0)
    own = valid_of(column)
    return nullable(values_of(column)[rows], valid if own is None else valid & own[rows])
