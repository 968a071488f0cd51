"""Random expressions, and what they mean for one row, read from their plain form without any of Shoal's code."""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

from hypothesis import strategies as st

from shoal.model.query.expression import Expression, col, lit
from shoal.model.query.lookup import lookup

Row = Mapping[str, Any]

TEXTS = ("", "a", "b", "car", "Straße", "日本")
INTEGERS = st.one_of(
    st.integers(-5, 5),
    st.integers(-(2**63), 2**63 - 1),
    st.sampled_from([-(2**63), 2**63 - 1, 2**53 + 1, -(2**53) - 1]),
)
FLOATS = st.one_of(
    st.sampled_from([0.0, -0.0, 1.0, -2.5, 1e16, 2.0**53, math.inf, -math.inf]), st.floats(-1e6, 1e6), st.floats()
)
VALUES: Mapping[str, st.SearchStrategy[Any]] = {
    "int64": INTEGERS,
    "float64": FLOATS,
    "string": st.sampled_from(TEXTS),
    "bool": st.booleans(),
    "timestamp": st.integers(-(2**55), 2**55),
}
"""Values a column of each type may hold."""
LITERALS = {**VALUES, "float64": FLOATS.filter(lambda value: not math.isnan(value))}


def wrapped(number: int) -> int:
    """An integer as 64 bits hold it."""
    return (number + 2**63) % 2**64 - 2**63


def _number(operation: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def apply(left: Any, right: Any) -> Any:
        if isinstance(left, float) or isinstance(right, float):
            return operation(float(left), float(right))
        return wrapped(operation(left, right))

    return apply


def _compared(operation: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    def apply(left: Any, right: Any) -> bool:
        if isinstance(left, float) or isinstance(right, float):
            left, right = float(left), float(right)
        return operation(left, right)

    return apply


def _quotient(left: Any, right: Any) -> float:
    left, right = float(left), float(right)
    if right == 0:
        sign = math.copysign(1.0, left) * math.copysign(1.0, right)
        return math.nan if left == 0 or math.isnan(left) else sign * math.inf
    return left / right


_OPERATIONS: Mapping[str, Callable[[Any, Any], Any]] = {
    "add": _number(lambda a, b: a + b),
    "sub": _number(lambda a, b: a - b),
    "mul": _number(lambda a, b: a * b),
    "div": _quotient,
    "floordiv": _number(lambda a, b: a // b),
    "mod": _number(lambda a, b: a % b),
    "eq": _compared(lambda a, b: a == b),
    "ne": _compared(lambda a, b: a != b),
    "lt": _compared(lambda a, b: a < b),
    "le": _compared(lambda a, b: a <= b),
    "gt": _compared(lambda a, b: a > b),
    "ge": _compared(lambda a, b: a >= b),
    "and": lambda a, b: a and b,
    "or": lambda a, b: a or b,
}


def value_of(data: Sequence[Any], row: Row) -> Any:
    """The value of an expression, given as plain data, for one row."""
    head, *rest = data
    if head == "col":
        return row[rest[0]]
    if head == "lit":
        return rest[0]
    if head == "not":
        return not value_of(rest[0], row)
    if head == "in":
        return any(value_of(rest[0], row) == choice for choice in rest[1])
    if head == "lookup":
        return dict(rest[1]).get(value_of(rest[0], row), rest[2])
    return _OPERATIONS[head](value_of(rest[0], row), value_of(rest[1], row))


def expressions(types: Mapping[str, str], wanted: str, depth: int = 3) -> st.SearchStrategy[Expression]:
    """Expressions of a wanted type over columns of the given types."""
    return _expressions(tuple(types.items()), wanted, depth)


@cache
def _expressions(types: tuple[tuple[str, str], ...], wanted: str, depth: int) -> st.SearchStrategy[Expression]:
    leaves: list[st.SearchStrategy[Expression]] = [st.just(col(name)) for name, type_ in types if type_ == wanted]
    if wanted != "timestamp":
        leaves.append(LITERALS[wanted].map(lit))
    if not depth:
        return st.one_of(leaves)
    return st.one_of(*leaves, *_BRANCHES[wanted](lambda type_: _expressions(types, type_, depth - 1)))


Smaller = Callable[[str], st.SearchStrategy[Expression]]


def _integers(smaller: Smaller) -> list[st.SearchStrategy[Expression]]:
    number, divisor = smaller("int64"), INTEGERS.filter(bool)
    return [
        st.builds(lambda a, b: a + b, number, number),
        st.builds(lambda a, b: a - b, number, number),
        st.builds(lambda a, b: a * b, number, number),
        st.builds(lambda a, b: a // b, number, divisor),
        st.builds(lambda a, b: a % b, number, divisor),
        lookups(smaller, INTEGERS),
    ]


def _floats(smaller: Smaller) -> list[st.SearchStrategy[Expression]]:
    number, other = smaller("float64"), st.one_of(smaller("int64"), smaller("float64"))
    divisor = st.one_of(st.integers(1, 9), st.floats(0.125, 1e3), st.floats(-1e3, -0.125))
    return [
        st.builds(lambda a, b: a + b, number, other),
        st.builds(lambda a, b: a - b, other, number),
        st.builds(lambda a, b: a * b, number, other),
        st.builds(lambda a, b: a / b, other, other),
        st.builds(lambda a, b: a // b, number, divisor),
        st.builds(lambda a, b: a % b, number, divisor),
        lookups(smaller, st.floats(-1e3, 1e3)),
    ]


def _conditions(smaller: Smaller) -> list[st.SearchStrategy[Expression]]:
    condition, integer, number = smaller("bool"), smaller("int64"), smaller("float64")
    text, time = smaller("string"), smaller("timestamp")
    pairs = st.one_of(
        st.tuples(st.one_of(integer, number), st.one_of(integer, number)),
        st.tuples(text, text),
        st.tuples(condition, condition),
        st.tuples(time, st.one_of(time, integer)),
    )
    compare = st.sampled_from(
        [
            lambda a, b: a == b,
            lambda a, b: a != b,
            lambda a, b: a < b,
            lambda a, b: a <= b,
            lambda a, b: a > b,
            lambda a, b: a >= b,
        ]
    )
    return [
        st.builds(lambda operation, pair: operation(*pair), compare, pairs),
        st.builds(lambda a, b: a & b, condition, condition),
        st.builds(lambda a, b: a | b, condition, condition),
        condition.map(lambda a: ~a),
        *(
            st.builds(lambda a, choices: a.is_in(choices), smaller(type_), st.lists(LITERALS[type_], max_size=4))
            for type_ in ("int64", "float64", "string", "bool", "timestamp")
        ),
        lookups(smaller, st.booleans()),
    ]


def _texts(smaller: Smaller) -> list[st.SearchStrategy[Expression]]:
    return [lookups(smaller, st.sampled_from(TEXTS))]


_BRANCHES: Mapping[str, Callable[[Smaller], list[st.SearchStrategy[Expression]]]] = {
    "int64": _integers,
    "float64": _floats,
    "bool": _conditions,
    "string": _texts,
    "timestamp": lambda _: [],
}


def lookups(smaller: Smaller, values: st.SearchStrategy[Any]) -> st.SearchStrategy[Expression]:
    """Look-ups by integers close together, far apart, and by texts."""
    close = st.dictionaries(st.integers(-5, 5), values, max_size=5)
    sparse = st.dictionaries(INTEGERS, values, max_size=5)
    texts = st.dictionaries(st.sampled_from(TEXTS), values, max_size=5)
    return st.one_of(
        st.builds(lookup, smaller("int64"), st.one_of(close, sparse), values),
        st.builds(lookup, smaller("string"), texts, values),
    )
