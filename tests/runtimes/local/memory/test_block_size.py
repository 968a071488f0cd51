"""The number of events per block, by how many are due and how long they have waited."""

from hypothesis import given
from hypothesis import strategies as st

from shoal.runtimes.local.memory.block_size import BEHIND, SHARE, block_rows

TARGET_S = 0.002
MOST = 131_072


def test_a_source_that_keeps_up_emits_what_is_due() -> None:
    assert block_rows(700, 0.0, TARGET_S, MOST) == 700
    assert block_rows(40_000, SHARE * TARGET_S, TARGET_S, MOST) == 40_000


def test_blocks_grow_with_the_rate_and_not_with_the_delay() -> None:
    by_rate = [block_rows(round(rate * 0.004), 0.004, TARGET_S, MOST) for rate in (1e6, 1e7, 3e7)]
    assert by_rate == [1000, 10_000, 30_000]
    assert block_rows(round(1e7 * 0.006), 0.006, TARGET_S, MOST) == by_rate[1]


def test_a_source_that_is_behind_makes_the_largest_blocks() -> None:
    assert block_rows(900_000, BEHIND * TARGET_S * 1.01, TARGET_S, MOST) == MOST


def test_a_lower_target_makes_smaller_blocks() -> None:
    sizes = [block_rows(80_000, 0.004, target_ms / 1e3, MOST) for target_ms in (1, 2, 4, 8)]
    assert sizes == [10_000, 20_000, 40_000, 80_000]


@given(st.integers(1, 10**9), st.floats(0, 100), st.floats(1e-4, 10), st.integers(1, 1 << 20))
def test_a_block_has_at_least_one_event_and_never_too_many(
    due: int, waited_s: float, target_s: float, most: int
) -> None:
    assert 1 <= block_rows(due, waited_s, target_s, most) <= most
