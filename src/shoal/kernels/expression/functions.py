"""The built-in functions of expressions, on whole columns."""

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from shoal.errors import FunctionError, RunError
from shoal.kernels.columns.block import Column, encoded, plain
from shoal.kernels.failing import failing_range, raised, shown
from shoal.model.query.code import load
from shoal.model.query.functions import Udf

DAY_US = 86_400_000_000
_DTYPES: Mapping[str, Any] = {"int64": np.int64, "float64": np.float64, "bool": np.bool_, "timestamp": np.int64}


def call(function: str, arguments: Sequence[Column]) -> Column:
    """Apply a built-in function to columns of equal length.

    >>> call("greatest", [np.array([1, 5]), np.array([3, 2])]).tolist()
    [3, 5]
    """
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        return _FUNCTIONS[function](*arguments)


def call_user(udf: Udf, arguments: Sequence[Column], length: int) -> Column:
    """Apply a user-defined function: it receives texts as lists and must return one value per row, or one for all."""
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


def _as_column(given: Any, type_: str, length: int) -> Column:
    if type_ == "string":
        texts = [given] * length if isinstance(given, str) else list(given)
        array = pa.array(texts, pa.string())
        if array.null_count:
            raise ValueError("got None")
        return array
    numbers = np.broadcast_to(np.asarray(given), (length,)) if np.ndim(given) == 0 else np.asarray(given)
    if type_ == "timestamp" and numbers.dtype.kind == "M":
        numbers = numbers.astype("datetime64[us]").view(np.int64)
    return np.ascontiguousarray(numbers.astype(_DTYPES[type_], casting="same_kind"))


def _integers(values: NDArray[Any]) -> NDArray[np.int64]:
    return np.asarray(values).astype(np.int64)


def _pick(condition: Column, then: Column, otherwise: Column) -> Column:
    if isinstance(then, pa.Array):
        return pc.if_else(pa.array(np.asarray(condition, bool)), plain(then), plain(otherwise))
    return np.where(condition, then, otherwise)


def _extreme(name: str) -> Callable[..., Column]:
    numbers = np.minimum if name == "least" else np.maximum
    texts = pc.min_element_wise if name == "least" else pc.max_element_wise

    def function(*arguments: Column) -> Column:
        if isinstance(arguments[0], pa.Array):
            return texts(*(plain(argument) for argument in arguments))
        return reduce(numbers, arguments)

    return function


def _by_entry(function: Callable[[pa.Array], pa.Array]) -> Callable[[Column], Column]:
    """A function of texts, computed once per distinct text."""

    def apply(texts: pa.Array) -> Column:
        dictionary = encoded(texts)
        values = function(dictionary.dictionary)
        taken = values.take(dictionary.indices)
        return taken if pa.types.is_string(taken.type) else taken.to_numpy(zero_copy_only=False).astype(np.int64)

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
    return pa.array(column).cast(pa.string())


def _to_int(column: Column) -> Column:
    if not isinstance(column, pa.Array):
        return _integers(column)
    try:
        return plain(column).cast(pa.int64()).to_numpy(zero_copy_only=False)
    except pa.ArrowInvalid as error:
        raise RunError(f"as_int64 needs texts of digits: {error}") from error


_FUNCTIONS: Mapping[str, Callable[..., Column]] = {
    "abs": np.abs,
    "floor": lambda x: _integers(np.floor(x)),
    "ceil": lambda x: _integers(np.ceil(x)),
    "round": lambda x: _integers(x if x.dtype == np.int64 else np.rint(x)),
    "sqrt": np.sqrt,
    "exp": np.exp,
    "ln": np.log,
    "power": lambda x, y: np.power(np.asarray(x, np.float64), y),
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
}
