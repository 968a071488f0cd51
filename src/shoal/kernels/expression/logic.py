"""Conditions on whole columns: comparisons and logic with three values, true, false and null.

A comparison with null is null. NaN is a value: it equals itself and is greater than every other number. A side is a
column, or a scalar that is the same in every row.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from shoal.kernels.columns.block import Column, encoded
from shoal.kernels.columns.nullable import Nullable, Valid, both_valid, entry_values, nullable, valid_of, values_of
from shoal.model.query.expression import Value

_MIRRORED = {"gt": "lt", "ge": "le"}
_TEXT_OPERATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}


def validity(side: Any) -> Valid | None:
    """Which rows of a column have a value; None if all have, as for a scalar."""
    return valid_of(side) if isinstance(side, Nullable | pa.Array) else None


def numbers_of(side: Any) -> Any:
    """The numbers of a column with 0 in place of nulls, or a scalar as it is."""
    return side.values if isinstance(side, Nullable) else side


def compare(op: str, left: Any, right: Any) -> Any:
    """Compare two sides of one type; null where one of them is.

    >>> compare("lt", np.array([1.0, np.nan]), np.array([np.nan, 1.0])).tolist()
    [True, False]
    """
    if isinstance(left, pa.Array | str):
        return _compare_texts(op, left, right)
    valid = both_valid(validity(left), validity(right))
    if valid is None:
        return compare_numbers(op, left, right)
    return nullable(np.asarray(compare_numbers(op, numbers_of(left), numbers_of(right))), valid)


def compare_numbers(op: str, left: Any, right: Any) -> Any:
    """Compare numbers without nulls; more than one pass is made only where both sides may be NaN."""
    if op in _MIRRORED:
        op, left, right = _MIRRORED[op], right, left
    left_nan, right_nan = _may_be_nan(left), _may_be_nan(right)
    if op in ("eq", "ne"):
        if not (left_nan and right_nan):
            return np.equal(left, right) if op == "eq" else np.not_equal(left, right)
        same = np.equal(left, right) | (np.not_equal(left, left) & np.not_equal(right, right))
        return same if op == "eq" else np.logical_not(same)
    if op == "lt":
        if not right_nan:
            return np.less(left, right)
        less = np.logical_not(np.greater_equal(left, right))
        return less & np.equal(left, left) if left_nan else less
    if not right_nan:
        return np.less_equal(left, right)
    if not left_nan:
        return np.logical_not(np.greater(left, right))
    return np.less_equal(left, right) | np.not_equal(right, right)


def _may_be_nan(side: Any) -> bool:
    return side.dtype.kind == "f" if isinstance(side, np.ndarray) else math.isnan(side)


def _compare_texts(op: str, left: Any, right: Any) -> Any:
    """Compare texts; against a constant only the dictionary's entries are compared."""
    operation = _TEXT_OPERATIONS[op]
    if isinstance(left, pa.Array) and isinstance(right, str):
        return _by_entry(left, lambda entries: operation(entries, right))
    if isinstance(left, str) and isinstance(right, pa.Array):
        return _by_entry(right, lambda entries: operation(left, entries))
    found = operation(_objects(left), _objects(right)).astype(bool)
    valid = both_valid(validity(left), validity(right))
    return found if valid is None else nullable(found, valid)


def _objects(texts: Any) -> Any:
    """Texts as Python objects, an empty one in place of null."""
    return np.asarray(values_of(texts).to_pylist(), dtype=object) if isinstance(texts, pa.Array) else texts


def _by_entry(texts: pa.Array, test: Callable[[NDArray[np.object_]], Any]) -> Any:
    """Apply a test to the distinct texts and expand its outcome to the rows."""
    dictionary = encoded(texts)
    of_entry = np.asarray(test(_objects(dictionary.dictionary)), bool)
    found = entry_values(of_entry, dictionary, null=False)
    return nullable(found, valid_of(dictionary)) if dictionary.null_count else found


def is_in(column: Column, choices: tuple[Value, ...]) -> Any:
    """Whether each value is one of some choices, none of which is null or NaN."""
    if isinstance(column, pa.Array):
        wanted = set(choices)
        return _by_entry(column, lambda entries: np.array([entry in wanted for entry in entries], bool))
    if isinstance(column, Nullable):
        return nullable(np.isin(column.values, np.array(choices)), column.valid)
    return np.isin(column, np.array(choices))


def opposite(condition: Any) -> Any:
    """The opposite of a condition; null stays null."""
    if isinstance(condition, Nullable):
        return nullable(np.logical_not(condition.values), condition.valid)
    return np.logical_not(condition)


def both(left: Any, right: Any) -> Any:
    """Whether both conditions hold: false if one is false, even if the other is null."""
    if not isinstance(left, Nullable) and not isinstance(right, Nullable):
        return np.logical_and(left, right)
    return opposite(either(opposite(left), opposite(right)))


def either(left: Any, right: Any) -> Any:
    """Whether one of two conditions holds: true if one is true, even if the other is null."""
    if not isinstance(left, Nullable) and not isinstance(right, Nullable):
        return np.logical_or(left, right)
    found = np.logical_or(numbers_of(left), numbers_of(right))
    valid = both_valid(validity(left), validity(right))
    return nullable(found, None if valid is None else found | valid)
