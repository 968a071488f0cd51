"""Positions of values in a list, for dense and sparse values."""

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.kernels.columns.block import encoded
from shoal.kernels.columns.index import DENSE_TABLE, Index

SMALLEST, LARGEST = -(1 << 63), (1 << 63) - 1
NEAR = st.integers(-20, 20)
EDGES = st.sampled_from([SMALLEST, SMALLEST + 1, LARGEST - 1, LARGEST, DENSE_TABLE - 1, DENSE_TABLE, -DENSE_TABLE])
TEXTS = st.sampled_from(["", "a", "b", "ab", "ä"])


@settings(deadline=None, max_examples=200)
@given(st.data(), st.sampled_from([NEAR, NEAR | EDGES, st.integers(SMALLEST, LARGEST) | EDGES]))
def test_the_position_of_a_number_is_found(data: st.DataObject, numbers: st.SearchStrategy[int]) -> None:
    values = data.draw(st.lists(numbers, max_size=20, unique=True))
    asked = data.draw(st.lists(NEAR | EDGES | (st.sampled_from(values) if values else NEAR), max_size=30))
    wanted = [values.index(each) if each in values else -1 for each in asked]
    assert Index(values).positions(np.array(asked, np.int64)).tolist() == wanted


@settings(deadline=None)
@given(st.lists(TEXTS, max_size=5, unique=True), st.lists(TEXTS, max_size=20), st.booleans())
def test_the_position_of_a_text_is_found(values: list[str], asked: list[str], as_codes: bool) -> None:
    column = pa.array(asked, pa.string())
    wanted = [values.index(each) if each in values else -1 for each in asked]
    assert Index(values).positions(encoded(column) if as_codes else column).tolist() == wanted
