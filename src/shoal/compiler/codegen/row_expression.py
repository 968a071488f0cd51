"""Expressions in row code: the same values, bit for bit, that whole columns have.

What NumPy computes in its own way (exponentials, the sign of the minimum of two zeros) gets no row code.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from shoal.compiler.codegen.row_code import (
    BOOL,
    FLOAT,
    INT,
    Drawn,
    Dtype,
    Fixed,
    FusionError,
    Number,
    Passed,
    RowCode,
    Value,
)
from shoal.compiler.codegen.row_condition import (
    ABOUT_NULLS,
    COMPARISONS,
    Rule,
    both,
    common_type,
    compared,
    either,
    integers_only,
)
from shoal.compiler.codegen.scalars import floor_divided, remainder
from shoal.errors import RunError
from shoal.kernels.columns.block import Block, Column
from shoal.kernels.columns.index import Index
from shoal.kernels.columns.nullable import Nullable, nullable
from shoal.kernels.expression.evaluate import evaluate, repeated
from shoal.kernels.expression.functions import DAY_US
from shoal.model.query.expression import Binary, Expression, IsIn, Not
from shoal.model.query.expression import Column as ColumnOf
from shoal.model.query.functions import Call, Udf
from shoal.model.query.lookup import Lookup
from shoal.model.query.pattern import Previous
from shoal.model.query.schema import Schema

Scope = Mapping[str, Value]
"""The value of each column at some point of the loop."""
_SIGNS = {"add": "+", "sub": "-", "mul": "*", "div": "/"}
_MAY_FAIL = ("as_int64", "in_polygon", "in_polygon_degrees")
"""Functions that reject some texts."""
FEW_CHOICES = 8
"""Choices that are compared one by one; more are looked up."""


def value_of(code: RowCode, expression: Expression, scope: Scope) -> Value:
    """The value of an expression for the current row; raises `FusionError` if it has no row code."""
    if isinstance(expression, ColumnOf):
        return scope[expression.name]
    if any(isinstance(part, Udf | Previous) for part in _parts(expression)):
        raise FusionError("functions of the user's own and earlier rows are left to columns")
    names = sorted(set(expression.columns()))
    constants = [_constant_of(scope[name]) for name in names]
    if all(constant is not None for constant in constants):
        return _constant(code, expression, Block(dict(zip(names, constants, strict=True)), 1))
    if len(names) == 1 and not isinstance(scope[names[0]], Number) and not _may_fail(expression):
        return _of_text(code, expression, names[0], scope[names[0]])
    rule = _RULES.get(type(expression))
    if rule is None:
        raise FusionError(f"{type(expression).__name__} is left to columns")
    return rule(code, expression, scope)


def number_of(code: RowCode, expression: Expression, scope: Scope) -> Number:
    """The same for an expression that must be a number or a condition."""
    value = value_of(code, expression, scope)
    if not isinstance(value, Number):
        raise FusionError("texts of several columns are left to columns")
    return value


def condition_of(code: RowCode, expression: Expression, scope: Scope) -> Number:
    """The same for an expression that must be a condition."""
    value = number_of(code, expression, scope)
    if value.dtype != BOOL:
        raise FusionError(f"a condition must be a bool; got {value.dtype}")
    return value


def _parts(expression: Expression) -> Iterator[Expression]:
    yield expression
    for child in expression.children():
        yield from _parts(child)


def _constant_of(value: Value) -> Column | None:
    """One row of a column that holds the same value everywhere."""
    if isinstance(value, Fixed):
        return repeated(value.text, 1)
    if not isinstance(value, Number) or value.constant is None:
        return None
    if value.valid is None:
        return repeated(value.constant, 1)
    return nullable(np.zeros(1, value.dtype), np.zeros(1, bool)) if value.valid.constant is False else None


def _may_fail(expression: Expression) -> bool:
    """Whether a text can raise an error; then other rows' dictionary entries must not be evaluated."""
    return any(isinstance(part, Call) and part.function in _MAY_FAIL for part in _parts(expression))


def _constant(code: RowCode, expression: Expression, row: Block) -> Value:
    try:
        column = evaluate(expression, row)
    except RunError as error:
        raise FusionError(str(error)) from error
    if isinstance(column, np.ndarray):
        return code.constant(column[0].item())
    if isinstance(column, Nullable):
        return replace(code.constant(column.values[0].item()), valid=code.constant(False))
    is_repeated = pa.types.is_dictionary(column.type)
    return Fixed(column[0].as_py()) if is_repeated else code.at(column, code.constant(0))


def _of_text(code: RowCode, expression: Expression, name: str, value: Value) -> Value:
    """An expression of one text column, computed for the entries of its dictionary."""
    if isinstance(expression, Call) and expression.function == "as_string":
        inner = value_of(code, expression.arguments[0], {name: value})
        if not isinstance(inner, Number):
            return inner
    if not isinstance(value, Drawn | Passed) or (isinstance(value, Passed) and not value.is_text):
        raise FusionError("lists are left to columns")

    def computed(texts: pa.Array) -> Column:
        return evaluate(expression, Block({name: texts}, len(texts)))

    schema = Schema.of({name: "string" if value.may_be_null else "string not null"})
    return code.by_entry(value, computed, expression.text, may_be_null=expression.may_be_null(schema))


def _not(code: RowCode, expression: Not, scope: Scope) -> Number:
    condition = condition_of(code, expression.condition, scope)
    return replace(code.number(f"not {condition.name}", BOOL, condition), valid=condition.valid)


def _binary(code: RowCode, expression: Binary, scope: Scope) -> Number:
    op = expression.op
    of = condition_of if op in ("and", "or") else number_of
    left, right = of(code, expression.left, scope), of(code, expression.right, scope)
    if op in ("and", "or"):
        return both(code, left, right) if op == "and" else either(code, left, right)
    made = compared(code, op, left, right) if op in COMPARISONS else _arithmetic(code, op, left, right)
    return replace(made, valid=code.valid_if(left.valid, right.valid))


def _arithmetic(code: RowCode, op: str, left: Number, right: Number) -> Number:
    type_ = common_type(left, right)
    if BOOL in (left.dtype, right.dtype):
        raise FusionError("arithmetic with conditions is left to columns")
    type_ = FLOAT if op == "div" else type_
    left, right = code.cast(left, type_), code.cast(right, type_)
    if op in ("floordiv", "mod"):
        return _divided(code, op, left, right)
    if op == "div":
        return _operation(code, _SIGNS[op], left, right, FLOAT)
    return code.computed(left, _SIGNS[op], right)


def _operation(code: RowCode, sign: str, left: Number, right: Number, dtype: Dtype) -> Number:
    return code.number(f"{left.name} {sign} {right.name}", dtype, left, right)


def _divided(code: RowCode, op: str, left: Number, right: Number) -> Number:
    """Quotient rounded down, or remainder; machines trap at the smallest integer divided by -1, and at 0."""
    if left.dtype == FLOAT:
        return code.call(floor_divided if op == "floordiv" else remainder, FLOAT, left, right)
    if right.constant is None:
        raise FusionError("division of integers by a column is left to columns")
    if right.constant == 0 or (right.constant == -1 and op == "mod"):
        return code.constant(0)
    if right.constant == -1:
        return code.computed(code.constant(0), "-", left)
    return _operation(code, "//" if op == "floordiv" else "%", left, right, INT)


def _is_in(code: RowCode, expression: IsIn, scope: Scope) -> Number:
    value = number_of(code, expression.value, scope)
    return replace(_is_one_of(code, value, np.array(expression.choices)), valid=value.valid)


def _is_one_of(code: RowCode, value: Number, choices: NDArray[Any]) -> Number:
    if not choices.size:
        return code.constant(False)
    if choices.dtype != value.dtype:
        raise FusionError(f"choices of another type than {value.dtype} are left to columns")
    if value.dtype != BOOL and choices.size > FEW_CHOICES:
        return code.by_key(value, choices.tolist(), lambda slots: np.isin(slots, choices), other=False)
    tests = [f"({value.name} == {code.constant(choice).name})" for choice in choices.tolist()]
    return code.number(" | ".join(tests), BOOL, value)


def _lookup(code: RowCode, expression: Lookup, scope: Scope) -> Value:
    key, keys = number_of(code, expression.key, scope), [key for key, _ in expression.table]
    values = [expression.default, *(value for _, value in expression.table)]
    index = Index(keys)
    if isinstance(expression.default, str):
        position = code.cast(code.position(key, keys, index), INT)
        at = code.computed(position, "+", code.constant(1))
        return code.at(pa.array(values, pa.string()), at)
    column = np.array(values)
    if key.dtype != INT or not all(type(key) is int for key in keys):
        raise FusionError(f"keys of a look-up must be integers or texts; got {key.dtype}")
    if not keys:
        return code.constant(column[0].item())
    default = column[0].item()
    found = code.by_key(key, keys, lambda slots: column[index.positions(slots) + 1], default)
    return code.otherwise(replace(found, valid=key.valid), code.constant(default).name)


def _call(code: RowCode, expression: Call, scope: Scope) -> Value:
    function = expression.function
    if function not in _CALLS and function not in ABOUT_NULLS:
        raise FusionError(f"{function} is left to columns")
    arguments = [number_of(code, argument, scope) for argument in expression.arguments]
    if function in ABOUT_NULLS:
        return ABOUT_NULLS[function](code, arguments)
    return replace(_CALLS[function](code, arguments), valid=code.valid_if(*(each.valid for each in arguments)))


def _of_number(code: RowCode, arguments: Sequence[Number], *, function: str, of_floats: bool) -> Number:
    (x,) = arguments
    if x.dtype == BOOL:
        raise FusionError(f"{function} of a condition is left to columns")
    x = code.cast(x, FLOAT) if of_floats else x
    return code.number(f"{function}({x.name})", x.dtype, x)


def _distance(code: RowCode, arguments: Sequence[Number]) -> Number:
    """The steps of `kernels.spatial.distance.distances`."""
    x, y, other_x, other_y = (code.cast(each, FLOAT) for each in arguments)
    across, up = code.computed(other_x, "-", x), code.computed(other_y, "-", y)
    square = code.computed(code.computed(across, "*", across), "+", code.computed(up, "*", up))
    return code.number(f"np.sqrt({square.name})", FLOAT, square)


def _rounded(code: RowCode, arguments: Sequence[Number], *, function: str) -> Number:
    (x,) = arguments
    if x.dtype == INT and (function == "rint" or getattr(np, function)(np.zeros(0, np.int64)).dtype == INT):
        return x
    if x.dtype != FLOAT:
        raise FusionError(f"{function} of {x.dtype} is left to columns")
    return code.cast(code.number(f"np.{function}({x.name})", FLOAT, x), INT)


def _clock(code: RowCode, arguments: Sequence[Number], *, whole_us: int, part_us: int) -> Number:
    integers_only(arguments)
    (time,) = arguments
    rest = code.number(f"{time.name} % {whole_us}", INT, time)
    return code.number(f"{rest.name} // {part_us}", INT, rest)


def _as(code: RowCode, arguments: Sequence[Number], *, dtype: Dtype) -> Number:
    return code.cast(arguments[0], dtype)


_RULES: Mapping[type[Expression], Callable[[RowCode, Any, Scope], Value]] = {
    Not: _not,
    Binary: _binary,
    IsIn: _is_in,
    Lookup: _lookup,
    Call: _call,
}
_CALLS: Mapping[str, Rule] = {
    "abs": partial(_of_number, function="abs", of_floats=False),
    "sqrt": partial(_of_number, function="np.sqrt", of_floats=True),
    "distance": _distance,
    "floor": partial(_rounded, function="floor"),
    "ceil": partial(_rounded, function="ceil"),
    "round": partial(_rounded, function="rint"),
    "hour": partial(_clock, whole_us=DAY_US, part_us=3_600_000_000),
    "minute": partial(_clock, whole_us=3_600_000_000, part_us=60_000_000),
    "second": partial(_clock, whole_us=60_000_000, part_us=1_000_000),
    "as_int64": partial(_as, dtype=INT),
    "as_float64": partial(_as, dtype=FLOAT),
    "as_timestamp": partial(_as, dtype=INT),
}
