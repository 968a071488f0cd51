"""Random well-typed expressions over a flow's columns, tame enough that no rounding and no overflow shows.

They make no infinity, no NaN but from NaN, and integers grow by small factors only.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from hypothesis import strategies as st

from shoal.model.query.expression import Expression, col, lit
from shoal.model.query.functions import call, coalesce, floor, if_, is_null, is_same, nullif, round_
from shoal.model.query.lookup import lookup
from shoal.model.query.pattern import prev

Draw = Callable[[st.SearchStrategy[Any]], Any]
Types = Mapping[str, str]

TEXTS = ("a", "b", "ba", "c")
_COMPARISONS: Sequence[Callable[[Any, Any], Expression]] = (
    lambda a, b: a == b,
    lambda a, b: a != b,
    lambda a, b: a < b,
    lambda a, b: a <= b,
    lambda a, b: a > b,
    lambda a, b: a >= b,
)


def names_of(types: Types, *wanted: str) -> list[str]:
    """The columns of some types."""
    return [name for name, type_ in types.items() if type_ in wanted]


def quarters(least: int, most: int) -> st.SearchStrategy[float]:
    """Multiples of 0.25, whose sums are exact."""
    return st.integers(4 * least, 4 * most).map(lambda number: number / 4)


def condition(draw: Draw, types: Types, depth: int = 2, *, previous: bool = False) -> Expression:
    """A condition on the columns; with `previous` also on the row before."""
    shape = draw(st.integers(0, 7)) if depth else 0
    if shape == 5:
        return ~condition(draw, types, depth - 1, previous=previous)
    if shape == 4:
        about = draw(st.sampled_from(sorted(types)))
        return (
            is_null(about)
            if draw(st.booleans())
            else is_same(about, draw(st.sampled_from(names_of(types, types[about]))))
        )
    if shape in (6, 7):
        one, other = (condition(draw, types, depth - 1, previous=previous) for _ in range(2))
        return one & other if shape == 6 else one | other
    name = draw(st.sampled_from(sorted(types)))
    compare = draw(st.sampled_from(_COMPARISONS))
    if previous and draw(st.booleans()) and not types[name].startswith("list"):
        return compare(col(name), prev(name))
    return _CONDITIONS[types[name]](draw, types, name, compare)


Compare = Callable[[Any, Any], Expression]


def _of_integer(draw: Draw, types: Types, name: str, compare: Compare) -> Expression:
    shape = draw(st.integers(0, 4))
    if shape == 0:
        return col(name) % draw(st.integers(2, 4)) == draw(st.integers(0, 3))
    if shape == 1:
        return col(name).is_in(draw(st.lists(st.integers(-3, 5), max_size=3)))
    if shape == 2:
        return compare(col(name), col(draw(st.sampled_from(names_of(types, "int64", "float64")))))
    return compare(col(name), draw(st.integers(-3, 6)))


def _of_float(draw: Draw, types: Types, name: str, compare: Compare) -> Expression:
    if draw(st.booleans()):
        return compare(col(name), col(draw(st.sampled_from(names_of(types, "int64", "float64")))))
    return compare(col(name), draw(st.one_of(quarters(-4, 4), st.integers(-4, 4))))


def _of_text(draw: Draw, types: Types, name: str, compare: Compare) -> Expression:
    shape = draw(st.integers(0, 3))
    text = draw(st.sampled_from(TEXTS))
    if shape == 0:
        return call("starts_with", name, lit(text))
    if shape == 1:
        return call("contains", name, lit(text))
    if shape == 2:
        return col(name).is_in(draw(st.lists(st.sampled_from(TEXTS), max_size=3)))
    return compare(col(name), text)


def _of_flag(draw: Draw, types: Types, name: str, compare: Compare) -> Expression:
    return col(name) if draw(st.booleans()) else compare(col(name), draw(st.booleans()))


def _of_time(draw: Draw, types: Types, name: str, compare: Compare) -> Expression:
    shape = draw(st.integers(0, 2))
    if shape == 0:
        return call("second", name) % 5 < draw(st.integers(0, 5))
    if shape == 1:
        return compare(col(name), col(draw(st.sampled_from(names_of(types, "timestamp")))))
    return compare(col(name), draw(st.integers(0, 60)) * 1_000_000)


def _of_list(draw: Draw, types: Types, name: str, compare: Compare) -> Expression:
    return compare(lit(0), draw(st.integers(-1, 1)))


_CONDITIONS: Mapping[str, Callable[[Draw, Types, str, Compare], Expression]] = {
    "int64": _of_integer,
    "float64": _of_float,
    "string": _of_text,
    "bool": _of_flag,
    "timestamp": _of_time,
    "list<int64>": _of_list,
    "list<float64>": _of_list,
}


def value(draw: Draw, types: Types) -> Expression:
    """A new column computed from one or two others."""
    name = draw(st.sampled_from(sorted(types)))
    return _VALUES[types[name]](draw, types, name)


def _from_integer(draw: Draw, types: Types, name: str) -> Expression:
    numbers = names_of(types, "int64", "float64")
    shapes: Sequence[Callable[[], Expression]] = (
        lambda: col(name) + draw(st.integers(-3, 3)),
        lambda: col(name) * draw(st.integers(-2, 2)),
        lambda: col(name) - col(draw(st.sampled_from(numbers))),
        lambda: col(name) // draw(st.sampled_from([-3, 2, 3])),
        lambda: col(name) % draw(st.sampled_from([-3, 2, 4])),
        lambda: col(name) / 4,
        lambda: call("abs", name),
        lambda: call("as_string", name),
        lambda: call("least", name, draw(st.sampled_from(numbers))),
        lambda: lookup(name, {0: "a", 1: "b", 2: "c"}, "other"),
        lambda: if_(condition(draw, types, 1), col(name), draw(st.integers(0, 3))),
        lambda: coalesce(name, draw(st.integers(-1, 1))),
        lambda: nullif(name, draw(st.sampled_from(names_of(types, types[name])))),
    )
    return draw(st.sampled_from(shapes))()


def _from_float(draw: Draw, types: Types, name: str) -> Expression:
    numbers = names_of(types, "int64", "float64")
    shapes: Sequence[Callable[[], Expression]] = (
        lambda: col(name) + draw(quarters(-3, 3)),
        lambda: col(name) - col(draw(st.sampled_from(numbers))),
        lambda: col(name) * 2,
        lambda: col(name) // 0.5,
        lambda: col(name) % draw(st.sampled_from([-1.5, 2.0])),
        lambda: col(name) / 8,
        lambda: floor(_number(name)),
        lambda: call("ceil", _number(name)),
        lambda: round_(_number(name)),
        lambda: call("sqrt", call("abs", name)),
        lambda: call("greatest", name, draw(st.sampled_from(numbers))),
        lambda: if_(condition(draw, types, 1), col(name), draw(st.integers(0, 3))),
        lambda: coalesce(name, draw(st.integers(-1, 1))),
        lambda: nullif(name, draw(st.sampled_from(names_of(types, types[name])))),
    )
    return draw(st.sampled_from(shapes))()


def _number(name: str) -> Expression:
    """A float that is near an integer, or 0: not NaN, which is the largest of all, and nothing beyond 64 bits."""
    return if_((col(name) < 1e9) & (col(name) > -1e9), col(name), 0.0)


def _from_text(draw: Draw, types: Types, name: str) -> Expression:
    shapes: Sequence[Callable[[], Expression]] = (
        lambda: call("upper", name),
        lambda: call("length", name),
        lambda: call("concat", name, draw(st.sampled_from(names_of(types, "string")))),
        lambda: call("substring", name, lit(draw(st.integers(1, 3))), lit(draw(st.integers(0, 2)))),
        lambda: lookup(name, {"a": 1.5, "b": -2.0}, 0.25),
        lambda: if_(condition(draw, types, 1), col(name), "z"),
    )
    return draw(st.sampled_from(shapes))()


def _from_flag(draw: Draw, types: Types, name: str) -> Expression:
    return draw(st.sampled_from([~col(name), call("as_int64", name), call("as_string", name)]))


def _from_time(draw: Draw, types: Types, name: str) -> Expression:
    shapes: Sequence[Callable[[], Expression]] = (
        lambda: call("second", name),
        lambda: call("minute", name),
        lambda: col(name) - col(draw(st.sampled_from(names_of(types, "timestamp")))),
        lambda: col(name) + draw(st.integers(-8, 8)) * 500_000,
        lambda: call("as_int64", name) // 1_000_000,
    )
    return draw(st.sampled_from(shapes))()


_VALUES: Mapping[str, Callable[[Draw, Types, str], Expression]] = {
    "int64": _from_integer,
    "float64": _from_float,
    "string": _from_text,
    "bool": _from_flag,
    "timestamp": _from_time,
}
