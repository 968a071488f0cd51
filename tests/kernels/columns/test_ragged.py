"""Ragged columns behave like columns of lists, and travel through Arrow like them."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.kernels.columns.block import concat, take
from shoal.kernels.columns.ragged import Ragged, concat_ragged
from shoal.kernels.columns.table import from_arrow, owned_column, to_arrow

Rows = list[list[int]] | list[list[str]]
ROWS = st.one_of(
    st.lists(st.lists(st.integers(-(2**63), 2**63 - 1), max_size=4), max_size=6),
    st.lists(st.lists(st.text(max_size=2), max_size=4), min_size=1, max_size=6),
)


def ragged(rows: Rows) -> Ragged:
    dtype: Any = object if any(isinstance(value, str) for row in rows for value in row) else np.int64
    return Ragged.of([np.array(row, dtype) for row in rows])


@given(ROWS, st.data())
def test_rows_are_taken_in_any_order_and_as_often_as_wanted(rows: Rows, data: st.DataObject) -> None:
    wanted = data.draw(st.lists(st.integers(0, len(rows) - 1), max_size=8)) if rows else []
    assert take(ragged(rows), np.array(wanted, np.int64)).tolist() == [rows[at] for at in wanted]


@given(ROWS, st.integers(0, 7), st.integers(0, 7))
def test_a_slice_has_the_rows_of_a_list(rows: Rows, begin: int, end: int) -> None:
    part = ragged(rows)[begin:end]
    assert part.tolist() == rows[begin:end]
    assert len(part) == part.size == len(rows[begin:end])
    assert part.lengths.tolist() == [len(row) for row in rows[begin:end]]


@given(ROWS, st.data())
def test_columns_are_concatenated_row_by_row(rows: Rows, data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, len(rows)))
    parts = [ragged(rows)[:cut], ragged(rows)[cut:]]
    assert concat_ragged(parts).tolist() == rows
    assert concat(parts).tolist() == rows


@given(ROWS, st.integers(0, 6))
def test_rows_survive_their_journey_through_arrow(rows: Rows, begin: int) -> None:
    arrived = from_arrow(to_arrow(ragged(rows)).slice(begin))
    assert isinstance(arrived, Ragged)
    assert arrived.tolist() == rows[begin:]


def test_lists_of_earlier_checkpoints_are_read() -> None:
    arrays = [pa.array([[1, 5], [], [9]], pa.large_list(pa.int64())), pa.array([["a"], []], pa.large_list(pa.string()))]
    assert [from_arrow(array).tolist() for array in arrays] == [[[1, 5], [], [9]], [["a"], []]]


def test_an_owned_column_shares_no_memory_with_others() -> None:
    whole = ragged([[1, 2], [3]])
    part = owned_column(whole[1:])
    assert part.tolist() == [[3]]
    assert part.values.base is None
    assert owned_column(part) is part


@pytest.mark.parametrize("rows", [0, 2])
def test_an_empty_column_has_rows_without_values(rows: int) -> None:
    assert Ragged.empty(rows).tolist() == [[]] * rows
    assert from_arrow(to_arrow(Ragged.empty(rows))).tolist() == [[]] * rows
