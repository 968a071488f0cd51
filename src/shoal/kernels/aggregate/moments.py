"""Variances from exact sums: of the values, and of their squares, each as the three floats of `loops`.

A square is itself split into two floats that are exact in sum. The difference between the mean
square and the square of the mean is computed with twice the digits of a float, and with three times as many where
little is left of them, so that cancellation is harmless and equal values have the variance 0.
Squares of values below 1e-140 are too small for that, and their variance is right to within 1e-300 only.
"""

import numpy as np
from numpy.typing import NDArray

from shoal.kernels.compiled import compiled
from shoal.kernels.loops import two_sum

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
_SPLIT = 134217729.0
_CANCELLED = 2.0**-50
"""The share of the squares that must be left for twice the digits of a float to be enough."""
_LARGE = 1e280
"""Sums of squares above this are made smaller before they are multiplied, because products could overflow."""
_SMALLER = 2.0**-100


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
def _add_product(parts: Floats, a: float, b: float) -> None:
    """Add the product of two floats to a three-part sum."""
    product, error = _two_product(a, b)
    _add(parts, 0, product)
    _add(parts, 0, error)


@compiled
def _exact_squares(row: Floats, n: float, parts: Floats) -> float:
    """The sum of squared differences from the mean, of values that are nearly or quite equal.

    It is n times the sum of squares, less the square of the sum, in three parts; then divided by n.
    """
    scale = _SMALLER if row[3] > _LARGE else 1.0
    parts[:] = 0.0
    for one in range(3):
        _add_product(parts, n, row[3 + one] * scale * scale)
        _add_product(parts, -row[0] * scale, row[one] * scale * (1.0 if one == 0 else 2.0))
    _add_product(parts, -row[1] * scale, row[1] * scale)
    high, low = two_sum(parts[0], parts[1])
    return (high + (low + parts[2])) / n / scale / scale


@compiled
def variances(moments: Floats, counts: Ints, out: Floats) -> None:
    """Sample variances; 0 for a single value, and for values that are all equal."""
    parts = np.empty(3)
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
        if not left >= _CANCELLED * square_high:  # also if a product has overflowed
            left = _exact_squares(moments[i], n, parts)
        out[i] = max(left, 0.0) / (n - 1.0) if not np.isnan(left) else left
