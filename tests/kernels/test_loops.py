"""The compiled loops at the edges of their numbers."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.kernels import loops

YEAR_US = 31_556_952_000_000
EARLIEST_US, LATEST_US = -1970 * YEAR_US, 8030 * YEAR_US
SLIDES_US = [1, 2, 3, 7, 97, 128, 999, 1_000, 1_000_000, 30_000_000, 86_400_000_000, YEAR_US, 1 << 55]
TIMES = st.one_of(st.integers(EARLIEST_US, LATEST_US), st.integers(-1_000, 1_000))


def panes_of(times: list[int], slide_us: int) -> list[int]:
    panes = np.empty(len(times), np.int64)
    loops.panes_of(np.array(times, np.int64), slide_us, panes)
    return panes.tolist()


@settings(deadline=None, max_examples=200)
@given(st.lists(TIMES, min_size=1, max_size=20), st.one_of(st.sampled_from(SLIDES_US), st.integers(1, 1 << 55)))
def test_a_pane_is_the_time_divided_by_the_slide_rounded_down(times: list[int], slide_us: int) -> None:
    assert panes_of(times, slide_us) == [time // slide_us for time in times]


@settings(deadline=None, max_examples=200)
@given(st.sampled_from(SLIDES_US), st.integers(-(10**18), 10**18))
def test_panes_are_exact_around_their_own_borders(slide_us: int, pane: int) -> None:
    pane = max(EARLIEST_US // slide_us, min(LATEST_US // slide_us, pane))
    border = pane * slide_us
    assert panes_of([border - 1, border, border + 1], slide_us) == [pane - 1, pane, (border + 1) // slide_us]


@pytest.mark.parametrize("slide_us", SLIDES_US)
def test_panes_of_the_first_and_last_year_are_exact(slide_us: int) -> None:
    draw = np.random.default_rng(slide_us)
    for low in (EARLIEST_US, LATEST_US - YEAR_US, -(1 << 53), (1 << 53) - 50_000):
        times = draw.integers(low, low + YEAR_US, 50_000)
        panes = np.empty(times.size, np.int64)
        loops.panes_of(times, slide_us, panes)
        assert np.array_equal(panes, times // slide_us)


@settings(deadline=None, max_examples=300)
@given(st.tuples(*[st.floats(-1e300, 1e300)] * 3))
def test_three_floats_round_to_the_nearest_of_their_exact_sum(parts: tuple[float, float, float]) -> None:
    out = np.empty(1)
    loops.round_sums(np.array([parts]), out)
    assert out[0] == math.fsum(parts)


TIES = [
    [sign * value for value in (first, 2.0**-half, tiny * 2.0**-106)]
    for sign in (1, -1)
    for first in (1.0, 1.0 + 2**-52, 2.0 - 2**-52)
    for half in (53, 54)
    for tiny in (-1, 0, 1)
]


@pytest.mark.parametrize("parts", TIES)
def test_a_sum_between_two_floats_is_decided_by_the_smallest_part(parts: list[float]) -> None:
    for order in ([0, 1, 2], [2, 1, 0], [1, 0, 2]):
        out = np.empty(1)
        loops.round_sums(np.array([[parts[i] for i in order]]), out)
        assert out[0] == float(sum(map(Fraction, parts)))


def test_each_row_of_an_expansion_names_a_window_its_pane_is_in() -> None:
    panes = np.array([-3, 0, 4], np.int64)
    rows, windows = np.empty(7, np.int64), np.empty(7, np.int64)
    loops.expand(panes, -1, 6, 3, rows, windows)
    wanted = [(i, w) for i, pane in enumerate(panes.tolist()) for w in range(-1, 7) if w - 3 <= pane < w]
    assert list(zip(rows.tolist(), windows.tolist(), strict=True)) == wanted
