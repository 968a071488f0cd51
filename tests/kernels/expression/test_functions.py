"""The functions of expressions: over columns, equal to plain Python for each row."""

import math
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.errors import RunError
from shoal.kernels.columns.block import Block, as_column
from shoal.kernels.expression.evaluate import evaluate
from shoal.kernels.expression.functions import _FUNCTIONS, call
from shoal.model.query.expression import col
from shoal.model.query.functions import FUNCTIONS, if_, null, udf

INTEGERS = st.integers(-(2**53), 2**53)
LARGE = st.integers(-(2**63) + 1, 2**63 - 1)
FLOATS = st.floats(-1e15, 1e15)
POSITIVE = st.floats(1e-9, 1e9)
PLACE = st.integers(-(10**6), 10**6).map(lambda value: value / 8)
LONGITUDE, LATITUDE = st.integers(-360, 360).map(float), st.integers(-90, 90).map(float)
TRIANGLES = st.sampled_from([1, 2]).map(lambda side: f"POLYGON ((0 0, {side} 0, 0 {side}, 0 0))")
TEXTS = st.text(st.sampled_from("abcXYZ äÖ日"), max_size=6)
TIMES = st.integers(-(10**16), 10**16)


def _time(us: int) -> datetime:
    return datetime.fromtimestamp(us // 1_000_000, UTC)


def _some(choose: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *values: choose((value for value in values if value is not None), default=None)


def _distance(x: float, y: float, other_x: float, other_y: float) -> float:
    return math.dist((x, y), (other_x, other_y))


def _haversine(lon: float, lat: float, other_lon: float, other_lat: float) -> float:
    up = math.sin((math.radians(other_lat) - math.radians(lat)) / 2)
    aside = math.sin(math.radians(other_lon - lon) / 2)
    square = up * up + math.cos(math.radians(lat)) * math.cos(math.radians(other_lat)) * aside * aside
    return 2 * 6371008.8 * math.asin(min(1.0, math.sqrt(square)))


def _in_triangle(wkt: str, x: float, y: float) -> bool:
    return x >= 0 and y >= 0 and x + y <= int(wkt[15])


def _first(*values: Any) -> Any:
    return next((value for value in values if value is not None), None)


ABOUT_NULLS = ("is_null", "coalesce", "nullif", "is_same", "if", "least", "greatest")
CASES: dict[str, list[tuple[Any, Callable[..., Any]]]] = {
    "abs": [((LARGE,), abs), ((FLOATS,), abs)],
    "floor": [((FLOATS,), math.floor), ((LARGE,), int)],
    "ceil": [((FLOATS,), math.ceil), ((LARGE,), int)],
    "round": [((FLOATS,), round), ((LARGE,), int)],
    "sqrt": [((POSITIVE,), math.sqrt), ((st.integers(0, 2**53),), math.sqrt)],
    "exp": [((st.floats(-50, 50),), math.exp)],
    "ln": [((POSITIVE,), math.log)],
    "power": [((st.floats(0.1, 10), st.integers(-5, 5)), lambda x, y: float(x) ** y)],
    "distance": [((PLACE,) * 4, _distance), ((st.integers(-100, 100), PLACE) * 2, _distance)],
    "haversine": [((LONGITUDE, LATITUDE) * 2, _haversine)],
    "in_polygon": [((TRIANGLES, st.integers(-1, 3), st.integers(-1, 3)), _in_triangle)],
    "in_polygon_degrees": [((TRIANGLES, st.integers(-1, 3), st.integers(-1, 3)), _in_triangle)],
    "least": [((LARGE, LARGE, LARGE), _some(min)), ((FLOATS, FLOATS), _some(min)), ((TEXTS, TEXTS), _some(min))],
    "greatest": [((LARGE, LARGE, LARGE), _some(max)), ((FLOATS, INTEGERS), _some(max)), ((TEXTS, TEXTS), _some(max))],
    "if": [((st.booleans(), LARGE, LARGE), _if := lambda c, a, b: a if c else b), ((st.booleans(), TEXTS, TEXTS), _if)],
    "upper": [((TEXTS,), str.upper)],
    "lower": [((TEXTS,), str.lower)],
    "length": [((TEXTS,), len)],
    "concat": [((TEXTS, TEXTS, TEXTS), lambda *texts: "".join(texts))],
    "substring": [
        (
            (TEXTS, st.integers(-3, 9), st.integers(0, 9)),
            lambda text, at, number: "".join(c for i, c in enumerate(text, 1) if at <= i < at + number),
        )
    ],
    "starts_with": [((TEXTS, TEXTS), str.startswith)],
    "contains": [((TEXTS, TEXTS), lambda text, part: part in text)],
    "hour": [((TIMES,), lambda us: _time(us).hour)],
    "minute": [((TIMES,), lambda us: _time(us).minute)],
    "second": [((TIMES,), lambda us: _time(us).second)],
    "as_int64": [((FLOATS,), int), ((LARGE.map(str),), int), ((st.booleans(),), int), ((LARGE,), int)],
    "as_float64": [((LARGE,), float), ((FLOATS,), float)],
    "as_string": [((LARGE,), str), ((st.booleans(),), lambda b: str(b).lower()), ((TEXTS,), str)],
    "as_timestamp": [((TIMES,), int)],
    "is_null": [((LARGE,), _missing := lambda value: value is None), ((TEXTS,), _missing)],
    "coalesce": [((LARGE, LARGE, LARGE), _first), ((TEXTS, TEXTS), _first), ((INTEGERS, FLOATS), _first)],
    "nullif": [
        ((st.integers(0, 2), st.integers(0, 2)), _unlike := lambda a, b: None if a == b else a),
        ((st.sampled_from("ab"), st.sampled_from("ab")), _unlike),
        ((st.booleans(), st.booleans()), _unlike),
    ],
    "is_same": [
        ((st.integers(0, 2), st.integers(0, 2)), _alike := lambda a, b: a == b),
        ((st.sampled_from("ab"), st.sampled_from("ab")), _alike),
    ],
}
CHECKED = [
    pytest.param(name, arguments, plain, id=f"{name}, {number}")
    for name, several in CASES.items()
    for number, (arguments, plain) in enumerate(several, 1)
]


def column(values: list[Any], kind: type) -> Any:
    types = {str: pa.string(), int: pa.int64(), float: pa.float64(), bool: pa.bool_()}
    return as_column(pa.array(values, types[kind]))


def plainly(values: Any) -> list[Any]:
    found: list[Any] = values.tolist() if isinstance(values, np.ndarray) else values.to_pylist()
    return found


def test_every_function_is_checked() -> None:
    assert set(CASES) == set(FUNCTIONS) == set(_FUNCTIONS)


@pytest.mark.parametrize(("name", "arguments", "plain"), CHECKED)
def test_a_function_of_columns_is_the_one_of_each_row(name: str, arguments: Any, plain: Callable[..., Any]) -> None:
    @settings(deadline=None, max_examples=40)
    @given(st.lists(st.tuples(*arguments), min_size=1, max_size=8), st.booleans())
    def holds(rows: list[tuple[Any, ...]], encode: bool) -> None:
        columns = [column(list(values), type(values[0])) for values in zip(*rows, strict=True)]
        if encode:
            columns = [c.dictionary_encode() if isinstance(c, pa.Array) else c for c in columns]
        got = call(name, columns)
        wanted = [plain(*row) for row in rows]
        assert len(got) == len(rows)
        assert len(call(name, [c[:0] for c in columns])) == 0
        assert plainly(got) == (pytest.approx(wanted, rel=1e-14) if isinstance(wanted[0], float) else wanted)

    holds()


@pytest.mark.parametrize(("name", "arguments", "plain"), CHECKED)
def test_a_function_of_nulls_is_null_unless_it_is_about_nulls(
    name: str, arguments: Any, plain: Callable[..., Any]
) -> None:
    @settings(deadline=None, max_examples=15)
    @given(st.tuples(*arguments), st.data(), st.booleans())
    def holds(row: tuple[Any, ...], data: st.DataObject, encode: bool) -> None:
        some_null = st.tuples(*(st.sampled_from([None, value]) for value in row))
        rows = data.draw(st.lists(some_null, min_size=1, max_size=5))
        kinds = [type(value) for value in row]
        columns = [column(list(values), kind) for values, kind in zip(zip(*rows, strict=True), kinds, strict=True)]
        if encode:
            columns = [c.dictionary_encode() if isinstance(c, pa.Array) else c for c in columns]
        strict = name not in ABOUT_NULLS
        wanted = [None if strict and None in row else plain(*row) for row in rows]
        assert plainly(call(name, columns)) == [
            pytest.approx(value, rel=1e-14) if isinstance(value, float) else value for value in wanted
        ]

    holds()


@pytest.mark.parametrize(
    ("name", "wanted"),
    [pytest.param("least", [1.0, math.nan], id="the least"), pytest.param("greatest", [math.nan] * 2, id="greatest")],
)
def test_nan_is_greater_than_every_other_number(name: str, wanted: list[float]) -> None:
    columns = [np.array([math.nan, math.nan]), np.array([1.0, math.nan])]
    assert plainly(call(name, columns)) == pytest.approx(wanted, nan_ok=True)
    assert plainly(call(name, columns[::-1])) == pytest.approx(wanted, nan_ok=True)


@pytest.mark.parametrize(
    ("name", "argument", "wanted"),
    [
        pytest.param("sqrt", -1.0, math.nan, id="the root of a negative number"),
        pytest.param("ln", 0.0, -math.inf, id="the logarithm of zero"),
        pytest.param("ln", -1.0, math.nan, id="the logarithm of a negative number"),
        pytest.param("exp", 1000.0, math.inf, id="a power that overflows"),
        pytest.param("round", 2.5, 2, id="a half is rounded to the even number below"),
        pytest.param("round", 3.5, 4, id="a half is rounded to the even number above"),
        pytest.param("round", 2**53 + 1, 2**53 + 1, id="an integer no float holds is rounded to itself"),
        pytest.param("floor", -0.5, -1, id="the integer below a negative fraction"),
        pytest.param("hour", -1, 23, id="the hour before 1970"),
    ],
)
def test_a_function_at_its_limits(name: str, argument: Any, wanted: Any) -> None:
    assert plainly(call(name, [np.array([argument])])) == pytest.approx([wanted], nan_ok=True, rel=0)


def test_a_text_that_is_no_number_is_an_error() -> None:
    with pytest.raises(RunError, match=r"as_int64 needs texts of digits: .*'seven'"):
        call("as_int64", [pa.array(["7", "seven"])])


# --- functions of the user's own ----------------------------------------------------------------

BLOCK = Block({"n": np.array([1, 2, 3]), "k": pa.array(["a", "b", "a"]).dictionary_encode()}, 3)


@udf("int64")
def doubled(n: Any) -> Any:
    return n * 2


@udf("string")
def shouted(k: list[str]) -> list[str]:
    return [text + "!" for text in k]


@udf("timestamp")
def day(n: Any) -> Any:
    return n.astype("datetime64[s]")


@udf("float64")
def half() -> float:
    return 0.5


@udf("string")
def name() -> str:
    return "x"


@pytest.mark.parametrize(
    ("expression", "wanted"),
    [
        pytest.param(doubled("n"), [2, 4, 6], id="numbers are passed as arrays"),
        pytest.param(doubled(col("n") + 1), [4, 6, 8], id="arguments are expressions"),
        pytest.param(shouted("k"), ["a!", "b!", "a!"], id="texts are passed as lists"),
        pytest.param(day("n"), [1_000_000, 2_000_000, 3_000_000], id="times may be datetimes"),
        pytest.param(half(), [0.5, 0.5, 0.5], id="a single number is one for every row"),
        pytest.param(name(), ["x", "x", "x"], id="a single text is one for every row"),
        pytest.param(if_(col("n") > 1, doubled("n"), 0), [0, 4, 6], id="a function within another"),
    ],
)
def test_a_user_function_is_called_with_whole_columns(expression: Any, wanted: list[Any]) -> None:
    assert plainly(evaluate(expression, BLOCK)) == wanted


@pytest.mark.parametrize(
    ("type_", "given", "message"),
    [
        pytest.param("int64", [1, 2], "function 'f' must give a value for each of 3 rows; got 2", id="too few"),
        pytest.param("int64", [0.5] * 3, "function 'f' must give int64; Cannot cast", id="fractions for integers"),
        pytest.param("string", [1, 2, 3], "function 'f' must give string; ", id="numbers for texts"),
        pytest.param("float64", ["a"] * 3, "function 'f' must give float64; ", id="texts for numbers"),
    ],
)
def test_a_user_function_that_returns_another_type_is_an_error(type_: str, given: Any, message: str) -> None:
    def f() -> Any:
        return given

    with pytest.raises(RunError) as caught:
        evaluate(udf(type_)(f)(), BLOCK)
    assert str(caught.value).startswith(message)


NULLS = Block.from_arrow(pa.record_batch({"n": pa.array([1, None, 3]), "k": pa.array(["a", "b", None])}))


@udf("string")
def joined(n: Any, k: list[str]) -> list[str]:
    return [f"{number}{text}" for number, text in zip(n, k, strict=True)]


@pytest.mark.parametrize(
    ("expression", "wanted"),
    [
        pytest.param(doubled("n"), [2, None, 6], id="numbers"),
        pytest.param(shouted("k"), ["a!", "b!", None], id="texts"),
        pytest.param(joined("n", "k"), ["1a", None, None], id="several arguments"),
        pytest.param(doubled(null("int64")), [None] * 3, id="nothing but nulls"),
        pytest.param(day("n"), [1_000_000, None, 3_000_000], id="times"),
    ],
)
def test_rows_with_a_null_argument_are_not_passed_to_a_user_function(expression: Any, wanted: list[Any]) -> None:
    assert plainly(evaluate(expression, NULLS)) == wanted


@pytest.mark.parametrize(
    ("type_", "given", "wanted"),
    [
        pytest.param("string", ["a", None, "b"], ["a", None, "b"], id="None among texts"),
        pytest.param("int64", [1, None, 3], [1, None, 3], id="None among integers"),
        pytest.param("float64", [1, None, 0.5], [1.0, None, 0.5], id="None among floats"),
        pytest.param(
            "bool", np.ma.masked_array([True] * 3, [False, True, False]), [True, None, True], id="a masked array"
        ),
        pytest.param(
            "timestamp", np.array(["1970-01-02", "NaT"] * 2, "M8[s]")[:3], [86400 * 10**6, None] * 2, id="NaT"
        ),
        pytest.param("int64", None, [None] * 3, id="None for every row"),
        pytest.param("string", None, [None] * 3, id="None for every text"),
        pytest.param("float64", np.array([1.0, np.nan, 2.0]), [1.0, math.nan, 2.0], id="NaN is a value"),
    ],
)
def test_a_user_function_may_give_nulls(type_: str, given: Any, wanted: list[Any]) -> None:
    def f() -> Any:
        return given

    assert repr(plainly(evaluate(udf(type_)(f)(), BLOCK))) == repr(wanted[:3])


def test_a_user_function_may_give_nulls_for_rows_among_which_some_were_not_passed() -> None:
    @udf("int64")
    def odd(n: Any) -> Any:
        return np.ma.masked_array(n, n == 3)

    assert plainly(evaluate(odd("n"), NULLS)) == [1, None, None]
