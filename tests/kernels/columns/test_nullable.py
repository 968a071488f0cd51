"""Nullable columns: what Arrow's arrays with nulls become, and that every function of columns keeps the nulls."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.kernels.aggregate.cells import codes_of
from shoal.kernels.columns.block import ARROW_TYPES, as_arrow, as_column, concat, take
from shoal.kernels.columns.identity import ids_of
from shoal.kernels.columns.index import Index
from shoal.kernels.columns.nullable import Nullable, all_null, valid_of
from shoal.kernels.columns.order import sortable
from shoal.kernels.columns.table import from_arrow, to_arrow
from shoal.model.query.schema import STREAM_TYPES, FieldType

VALUES = {
    "int64": st.integers(-(2**63), 2**63 - 1),
    "float64": st.floats(allow_nan=False),
    "string": st.text(max_size=3),
    "bool": st.booleans(),
    "timestamp": st.integers(-(2**50), 2**50),
}


@st.composite
def arrays(draw: st.DrawFn) -> pa.Array:
    type_ = draw(st.sampled_from(STREAM_TYPES))
    values = draw(st.lists(st.none() | VALUES[type_], max_size=12))
    array = pa.array(values, ARROW_TYPES[type_])
    return array.dictionary_encode() if type_ == "string" and draw(st.booleans()) else array


def plain(array: pa.Array) -> list[Any]:
    return array.dictionary_decode().to_pylist() if pa.types.is_dictionary(array.type) else array.to_pylist()


@settings(deadline=None)
@given(arrays())
def test_a_column_has_the_nulls_of_its_array_and_is_plain_without_any(array: pa.Array) -> None:
    column = as_column(array)
    assert isinstance(column, Nullable) == (array.null_count > 0 and not isinstance(column, pa.Array))
    assert plain(as_arrow(column, array.type)) == plain(array)
    assert plain(from_arrow_and_back(column, array)) == plain(array)
    valid = valid_of(column)
    assert (valid is None) == (array.null_count == 0)
    assert valid is None or valid.tolist() == [value is not None for value in plain(array)]


def from_arrow_and_back(column: object, array: pa.Array) -> pa.Array:
    return as_arrow(from_arrow(to_arrow(column)), array.type)


@settings(deadline=None)
@given(arrays(), st.data())
def test_rows_and_concatenations_keep_their_nulls(array: pa.Array, data: st.DataObject) -> None:
    values, column = plain(array), as_column(array)
    rows = data.draw(st.lists(st.integers(0, len(values) - 1)) if values else st.just([]))
    taken = take(column, np.array(rows, np.int64))
    assert plain(as_arrow(taken, array.type)) == [values[row] for row in rows]
    both = concat([column, taken])
    assert plain(as_arrow(both, array.type)) == values + [values[row] for row in rows]


@settings(deadline=None)
@given(arrays().filter(lambda array: not pa.types.is_floating(array.type)))
def test_equal_values_and_only_these_have_equal_codes_and_ids(array: pa.Array) -> None:
    values, column = plain(array), as_column(array)
    codes, ids = codes_of(column), ids_of(0, [column], len(values))
    assert all(0 <= code < codes.size for code in codes.codes.tolist())
    for numbers in (codes.codes.tolist(), ids.tolist()):
        assert len(set(zip(values, numbers, strict=True))) == len(set(values)) == len(set(numbers))


@settings(deadline=None)
@given(arrays())
def test_nulls_sort_first(array: pa.Array) -> None:
    values = plain(array)
    order = np.argsort(sortable(as_column(array)), kind="stable")
    there = [value for value in values if value is not None]
    assert [values[row] for row in order] == [None] * array.null_count + sorted(there)


@pytest.mark.parametrize(
    ("array", "keys"), [(pa.array([5, None, 0]), [0, 5]), (pa.array(["a", None, ""]), ["", "a"])], ids=["int", "text"]
)
def test_a_null_is_not_in_any_list(array: pa.Array, keys: list[object]) -> None:
    assert Index(keys).positions(as_column(array)).tolist() == [1, -1, 0]


@pytest.mark.parametrize("type_", STREAM_TYPES)
def test_a_column_of_nulls(type_: FieldType) -> None:
    assert as_arrow(all_null(type_, 2), ARROW_TYPES[type_]).to_pylist() == [None, None]


def test_a_slice_without_nulls_is_a_plain_array() -> None:
    column = as_column(pa.array([1, None, 3]))
    assert column[:2].to_pylist() == [1, None]
    assert column[2:].tolist() == [3]
