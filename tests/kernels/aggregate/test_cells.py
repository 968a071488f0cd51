"""Cells and codes: equal rows, and only they, get equal numbers."""

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.kernels.aggregate import cells
from shoal.kernels.aggregate.cells import Cells, Codes, cells_of, cells_of_numbers, codes_of

INTEGERS = {
    "close together": st.integers(-3, 3),
    "far apart": st.integers(-(2**63), 2**63 - 1),
    "at the limits": st.sampled_from([-(2**63), 2**63 - 1, 0]),
}


def same_grouping(numbers: Sequence[int], values: Sequence[Hashable]) -> bool:
    """Whether two sequences are equal at the same positions: dict-based, no sorting, no arrays."""
    return len(set(zip(numbers, values, strict=True))) == len(set(numbers)) == len(set(values))


def check(codes: Codes, values: Sequence[Hashable]) -> None:
    assert codes.size >= 1
    assert all(0 <= code < codes.size for code in codes.codes.tolist())
    assert same_grouping(codes.codes.tolist(), values)


@pytest.mark.parametrize("integers", INTEGERS.values(), ids=INTEGERS)
def test_codes_of_integers_are_equal_where_the_integers_are(integers: st.SearchStrategy[int]) -> None:
    @settings(deadline=None, max_examples=50)
    @given(st.lists(integers, max_size=30))
    def holds(values: list[int]) -> None:
        check(codes_of(np.array(values, np.int64)), values)

    holds()


@settings(deadline=None, max_examples=50)
@given(st.lists(st.text("ab", max_size=2), max_size=30), st.booleans())
def test_codes_of_texts_are_equal_where_the_texts_are(values: list[str], encode: bool) -> None:
    array = pa.array(values, pa.string())
    check(codes_of(array.dictionary_encode() if encode else array), values)


@settings(deadline=None, max_examples=20)
@given(st.lists(st.booleans(), max_size=5))
def test_codes_of_booleans_are_equal_where_the_booleans_are(values: list[bool]) -> None:
    check(codes_of(np.array(values, bool)), values)


def test_codes_of_a_slice_and_of_every_other_row_are_those_of_a_copy() -> None:
    values = np.arange(20)
    assert codes_of(values[3:9]).codes.tolist() == codes_of(values[3:9].copy()).codes.tolist()
    assert codes_of(values[::2]).codes.tolist() == codes_of(values[::2].copy()).codes.tolist()


@st.composite
def columns(draw: st.DrawFn) -> tuple[int, list[list[Any]]]:
    rows = draw(st.integers(0, 25))
    values = st.sampled_from(
        [st.integers(-2, 2), st.integers(0, 60_000), st.integers(-(2**63), 2**63 - 1), st.sampled_from(["", "x", "y"])]
    )
    kinds = draw(st.lists(values, max_size=5))
    return rows, [draw(st.lists(kind, min_size=rows, max_size=rows)) for kind in kinds]


def coded(values: list[Any]) -> Codes:
    texts = bool(values) and isinstance(values[0], str)
    return codes_of(pa.array(values) if texts else np.array(values, np.int64))


@settings(deadline=None, max_examples=150)
@given(columns())
def test_cells_are_equal_where_all_columns_are(case: tuple[int, list[list[Any]]]) -> None:
    rows, values = case
    found = cells_of([coded(column) for column in values], rows)
    assert found.of_row.size == rows
    assert all(0 <= cell < found.size for cell in found.of_row.tolist())
    assert same_grouping(found.of_row.tolist(), list(zip(*values, strict=True)) if values else [()] * rows)


@pytest.mark.parametrize(
    ("sizes", "largest"),
    [
        pytest.param([3, 5], 15, id="a small product is used as it is"),
        pytest.param([1 << 12, 1 << 12], 40, id="a product far above the number of rows is numbered by sorting"),
        pytest.param([1 << 40, 1 << 40, 1 << 40], 40, id="a product beyond 64 bits is numbered in between"),
        pytest.param([1 << 62, 1 << 62], 40, id="two columns that overflow at once"),
    ],
)
def test_cells_stay_few(sizes: list[int], largest: int) -> None:
    draw = np.random.default_rng(7)
    columns = [Codes(draw.integers(0, size, 40) % 3 * (size // 3), size) for size in sizes]
    found = cells_of(columns, 40)
    assert found.size <= largest
    assert same_grouping(found.of_row.tolist(), list(zip(*(column.codes.tolist() for column in columns), strict=True)))


def test_no_rows_and_no_columns_make_one_empty_cell() -> None:
    assert cells_of([], 0).size == 1
    assert cells_of([codes_of(np.zeros(0, np.int64))], 0).size == 1


@settings(deadline=None, max_examples=50)
@given(st.lists(st.integers(0, 99), max_size=30), st.integers(1, 5))
def test_cells_that_fit_are_the_same_cells_and_only_as_many_as_wide_arrays_can_afford(
    values: list[int], width: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cells, "DENSE_CELLS", 200)
        fitting = Cells(np.array(values, np.int64), 100).fitting(width)
    assert same_grouping(fitting.of_row.tolist(), values)
    assert fitting.size == (100 if width <= 2 else max(1, len(set(values))))
    assert all(0 <= cell < fitting.size for cell in fitting.of_row.tolist())


@pytest.mark.parametrize("integers", INTEGERS.values(), ids=INTEGERS)
def test_cells_of_several_integer_columns_are_equal_where_the_rows_are(integers: st.SearchStrategy[int]) -> None:
    @settings(deadline=None, max_examples=50)
    @given(st.lists(st.tuples(integers, st.integers(0, 2), st.booleans()), min_size=1, max_size=30))
    def holds(rows: list[tuple[int, int, bool]]) -> None:
        columns = [np.array([row[i] for row in rows], bool if i == 2 else np.int64) for i in range(3)]
        columns[0].flags.writeable = False
        found = cells_of_numbers(columns, len(rows))
        if found is None:
            assert max(rows)[0] - min(rows)[0] > 2**55
        else:
            check(Codes(found.of_row, found.size), rows)

    holds()


@pytest.mark.parametrize(
    "column", [np.array([0.5]), pa.array(["a"]), np.zeros(0, np.int64)], ids=["floats", "texts", "no rows"]
)
def test_other_columns_than_integers_have_no_cells_in_one_call(column: Any) -> None:
    assert cells_of_numbers([column], len(column)) is None
