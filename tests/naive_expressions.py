"""What an expression means for one row, read from its plain form; none of Shoal's code is used.

None is null. A condition that is null does not hold, and None is false in Python. NaN is a number like others: it
equals itself and is the largest of all. Integers have 64 bits.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

Row = Mapping[str, Any]
Data = Sequence[Any]

_SECOND_US = 1_000_000


def value_of(data: Data, row: Row, previous: Row | None = None) -> Any:
    """The value of an expression for a row; `previous` is the row before, for `prev`."""
    head, *rest = data
    if head == "col":
        return row[rest[0]]
    if head == "prev":
        if previous is None:
            raise ValueError("prev needs a row before")
        return previous[rest[0]]
    if head in ("lit", "null"):
        return rest[0] if head == "lit" else None
    if head == "udf":
        raise NotImplementedError("functions of the user's own are not interpreted")
    if head == "lookup":
        return dict(map(tuple, rest[1])).get(value_of(rest[0], row, previous), rest[2])
    if head == "in":
        value = value_of(rest[0], row, previous)
        return None if value is None else value in rest[1]
    name, arguments = (rest[0], rest[1:]) if head == "call" else (head, rest)
    values = [value_of(argument, row, previous) for argument in arguments]
    if name in _ABOUT_NULLS:
        return _ABOUT_NULLS[name](*values)
    made = None if None in values else (_CALLS if head == "call" else _OPERATIONS)[name](*values)
    return wrapped(made) if type(made) is int else made


def wrapped(number: int) -> int:
    """An integer as 64 bits hold it."""
    return (number + 2**63) % 2**64 - 2**63


def uses_previous(data: Data) -> bool:
    """Whether an expression looks at the row before."""
    head, *rest = data
    if head in ("col", "lit", "null"):
        return False
    arguments = rest[:1] if head in ("in", "lookup") else rest
    return head == "prev" or any(uses_previous(argument) for argument in arguments if isinstance(argument, list))


def order_of(value: Any) -> tuple[int, Any]:
    """A key to sort values of one column by: null is the smallest of all, and NaN the largest."""
    if value is None:
        return (-1, 0)
    return (1, 0) if isinstance(value, float) and math.isnan(value) else (0, value)


def _compared(test: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    return lambda left, right: test(*map(order_of, _one_type([left, right])))


def _both(left: Any, right: Any) -> Any:
    if left is False or right is False:
        return False
    return None if left is None or right is None else True


def _either(left: Any, right: Any) -> Any:
    if left is True or right is True:
        return True
    return None if left is None or right is None else False


def _equal(left: Any, right: Any) -> bool:
    return order_of(left) == order_of(right)


def _extreme(choose: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *values: choose(
        _one_type([value for value in values if value is not None]), key=order_of, default=None
    )


def _real(operation: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """An operation on two integers, or else on two floats."""
    return lambda left, right: operation(*_one_type([left, right]))


def _quotient(left: float, right: float) -> float:
    left, right = float(left), float(right)
    if right:
        return left / right
    if not left or math.isnan(left):
        return math.nan
    return math.copysign(math.inf, left) * math.copysign(1.0, right)


def _one_type(values: Sequence[Any]) -> list[Any]:
    """Integers next to floats are floats."""
    if any(isinstance(value, float) for value in values):
        return [None if value is None else float(value) for value in values]
    return list(values)


def _chosen(condition: bool | None, then: Any, otherwise: Any) -> Any:
    return _one_type([then, otherwise])[0 if condition else 1]


def _sqrt(value: float) -> float:
    return math.nan if value < 0 else math.sqrt(value)


def _ln(value: float) -> float:
    if not value:
        return -math.inf
    return math.nan if value < 0 else math.log(value)


def _exp(value: float) -> float:
    try:
        return math.exp(value)
    except OverflowError:
        return math.inf


def _power(base: float, exponent: float) -> float:
    base, exponent = float(base), float(exponent)
    try:
        return math.pow(base, exponent)
    except OverflowError:
        return -math.inf if base < 0 and exponent % 2 == 1 else math.inf
    except ValueError:
        return math.nan if base else math.inf


def _substring(text: str, first: int, length: int) -> str:
    """Characters first .. first + length - 1, counted from 1; those before the text are empty."""
    return text[max(first - 1, 0) : max(first - 1 + length, 0)]


def _as_string(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


_ABOUT_NULLS: Mapping[str, Callable[..., Any]] = {
    "and": _both,
    "or": _either,
    "if": _chosen,
    "is_null": lambda value: value is None,
    "coalesce": lambda *values: next((value for value in _one_type(values) if value is not None), None),
    "nullif": lambda value, other: None if value is not None and _equal(value, other) else value,
    "is_same": _equal,
    "least": _extreme(min),
    "greatest": _extreme(max),
}
_OPERATIONS: Mapping[str, Callable[..., Any]] = {
    "add": _real(lambda a, b: a + b),
    "sub": _real(lambda a, b: a - b),
    "mul": _real(lambda a, b: a * b),
    "div": _quotient,
    "floordiv": _real(lambda a, b: a // b),
    "mod": _real(lambda a, b: a % b),
    "eq": _compared(lambda a, b: a == b),
    "ne": _compared(lambda a, b: a != b),
    "lt": _compared(lambda a, b: a < b),
    "le": _compared(lambda a, b: a <= b),
    "gt": _compared(lambda a, b: a > b),
    "ge": _compared(lambda a, b: a >= b),
    "not": lambda a: not a,
}
_CALLS: Mapping[str, Callable[..., Any]] = {
    "abs": abs,
    "floor": math.floor,
    "ceil": math.ceil,
    "round": round,
    "sqrt": _sqrt,
    "exp": _exp,
    "ln": _ln,
    "power": _power,
    "upper": str.upper,
    "lower": str.lower,
    "length": len,
    "concat": lambda *texts: "".join(texts),
    "substring": _substring,
    "starts_with": str.startswith,
    "contains": lambda text, part: part in text,
    "hour": lambda time: time // (3600 * _SECOND_US) % 24,
    "minute": lambda time: time // (60 * _SECOND_US) % 60,
    "second": lambda time: time // _SECOND_US % 60,
    "as_int64": int,
    "as_float64": float,
    "as_string": _as_string,
    "as_timestamp": lambda time: time,
}
