"""Pane tables: the state of windowed aggregates, one row per instance, pane and key.

A table is a value: merging, closing and selecting make new tables. One table holds many instances,
so that hundreds of queries of the same shape cost a few array operations, not hundreds.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from shoal.kernels import loops
from shoal.kernels.aggregate.cells import Cells, Codes, cells_of, codes_of
from shoal.kernels.aggregate.row_groups import RowGroups, combined_codes, groups_of, repeated
from shoal.kernels.aggregate.slots import (
    Array,
    FilledCells,
    Slot,
    each_once,
    filled_values,
    merged_values,
    partial_values,
    slots_of,
)
from shoal.kernels.columns.block import Block, Column, as_column, between, concat, take
from shoal.kernels.columns.numbering import numbered
from shoal.kernels.columns.table import INSTANCE, from_arrow, owned_column, to_arrow
from shoal.model.query.aggregate import Aggregate
from shoal.model.query.window import Window

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class PaneShape:
    """The shape of a pane table: keys beside the instance, the window, the aggregates and their slots.

    `by_instance` is false if the keys determine the instance, so that rows need not be grouped by it. `nullable`: the
    aggregated columns that may be null.
    """

    keys: tuple[str, ...]
    window: Window
    aggregates: tuple[tuple[str, Aggregate], ...]
    types: tuple[tuple[str, str], ...]
    by_instance: bool = True
    nullable: tuple[str, ...] = ()

    @cached_property
    def slots(self) -> tuple[Slot, ...]:
        """The running values kept per row."""
        return slots_of([aggregate for _, aggregate in self.aggregates], dict(self.types), self.nullable)

    @cached_property
    def width(self) -> int:
        """Numbers in the widest running value."""
        return max(slot.empty(1).size for slot in self.slots)

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
        slots = {id(slot): slot for slot in self.slots}.values()
        return int(sum(array.nbytes for array in (self.instance, self.pane, *self.keys, *slots)))

    def take(self, rows: Ints) -> "PaneTable":
        """The given rows."""
        keys = tuple(take(key, rows) for key in self.keys)
        slots = each_once(lambda slot: take(slot, rows), self.slots)
        return PaneTable(self.instance[rows], self.pane[rows], keys, slots)

    def where(self, mask: NDArray[np.bool_]) -> "PaneTable":
        """The rows a mask selects; the table itself when it selects all."""
        rows = np.flatnonzero(mask)
        return self if rows.size == len(self) else self.take(rows)

    def of_panes(self, first: int, stop: int) -> "PaneTable":
        """The rows of panes first .. stop - 1.

        They are not copied if they are next to each other and at least half of the table, which they keep in memory.
        """
        begin, end, rows = loops.rows_between(self.pane, first, stop)
        if rows == len(self):
            return self
        if rows < end - begin:
            return self.take(np.flatnonzero((self.pane >= first) & (self.pane < stop)))
        keys = tuple(between(key, begin, end) for key in self.keys)
        slots = each_once(lambda slot: between(slot, begin, end), self.slots)
        part = PaneTable(self.instance[begin:end], self.pane[begin:end], keys, slots)
        return part if 2 * rows >= len(self) else part.owned()

    def with_instances(self, instance: Ints) -> "PaneTable":
        """The table under other instance numbers."""
        return PaneTable(instance, self.pane, self.keys, self.slots)

    def events(self, instances: int) -> Ints:
        """Number of events behind the rows of each instance."""
        total = np.zeros(instances, np.int64)
        np.add.at(total, self.instance, self.slots[0])
        return total

    def owned(self) -> "PaneTable":
        """The table with copies of the columns that are views of other memory."""
        keys = tuple(owned_column(key) for key in self.keys)
        slots = each_once(owned_column, self.slots)
        return PaneTable(owned_column(self.instance), owned_column(self.pane), keys, slots)

    def to_arrow(self) -> pa.RecordBatch:
        """The table as an Arrow batch, the inverse of `from_arrow`."""
        arrays = [pa.array(self.instance), pa.array(self.pane)]
        arrays += [to_arrow(key) for key in self.keys]
        arrays += [to_arrow(slot) for slot in self.slots]
        names = ["instance", "pane", *(f"key{i}" for i in range(len(self.keys)))]
        names += [f"slot{i}" for i in range(len(self.slots))]
        return pa.RecordBatch.from_arrays(arrays, names=names)

    @classmethod
    def from_arrow(cls, batch: pa.RecordBatch) -> "PaneTable":
        """An Arrow batch as a table."""
        columns = dict(zip(batch.schema.names, batch.columns, strict=True))
        keys = tuple(as_column(array) for name, array in columns.items() if name.startswith("key"))
        slots = tuple(from_arrow(array) for name, array in columns.items() if name.startswith("slot"))
        return cls(columns["instance"].to_numpy(), columns["pane"].to_numpy(), keys, slots)


def concat_tables(shape: PaneShape, tables: Sequence[PaneTable]) -> PaneTable:
    """Concatenate tables without merging."""
    tables = [table for table in tables if len(table)]
    if not tables:
        return shape.empty()
    if len(tables) == 1:
        return tables[0]
    return PaneTable(
        np.concatenate([table.instance for table in tables]),
        np.concatenate([table.pane for table in tables]),
        tuple(concat(list(columns)) for columns in zip(*(table.keys for table in tables), strict=True)),
        each_once(lambda *slots: concat(slots), *(table.slots for table in tables)),
    )


def grouping(shape: PaneShape, instance: Ints, instances: int, keys: Sequence[Codes], panes: Codes) -> Cells:
    """Group rows by instance, key and pane; panes may also be windows."""
    columns = [Codes(instance, instances)] if shape.by_instance else []
    return cells_of([*columns, *keys, panes], instance.size)


@dataclass(frozen=True)
class RowPanes:
    """The pane of every row of a block."""

    of_row: Ints

    @classmethod
    def of(cls, times: Ints, slide_us: int) -> "RowPanes":
        """The panes of some times, at least one."""
        panes = np.empty(times.size, np.int64)
        loops.panes_of(times, slide_us, panes)
        return cls(panes)

    @cached_property
    def first(self) -> int:
        """The first pane of all."""
        return loops.range_of(self.of_row)[0]

    @cached_property
    def codes(self) -> Codes:
        """The panes as small numbers."""
        return codes_of(self.of_row)


@dataclass(frozen=True)
class Grouped:
    """The events of a block by cell, and instance, pane and keys of every cell that has some."""

    cells: FilledCells
    instance: Ints
    pane: Ints
    keys: tuple[Column, ...]

    @classmethod
    def of(cls, shape: PaneShape, block: Block, panes: Ints, cells: Cells) -> "Grouped":
        """Count the events of each cell."""
        filled = FilledCells.of(cells.of_row, cells.size)
        rows = filled.sample
        keys = tuple(take(block.columns[key], rows) for key in shape.keys)
        return cls(filled, block.columns[INSTANCE][rows], panes[rows], keys)


def partial(shape: PaneShape, block: Block, grouped: Grouped) -> PaneTable:
    """Aggregate a block whose events are grouped into cells."""
    slots = partial_values(shape.slots, grouped.cells, block)
    return PaneTable(grouped.instance, grouped.pane, grouped.keys, tuple(slots))


def merged_panes(shape: PaneShape, tables: Sequence[PaneTable]) -> PaneTable:
    """Merge tables: one row per instance, pane and key."""
    tables = [each for each in tables if len(each)]
    groups = _groups_of(shape, tables) if tables else None
    if groups is not None:
        return concat_tables(shape, tables) if groups.size == sum(groups.lengths) else _merged(shape, tables, groups)
    table = concat_tables(shape, tables)
    if not len(table):
        return table
    instances = int(table.instance.max()) + 1
    keys = [codes_of(key) for key in table.keys]
    cells = grouping(shape, table.instance, instances, keys, codes_of(table.pane)).fitting(shape.width)
    sample, filled = cells.samples()
    if sample.size == len(table):
        return table
    rows = np.arange(len(table))
    values = merged_values(shape.slots, table.slots, rows, cells.of_row, cells.size)
    slots = filled_values(values, filled)
    kept = tuple(take(key, sample) for key in table.keys)
    return PaneTable(table.instance[sample], table.pane[sample], kept, slots)


def _groups_of(shape: PaneShape, tables: Sequence[PaneTable]) -> RowGroups | None:
    columns = [[each.keys[i] for each in tables] for i in range(len(shape.keys))]
    instances = [[each.instance for each in tables]] if shape.by_instance else []
    return groups_of(shape.slots, [*instances, *columns], [each.pane for each in tables])


def _merged(shape: PaneShape, tables: Sequence[PaneTable], groups: RowGroups) -> PaneTable:
    """One row per group."""
    slots: list[Array] = []
    for i, slot in enumerate(shape.slots):
        if slot.kind == "present" and all(each.slots[i] is each.slots[0] for each in tables):
            slots.append(slots[0])
        else:
            slots.append(groups.merged(slot, [each.slots[i] for each in tables]))
    instance, pane, *keys = groups.all_common([(each.instance, each.pane, *each.keys) for each in tables])
    return PaneTable(instance, pane, tuple(keys), tuple(slots))


def repeated_keys(shape: PaneShape, table: PaneTable) -> tuple[Ints, Codes]:
    """The rows whose key other rows have, too, and the codes of their keys."""
    columns = [*([table.instance] if shape.by_instance else []), *table.keys]
    codes = combined_codes([[column] for column in columns], len(table))
    return repeated(key_codes(shape, table) if codes is None else codes)


def key_codes(shape: PaneShape, table: PaneTable) -> Codes:
    """Instance and keys of every row as one number, so that rows are grouped once and not once per window."""
    instances = [Codes(table.instance, int(table.instance.max()) + 1)] if shape.by_instance else []
    cells = cells_of([*instances, *(codes_of(key) for key in table.keys)], len(table))
    if cells.size <= len(table):
        return Codes(cells.of_row, cells.size)
    numbers, distinct = numbered(cells.of_row)
    return Codes(numbers, distinct.size)
