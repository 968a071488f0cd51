"""Variances from exact sums: of the values, and of their squares, each as the three floats of `loops`.

A square is itself split into two floats that are exact in sum. The difference between the mean
square and the square of the mean is computed with twice the digits of a float, so that cancellation is harmless.
Squares of values below 1e-140 are too small for that, and their variance is right to within 1e-300 only.
"""

import numpy as np
from numpy.typing import NDArray

from shoal.kernels.compiled import compiled
from shoal.kernels.loops import two_sum

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
_SPLIT = 134217729.0


@compiled
def _two_product(a: float, b: float) -> tuple[float, float]:
    """Product and rounding error of two floats; their sum is exact."""
    product = a * b
    wide = _SPLIT * a
    a_high = wide - (wide - a)
    a_low = a - a_high
    wide = _SPLIT * b
    b_high = wide - (wide - b)
    b_low = b - b_high
    return product, ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low


@compiled
def _add(moments: Floats, at: int, value: float) -> None:
    """Add a value to the three-part sum that begins at an index."""
    moments[at], error = two_sum(moments[at], value)
    moments[at + 1], error = two_sum(moments[at + 1], error)
    moments[at + 2] += error


@compiled
def add_moments(cells: Ints, values: Floats, moments: Floats) -> None:
    """Add values and their squares to the sums of their cells."""
    for i in range(cells.size):
        row = moments[cells[i]]
        value = values[i]
        _add(row, 0, value)
        square, error = _two_product(value, value)
        _add(row, 3, square)
        if not np.isnan(error):  # overflowed squares have no error to keep
            _add(row, 3, error)


@compiled
def merge_moments(rows: Ints, cells: Ints, partial: Floats, moments: Floats) -> None:
    """Merge partial sums of values and squares."""
    for i in range(cells.size):
        row = moments[cells[i]]
        for part in range(3):
            _add(row, 0, partial[rows[i], 2 - part])
            _add(row, 3, partial[rows[i], 5 - part])


@compiled
def _rounded(parts: Floats, at: int) -> tuple[float, float]:
    """A three-part sum as two floats."""
    high, low = two_sum(parts[at], parts[at + 1] + parts[at + 2])
    return high, low


@compiled
def variances(moments: Floats, counts: Ints, out: Floats) -> None:
    """Sample variances; 0 for a single value."""
    for i in range(out.size):
        if counts[i] < 2:
            out[i] = 0.0
            continue
        n = float(counts[i])
        sum_high, sum_low = _rounded(moments[i], 0)
        square_high, square_low = _rounded(moments[i], 3)
        high, low = _two_product(sum_high, sum_high)
        low += 2.0 * sum_high * sum_low
        quotient = high / n
        back, error = _two_product(quotient, n)
        rest = ((high - back) - error + low) / n
        difference, error = two_sum(square_high, -quotient)
        left = difference + (error + square_low - rest)
        out[i] = max(left, 0.0) / (n - 1.0) if not np.isnan(left) else left
