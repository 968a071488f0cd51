import datetime as dt

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.session.digest import deviation, differences, result_digest

ROWS = st.lists(st.tuples(st.integers(0, 3), st.sampled_from(["a", "b"]), st.floats(0, 1)), max_size=8)


def table(rows: list[tuple[int, str, float]]) -> pa.Table:
    columns = list(zip(*rows, strict=True)) or [(), (), ()]
    types = (pa.int64(), pa.string(), pa.float64())
    return pa.table({name: pa.array(c, t) for name, c, t in zip("nks", columns, types, strict=True)})


@given(rows=ROWS, data=st.data())
def test_the_order_of_rows_does_not_matter(rows: list[tuple[int, str, float]], data: st.DataObject) -> None:
    other = data.draw(st.permutations(rows))
    assert result_digest({"t": table(rows)}) == result_digest({"t": table(other)})
    assert differences({"t": table(other)}, {"t": table(rows)}) == []


@given(rows=ROWS.filter(bool), data=st.data())
def test_a_row_lost_or_doubled_shows(rows: list[tuple[int, str, float]], data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(rows) - 1))
    for other in ([*rows[:at], *rows[at + 1 :]], [*rows, rows[at]]):
        assert result_digest({"t": table(rows)}) != result_digest({"t": table(other)})
        assert differences({"t": table(other)}, {"t": table(rows)}) != []


def test_chunks_units_of_time_and_order_of_columns_do_not_matter() -> None:
    at = dt.datetime(2024, 1, 1, 12, 30, tzinfo=dt.UTC)
    one = pa.table({"ts": pa.array([at, at], pa.timestamp("us")), "n": [1, 2]})
    other = pa.concat_tables([one.slice(1), one.slice(0, 1)]).select(["n", "ts"])
    other = other.set_column(1, "ts", other["ts"].cast(pa.timestamp("ns")))
    assert result_digest({"t": one}) == result_digest({"t": other})


def test_the_name_of_the_table_matters() -> None:
    rows = pa.table({"n": [1]})
    assert result_digest({"a": rows}) != result_digest({"b": rows})


@pytest.mark.parametrize(
    ("got", "message"),
    [
        pytest.param({}, "table 't' is missing; expected 2 rows", id="a missing table"),
        pytest.param(
            {"t": table([(1, "a", 0.5)])},
            "table 't': expected 2 rows, got 1; missing [(2, 'b')]",
            id="a missing row",
        ),
        pytest.param(
            {"t": table([(1, "a", 0.5), (2, "b", 0.25), (3, "b", 0.25)])},
            "table 't': expected 2 rows, got 3; not expected [(3, 'b')]",
            id="a row too many",
        ),
        pytest.param(
            {"t": table([(1, "a", 0.5), (2, "c", 0.25)])},
            "table 't': column 'k': expected 'b', got 'c'",
            id="another key",
        ),
        pytest.param(
            {"t": table([(1, "a", 0.5), (2, "b", 0.25001)])},
            "table 't': column 's': 1 values differ, e.g. expected np.float64(0.25), got np.float64(0.25001)",
            id="another number",
        ),
    ],
)
def test_a_difference_is_told_in_words(got: dict[str, pa.Table], message: str) -> None:
    assert differences(got, {"t": table([(1, "a", 0.5), (2, "b", 0.25)])}) == [message]


def test_floats_may_differ_in_the_tenth_digit_only() -> None:
    wanted = {"t": table([(1, "a", 1.0)])}
    assert differences({"t": table([(1, "a", 1.0 + 1e-10)])}, wanted) == []
    assert differences({"t": table([(1, "a", 1.0 + 1e-8)])}, wanted) != []


def test_lists_are_compared_value_by_value() -> None:
    def lists(values: list[list[float]]) -> dict[str, pa.Table]:
        return {"t": pa.table({"k": list(range(len(values))), "top": pa.array(values, pa.list_(pa.float64()))})}

    assert differences(lists([[3.0, 2.0], []]), lists([[3.0, 2.0], []])) == []
    assert differences(lists([[3.0, 1.0], []]), lists([[3.0, 2.0], []])) != []
    assert differences(lists([[3.0], [2.0]]), lists([[3.0, 2.0], []])) != []


def test_columns_that_are_not_expected_are_not_looked_at() -> None:
    got = table([(1, "a", 0.5)]).append_column("query", pa.array(["q"]))
    assert differences({"t": got, "more": got}, {"t": table([(1, "a", 0.5)])}) == []


@pytest.mark.parametrize(
    ("got", "wanted", "text"),
    [
        pytest.param([None, 1.0], [float("nan"), 1.0], "expected nan, got None", id="null is not NaN"),
        pytest.param([0.0, 1.0], [None, 1.0], "expected None, got 0.0", id="null is not 0"),
        pytest.param([[1.0], None], [[1.0], []], "expected [], got None", id="null is not an empty list"),
        pytest.param(["", "b"], [None, "b"], "expected None, got ''", id="null is not an empty text"),
    ],
)
def test_a_null_is_no_value(got: list[object], wanted: list[object], text: str) -> None:
    one, other = pa.table({"n": [1, 2], "v": got}), pa.table({"n": [1, 2], "v": wanted})
    assert differences({"t": one}, {"t": other}) == [f"table 't': column 'v': {text}"]
    assert result_digest({"t": one}) != result_digest({"t": other})
    assert differences({"t": one}, {"t": one}) == []


def test_results_deviate_by_the_share_of_rows_that_differ() -> None:
    wanted = {"t": pa.table({"n": [1, 2, 3, 4], "x": [0.1, 0.2, 0.3, 0.4]})}
    same = {"t": pa.table({"n": [4, 3, 2, 1], "x": [0.4, 0.3, 0.2, 0.1 + 1e-16], "query": ["q"] * 4})}
    other = {"t": pa.table({"n": [1, 2, 9], "x": [0.1, 0.2001, 0.3]})}
    assert deviation(same, wanted) == 0
    assert deviation(other, wanted) == 0.75
    assert deviation({}, wanted) == 1
