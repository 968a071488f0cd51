"""What an expression means for one row, read from its plain form; none of Shoal's code is used."""

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
    if head == "lit":
        return rest[0]
    if head == "in":
        return value_of(rest[0], row, previous) in rest[1]
    if head == "lookup":
        return dict(map(tuple, rest[1])).get(value_of(rest[0], row, previous), rest[2])
    if head == "udf":
        raise NotImplementedError("functions of the user's own are not interpreted")
    if head == "call":
        return _CALLS[rest[0]](*(value_of(argument, row, previous) for argument in rest[1:]))
    return _OPERATIONS[head](*(value_of(argument, row, previous) for argument in rest))


def uses_previous(data: Data) -> bool:
    """Whether an expression looks at the row before."""
    head, *rest = data
    if head in ("col", "lit"):
        return False
    arguments = rest[:1] if head in ("in", "lookup") else rest
    return head == "prev" or any(uses_previous(argument) for argument in arguments if isinstance(argument, list))


def order_of(value: Any) -> tuple[bool, Any]:
    """A key to sort values of one column by: NaN is the largest of all."""
    missing = isinstance(value, float) and math.isnan(value)
    return (missing, 0 if missing else value)


def _quotient(left: float, right: float) -> float:
    left, right = float(left), float(right)
    if right:
        return left / right
    if not left or math.isnan(left):
        return math.nan
    return math.copysign(math.inf, left) * math.copysign(1.0, right)


def _one_type(values: Sequence[Any]) -> list[Any]:
    """Integers next to floats are floats."""
    return [float(value) for value in values] if any(isinstance(value, float) for value in values) else list(values)


def _chosen(condition: bool, then: Any, otherwise: Any) -> Any:
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


_OPERATIONS: Mapping[str, Callable[..., Any]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": _quotient,
    "floordiv": lambda a, b: a // b,
    "mod": lambda a, b: a % b,
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
    "and": lambda a, b: a and b,
    "or": lambda a, b: a or b,
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
    "least": lambda *values: min(_one_type(values)),
    "greatest": lambda *values: max(_one_type(values)),
    "if": _chosen,
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
