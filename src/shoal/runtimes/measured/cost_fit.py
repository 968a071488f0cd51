"""Fits of measured turns: the non-negative cost of a turn, of what it takes and gives, and of the state it merges.

Large turns vary more than small ones. So the fit is weighted such that the variance of a turn grows with its cost, as
for a sum of independent parts, and the fitted turns cost as much in total as the measured ones.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
ROUNDS = 8
"""Fits with weights from the fit before; further ones change nothing that matters."""
HELD_OUT = 3
"""Of so many turns of about the same size, one is held out to measure the error of the fit."""
LEAST_TURNS = 6
"""With fewer turns nothing is held out."""
SMALL = 0.1
"""The share of the smallest turns that do not count for the spread: the clock is too coarse for them."""
SLOW = 6.0
"""Turns that cost so many times what others of their size cost are exceptions, such as memory that has to grow."""
PARTS = ("fixed_s", "event_s", "result_s", "state_byte_s", "merged_row_s", "merged_event_s", "pair_s")


@dataclass(frozen=True)
class FittedCost:
    """Seconds per turn, event, result and byte of state, per row and event merged with state, and per pair of rows.

    `spread` is the standard deviation of the logarithm of measured over modelled cost. `error` is the relative error of
    the total cost of held-out turns, modelled without them, positive if it is too large; None if there were too few.
    """

    fixed_s: float = 0.0
    event_s: float = 0.0
    result_s: float = 0.0
    state_byte_s: float = 0.0
    merged_row_s: float = 0.0
    merged_event_s: float = 0.0
    pair_s: float = 0.0
    spread: float = 0.0
    error: float | None = None

    def data(self) -> dict[str, Any]:
        """The cost as plain data, without the error."""
        return {name: value for name, value in asdict(self).items() if name != "error"}

    @property
    def parts(self) -> Floats:
        """The cost of the columns of `turns_of`."""
        return np.array([getattr(self, name) for name in PARTS])


def turns_of(
    events: ArrayLike,
    results: ArrayLike,
    state_bytes: ArrayLike,
    merged_rows: ArrayLike = 0.0,
    merged_events: ArrayLike = 0.0,
    pairs: ArrayLike = 0.0,
) -> Floats:
    """The explaining columns of turns: one, events, results, bytes of state, what is merged with it, pairs of rows."""
    given = (events, results, state_bytes, merged_rows, merged_events, pairs)
    columns = [np.asarray(each, float) for each in given]
    size = columns[0].size
    return np.column_stack([np.ones(size), *(np.broadcast_to(each, size) for each in columns)])


def fitted(turns: Floats, seconds: Floats, parts: Sequence[str] = PARTS) -> FittedCost:
    """The cost of turns, as `turns_of` gives them, by the parts that may be more than zero."""
    used = [PARTS.index(name) for name in parts]
    if not len(seconds) or not float(seconds.sum()) > 0:
        return FittedCost()
    cost = _fit(turns, seconds, used)
    modelled = turns @ cost
    large = (modelled >= np.quantile(modelled, SMALL)) & (modelled > 0) & (seconds > 0)
    spread = float(np.std(np.log(seconds[large] / modelled[large]))) if large.any() else 0.0
    by_name = {name: float(part) for name, part in zip(PARTS, cost, strict=True)}
    return FittedCost(**by_name, spread=spread, error=_held_out(turns, seconds, used))


def usual(turns: Floats, seconds: Floats, parts: Sequence[str] = PARTS) -> NDArray[np.bool_]:
    """Which turns cost about as much as others of their size.

    They are compared with a fit of relative errors, in which a few turns that cost far too much have no weight.
    """
    used = [PARTS.index(name) for name in parts]
    positive = seconds > 0
    if not positive.any():
        return np.ones(len(seconds), bool)
    scale = np.maximum(np.abs(turns).max(axis=0), 1e-300)
    columns = (turns / scale)[:, used]
    cost = non_negative(columns[positive] / seconds[positive, None], np.ones(int(positive.sum())))
    modelled = np.maximum(columns @ cost, 1e-12)
    return seconds <= SLOW * float(np.median(seconds / modelled)) * modelled


def relative_error(modelled_s: float, measured_s: float) -> float | None:
    """How much too large a modelled time is, relative to the measured one; None if that is zero."""
    return modelled_s / measured_s - 1 if measured_s > 0 else None


def non_negative(columns: Floats, values: Floats) -> Floats:
    """The non-negative coefficients with the least squared error, for a few columns.

    The best ones are the plain least squares of the columns that they use. So all sets of columns are tried, after a
    rotation that leaves no more rows than columns.
    """
    width = columns.shape[1]
    rotation, columns = np.linalg.qr(columns)
    values = rotation.T @ values
    best, least = np.zeros(width), float(values @ values)
    for size in range(1, width + 1):
        for chosen in combinations(range(width), size):
            part = np.linalg.lstsq(columns[:, chosen], values)[0]
            if (part < 0).any():
                continue
            rest = values - columns[:, chosen] @ part
            if float(rest @ rest) < least * (1 - 1e-12):
                least = float(rest @ rest)
                best = np.zeros(width)
                best[list(chosen)] = part
    return best


def _fit(turns: Floats, seconds: Floats, used: Sequence[int]) -> Floats:
    scale = np.maximum(np.abs(turns).max(axis=0), 1e-300)
    columns = (turns / scale)[:, used]
    floor = max(float(seconds.mean()) * 1e-3, 1e-12)
    modelled, part = np.maximum(seconds, float(seconds.mean())), np.zeros(len(used))
    for _ in range(ROUNDS):
        weight = 1 / np.sqrt(np.maximum(modelled, floor))
        part = non_negative(columns * weight[:, None], seconds * weight)
        modelled = columns @ part
    cost = np.zeros(len(PARTS))
    cost[list(used)] = part / scale[list(used)]
    return cost * (float(seconds.sum()) / max(float(modelled.sum()), 1e-300))


def _held_out(turns: Floats, seconds: Floats, used: Sequence[int]) -> float | None:
    if len(seconds) < LEAST_TURNS:
        return None
    held = np.zeros(len(seconds), bool)
    held[np.lexsort(turns.T)[HELD_OUT // 2 :: HELD_OUT]] = True
    if not float(seconds[~held].sum()) > 0:
        return None
    cost = _fit(turns[~held], seconds[~held], used)
    return relative_error(float((turns[held] @ cost).sum()), float(seconds[held].sum()))
