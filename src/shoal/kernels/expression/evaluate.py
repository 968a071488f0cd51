"""Evaluation of expressions over blocks, a whole column at a time."""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from shoal.kernels.columns.block import Block, Column, take
from shoal.kernels.columns.index import Index
from shoal.kernels.columns.nullable import Nullable, all_null, both_valid, nullable
from shoal.kernels.expression.functions import call
from shoal.kernels.expression.logic import both, compare, either, is_in, numbers_of, opposite, validity
from shoal.kernels.expression.user import call_user
from shoal.model.query.expression import Binary, Constant, Expression, IsIn, Not, Value
from shoal.model.query.expression import Column as ColumnOf
from shoal.model.query.functions import Call, Null, Udf
from shoal.model.query.lookup import Lookup
from shoal.model.query.pattern import Previous

PREVIOUS = "#previous:"
"""Prefix of the block columns that hold the values of the previous row."""
_ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.true_divide,
    "floordiv": np.floor_divide,
    "mod": np.mod,
}


def evaluate(expression: Expression, block: Block) -> Column:
    """The value of an expression for every row of a block; nulls have SQL's meaning.

    >>> from shoal.model.query.expression import col
    >>> block = Block({"speed": np.array([10.0, 90.0])}, 2)
    >>> evaluate(col("speed") > 50, block).tolist()
    [False, True]
    """
    if isinstance(expression, Constant):
        return repeated(expression.value, block.length)
    value = _value(expression, block)
    return value if isinstance(value, np.ndarray | Nullable | pa.Array) else repeated(value, block.length)


def holds(condition: Expression, block: Block) -> NDArray[np.bool_]:
    """The rows for which a condition is true; a condition that is null does not hold.

    >>> from shoal.model.query.expression import col
    >>> block = Block.from_arrow(pa.record_batch({"speed": [10.0, None, 90.0]}))
    >>> holds(col("speed") > 50, block).tolist()
    [False, False, True]
    """
    value = evaluate(condition, block)
    return value.values if isinstance(value, Nullable) else value


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
        return opposite(_value(expression.condition, block))
    if isinstance(expression, Binary):
        return _binary(expression.op, _value(expression.left, block), _value(expression.right, block))
    return _function(expression, block)


def _function(expression: Expression, block: Block) -> Any:
    if isinstance(expression, IsIn):
        return is_in(evaluate(expression.value, block), expression.choices)
    if isinstance(expression, Lookup):
        return _lookup(expression, evaluate(expression.key, block))
    if isinstance(expression, Call):
        return call(expression.function, [evaluate(argument, block) for argument in expression.arguments])
    if isinstance(expression, Udf):
        return call_user(expression, [evaluate(argument, block) for argument in expression.arguments], block.length)
    if isinstance(expression, Previous):
        return block.columns[PREVIOUS + expression.name]
    if isinstance(expression, Null):
        return all_null(expression.type, block.length)
    raise TypeError(f"cannot evaluate {type(expression).__name__}")


def _binary(op: str, left: Any, right: Any) -> Any:
    if op in ("and", "or"):
        return both(left, right) if op == "and" else either(left, right)
    if op not in _ARITHMETIC:
        return compare(op, left, right)
    valid = both_valid(validity(left), validity(right))
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        if valid is None:
            return _ARITHMETIC[op](left, right)
        return nullable(_ARITHMETIC[op](numbers_of(left), numbers_of(right)), valid)


def _lookup(expression: Lookup, keys: Column) -> Column:
    """The value of every key; a key that is unknown or null has the default."""
    index, values = _table(expression)
    return take(values, index.positions(keys) + 1)


@lru_cache(maxsize=1024)
def _table(expression: Lookup) -> tuple[Index, Column]:
    """The keys of a static table, and its values behind the default."""
    values = [expression.default, *(value for _, value in expression.table)]
    column = pa.array(values, pa.string()) if isinstance(expression.default, str) else np.array(values)
    return Index([key for key, _ in expression.table]), column
