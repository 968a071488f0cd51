"""Pane tables: the state of windowed aggregates, one row per instance, pane and key.

A table is a value: merging, closing and selecting make new tables. One table holds many instances,
so that hundreds of queries of the same shape cost a few array operations, not hundreds.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from shoal.kernels import loops
from shoal.kernels.block import Block, Column, as_column, concat, plain, take
from shoal.kernels.cells import Cells, Codes, cells_of, codes_of
from shoal.kernels.slots import Array, Slot, answer, slot_of, slots_of
from shoal.model.aggregate import Aggregate
from shoal.model.window import Window

Ints = NDArray[np.int64]
LARGEST_EXPANSION = 1 << 22


@dataclass(frozen=True)
class PaneShape:
    """What a pane table looks like: keys beside the instance, the window, the aggregates and their slots.

    `by_instance` is false where the keys alone tell the instance, so that it need not be grouped by.
    """

    keys: tuple[str, ...]
    window: Window
    aggregates: tuple[tuple[str, Aggregate], ...]
    types: tuple[tuple[str, str], ...]
    by_instance: bool = True

    @property
    def slots(self) -> tuple[Slot, ...]:
        """The running values kept per row."""
        return slots_of([aggregate for _, aggregate in self.aggregates], dict(self.types))

    def empty(self) -> "PaneTable":
        """A table without rows."""
        types = dict(self.types)
        keys = tuple(
            pa.array([], pa.string())
            if types[key] == "string"
            else np.zeros(0, bool if types[key] == "bool" else np.int64)
            for key in self.keys
        )
        nothing = np.zeros(0, np.int64)
        return PaneTable(nothing, nothing, keys, tuple(slot.empty(0) for slot in self.slots))


@dataclass(frozen=True)
class PaneTable:
    """Rows of running values; `slots[0]` counts the events behind each row."""

    instance: Ints
    pane: Ints
    keys: tuple[Column, ...]
    slots: tuple[Array, ...]

    def __len__(self) -> int:
        """Number of rows."""
        return int(self.pane.size)

    @property
    def nbytes(self) -> int:
        """Memory the table's arrays take."""
        return int(sum(array.nbytes for array in (self.instance, self.pane, *self.keys, *self.slots)))

    def take(self, rows: Ints) -> "PaneTable":
        """The given rows."""
        keys = tuple(take(key, rows) for key in self.keys)
        return PaneTable(self.instance[rows], self.pane[rows], keys, tuple(slot[rows] for slot in self.slots))

    def where(self, mask: NDArray[np.bool_]) -> "PaneTable":
        """The rows a mask selects; the table itself when it selects all."""
        rows = np.flatnonzero(mask)
        return self if rows.size == len(self) else self.take(rows)

    def with_instances(self, instance: Ints) -> "PaneTable":
        """The table under other instance numbers."""
        return PaneTable(instance, self.pane, self.keys, self.slots)

    def to_arrow(self) -> pa.RecordBatch:
        """The table as an Arrow batch, the inverse of `from_arrow`."""
        arrays = [pa.array(self.instance), pa.array(self.pane)]
        arrays += [pa.array(key) if isinstance(key, np.ndarray) else plain(key) for key in self.keys]
        arrays += [_flat(slot) for slot in self.slots]
        names = ["instance", "pane", *(f"key{i}" for i in range(len(self.keys)))]
        names += [f"slot{i}" for i in range(len(self.slots))]
        return pa.RecordBatch.from_arrays(arrays, names=names)

    @classmethod
    def from_arrow(cls, batch: pa.RecordBatch) -> "PaneTable":
        """Look at an Arrow batch as a table."""
        columns = dict(zip(batch.schema.names, batch.columns, strict=True))
        keys = tuple(as_column(array) for name, array in columns.items() if name.startswith("key"))
        slots = tuple(_deep(array) for name, array in columns.items() if name.startswith("slot"))
        return cls(columns["instance"].to_numpy(), columns["pane"].to_numpy(), keys, slots)


def _flat(slot: Array) -> pa.Array:
    if slot.ndim == 1:
        return pa.array(slot)
    return pa.FixedSizeListArray.from_arrays(pa.array(slot.reshape(-1)), slot.shape[1])


def _deep(array: pa.Array) -> Array:
    if not pa.types.is_fixed_size_list(array.type):
        return array.to_numpy(zero_copy_only=False)
    return array.flatten().to_numpy(zero_copy_only=False).reshape(len(array), array.type.list_size)


def concat_tables(shape: PaneShape, tables: Sequence[PaneTable]) -> PaneTable:
    """Tables one under another, without merging."""
    tables = [table for table in tables if len(table)]
    if not tables:
        return shape.empty()
    if len(tables) == 1:
        return tables[0]
    return PaneTable(
        np.concatenate([table.instance for table in tables]),
        np.concatenate([table.pane for table in tables]),
        tuple(concat(list(columns)) for columns in zip(*(table.keys for table in tables), strict=True)),
        tuple(np.concatenate(slots) for slots in zip(*(table.slots for table in tables), strict=True)),
    )


def grouping(shape: PaneShape, instance: Ints, instances: int, keys: Sequence[Column], panes: Codes) -> Cells:
    """Which rows belong to the same instance, key and pane."""
    columns = [Codes(instance, instances)] if shape.by_instance else []
    columns += [codes_of(key) for key in keys]
    return cells_of([*columns, panes], instance.size)


def partial(shape: PaneShape, block: Block, instance: Ints, panes: Ints, cells: Cells) -> PaneTable:
    """Aggregate a block of events that have been grouped into cells."""
    counts = np.zeros(cells.size, np.int64)
    sample = np.zeros(cells.size, np.int64)
    loops.add_one(cells.of_row, counts, sample)
    used = np.flatnonzero(counts)
    slots: list[Array] = [counts[used]]
    for slot in shape.slots[1:]:
        values = slot.empty(cells.size)
        slot.add(cells.of_row, block, values)
        slots.append(values[used])
    rows = sample[used]
    keys = tuple(take(block.columns[key], rows) for key in shape.keys)
    return PaneTable(instance[rows], panes[rows], keys, tuple(slots))


def merged(shape: PaneShape, tables: Sequence[PaneTable]) -> PaneTable:
    """Bring several tables together: one row per instance, pane and key."""
    together = concat_tables(shape, tables)
    if not len(together):
        return together
    instances = int(together.instance.max()) + 1
    cells = grouping(shape, together.instance, instances, together.keys, codes_of(together.pane))
    rows = np.arange(len(together))
    sample = np.full(cells.size, -1, np.int64)
    sample[cells.of_row] = rows
    used = np.flatnonzero(sample >= 0)
    if used.size == rows.size:
        return together
    slots = tuple(values[used] for values in _merge_slots(shape, together, rows, cells))
    kept = together.take(sample[used])
    return PaneTable(kept.instance, kept.pane, kept.keys, slots)


def _merge_slots(shape: PaneShape, table: PaneTable, rows: Ints, cells: Cells) -> list[Array]:
    merged_slots = []
    for slot, values in zip(shape.slots, table.slots, strict=True):
        into = slot.empty(cells.size)
        slot.merge(rows, cells.of_row, values, table.slots[0], into)
        merged_slots.append(into)
    return merged_slots


def closed_windows(shape: PaneShape, table: PaneTable, first: int, last: int) -> Block:
    """The answers of the windows number first..last (a window's number is its end divided by the slide).

    The block has the columns `instance`, `window` and the keys and aggregates under their names.
    """
    span = shape.window.panes
    parts = []
    while len(table):
        starts = table.pane[table.pane + span >= first]
        if not starts.size:
            break
        first = max(first, int(starts.min()) + 1)
        if first > last:
            break
        until = min(last, first + max(0, LARGEST_EXPANSION // max(1, len(table)) - 1))
        parts.append(_answers(shape, table, first, until))
        first = until + 1
    return _concat_blocks(shape, parts)


def _answers(shape: PaneShape, table: PaneTable, first: int, last: int) -> Block:
    span = shape.window.panes
    per_row = min(last - first + 1, span)
    rows, windows = np.empty(len(table) * per_row, np.int64), np.empty(len(table) * per_row, np.int64)
    used = loops.expand(table.pane, first, last, span, rows, windows)
    rows, windows = rows[:used], windows[:used]
    instance = table.instance[rows]
    instances = int(instance.max()) + 1 if used else 1
    columns = [Codes(instance, instances)] if shape.by_instance else []
    for key in table.keys:
        codes = codes_of(key)
        columns.append(Codes(codes.codes[rows], codes.size))
    cells = cells_of([*columns, Codes(windows - first, last - first + 1)], used)
    sample = np.full(cells.size, -1, np.int64)
    sample[cells.of_row] = np.arange(used)
    filled = np.flatnonzero(sample >= 0)
    values = [slot[filled] for slot in _merge_slots(shape, table, rows, cells)]
    chosen = sample[filled]
    return _answer_block(shape, table.take(rows[chosen]), windows[chosen], values)


def _answer_block(shape: PaneShape, table: PaneTable, windows: Ints, values: list[Array]) -> Block:
    columns: dict[str, Any] = {"instance": table.instance, "window": windows}
    columns.update(zip(shape.keys, table.keys, strict=True))
    types = dict(shape.types)
    for name, aggregate in shape.aggregates:
        slot = slot_of(aggregate, types)
        columns[name] = answer(aggregate, slot, values[shape.slots.index(slot)], values[0])
    return Block(columns, windows.size)


def _concat_blocks(shape: PaneShape, parts: list[Block]) -> Block:
    if not parts:
        empty = shape.empty()
        return _answer_block(shape, empty, empty.pane, list(empty.slots))
    names = parts[0].columns
    return Block({n: concat([part.columns[n] for part in parts]) for n in names}, sum(part.length for part in parts))
