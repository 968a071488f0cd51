"""Equal values get equal numbers, in the order in which they first appear."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from shoal.kernels.columns.numbering import numbered

Ints = NDArray[np.int64]
SMALLEST, LARGEST = -(1 << 63), (1 << 63) - 1
VALUES = (
    st.integers(-3, 3)
    | st.integers(SMALLEST, LARGEST)
    | st.sampled_from([SMALLEST, SMALLEST + 1, -1, 0, 1, LARGEST - 1, LARGEST])
    | st.builds(lambda n, bits: n << bits, st.integers(-4, 4), st.integers(0, 60))
)


def check(values: Ints) -> None:
    numbers, distinct = numbered(values)
    different, first = np.unique(values, return_index=True)
    assert distinct.tolist() == different[np.argsort(first)].tolist()
    assert numbers.shape == values.shape
    assert np.array_equal(distinct[numbers], values)


@settings(deadline=None)
@given(st.lists(VALUES, max_size=200))
def test_numbers_are_those_of_unique_values_in_their_order(values: list[int]) -> None:
    check(np.array(values, np.int64))


@pytest.mark.parametrize(
    "values",
    [
        pytest.param(np.zeros(0, np.int64), id="nothing"),
        pytest.param(np.full(5000, LARGEST), id="one value"),
        pytest.param(np.arange(5000), id="all different"),
        pytest.param(np.arange(-5000, 5000)[::-1], id="a view that runs backwards"),
        pytest.param(np.repeat(np.arange(100), 3)[::2], id="a view with gaps"),
        pytest.param(np.tile(np.array([SMALLEST, LARGEST, 0, -1]), 1000), id="extremes"),
        *(
            pytest.param(np.arange(1 << 14) << shift, id=f"multiples of 2 to the {shift}")
            for shift in (4, 8, 16, 24, 31, 32, 33, 40, 48)
        ),
        pytest.param(np.arange(1 << 14) * (1 << 32) + np.arange(1 << 14), id="two halves alike"),
    ],
)
def test_it_holds_for_values_that_are_hard_to_tell_apart(values: Ints) -> None:
    check(values)


def test_values_that_may_not_be_changed_are_not() -> None:
    values = np.array([3, 1, 3])
    values.flags.writeable = False
    check(values)
    assert values.tolist() == [3, 1, 3]


def test_many_values_get_the_numbers_of_their_first_places() -> None:
    draw = np.random.default_rng(7)
    check(draw.integers(SMALLEST, LARGEST, 50_000))
    check(draw.integers(0, 20_000, 100_000))
