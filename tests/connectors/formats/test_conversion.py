"""Conversion: which values are taken for which declared type."""

import datetime as dt
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.connectors.formats.conversion import converted

INT, FLOAT, BOOL, TEXT, TIME = pa.int64(), pa.float64(), pa.bool_(), pa.string(), pa.timestamp("us")
DAY_US = 1_704_067_200_000_000
"""2024-01-01"""
INF = float("inf")


def texts(*values: str | None) -> pa.Array:
    return pa.array(values, pa.string())


def not_utf8(*values: bytes) -> pa.Array:
    """Texts as a careless program writes them."""
    return pa.array(values, pa.binary()).view(pa.string())


def times(values: Sequence[int], unit: str, zone: str | None = None) -> pa.Array:
    return pa.array(values, pa.int64()).view(pa.timestamp(unit, zone))


TABLE = [
    pytest.param(texts("12", "-3", "+4", " 5 ", "6.0", "7.", "0x1F"), INT, [12, -3, 4, 5, 6, 7, 31], id="whole texts"),
    pytest.param(texts("1.5", "abc", "", "1e3", "--1", "1_000", "٣"), INT, [None] * 7, id="texts that are no integer"),
    pytest.param(texts("9223372036854775807", "9223372036854775808"), INT, [2**63 - 1, None], id="a text too large"),
    pytest.param(pa.array([1.0, -2.0, 1.5, np.nan, INF, 2.0**63]), INT, [1, -2] + [None] * 4, id="floats as integers"),
    pytest.param(pa.array([1, 2**63], pa.uint64()), INT, [1, None], id="an unsigned integer too large"),
    pytest.param(pa.array([1, 2], pa.int8()), INT, [1, 2], id="small integers"),
    pytest.param(pa.array([Decimal("1.00"), Decimal("1.50")]), INT, [1, None], id="decimals as integers"),
    pytest.param(pa.array([True, False]), INT, [1, 0], id="booleans as integers"),
    pytest.param(times([5], "us"), INT, [None], id="a time is no integer"),
    pytest.param(texts("1.5", "-2e3", ".5", "+7", " 8 ", "inf"), FLOAT, [1.5, -2000, 0.5, 7, 8, INF], id="float texts"),
    pytest.param(texts("abc", "", "1,5", "1.2.3", "e5", "0x10"), FLOAT, [None] * 6, id="texts that are no float"),
    pytest.param(pa.array([1, 2**53, 2**53 + 1]), FLOAT, [1.0, 2.0**53, None], id="integers a float holds exactly"),
    pytest.param(pa.array([0.5], pa.float32()), FLOAT, [0.5], id="a short float"),
    pytest.param(pa.array([0.5], pa.float16()), FLOAT, [0.5], id="a shorter float"),
    pytest.param(pa.array([Decimal("1.5")]), FLOAT, [1.5], id="decimals as floats"),
    pytest.param(
        texts("true", "TRUE", "False", "1", "0", " true"), BOOL, [True, True, False, True, False, True], id="t"
    ),
    pytest.param(texts("yes", "t", "", "2", "on"), BOOL, [None] * 5, id="texts that are no boolean"),
    pytest.param(pa.array([0, 1, 2, -1]), BOOL, [False, True, None, None], id="numbers as booleans"),
    pytest.param(pa.array([0.0, 1.0, 0.5, np.nan]), BOOL, [False, True, None, None], id="floats as booleans"),
    pytest.param(pa.array([Decimal("1.0"), Decimal("0.5")]), BOOL, [True, None], id="decimals as booleans"),
    pytest.param(pa.array([7, 8]), TEXT, ["7", "8"], id="numbers as texts"),
    pytest.param(pa.array([b"ab", b"\xff", "é".encode()]), TEXT, ["ab", None, "é"], id="bytes as texts"),
    pytest.param(not_utf8(b"ab", b"\xff", "é".encode()), TEXT, ["ab", None, "é"], id="texts that are not UTF-8"),
    pytest.param(not_utf8(b"12", b"\xff", b" 7"), INT, [12, None, 7], id="numbers among texts that are not UTF-8"),
    pytest.param(pa.array([b"12", b"x"]), INT, [12, None], id="bytes as numbers"),
    pytest.param(pa.array(["a"], pa.large_string()), TEXT, ["a"], id="large texts"),
    pytest.param(pa.array(["a"], pa.string_view()), TEXT, ["a"], id="text views"),
    pytest.param(pa.array([b"ab"], pa.binary(2)), TEXT, ["ab"], id="bytes of a fixed size"),
    pytest.param(pa.array(["1", "x", None]).dictionary_encode(), INT, [1, None, None], id="a dictionary of texts"),
    pytest.param(pa.array([5, 5]).dictionary_encode(), TEXT, ["5", "5"], id="a dictionary of numbers"),
    pytest.param(pa.RunEndEncodedArray.from_arrays([2], pa.array([3])), INT, [3, 3], id="runs"),
    pytest.param(pa.array([{"a": 1}]), INT, [None], id="a struct is no number"),
    pytest.param(pa.array([[1]]), TEXT, [None], id="a list is no text"),
    pytest.param(pa.array([[1]]), BOOL, [None], id="a list is no boolean"),
    pytest.param(pa.array([[1]]), TIME, [None], id="a list is no time"),
    pytest.param(pa.nulls(2), FLOAT, [None, None], id="nothing at all"),
    pytest.param(pa.array(["1"], pa.json_()), INT, [1], id="an extension type"),
]


@pytest.mark.parametrize(("given_", "wanted", "expected"), TABLE)
def test_values_that_fit_are_taken_and_others_become_null(given_: pa.Array, wanted: pa.DataType, expected: Any) -> None:
    result = converted(given_, wanted)
    result.validate(full=True)
    assert result.to_pylist() == expected


TIMES = [
    pytest.param(times([DAY_US // 10**6], "s"), [DAY_US], id="seconds"),
    pytest.param(times([DAY_US // 1000], "ms"), [DAY_US], id="milliseconds"),
    pytest.param(times([DAY_US * 1000 + 1999], "ns"), [DAY_US + 1], id="nanoseconds are cut"),
    pytest.param(times([DAY_US], "us", "America/New_York"), [DAY_US], id="a zone"),
    pytest.param(times([DAY_US * 1000 + 1], "ns", "Asia/Tokyo"), [DAY_US], id="a zone and nanoseconds"),
    pytest.param(times([2**62, 0, -(2**62)], "s"), [None, 0, None], id="seconds beyond any calendar"),
    pytest.param(pa.array([dt.date(2024, 1, 1)]), [DAY_US], id="dates"),
    pytest.param(pa.array([DAY_US, -1]), [DAY_US, -1], id="integers are microseconds"),
    pytest.param(pa.array([DAY_US, 2**63], pa.uint64()), [DAY_US, None], id="unsigned integers are microseconds"),
    pytest.param(pa.array([1.5]), [None], id="a float is no time"),
    pytest.param(pa.array([True]), [None], id="a boolean is no time"),
    pytest.param(pa.array([5], pa.time64("us")), [None], id="a time of day is no time"),
    pytest.param(texts("2024-01-01", "2024-01-01T00:00:00", "2024-01-01 00:00"), [DAY_US] * 3, id="texts in ISO 8601"),
    pytest.param(texts("2024-01-01T00:00:00.5", "2024-01-01"), [DAY_US + 500_000, DAY_US], id="texts with a fraction"),
    pytest.param(texts("2024-01-01T00:00:00.0000019"), [DAY_US + 1], id="texts with nanoseconds"),
    pytest.param(texts("2024-01-01T00:00:00Z", "2024-01-01T01:00:00+01:00"), [DAY_US] * 2, id="texts with offsets"),
    pytest.param(texts("2023-12-31T19:00:00-0500", "2023-12-31 19-05"), [DAY_US] * 2, id="texts with short offsets"),
    pytest.param(texts("2024-01-01", "2024-01-01T00:00:00Z", str(DAY_US)), [DAY_US] * 3, id="texts of all kinds"),
    pytest.param(texts(" 2024-01-01 ", "2024-01-01\t"), [DAY_US] * 2, id="texts with spaces around"),
    pytest.param(texts("2024-13-01", "2024-02-30", "01/02/2024", "now", "", "24:00"), [None] * 6, id="no such time"),
]


@pytest.mark.parametrize(("given_", "expected"), TIMES)
def test_times_come_in_many_forms(given_: pa.Array, expected: Any) -> None:
    assert converted(given_, TIME).view(pa.int64()).to_pylist() == expected


def test_a_clean_column_is_not_copied() -> None:
    for array in (pa.array([1]), pa.array([0.5]), pa.array(["é"]), pa.array(["é"]).dictionary_encode()):
        wanted = TEXT if pa.types.is_dictionary(array.type) else array.type
        assert converted(array, wanted) is array


def test_a_dictionary_of_bytes_becomes_one_of_texts() -> None:
    result = converted(pa.array([b"a", b"b", b"a"]).dictionary_encode(), TEXT)
    assert result.type == pa.dictionary(pa.int32(), TEXT)
    assert result.to_pylist() == ["a", "b", "a"]


def test_a_part_of_a_column_is_judged_by_its_own_values() -> None:
    column = not_utf8(b"\xff", b"ab", b"12", b"\xfe")
    assert converted(column[1:3], TEXT).to_pylist() == ["ab", "12"]
    assert converted(column[1:], TEXT).to_pylist() == ["ab", "12", None]


numeric = st.text("0123456789.-+ eExXnaif", max_size=8)
clocks = r"[T ][0-2][0-9](:[0-6][0-9](:[0-6][0-9](\.[0-9]{1,10})?)?)?"
offsets = "Z|[+-][0-9]{2}(:?[0-9]{2})?"
dates = st.from_regex(f"[0-9]{{3,5}}-[0-3][0-9]-[0-3][0-9]({clocks})?({offsets})?", fullmatch=True)
anything = (
    numeric | dates | st.sampled_from(["true", "FALSE", "nan", "-inf", "infinity", "1e400"]) | st.text(max_size=5)
)


@settings(max_examples=300)
@given(values=st.lists(st.none() | anything, min_size=1, max_size=6), wanted=st.sampled_from([INT, FLOAT, BOOL, TIME]))
def test_whether_a_text_fits_does_not_depend_on_its_neighbours(values: list[str | None], wanted: pa.DataType) -> None:
    alone = [converted(texts(value), wanted)[0] for value in values]
    together = converted(texts(*values), wanted)
    assert [str(value) for value in together] == [str(value) for value in alone]


integers = st.integers(-(2**63), 2**63 - 1) | st.sampled_from([2**53, 2**53 + 1, -(2**53) - 1])
columns = st.one_of(
    st.lists(integers, min_size=1, max_size=5).map(lambda values: pa.array(values, pa.int64())),
    st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=5).map(lambda values: pa.array(values, pa.uint64())),
    st.lists(st.floats(), min_size=1, max_size=5).map(lambda values: pa.array(values, pa.float64())),
    st.lists(st.decimals(-1000, 1000, places=2), min_size=1, max_size=5).map(pa.array),
    st.tuples(st.lists(integers, min_size=1, max_size=5), st.sampled_from(["s", "ms", "us", "ns"])).map(
        lambda pair: times(*pair)
    ),
)


@settings(max_examples=300)
@given(array=columns, wanted=st.sampled_from([INT, FLOAT, BOOL, TIME]))
def test_whether_a_value_fits_does_not_depend_on_its_neighbours(array: pa.Array, wanted: pa.DataType) -> None:
    def shown(result: pa.Array) -> list[Any]:
        values = result.view(pa.int64()) if pa.types.is_timestamp(wanted) else result
        return [str(value) for value in values.to_pylist()]

    alone = [shown(converted(array[at : at + 1], wanted))[0] for at in range(len(array))]
    assert shown(converted(array, wanted)) == alone


@settings(max_examples=200)
@given(st.lists(st.floats(allow_nan=False), min_size=1))
def test_a_float_survives_the_way_through_text(values: list[float]) -> None:
    assert converted(texts(*map(repr, values)), FLOAT).to_pylist() == values


@settings(max_examples=200)
@given(st.lists(st.datetimes(), min_size=1))
def test_a_time_survives_the_way_through_text(values: list[dt.datetime]) -> None:
    assert converted(texts(*(value.isoformat() for value in values)), TIME).to_pylist() == values
    assert converted(texts(*(value.isoformat() + "Z" for value in values)), TIME).to_pylist() == values


@given(
    st.datetimes(timezones=st.just(dt.UTC)),
    st.sampled_from(["Z", "", "+02:00", "-0530", "+01"]),
    st.booleans(),
)
def test_isos_basic_format_is_the_same_time_as_the_extended_one(time: dt.datetime, zone: str, fine: bool) -> None:
    fraction = f".{time.microsecond:06d}" if fine else ""
    year = f"{time.year:04d}"
    extended = f"{year}{time.strftime('-%m-%dT%H:%M:%S')}{fraction}{zone}"
    basic = f"{year}{time.strftime('%m%dT%H%M%S')}{fraction}{zone}"
    found = converted(pa.array([basic, extended]), pa.timestamp("us"))
    assert found[0].is_valid
    assert found[0] == found[1]
    short = converted(pa.array([f"{year}{time.strftime('%m%dT%H%M')}{zone}"]), pa.timestamp("us"))
    assert short.is_valid().to_pylist() == [True]


@pytest.mark.parametrize(("unit", "number"), [("s", 1), ("ms", 1_000), ("us", 1_000_000), ("ns", 1_000_000_000)])
def test_integers_count_the_unit_that_is_given(unit: Any, number: int) -> None:
    numbers = [1_496_275_211 * number, -number]
    wanted = [dt.datetime.fromisoformat(text) for text in ("2017-06-01T00:00:11", "1969-12-31T23:59:59")]
    for given_as in (pa.array(numbers), pa.array(map(str, numbers)), pa.array(map(str, numbers)).dictionary_encode()):
        assert converted(given_as, pa.timestamp("us"), unit).to_pylist() == wanted
    assert converted(pa.array([1 << 62]), pa.timestamp("us"), "s").to_pylist() == [None]
