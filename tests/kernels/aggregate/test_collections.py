"""Cells of more than numbers: sets of values, and the states of user-defined aggregates."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.errors import RunError
from shoal.kernels.aggregate.collections import add_set, add_user, merge_sets, merge_user, user_results
from shoal.kernels.columns.ragged import Ragged


def cells(size: int) -> Any:
    return np.full(size, None, object)


@pytest.mark.parametrize(
    ("column", "wanted"),
    [
        pytest.param(np.array([3, 1, 3, 2]), [[1, 3], [], [2, 3]], id="integers"),
        pytest.param(np.array([2**63 - 1, -(2**63), 0, 0]), [[-(2**63), 2**63 - 1], [], [0]], id="far integers"),
        pytest.param(np.array([True, False, True, True]), [[0, 1], [], [1]], id="booleans"),
        pytest.param(pa.array(["b", "a", "ä", ""]), [["a", "b"], [], ["", "ä"]], id="texts"),
        pytest.param(
            pa.array(["b", "a", "b", "b"]).dictionary_encode(), [["a", "b"], [], ["b"]], id="texts with a dictionary"
        ),
    ],
)
def test_a_cell_holds_each_of_its_values_once_in_order(column: Any, wanted: list[Any]) -> None:
    into = Ragged.empty(3)
    add_set(np.array([0, 0, 2, 2]), column, into)
    assert into.tolist() == wanted


@pytest.mark.parametrize("column", [np.zeros(0, np.int64), pa.array([], pa.string())], ids=["integers", "texts"])
def test_no_values_leave_the_cells_empty(column: Any) -> None:
    into = Ragged.empty(2)
    add_set(np.zeros(0, np.int64), column, into)
    assert into.tolist() == [[], []]
    assert into.values.dtype == (object if isinstance(column, pa.Array) else np.int64)


@pytest.mark.parametrize(
    ("one", "other", "wanted"),
    [
        pytest.param([1, 2], [2, 3], [1, 2, 3], id="integers"),
        pytest.param(["a"], ["a"], ["a"], id="equal texts"),
        pytest.param(["b", "c"], ["", "c"], ["", "b", "c"], id="texts"),
        pytest.param(["a"], ["a\0"], ["a", "a\0"], id="texts that differ in a zero at the end"),
    ],
)
def test_a_union_has_the_values_of_both(one: list[Any], other: list[Any], wanted: list[Any]) -> None:
    dtype: Any = object if isinstance(one[0], str) else np.int64
    for sets in ([one, other], [other, one]):
        partial, into = Ragged.of([np.array(each, dtype) for each in [*sets, []]]), Ragged.empty(2)
        merge_sets(np.array([0, 1, 2]), np.array([1, 1, 0]), partial, into)
        assert into.tolist() == [[], wanted]


@given(st.lists(st.tuples(st.integers(0, 3), st.sets(st.integers(-5, 5))), max_size=12), st.booleans())
def test_any_sets_are_merged_into_the_unions_of_their_cells(given: list[tuple[int, set[int]]], texts: bool) -> None:
    wanted: list[set[Any]] = [set() for _ in range(4)]
    rows: list[list[Any]] = [sorted(map(str, each) if texts else each) for _, each in given]
    for (cell, _), row in zip(given, rows, strict=True):
        wanted[cell].update(row)
    partial, into = Ragged.of([np.array(row, object if texts else np.int64) for row in rows]), Ragged.empty(4)
    merge_sets(np.arange(len(given)), np.array([cell for cell, _ in given], np.int64), partial, into)
    assert into.tolist() == [sorted(each) for each in wanted]


class Total:
    """A sum, with the number of values."""

    def zero(self) -> list[float]:
        return [0.0, 0]

    def add(self, state: list[float], values: list[float]) -> list[float]:
        return [state[0] + sum(values), state[1] + len(values)]

    def merge(self, one: list[float], other: list[float]) -> list[float]:
        return [one[0] + other[0], one[1] + other[1]]

    def result(self, state: list[float]) -> float:
        return state[0] / state[1]


def test_a_user_aggregate_receives_the_values_of_one_cell_at_a_time() -> None:
    into = cells(3)
    add_user(np.array([0, 2, 0]), np.array([1.0, 5.0, 3.0]), into, Total())
    assert into.tolist() == [[4.0, 2], None, [5.0, 1]]


def test_a_user_aggregate_receives_texts_as_texts() -> None:
    class Joined:
        def zero(self) -> str:
            return ""

        def add(self, state: str, values: list[str]) -> str:
            return state + "".join(values)

    into = cells(1)
    add_user(np.zeros(2, np.int64), pa.array(["a", "b"]).dictionary_encode(), into, Joined())
    assert into.tolist() == ["ab"]


def test_partial_objects_are_merged_and_empty_ones_skipped() -> None:
    into = cells(2)
    partial = cells(3)
    partial[0], partial[2] = [1.0, 1], [2.0, 1]
    merge_user(np.array([0, 1, 2]), np.array([1, 1, 1]), partial, into, Total())
    assert into.tolist() == [None, [3.0, 2]]


@pytest.mark.parametrize(
    ("type_", "results", "wanted"),
    [
        pytest.param("int64", [1, -2], [1, -2], id="integers"),
        pytest.param("float64", [1, 0.5], [1.0, 0.5], id="floats"),
        pytest.param("bool", [True, False], [True, False], id="booleans"),
        pytest.param("string", ["a", ""], ["a", ""], id="texts"),
        pytest.param("timestamp", [0, 7], [0, 7], id="times as microseconds"),
        pytest.param("list<int64>", [[1], []], [[1], []], id="lists of integers"),
    ],
)
def test_a_user_aggregate_returns_the_type_it_declares(type_: Any, results: list[Any], wanted: list[Any]) -> None:
    class Given:
        def result(self, state: int) -> Any:
            return results[state]

    states = np.array([0, 1], object)
    column = user_results(states, np.ones(2, np.int64), Given(), type_)
    assert (column.to_pylist() if isinstance(column, pa.Array) else column.tolist()) == wanted


@pytest.mark.parametrize("type_", ["int64", "timestamp", "string"])
def test_a_user_aggregate_is_null_where_it_returns_none_and_where_there_is_no_value(type_: Any) -> None:
    class Given:
        def result(self, state: Any) -> Any:
            return {"none": None, "some": "a" if type_ == "string" else 7}[state]

    states = np.array(["none", "some", None], object)
    column = user_results(states, np.array([1, 1, 0]), Given(), type_)
    assert column.to_pylist() == [None, "a" if type_ == "string" else 7, None]


@pytest.mark.parametrize(
    ("type_", "result", "message"),
    [
        pytest.param("int64", "a", "aggregate Wrong must give int64: ", id="a text"),
        pytest.param("int64", 0.5, "aggregate Wrong must give int64; got a float", id="a fraction"),
        pytest.param("string", 5, "aggregate Wrong must give string: ", id="a number"),
    ],
)
def test_a_user_aggregate_that_returns_another_type_is_an_error(type_: Any, result: Any, message: str) -> None:
    class Wrong:
        def result(self, state: int) -> Any:
            return result

    with pytest.raises(RunError) as caught:
        user_results(np.array([0], object), np.ones(1, np.int64), Wrong(), type_)
    assert str(caught.value).startswith(message)
