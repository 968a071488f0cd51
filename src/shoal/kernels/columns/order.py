"""Order and groups of rows, for kernels that process rows one by one within each key."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from shoal.kernels.aggregate.cells import Codes, cells_of, codes_of
from shoal.kernels.columns.block import Column, concat, encoded
from shoal.kernels.columns.nullable import Nullable, entry_values
from shoal.kernels.columns.table import Ints, RowTable
from shoal.model.query.schema import TIME


def group_numbers(tables: Sequence[RowTable], keys: Sequence[str]) -> list[Ints]:
    """Number the combinations of instance and keys, densely and across all tables; one array per table."""
    lengths = [len(table) for table in tables]
    total = sum(lengths)
    if not total:
        return [np.zeros(0, np.int64) for _ in tables]
    instance = np.concatenate([table.instance for table in tables])
    columns = [Codes(instance, int(instance.max()) + 1)]
    columns += [codes_of(concat([table[key] for table in tables])) for key in keys]
    cells = cells_of(columns, total)
    used = np.zeros(cells.size, bool)
    used[cells.of_row] = True
    dense = (np.cumsum(used) - 1)[cells.of_row]
    return np.split(dense, np.cumsum(lengths)[:-1])


def in_order(groups: Ints, table: RowTable, names: Sequence[str]) -> Ints:
    """Rows sorted by group, time and the named columns: an order that depends on the rows only."""
    times = table[TIME]
    order = np.lexsort((times, groups))
    tied = (np.diff(groups[order]) == 0) & (np.diff(times[order]) == 0)
    if not tied.any():
        return order
    columns = [sortable(table[name]) for name in reversed(names)]
    return np.lexsort((*columns, times, groups))


def sortable(column: Column) -> NDArray[np.generic]:
    """A column in a form that sorts like its values, nulls first."""
    if isinstance(column, Nullable):
        rank = np.unique(column.values, return_inverse=True)[1]
        return np.where(column.valid, rank, -1)
    if not isinstance(column, pa.Array):
        return column
    if pa.types.is_list(column.type):
        column = pa.array([None if value is None else repr(value) for value in column.to_pylist()], pa.string())
    texts = encoded(column)
    entries = np.asarray(texts.dictionary.to_pylist(), object)
    rank = np.empty(entries.size, np.int64)
    rank[np.argsort(entries)] = np.arange(entries.size)
    return entry_values(rank, texts, -1)


def starts(groups: Ints) -> Ints:
    """Where each run of equal numbers begins."""
    return np.flatnonzero(np.diff(groups, prepend=-1))


def due(table: RowTable | None, watermark_us: int) -> tuple[RowTable | None, RowTable | None]:
    """The rows before the watermark, whose order is final, and the rest."""
    if table is None:
        return None, None
    ready = table[TIME] < watermark_us
    return _non_empty(table.where(ready)), _non_empty(table.where(~ready))


def _non_empty(table: RowTable) -> RowTable | None:
    return table if len(table) else None
