"""Ids of rows: equal for equal rows, in any encoding, and the same in every process."""

import os
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.errors import RunError
from shoal.kernels.columns.block import Column
from shoal.kernels.columns.identity import ids_of, listed
from shoal.model.control.fragment import NO_DEADLINE_US, Fragments

ROWS = 3
COLUMNS: list[Column] = [
    np.array([0, -1, 2**63 - 1]),
    np.array([0.0, 1.5, -np.inf]),
    np.array([True, False, True]),
    pa.array(["", "a", "Fähre"]),
    pa.array(["x", "y", "x"]).dictionary_encode(),
    pa.array([[], [1, 2], [3]], pa.list_(pa.int64())),
    pa.array([[0.5], [], [1.0, 2.0]], pa.list_(pa.float64())),
]
EVERYWHERE = [7_396_381_297_867_947_844, 9_570_798_976_726_927_291, 3_255_108_485_986_873_798]
PROGRAM = """
from tests.kernels.columns.test_identity import COLUMNS, ROWS
from shoal.kernels.columns.identity import ids_of
print(ids_of(1, COLUMNS, ROWS).tolist())
"""


def test_ids_are_the_same_in_every_process_and_machine() -> None:
    environment = {**os.environ, "PYTHONHASHSEED": "7", "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", PROGRAM]
    other = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert other.stdout.strip() == str(EVERYWHERE)
    assert ids_of(1, COLUMNS, ROWS).tolist() == EVERYWHERE


TEXTS = st.lists(st.text(max_size=9), min_size=1, max_size=12)


@settings(deadline=None, max_examples=100)
@given(TEXTS, st.integers(0, 5), st.integers(0, 5))
def test_ids_of_texts_do_not_depend_on_their_encoding(texts: list[str], skip: int, more: int) -> None:
    wanted = ids_of(0, [pa.array(texts, pa.string())], len(texts)).tolist()
    longer = pa.array(["before"] * skip + texts + ["behind"] * more, pa.string())
    stored = [
        longer.slice(skip, len(texts)),
        pa.array(texts, pa.large_string()),
        pa.array(texts, pa.string()).dictionary_encode(),
        longer.dictionary_encode().slice(skip, len(texts)),
    ]
    assert [ids_of(0, [column], len(texts)).tolist() for column in stored] == [wanted] * len(stored)
    assert len(set(wanted)) == len(set(texts))


@settings(deadline=None, max_examples=50)
@given(st.lists(st.lists(st.integers(-3, 3), max_size=4), min_size=1, max_size=12), st.integers(0, 3))
def test_lists_have_the_ids_of_their_values(lists: list[list[int]], skip: int) -> None:
    whole = pa.array([[9, 9]] * skip + lists, pa.list_(pa.int64()))
    ids = ids_of(0, [whole.slice(skip)], len(lists)).tolist()
    assert ids == ids_of(0, [pa.array(lists, pa.list_(pa.int64()))], len(lists)).tolist()
    assert len(set(ids)) == len({tuple(values) for values in lists})


@settings(deadline=None, max_examples=100)
@given(st.lists(st.tuples(st.integers(-2, 2), st.integers(-2, 2), st.text("ab", max_size=2)), min_size=1, max_size=20))
def test_rows_have_one_id_exactly_if_they_are_equal(rows: list[tuple[int, int, str]]) -> None:
    one, two, text = zip(*rows, strict=True)
    ids = ids_of(0, [np.array(one), np.array(two), pa.array(text)], len(rows)).tolist()
    assert len(set(zip(ids, rows, strict=True))) == len(set(rows)) == len(set(ids))
    assert not set(ids) & set(ids_of(1, [np.array(one), np.array(two), pa.array(text)], len(rows)).tolist())


def test_no_rows_have_no_ids() -> None:
    assert not ids_of(0, [np.zeros(0, np.int64), pa.array([], pa.string())], 0).size
    assert ids_of(0, [pa.array(["", ""])], 2).size == 2


def test_a_column_that_cannot_identify_rows_is_rejected() -> None:
    with pytest.raises(TypeError, match=r"numbers, texts or lists of these; got a column of type struct"):
        ids_of(0, [pa.array([{"a": 1}])], 1)


def test_rows_of_one_id_are_one_fragment() -> None:
    ids, ones = np.array([7, 8, 7], np.uint64), np.ones(3, np.int64)
    deadline_us = np.array([5, NO_DEADLINE_US, 4])
    utility, needed_us = np.array([1.0, 2.0, 3.0]), np.array([3, 1, 2])
    rows = Fragments(ids, 0 * ones, ones, 10 * ones, deadline_us, utility, np.ones(3, bool), ids, needed_us)
    found = listed([rows.where(np.array([True, False, False])), rows.where(np.array([False, True, True]))])
    assert [(each.id, each.state_bytes, each.deadline_us, each.utility, each.needed_us) for each in found] == [
        (7, 20, 4, 4.0, 2),
        (8, 10, None, 2.0, 1),
    ]


def test_an_id_shared_by_two_instances_is_an_error() -> None:
    ids, ones = np.array([7, 8, 7], np.uint64), np.ones(3, np.int64)
    rows = Fragments(ids, 0 * ones, np.array([4, 4, 5]), ones, ones, np.ones(3), np.ones(3, bool), ids, ones)
    with pytest.raises(RunError, match="instances number 4 and 5 have the same id"):
        listed([rows])
