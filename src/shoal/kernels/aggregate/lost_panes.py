"""How far aggregates are off after panes were lost."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from shoal.kernels import loops
from shoal.kernels.aggregate.panes import PaneShape, PaneTable, key_codes
from shoal.kernels.aggregate.slots import Slot, slot_of
from shoal.kernels.error_bounds import NONE_LOST, ErrorBound, ErrorBounds
from shoal.kernels.worth import counts_of
from shoal.model.query.aggregate import Aggregate

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
REASONS = {
    "mean": "the mean of the values that are left may be any number",
    "variance": "the variance of the values that are left may be any number",
    "stddev": "the deviation of the values that are left may be any number",
    "min": "the smallest value that is left may be any number",
    "max": "the largest value that is left may be any number",
    "top_k": "the largest values that are left may be any numbers",
    "approx_distinct": "it is an estimate",
    "user": "it is defined by the user",
}


def pane_bounds(shape: PaneShape, lost: PaneTable) -> ErrorBounds:
    """Bounds on the results of windows that share lost panes.

    A result is at most as far off as all lost panes of its key together: in the worst case its window has them all.
    """
    if not len(lost):
        return NONE_LOST
    keys = key_codes(shape, lost).codes
    columns = {name: _bound(shape, lost, keys, aggregate) for name, aggregate in shape.aggregates}
    return ErrorBounds(ErrorBound(float(_windows(keys, lost.pane, shape.window.panes))), columns)


def _bound(shape: PaneShape, lost: PaneTable, keys: Ints, aggregate: Aggregate) -> ErrorBound:
    if aggregate.kind in REASONS:
        return ErrorBound(None, REASONS[aggregate.kind])
    if aggregate.kind == "count":
        position = _position(shape.slots, aggregate)
        return ErrorBound(float(counts_of(keys, lost.slots[position]).max()))
    slot = slot_of(aggregate, dict(shape.types))
    values = lost.slots[shape.slots.index(slot)]
    if slot.kind == "set":
        return ErrorBound(float(counts_of(keys, values.lengths).max()))
    most = float(np.bincount(keys, _magnitudes(slot, values)).max())
    return ErrorBound(most) if np.isfinite(most) else ErrorBound(None, "a lost sum is not finite")


def _position(slots: Sequence[Slot], aggregate: Aggregate) -> int:
    """The slot that counts the values of a column: the events, unless it may be null."""
    present = Slot("present", aggregate.column)
    return slots.index(present) if present in slots else 0


def _magnitudes(slot: Slot, values: NDArray[np.generic]) -> Floats:
    """The absolute value of every sum."""
    if slot.dtype != "float64":
        return np.abs(values.astype(np.float64))
    sums = np.empty(len(values))
    loops.round_sums(values.astype(np.float64), sums)
    return np.abs(sums)


def _windows(keys: Ints, panes: Ints, span: int) -> int:
    """The number of windows, each once, that some panes belong to: pane p of a key is in windows p + 1 to p + span."""
    order = np.lexsort((panes, keys))
    keys, panes = keys[order], panes[order]
    further = np.where(np.diff(keys) == 0, np.minimum(np.diff(panes), span), span)
    return int(further.sum()) + span
