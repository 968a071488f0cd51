"""Random expressions over columns full of extremes, and the values that such columns may hold."""

import math
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from hypothesis import strategies as st

from shoal.model.query.expression import Expression, col, lit
from shoal.model.query.functions import call, coalesce, if_, is_null, is_same, null, nullif
from shoal.model.query.lookup import lookup

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

    def smaller(type_: str) -> st.SearchStrategy[Expression]:
        return _expressions(types, type_, depth - 1)

    return st.one_of(*leaves, *_BRANCHES[wanted](smaller), *_about_nulls(smaller, wanted))


Smaller = Callable[[str], st.SearchStrategy[Expression]]


def _about_nulls(smaller: Smaller, wanted: str) -> list[st.SearchStrategy[Expression]]:
    """Expressions of any type that make nulls, take them or skip them."""
    value, condition = smaller(wanted), smaller("bool")
    made = [
        st.just(null(wanted)),
        st.builds(coalesce, value, value),
        st.builds(nullif, value, value),
        st.builds(if_, condition, value, value),
    ]
    if wanted == "float64":
        return made  # the sign of the lesser of two zeros is that of either
    return [*made, st.builds(call, st.sampled_from(["least", "greatest"]), value, value)]


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
        st.tuples(time, time),
    )
    times = st.tuples(time, integer)
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
        st.builds(lambda operation, pair: operation(*pair), compare, st.one_of(pairs, times)),
        st.builds(lambda a, b: a & b, condition, condition),
        st.builds(lambda a, b: a | b, condition, condition),
        condition.map(lambda a: ~a),
        *(value.map(is_null) for value in (integer, number, text, condition, time)),
        pairs.map(lambda pair: is_same(*pair)),
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
