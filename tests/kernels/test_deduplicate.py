"""The deduplicate kernel: which rows of a key are dropped, and how long a key is remembered."""

import pytest
from tests.kernels.rows import LEFT, US, block, kernel, results_of, rows, sizes

from shoal.kernels.kernel import FOREVER_US


@pytest.mark.parametrize(
    ("times", "kept"),
    [
        pytest.param([0, 9], [0], id="a row within the interval is dropped"),
        pytest.param([0, 10], [0, 10], id="a row exactly one interval later is kept"),
        pytest.param([0, 6, 12], [0, 12], id="a dropped row does not drop others"),
        pytest.param([-3, -3], [-3], id="one of two rows of the same time is kept"),
        pytest.param([8, 0], [0], id="order is by time, not by arrival"),
    ],
)
def test_a_row_is_dropped_if_its_key_was_kept_less_than_the_interval_before(times: list[int], kept: list[int]) -> None:
    found = results_of(LEFT.key_by("k").deduplicate(10 * US), [(time, "a") for time in times])
    assert rows(found, "ts") == [(time,) for time in kept]


def test_of_rows_of_one_time_the_first_in_the_order_of_columns_is_kept() -> None:
    found = results_of(LEFT.key_by("k").deduplicate(10 * US), [(0, "a", 2), (0, "a", 1), (0, "b", 3)])
    assert rows(found, "k", "n") == [("a", 1), ("b", 3)]


def test_a_key_is_remembered_across_watermarks_until_its_interval_ends() -> None:
    made = kernel(LEFT.key_by("k").deduplicate(10 * US))
    state = made.open()
    made.process(state, block([(0, "a")]))
    assert made.close_until(state, 1).length == 1
    made.process(state, block([(9, "a")]))
    assert made.close_until(state, 9).length == 0
    assert sizes(state) == {0: 1, 1: 1}
    assert made.close_until(state, 10).length == 0
    assert sizes(state) == {}
    made.process(state, block([(10, "a")]))
    assert made.close_until(state, FOREVER_US).length == 1
    assert sizes(state) == {}


def test_a_state_whose_known_keys_were_all_extracted_still_accepts_rows() -> None:
    made = kernel(LEFT.key_by("k").deduplicate(10 * US))
    state = made.open()
    made.process(state, block([(0, "a")]))
    made.close_until(state, 1)
    made.extract(state, made.fragments(state).ids)
    made.process(state, block([(5, "a")]))
    assert rows(made.close_until(state, 6), "ts") == [(5,)]
