"""Parts of tables: the rows of some instances, in their order, and tables read from Arrow."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from shoal.kernels.aggregate.panes import PaneTable
from shoal.kernels.columns.table import INSTANCE, RowTable, Table, Tables
from shoal.kernels.spatial.range_table import ENDING, RangeTable

MANY_PARTS = 1 << 15
"""From this number of parts on, 16-bit numbers, which are fast to sort, are too small."""


def split_tables(tables: Tables, part_of: Sequence[int] | NDArray[np.integer[Any]], parts: int) -> list[Tables]:
    """Split tables: the rows of instance i go to part `part_of[i]`, or are left out if that is negative.

    A part has only tables with rows; rows keep their order.

    >>> both = {0: RowTable({INSTANCE: np.array([0, 1, 0]), "x": np.array([5, 6, 7])})}
    >>> [part[0]["x"].tolist() for part in split_tables(both, [1, 0], 2)]
    [[6], [5, 7]]
    """
    numbers = np.asarray(part_of, np.int16 if parts < MANY_PARTS else np.int64)
    found: list[Tables] = [{} for _ in range(parts)]
    for number, table in tables.items():
        of_row = numbers[table.instance]
        order = np.argsort(of_row, kind="stable")
        edges = np.searchsorted(of_row[order], np.arange(parts + 1))
        for part, (first, last) in zip(found, pairwise(edges.tolist()), strict=True):
            if last - first == len(table) > 0:
                part[number] = table
            elif last > first:
                part[number] = table.take(order[first:last])
    return found


def renumbered(table: Table, number_of: NDArray[np.int64]) -> Table:
    """The rows under the new numbers of their instances; rows whose new number is negative are left out."""
    return assigned(table, number_of[table.instance])


def assigned(table: Table, instance: NDArray[np.int64]) -> Table:
    """The rows of a table under the given instances, one per row; rows with a negative one are left out."""
    return table.with_instances(instance).where(instance >= 0)


def table_from_arrow(batch: pa.RecordBatch) -> Table:
    """The table that an Arrow batch holds: the inverse of `to_arrow` for every kind of table."""
    names = batch.schema.names
    if ENDING in names:
        return RangeTable.from_arrow(batch)
    return RowTable.from_arrow(batch) if INSTANCE in names else PaneTable.from_arrow(batch)
