"""Slots: the running values that aggregates are computed from, one array per slot with a row per cell.

Slot 0 is always the number of events, which also says how much of the other slots is filled. A column that may be null
has a slot of its own with the number of its values, which says so for its slots: the others skip nulls. As long as no
value was null, that slot and slot 0 are one array: what is done to all slots is done once to it (`each_once`).
Sets of values are ragged columns, and the states of user-defined aggregates arrays of objects, one per cell.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from shoal.kernels import loops
from shoal.kernels.aggregate import collections, moments, registers
from shoal.kernels.aggregate.registers import REGISTERS
from shoal.kernels.columns.block import Block, Column, take
from shoal.kernels.columns.nullable import nullable, valid_of
from shoal.kernels.columns.ragged import Ragged
from shoal.model.query.aggregate import Aggregate
from shoal.model.query.code import load

SlotKind = Literal["count", "present", "sum", "min", "max", "top", "moments", "registers", "set", "user"]
Array = Any
"""A NumPy array of integers, floats or objects, by the slot's `dtype`, or a `Ragged` column of sets."""


@dataclass(frozen=True)
class Slot:
    """One running value: its kind, its column, and the type of its array."""

    kind: SlotKind
    column: str = ""
    dtype: Literal["int64", "float64", "object"] = "int64"
    k: int = 1
    code: str = ""

    def empty(self, size: int) -> Array:
        """The slot's array before any event."""
        if self.kind in ("min", "max"):
            return np.full(size, _extreme(self.dtype, largest=self.kind == "min"), self.dtype)
        if self.kind in ("top", "moments"):
            return np.zeros((size, self.k), self.dtype)
        if self.kind == "registers":
            return np.zeros((size, REGISTERS), np.uint8)
        if self.kind == "set":
            return Ragged.empty(size)
        if self.kind == "user":
            return np.full(size, None, object)
        return np.zeros((size, 3) if self.dtype == "float64" else size, self.dtype)

    def add(self, cells: NDArray[np.int64], column: Column, into: Array) -> None:
        """Add a column's values, none of them null, value i to cell `cells[i]`; events are counted by the caller."""
        if self.kind in ("registers", "set", "user"):
            self._add_values(cells, column, into)
            return
        if self.kind == "present":
            into += np.bincount(cells, minlength=into.size)
            return
        values = column.astype(self.dtype, copy=False)
        if self.kind == "sum":
            (loops.add_float if self.dtype == "float64" else loops.add_int)(cells, values, into)
        elif self.kind == "top":
            loops.add_top(cells, values, into, np.zeros(len(into), np.int64))
        elif self.kind == "moments":
            moments.add_moments(cells, values, into)
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
        """Merge partial values: row `rows[i]` of `partial`, made of `counts` values, into cell `cells[i]`."""
        if self.kind == "top":
            loops.merge_top(rows, cells, partial, counts, into, np.zeros(len(into), np.int64))
        elif self.kind == "moments":
            moments.merge_moments(rows, cells, partial, into)
        elif self.kind == "registers":
            registers.merge_registers(rows, cells, partial, into)
        elif self.kind == "set":
            collections.merge_sets(rows, cells, partial, into)
        elif self.kind == "user":
            collections.merge_user(rows, cells, partial, into, load(self.code)())
        elif self.kind in ("min", "max"):
            (loops.merge_min if self.kind == "min" else loops.merge_max)(rows, cells, partial, into)
        else:
            (loops.merge_float if into.ndim > 1 else loops.merge_int)(rows, cells, partial, into)

    def _add_values(self, cells: NDArray[np.int64], values: Any, into: Array) -> None:
        if self.kind == "registers":
            registers.add_registers(cells, registers.hashes(values), into)
        elif self.kind == "set":
            collections.add_set(cells, values, into)
        else:
            collections.add_user(cells, values, into, load(self.code)())


COUNT = Slot("count")
_ZERO_FOR_NOTHING = ("approx_distinct", "count_distinct")
"""Aggregates that are 0 without values and need not know how many there are."""


def slots_of(
    aggregates: Sequence[Aggregate], types: Mapping[str, str], nullable_names: Collection[str] = ()
) -> tuple[Slot, ...]:
    """The slots that some aggregates need, each once, the count first; some columns may be null."""
    slots = {COUNT: None}
    for aggregate in aggregates:
        if aggregate.column in nullable_names and aggregate.kind not in _ZERO_FOR_NOTHING:
            slots[Slot("present", aggregate.column)] = None
        if aggregate.kind != "count":
            slots[slot_of(aggregate, types)] = None
    return tuple(slots)


def counting_slots(slots: Sequence[Slot]) -> list[int]:
    """For every slot, the position of the slot that counts its values: the events, unless its column may be null.

    >>> counting_slots([COUNT, Slot("sum", "a"), Slot("present", "b"), Slot("sum", "b")])
    [0, 0, 2, 2]
    """
    present = {slot.column: position for position, slot in enumerate(slots) if slot.kind == "present"}
    return [present.get(slot.column, 0) for slot in slots]


def slot_of(aggregate: Aggregate, types: Mapping[str, str]) -> Slot:
    """The slot an aggregate is computed from; a count of values is the slot that counts them."""
    if aggregate.kind == "count":
        return COUNT
    if aggregate.kind == "mean":  # as floats, so that a mean of large integers does not wrap around at 64 bits
        return Slot("sum", aggregate.column, "float64")
    if aggregate.kind == "variance" or aggregate.kind == "stddev":  # noqa: PLR1714  (narrows the type)
        return Slot("moments", aggregate.column, "float64", 6)
    if aggregate.kind == "approx_distinct":
        return Slot("registers", aggregate.column)
    if aggregate.kind == "count_distinct":
        return Slot("set", aggregate.column, "object")
    if aggregate.kind == "user":
        return Slot("user", aggregate.column, "object", code=aggregate.code)
    dtype: Literal["int64", "float64"] = "float64" if types[aggregate.column] == "float64" else "int64"
    if aggregate.kind == "top_k":
        return Slot("top", aggregate.column, dtype, aggregate.k)
    return Slot(aggregate.kind, aggregate.column, dtype)


def result_column(aggregate: Aggregate, slot: Slot, values: Array, counts: NDArray[np.int64]) -> Column:
    """The results of an aggregate, from its slot's values, each made of `counts` values; any number if of none."""
    if slot.kind == "top":
        return _lists(values, np.minimum(counts, slot.k))
    if slot.kind == "registers":
        return registers.estimates(values)
    if slot.kind == "set":
        return values.lengths
    if slot.kind == "user":
        return collections.user_results(values, counts, load(slot.code)(), aggregate.type)
    if slot.kind == "sum" and slot.dtype == "float64":
        total = np.empty(len(values))
        loops.round_sums(values, total)
        return total / np.maximum(counts, 1) if aggregate.kind == "mean" else total
    if slot.kind == "moments":
        spread = np.empty(len(values))
        moments.variances(values, counts, spread)
        return np.sqrt(spread) if aggregate.kind == "stddev" else spread
    return values


def result_columns(
    aggregates: Sequence[tuple[str, Aggregate]],
    types: Mapping[str, str],
    slots: Sequence[Slot],
    values: Sequence[Array],
) -> dict[str, Column]:
    """The results of each aggregate, by name, from the values of all slots; null where all values of a column are."""
    present = {slot.column: values[position] for position, slot in enumerate(slots) if slot.kind == "present"}
    columns: dict[str, Column] = {}
    for name, aggregate in aggregates:
        counts: Array = present.get(aggregate.column, values[0])
        if aggregate.kind == "count":
            columns[name] = counts
        else:
            slot = slot_of(aggregate, types)
            column = result_column(aggregate, slot, values[slots.index(slot)], counts)
            is_nullable = aggregate.column in present and slot.kind in ("sum", "min", "max", "moments")
            columns[name] = nullable(column, counts > 0) if is_nullable else column
    return columns


@dataclass(frozen=True)
class FilledCells:
    """The cells that have events: their numbers, one event of each, and how many each has; `size` is that of all."""

    of_row: NDArray[np.int64]
    size: int
    numbers: NDArray[np.int64]
    sample: NDArray[np.int64]
    counts: NDArray[np.int64]

    @classmethod
    def of(cls, cells: NDArray[np.int64], size: int) -> "FilledCells":
        """Count the events of each cell."""
        counts, sample = np.zeros(size, np.int64), np.zeros(size, np.int64)
        loops.add_one(cells, counts, sample)
        used = np.flatnonzero(counts)
        return cls(cells, size, used, sample[used], counts[used])


def partial_values(slots: Sequence[Slot], filled: FilledCells, block: Block) -> list[Array]:
    """The running values of the cells of a block's events."""
    cells, size, used = filled.of_row, filled.size, filled.numbers
    values: list[Array] = [filled.counts]
    present: dict[str, tuple[NDArray[np.int64], Column]] = {}
    for slot in slots[1:]:
        if slot.column not in present:
            present[slot.column] = _without_nulls(cells, block.columns[slot.column])
        value_cells, column = present[slot.column]
        if slot.kind == "present" and value_cells is cells:
            values.append(values[0])
            continue
        into = slot.empty(size)
        slot.add(value_cells, column, into)
        values.append(into[used])
    return values


def single_values(slots: Sequence[Slot], block: Block) -> list[Array] | None:
    """The running values of every event by itself; None if they are more than numbers, or a value may be null.

    >>> block = Block({"speed": np.array([50, 60])}, 2)
    >>> [values.tolist() for values in single_values([COUNT, Slot("sum", "speed")], block)]
    [[1, 1], [50, 60]]
    """
    values: list[Array] = [np.ones(block.length, np.int64)]
    for slot in slots[1:]:
        column = block.columns[slot.column]
        if slot.kind not in ("present", "sum", "min", "max") or not isinstance(column, np.ndarray):
            return None
        if slot.kind == "present":
            values.append(values[0])
        elif slot.kind == "sum" and slot.dtype == "float64":
            into = slot.empty(block.length)
            np.add(column, 0.0, out=into[:, 0])
            values.append(into)
        else:
            values.append(np.add(column, 0, dtype=slot.dtype))  # turns -0.0 into 0.0
    return values


def _without_nulls(cells: NDArray[np.int64], column: Column) -> tuple[NDArray[np.int64], Column]:
    """The cells and values of the rows that are not null."""
    valid = valid_of(column)
    if valid is None:
        return cells, column
    rows = np.flatnonzero(valid)
    return cells[rows], take(column, rows)


def merged_values(
    slots: Sequence[Slot], partials: Sequence[Array], rows: NDArray[np.int64], cells: NDArray[np.int64], size: int
) -> list[Array]:
    """Merge partial values: row `rows[i]` of each slot into cell `cells[i]`."""
    merged: list[Array] = []
    for slot, values, counting in zip(slots, partials, counting_slots(slots), strict=True):
        if slot.kind == "present" and values is partials[0]:
            merged.append(merged[0])
            continue
        into = slot.empty(size)
        slot.merge(rows, cells, values, partials[counting], into)
        merged.append(into)
    return merged


def filled_values(values: Sequence[Array], filled: NDArray[np.int64]) -> tuple[Array, ...]:
    """The values of the cells that are not empty, which are often all."""
    if filled.size == len(values[0]):
        return tuple(values)
    return each_once(lambda slot: take(slot, filled), values)


def each_once(change: Callable[..., Array], *tables: Sequence[Array]) -> tuple[Array, ...]:
    """Apply a function to slot i of every table, for each i; slots that are one array in all tables stay one.

    >>> count, total = np.array([1, 2]), np.array([10, 20])
    >>> changed = each_once(lambda slot: slot[1:], (count, count, total))
    >>> changed[0] is changed[1], changed[2].tolist()
    (True, [20])
    """
    done: dict[tuple[int, ...], Array] = {}
    changed = []
    for slots in zip(*tables, strict=True):
        key = tuple(map(id, slots))
        if key not in done:
            done[key] = change(*slots)
        changed.append(done[key])
    return tuple(changed)


def _lists(values: Array, lengths: NDArray[np.int64]) -> pa.Array:
    """The first `lengths[i]` values of every row i, as lists."""
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    filled = values[np.arange(values.shape[1]) < lengths[:, None]]
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(filled))


def _extreme(dtype: str, *, largest: bool) -> float | int:
    if dtype == "float64":  # NaN is the largest value
        return np.nan if largest else -np.inf
    return int(np.iinfo(np.int64).max if largest else np.iinfo(np.int64).min)
