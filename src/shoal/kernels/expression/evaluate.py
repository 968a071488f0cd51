"""Evaluation of expressions over blocks, a whole column at a time."""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from shoal.kernels.columns.block import Block, Column, encoded, take
from shoal.kernels.columns.index import Index
from shoal.kernels.expression.functions import call, call_user
from shoal.model.query.expression import Binary, Constant, Expression, IsIn, Not, Value
from shoal.model.query.expression import Column as ColumnOf
from shoal.model.query.functions import Call, Udf
from shoal.model.query.lookup import Lookup
from shoal.model.query.pattern import Previous

PREVIOUS = "#previous:"
"""Prefix of the block columns that hold the values of the previous row."""
_OPERATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.true_divide,
    "floordiv": np.floor_divide,
    "mod": np.mod,
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "and": np.logical_and,
    "or": np.logical_or,
}


def evaluate(expression: Expression, block: Block) -> Column:
    """The value of an expression for every row of a block.

    >>> from shoal.model.query.expression import col
    >>> block = Block({"speed": np.array([10.0, 90.0])}, 2)
    >>> evaluate(col("speed") > 50, block).tolist()
    [False, True]
    """
    if isinstance(expression, Constant):
        return repeated(expression.value, block.length)
    value = _value(expression, block)
    return value if isinstance(value, np.ndarray | pa.Array) else repeated(value, block.length)


def repeated(value: Value, length: int) -> Column:
    """A column of one value, repeated `length` times."""
    if isinstance(value, str):
        indices = pa.array(np.zeros(length, np.int32))
        return pa.DictionaryArray.from_arrays(indices, pa.array([value], pa.string()))
    return np.full(length, value)


def _value(expression: Expression, block: Block) -> Any:
    """A column, or a scalar for constants so that NumPy can broadcast them."""
    if isinstance(expression, ColumnOf):
        return block.columns[expression.name]
    if isinstance(expression, Constant):
        return expression.value
    if isinstance(expression, Not):
        return np.logical_not(_value(expression.condition, block))
    if isinstance(expression, Binary):
        return _binary(expression, block)
    return _function(expression, block)


def _function(expression: Expression, block: Block) -> Any:
    if isinstance(expression, IsIn):
        return _is_in(evaluate(expression.value, block), expression.choices)
    if isinstance(expression, Lookup):
        return _lookup(expression, evaluate(expression.key, block))
    if isinstance(expression, Call):
        return call(expression.function, [evaluate(argument, block) for argument in expression.arguments])
    if isinstance(expression, Udf):
        return call_user(expression, [evaluate(argument, block) for argument in expression.arguments], block.length)
    if isinstance(expression, Previous):
        return block.columns[PREVIOUS + expression.name]
    raise TypeError(f"cannot evaluate {type(expression).__name__}")


def _binary(expression: Binary, block: Block) -> Any:
    left, right = _value(expression.left, block), _value(expression.right, block)
    if isinstance(left, pa.Array | str) and isinstance(right, pa.Array | str):
        return _compare_texts(expression.op, left, right)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        return _OPERATIONS[expression.op](left, right)


def _compare_texts(op: str, left: Any, right: Any) -> Any:
    """Compare texts; against a constant only the dictionary's entries are compared."""
    operation = _OPERATIONS[op]
    if isinstance(left, pa.Array) and isinstance(right, str):
        return _by_entry(left, lambda entries: operation(entries, right))
    if isinstance(left, str) and isinstance(right, pa.Array):
        return _by_entry(right, lambda entries: operation(left, entries))
    return operation(_objects(left), _objects(right)).astype(bool)


def _objects(texts: Any) -> Any:
    return np.asarray(texts.to_pylist(), dtype=object) if isinstance(texts, pa.Array) else texts


def _by_entry(texts: pa.Array, function: Callable[[NDArray[np.object_]], Any]) -> Any:
    """Apply a function to the distinct texts and expand its values to the rows."""
    dictionary = encoded(texts)
    values = np.asarray(function(_objects(dictionary.dictionary)))
    return values[dictionary.indices.to_numpy(zero_copy_only=False)]


def _is_in(column: Column, choices: tuple[Value, ...]) -> Any:
    if isinstance(column, pa.Array):
        wanted = set(choices)
        return _by_entry(column, lambda entries: np.array([entry in wanted for entry in entries], bool))
    return np.isin(column, np.array(choices))


def _lookup(expression: Lookup, keys: Column) -> Column:
    index, values = _table(expression)
    return take(values, index.positions(keys) + 1)


@lru_cache(maxsize=1024)
def _table(expression: Lookup) -> tuple[Index, Column]:
    """The keys of a static table, and its values behind the default."""
    values = [expression.default, *(value for _, value in expression.table)]
    column = pa.array(values, pa.string()) if isinstance(expression.default, str) else np.array(values)
    return Index([key for key, _ in expression.table]), column
