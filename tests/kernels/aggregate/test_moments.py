"""Variances: exact under cancellation of large numbers, in every order."""

import math
import random
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.kernels.aggregate.moments import add_moments, merge_moments, variances


def exact(values: Sequence[float]) -> float:
    numbers = [Fraction(value) for value in values]
    middle = sum(numbers, Fraction(0)) / len(numbers)
    return float(sum(((n - middle) ** 2 for n in numbers), Fraction(0)) / (len(numbers) - 1))


def in_parts(parts: Sequence[Sequence[float]]) -> float:
    """The variance of values in parts, merged in turn."""
    moments, count = np.zeros((1, 6)), 0
    for part in parts:
        partial = np.zeros((1, 6))
        add_moments(np.zeros(len(part), np.int64), np.array(part, np.float64), partial)
        merge_moments(np.zeros(1, np.int64), np.zeros(1, np.int64), partial, moments)
        count += len(part)
    out = np.empty(1)
    variances(moments, np.array([count]), out)
    return float(out[0])


@pytest.mark.parametrize(
    ("middle", "spread"),
    [
        pytest.param(0.0, 1.0, id="around zero"),
        pytest.param(1e9, 1.0, id="a billion and ones"),
        pytest.param(1e9, 1e-3, id="a billion and thousandths"),
        pytest.param(-1e12, 1e-2, id="minus a trillion and hundredths"),
        pytest.param(1e15, 1.0, id="at the last digit of a float"),
        pytest.param(1e-9, 1e-12, id="very small numbers"),
        pytest.param(1e-139, 1e-155, id="squares close to the smallest float"),
        pytest.param(1e100, 1e90, id="very large numbers"),
        pytest.param(1e151, 1e136, id="squares close to the largest float"),
    ],
)
def test_a_small_variance_survives_a_large_mean(middle: float, spread: float) -> None:
    draw = random.Random(7)
    values = [middle + draw.uniform(-spread, spread) for _ in range(1000)]
    assert in_parts([values]) == pytest.approx(exact(values), rel=1e-14)


@pytest.mark.parametrize(
    ("values", "wanted"),
    [
        pytest.param([5.0], 0.0, id="a single value"),
        pytest.param([0.1] * 10, 0.0, id="equal values"),
        pytest.param([1e308, -1e308], math.nan, id="squares that overflow"),
        pytest.param([1.0, math.nan], math.nan, id="NaN"),
        pytest.param([1.0, math.inf], math.nan, id="infinity"),
        pytest.param([1.0, 2.0], 0.5, id="two values"),
    ],
)
def test_a_variance_at_its_limits(values: list[float], wanted: float) -> None:
    assert in_parts([values]) == pytest.approx(wanted, nan_ok=True)


@settings(deadline=None)
@given(st.floats(1e-140, 1e150), st.integers(2, 1000), st.sampled_from([-1, 1]))
def test_equal_values_have_no_variance(value: float, number: int, sign: int) -> None:
    assert in_parts([[sign * value] * number]) == 0.0


@settings(deadline=None)
@given(st.floats(1e-130, 1e150), st.lists(st.integers(-3, 3), min_size=2, max_size=40))
def test_a_variance_of_values_that_differ_in_their_last_digit_is_exact(value: float, steps: list[int]) -> None:
    values = [value + step * math.ulp(value) for step in steps]
    assert in_parts([values[:3], values[3:]]) == pytest.approx(exact(values), rel=1e-14, abs=0.0)


def test_no_values_have_no_variance() -> None:
    out = np.full(2, 9.0)
    variances(np.zeros((2, 6)), np.array([0, 1]), out)
    assert out.tolist() == [0.0, 0.0]


NUMBERS = st.lists(st.floats(-1e9, 1e9, allow_subnormal=False), min_size=2, max_size=40)


@settings(deadline=None, max_examples=100)
@given(NUMBERS, st.integers(0, 2**32))
def test_order_and_split_do_not_matter(values: list[float], seed: int) -> None:
    draw = random.Random(seed)
    wanted = exact(values)
    for _ in range(4):
        draw.shuffle(values)
        at = draw.randrange(len(values) + 1)
        got = in_parts([values[:at], values[at:]])
        assert got == pytest.approx(wanted, rel=1e-12, abs=1e-300)


def test_cells_have_separate_moments() -> None:
    cells, values = np.array([0, 1, 0, 1]), np.array([1.0, 10.0, 3.0, 14.0])
    moments = np.zeros((2, 6))
    add_moments(cells, values, moments)
    out = np.empty(2)
    variances(moments, np.array([2, 2]), out)
    assert out.tolist() == [2.0, 8.0]
