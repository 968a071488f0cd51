"""Order and groups: the same for the same rows, in any order of arrival."""

import math
import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.kernels.columns.order import due, group_numbers, in_order, sortable, starts
from shoal.kernels.columns.table import INSTANCE, RowTable
from shoal.model.query.schema import TIME

ROWS = st.tuples(
    st.integers(0, 2),
    st.integers(-2, 2),
    st.sampled_from(["", "b", "a", "Ä", "日"]),
    st.sampled_from([-(2**63), -1, 0, 2**63 - 1]),
    st.booleans(),
)
NAMES = ("k", "n", "b")


def table(rows: list[Any], *, encode: bool = False) -> RowTable:
    instances, times, texts, numbers, booleans = zip(*rows, strict=True) if rows else [()] * 5
    written = pa.array(texts, pa.string())
    return RowTable(
        {
            INSTANCE: np.array(instances, np.int64),
            TIME: np.array(times, np.int64),
            "k": written.dictionary_encode() if encode else written,
            "n": np.array(numbers, np.int64),
            "b": np.array(booleans, bool),
        }
    )


@settings(deadline=None, max_examples=60)
@given(st.lists(st.lists(ROWS, max_size=10), min_size=1, max_size=3), st.booleans())
def test_groups_are_equal_exactly_for_equal_instances_and_keys_across_tables(
    several: list[list[Any]], encode: bool
) -> None:
    tables = [table(rows, encode=encode and at == 0) for at, rows in enumerate(several)]
    numbers = group_numbers(tables, NAMES)
    assert [len(each) for each in numbers] == [len(rows) for rows in several]
    keys = [(row[0], *row[2:]) for rows in several for row in rows]
    flat = [number for each in numbers for number in each.tolist()]
    assert len(set(zip(flat, keys, strict=True))) == len(set(keys)) == len(set(flat))
    assert set(flat) == set(range(len(set(flat))))


def test_without_keys_an_instance_is_a_group() -> None:
    assert [n.tolist() for n in group_numbers([table([(5, 0, "", 0, True), (2, 1, "a", 1, False)])], ())] == [[1, 0]]
    assert [n.tolist() for n in group_numbers([table([]), table([])], NAMES)] == [[], []]


@settings(deadline=None, max_examples=60)
@given(st.lists(ROWS, min_size=1, max_size=15), st.integers(0, 2**32))
def test_rows_come_by_group_time_and_columns_whatever_order_they_came_in(rows: list[Any], seed: int) -> None:
    random.Random(seed).shuffle(rows)
    made = table(rows)
    order = in_order(made.instance, made, NAMES)
    assert [rows[at] for at in order] == sorted(rows)


@pytest.mark.parametrize(
    ("column", "wanted"),
    [
        pytest.param(np.array([2, -1, 0]), [1, 2, 0], id="integers"),
        pytest.param(np.array([math.nan, math.inf, -math.inf]), [2, 1, 0], id="floats, NaN last"),
        pytest.param(np.array([True, False]), [1, 0], id="booleans"),
        pytest.param(pa.array(["b", "", "Z", "ä", "a"]), [1, 2, 4, 0, 3], id="texts by their characters' numbers"),
        pytest.param(pa.array(["b", "a", "c"]).dictionary_encode(), [1, 0, 2], id="texts with a dictionary"),
        pytest.param(pa.array([[2], [1, 5]], pa.list_(pa.int64())), [1, 0], id="lists"),
    ],
)
def test_a_column_sorts_as_its_values_do(column: Any, wanted: list[int]) -> None:
    assert np.argsort(sortable(column), kind="stable").tolist() == wanted


def test_runs_begin_where_numbers_change() -> None:
    assert starts(np.array([0, 0, 3, 4, 4])).tolist() == [0, 2, 3]
    assert starts(np.zeros(0, np.int64)).tolist() == []


def test_rows_are_due_before_the_watermark_and_not_at_it() -> None:
    made = table([(0, time, "", 0, True) for time in (-1, 0, 1)])
    ready, waiting = due(made, 0)
    assert ready is not None
    assert waiting is not None
    assert (ready[TIME].tolist(), waiting[TIME].tolist()) == ([-1], [0, 1])
    assert due(made, -1) == (None, made)
    assert due(made, 9) == (made, None)
    assert due(None, 9) == (None, None)
