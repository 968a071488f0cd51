"""The rank kernel: the first rows of each key and time."""

import math
from typing import Any

import pytest
from tests.kernels.rows import LEFT, Row, block, kernel, results_of, rows, sizes

NAN = math.nan


@pytest.mark.parametrize(
    ("by", "k", "ties", "wanted"),
    [
        pytest.param("n", 1, False, [(1, "a", 5)], id="the largest, ties broken by the order of columns"),
        pytest.param("n", 1, True, [(1, "a", 5), (1, "c", 5)], id="the largest with all its ties"),
        pytest.param("n", 2, True, [(1, "a", 5), (1, "c", 5)], id="ties count towards k"),
        pytest.param(
            "n", 3, True, [(1, "a", 5), (1, "c", 5), (3, "b", 3)], id="the rank after ties skips their number"
        ),
        pytest.param([("n", False)], 1, False, [(1, "b", 3)], id="the smallest"),
        pytest.param([("k", True)], 2, False, [(1, "c", 5), (2, "b", 3)], id="the last texts"),
        pytest.param([("n", True), ("k", True)], 1, True, [(1, "c", 5)], id="a second column breaks ties"),
        pytest.param("n", 9, False, [(1, "a", 5), (2, "c", 5), (3, "b", 3)], id="k above the number of rows"),
    ],
)
def test_the_first_rows_of_a_time_are_kept(by: Any, k: int, ties: bool, wanted: list[Row]) -> None:
    found = results_of(LEFT.rank(by, k, ties=ties), [(0, "b", 3), (0, "c", 5), (0, "a", 5)])
    assert rows(found, "rank", "k", "n") == wanted


@pytest.mark.parametrize(
    ("descending", "ties", "wanted"),
    [
        pytest.param(True, False, ["a", "b"], id="is the first where the largest comes first"),
        pytest.param(True, True, ["a", "b"], id="ties with other NaNs"),
        pytest.param(False, False, ["c", "d"], id="is the last where the smallest comes first"),
    ],
)
def test_nan_is_the_largest_value(descending: bool, ties: bool, wanted: list[str]) -> None:
    several = [(0, "a", 0, NAN), (0, "b", 0, NAN), (0, "c", 0, -math.inf), (0, "d", 0, 7.0)]
    found = results_of(LEFT.rank([("x", descending)], 2, ties=ties), several)
    assert sorted(key for (key,) in rows(found, "k")) == wanted
    assert {rank for (rank,) in rows(found, "rank")} == ({1} if ties else {1, 2})


def test_times_and_keys_are_ranked_separately() -> None:
    found = results_of(LEFT.key_by("k").rank("n", 1), [(0, "a", 1), (0, "a", 2), (0, "b", 1), (1, "a", 1)])
    assert rows(found, "ts", "k", "n") == [(0, "a", 2), (0, "b", 1), (1, "a", 1)]


def test_rows_are_ranked_once_the_watermark_has_passed_their_time() -> None:
    made = kernel(LEFT.rank("n", 1))
    state = made.open()
    made.process(state, block([(5, "", 1)]))
    assert made.close_until(state, 5).length == 0
    made.process(state, block([(5, "", 2), (6, "", 0)]))
    assert [fragment.deadline_us for fragment in made.fragments(state)] == [6, 6, 7]
    assert rows(made.close_until(state, 6), "n") == [(2,)]
    assert sizes(state) == {0: 1}
    made.close_until(state, 7)
    assert sizes(state) == {}
