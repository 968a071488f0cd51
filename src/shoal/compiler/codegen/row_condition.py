"""Conditions and functions about nulls in row code, with the meaning that they have over whole columns.

A number that may be null comes with another one that says whether it is valid, and gives one in turn. The number itself
means nothing where it is not valid.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial, reduce

import numpy as np

from shoal.compiler.codegen.row_code import BOOL, FLOAT, INT, Dtype, FusionError, Number, RowCode

Rule = Callable[[RowCode, Sequence[Number]], Number]
COMPARISONS = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
_MIRRORED = {"gt": "lt", "ge": "le"}
_OPPOSITES = {"lt": ">=", "le": ">"}
_OF_NANS = {
    "eq": "({a} == {b}) | (({a} != {a}) & ({b} != {b}))",
    "ne": "not (({a} == {b}) | (({a} != {a}) & ({b} != {b})))",
    "lt": "(not ({a} >= {b})) & ({a} == {a})",
    "le": "({a} <= {b}) | ({b} != {b})",
}
"""Comparisons of two numbers that may both be NaN."""


def common_type(*numbers: Number) -> Dtype:
    """The type that NumPy gives to numbers of several types."""
    return np.result_type(*(number.dtype for number in numbers))


def compared(code: RowCode, op: str, left: Number, right: Number) -> Number:
    """A comparison in which NaN equals itself and is greater than every other number."""
    left_nan, right_nan = _may_be_nan(left), _may_be_nan(right)
    type_ = INT if common_type(left, right) == BOOL else common_type(left, right)
    left, right = code.cast(left, type_), code.cast(right, type_)
    if op in _MIRRORED and left_nan:
        op, left, right, left_nan, right_nan = _MIRRORED[op], right, left, right_nan, left_nan
    a, b = left.name, right.name
    text = f"{a} {COMPARISONS[op]} {b}"
    if left_nan and right_nan:
        text = _OF_NANS[op].format(a=a, b=b)
    elif right_nan and op in _OPPOSITES:
        text = f"not ({a} {_OPPOSITES[op]} {b})"
    return code.number(text, BOOL, left, right)


def _may_be_nan(number: Number) -> bool:
    return number.dtype == FLOAT and (number.constant is None or math.isnan(number.constant))


def integers_only(numbers: Sequence[Number]) -> None:
    """Refuse numbers that are no integers."""
    if any(number.dtype != INT for number in numbers):
        raise FusionError("a function of integers; others are left to columns")


def both(code: RowCode, left: Number, right: Number) -> Number:
    """Whether both conditions hold: false if one is false, even if the other is null."""
    made = code.number(f"{left.name} & {right.name}", BOOL, left, right)
    valid = code.valid_if(left.valid, right.valid)
    if valid is None:
        return made
    tests = [valid, *(_is_false(code, each) for each in (left, right))]
    return replace(made, valid=code.number(" | ".join(test.name for test in tests), BOOL, *tests))


def _is_false(code: RowCode, condition: Number) -> Number:
    """Whether a condition is false, neither true nor null; what follows from both being false is false."""
    opposite = code.number(f"not {condition.name}", BOOL, condition)
    return code.holding(replace(opposite, valid=condition.valid))


def either(code: RowCode, left: Number, right: Number) -> Number:
    """Whether one of two conditions holds: true if one is true, even if the other is null."""
    valid = code.valid_if(left.valid, right.valid)
    left, right = code.holding(left), code.holding(right)
    made = code.number(f"{left.name} | {right.name}", BOOL, left, right)
    return made if valid is None else replace(made, valid=code.number(f"{made.name} | {valid.name}", BOOL, made, valid))


def _if(code: RowCode, arguments: Sequence[Number]) -> Number:
    """One value where a condition holds, another one where it is false or null."""
    condition, then, otherwise = arguments
    if condition.dtype != BOOL:
        raise FusionError("a condition must be a bool")
    return _chosen(code, code.holding(condition), then, otherwise)


def _chosen(code: RowCode, condition: Number, then: Number, otherwise: Number) -> Number:
    type_ = common_type(then, otherwise)
    first, second = code.cast(then, type_), code.cast(otherwise, type_)
    made = code.number(f"{first.name} if {condition.name} else {second.name}", type_, condition, first, second)
    if then.valid is None and otherwise.valid is None:
        return made
    valid, other_valid = (each.valid or code.constant(True) for each in (then, otherwise))
    text = f"{valid.name} if {condition.name} else {other_valid.name}"
    return replace(made, valid=code.number(text, BOOL, condition, valid, other_valid))


def _is_null(code: RowCode, arguments: Sequence[Number]) -> Number:
    (value,) = arguments
    if value.valid is None:
        return code.constant(False)
    return code.number(f"not {value.valid.name}", BOOL, value.valid)


def _coalesce(code: RowCode, arguments: Sequence[Number]) -> Number:
    type_ = common_type(*arguments)

    def first(value: Number, rest: Number) -> Number:
        if value.valid is None:
            return replace(code.cast(value, type_), valid=None)
        chosen = _chosen(code, value.valid, replace(value, valid=None), replace(rest, valid=None))
        if rest.valid is None:
            return chosen
        text = f"{value.valid.name} | {rest.valid.name}"
        return replace(chosen, valid=code.number(text, BOOL, value.valid, rest.valid))

    *before, last = (replace(code.cast(each, type_), valid=each.valid) for each in arguments)
    return reduce(lambda rest, value: first(value, rest), reversed(before), last)


def _null_if(code: RowCode, arguments: Sequence[Number]) -> Number:
    value, other = arguments
    equal = code.holding(_equal(code, value, other))
    unlike = code.number(f"not {equal.name}", BOOL, equal)
    return replace(value, valid=code.valid_if(value.valid, unlike), column="")


def _equal(code: RowCode, left: Number, right: Number) -> Number:
    return replace(compared(code, "eq", left, right), valid=code.valid_if(left.valid, right.valid))


def _is_same(code: RowCode, arguments: Sequence[Number]) -> Number:
    equal, missing = code.holding(_equal(code, *arguments)), [_is_null(code, [each]) for each in arguments]
    text = f"{equal.name} | ({missing[0].name} & {missing[1].name})"
    return code.number(text, BOOL, equal, *missing)


def _extreme(code: RowCode, arguments: Sequence[Number], *, function: str) -> Number:
    """The least or greatest integer, nulls left out."""
    integers_only(arguments)

    def of_two(left: Number, right: Number) -> Number:
        made = code.number(f"{function}({left.name}, {right.name})", INT, left, right)
        valid = code.valid_if(left.valid, right.valid)
        if valid is None:
            return made
        return _coalesce(code, [replace(made, valid=valid), left, right])

    return reduce(of_two, arguments)


ABOUT_NULLS: Mapping[str, Rule] = {
    "if": _if,
    "is_null": _is_null,
    "coalesce": _coalesce,
    "nullif": _null_if,
    "is_same": _is_same,
    "least": partial(_extreme, function="min"),
    "greatest": partial(_extreme, function="max"),
}
"""Functions whose value may be another one than null where an argument is null."""
