"""Functions of single numbers that generated loops call: their text is copied into the loop's own file.

They give, bit for bit, what NumPy gives for whole columns.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray


def floor_divided(a: float, b: float) -> float:
    """What `np.floor_divide` makes of two floats, step for step."""
    if b == 0.0:
        return a / b
    rest = np.fmod(a, b)
    quotient = (a - rest) / b
    if rest != 0.0 and (b < 0.0) != (rest < 0.0):
        quotient -= 1.0
    if quotient == 0.0:
        return math.copysign(0.0, a / b)
    whole = np.floor(quotient)
    return whole + 1.0 if quotient - whole > 0.5 else whole


def remainder(a: float, b: float) -> float:
    """What `np.mod` makes of two floats, step for step."""
    rest = np.fmod(a, b)
    if b == 0.0:
        return rest
    if rest == 0.0:
        return math.copysign(0.0, b)
    return rest + b if (b < 0.0) != (rest < 0.0) else rest


def found(keys: NDArray[Any], value: float) -> int:
    """Position of a value among sorted ones, or -1."""
    low, high = 0, keys.size
    while low < high:
        middle = (low + high) // 2
        if keys[middle] < value:
            low = middle + 1
        else:
            high = middle
    return low if low < keys.size and keys[low] == value else -1
