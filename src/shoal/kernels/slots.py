"""Slots: the running values an aggregate is computed from, one array per slot with a row per cell.

The number of events is always slot 0, so that every other slot knows how much of it is filled.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from shoal.kernels import loops
from shoal.kernels.block import Block
from shoal.model.aggregate import Aggregate

SlotKind = Literal["count", "sum", "min", "max", "top"]
Array = NDArray[Any]
"""Integers or floats, as the slot says."""


@dataclass(frozen=True)
class Slot:
    """One running value: what it keeps, of which column, as integers or floats."""

    kind: SlotKind
    column: str = ""
    dtype: Literal["int64", "float64"] = "int64"
    k: int = 1

    def empty(self, size: int) -> Array:
        """The slot's array before any event."""
        if self.kind in ("min", "max"):
            return np.full(size, _extreme(self.dtype, largest=self.kind == "min"), self.dtype)
        if self.kind == "top":
            return np.zeros((size, self.k), self.dtype)
        return np.zeros((size, 3) if self.dtype == "float64" else size, self.dtype)

    def add(self, cells: NDArray[np.int64], block: Block, into: Array) -> None:
        """Add a block's events, event i to cell `cells[i]`; counts are added by the caller."""
        values = block.columns[self.column].astype(self.dtype, copy=False)
        if self.kind == "sum":
            (loops.add_float if self.dtype == "float64" else loops.add_int)(cells, values, into)
        elif self.kind == "top":
            loops.add_top(cells, values, into, np.zeros(len(into), np.int64))
        else:
            (loops.add_min if self.kind == "min" else loops.add_max)(cells, values, into)

    def merge(
        self,
        rows: NDArray[np.int64],
        cells: NDArray[np.int64],
        partial: Array,
        counts: NDArray[np.int64],
        into: Array,
    ) -> None:
        """Merge partial values: row `rows[i]` of `partial` into cell `cells[i]`."""
        if self.kind == "top":
            loops.merge_top(rows, cells, partial, counts, into, np.zeros(len(into), np.int64))
        elif self.kind in ("min", "max"):
            (loops.merge_min if self.kind == "min" else loops.merge_max)(rows, cells, partial, into)
        else:
            (loops.merge_float if into.ndim > 1 else loops.merge_int)(rows, cells, partial, into)


COUNT = Slot("count")


def slots_of(aggregates: Sequence[Aggregate], types: Mapping[str, str]) -> tuple[Slot, ...]:
    """The slots a set of aggregates needs, each once, the count first."""
    slots = {COUNT: None}
    for aggregate in aggregates:
        if aggregate.kind != "count":
            slots[slot_of(aggregate, types)] = None
    return tuple(slots)


def slot_of(aggregate: Aggregate, types: Mapping[str, str]) -> Slot:
    """The slot an aggregate is computed from."""
    if aggregate.kind == "count":
        return COUNT
    if aggregate.kind == "mean":  # as floats, so that a mean of large integers does not wrap around at 64 bits
        return Slot("sum", aggregate.column, "float64")
    dtype: Literal["int64", "float64"] = "float64" if types[aggregate.column] == "float64" else "int64"
    if aggregate.kind == "top_k":
        return Slot("top", aggregate.column, dtype, aggregate.k)
    return Slot(aggregate.kind, aggregate.column, dtype)


def answer(
    aggregate: Aggregate, slot: Slot, values: Array, counts: NDArray[np.int64]
) -> NDArray[np.generic] | pa.Array:
    """What an aggregate says, from its slot's values."""
    if slot.kind == "top":
        return _lists(values, np.minimum(counts, slot.k))
    if slot.kind == "sum" and slot.dtype == "float64":
        total = np.empty(len(values))
        loops.round_sums(values, total)
        return total / counts if aggregate.kind == "mean" else total
    return values


def _lists(values: Array, lengths: NDArray[np.int64]) -> pa.Array:
    """The first `lengths[i]` values of every row i, as lists."""
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    filled = values[np.arange(values.shape[1]) < lengths[:, None]]
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(filled))


def _extreme(dtype: str, *, largest: bool) -> float | int:
    if dtype == "float64":  # NaN is the largest value
        return np.nan if largest else -np.inf
    return int(np.iinfo(np.int64).max if largest else np.iinfo(np.int64).min)
