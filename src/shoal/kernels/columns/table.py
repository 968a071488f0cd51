"""Tables of state: rows that belong to instances, in a form that can be split, joined, stored and sent."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from shoal.kernels.columns.block import Block, Column, as_column, concat, plain, take
from shoal.kernels.columns.nullable import Nullable
from shoal.kernels.columns.ragged import Ragged

Ints = NDArray[np.int64]
INSTANCE = "#instance"
"""Block column with the instance of each row."""


class Table(Protocol):
    """Rows of state, each of one instance."""

    @property
    def instance(self) -> Ints:
        """Number of the instance each row belongs to."""

    @property
    def nbytes(self) -> int:
        """Memory the table takes."""

    def __len__(self) -> int:
        """Number of rows."""

    def take(self, rows: Ints) -> Self:
        """The given rows."""

    def where(self, mask: NDArray[np.bool_]) -> Self:
        """The rows a mask selects; the table itself when it selects all."""

    def with_instances(self, instance: Ints) -> Self:
        """The table under other instance numbers."""

    def events(self, instances: int) -> Ints:
        """Number of events behind the rows of each instance, as an array of length `instances`."""

    def owned(self) -> Self:
        """The table without views of memory that others may overwrite."""

    def to_arrow(self) -> pa.RecordBatch:
        """The table as an Arrow batch."""


Tables = dict[int, Any]
"""The tables of one kernel's state, or of input to it, by number; empty tables may be left out."""


@dataclass(frozen=True)
class RowTable:
    """Rows with named columns, the instance among them."""

    columns: Mapping[str, Column]

    @classmethod
    def of(cls, block: Block, names: Iterable[str]) -> "RowTable":
        """The named columns of a block, with its instances."""
        return cls({INSTANCE: block.columns[INSTANCE], **{name: block.columns[name] for name in names}})

    @property
    def instance(self) -> Ints:
        """Number of the instance each row belongs to."""
        instance: Ints = self.columns[INSTANCE]
        return instance

    @property
    def nbytes(self) -> int:
        """Memory the columns take."""
        return int(sum(column.nbytes for column in self.columns.values()))

    @property
    def block(self) -> Block:
        """The rows as a block."""
        return Block(self.columns, len(self))

    def __len__(self) -> int:
        """Number of rows."""
        return len(self.columns[INSTANCE])

    def __getitem__(self, name: str) -> Column:
        """A column."""
        return self.columns[name]

    def take(self, rows: Ints) -> "RowTable":
        """The given rows."""
        return RowTable({name: take(column, rows) for name, column in self.columns.items()})

    def where(self, mask: NDArray[np.bool_]) -> "RowTable":
        """The rows a mask selects; the table itself when it selects all."""
        rows = np.flatnonzero(mask)
        return self if rows.size == len(self) else self.take(rows)

    def with_columns(self, **columns: Column) -> "RowTable":
        """The table with columns replaced or added."""
        return RowTable({**self.columns, **columns})

    def with_instances(self, instance: Ints) -> "RowTable":
        """The table under other instance numbers."""
        return RowTable({**self.columns, INSTANCE: instance})

    def events(self, instances: int) -> Ints:
        """Number of events behind the rows of each instance: one each."""
        return np.bincount(self.instance, minlength=instances)

    def owned(self) -> "RowTable":
        """The table with copies of the columns that are views of other memory."""
        return RowTable({name: owned_column(column) for name, column in self.columns.items()})

    def to_arrow(self) -> pa.RecordBatch:
        """The table as an Arrow batch, the inverse of `from_arrow`."""
        arrays = [to_arrow(column) for column in self.columns.values()]
        return pa.RecordBatch.from_arrays(arrays, names=list(self.columns))

    @classmethod
    def from_arrow(cls, batch: pa.RecordBatch) -> "RowTable":
        """An Arrow batch as a table."""
        return cls({name: from_arrow(batch.column(i)) for i, name in enumerate(batch.schema.names)})


def concat_rows(tables: Sequence[RowTable]) -> RowTable | None:
    """Concatenate tables of the same columns; None if there are no rows."""
    tables = [table for table in tables if len(table)]
    if len(tables) < 2:
        return tables[0] if tables else None
    return RowTable({name: concat([table.columns[name] for table in tables]) for name in tables[0].columns})


def owned_column(column: Column) -> Column:
    """The column without views of memory that others may overwrite."""
    if isinstance(column, Nullable):
        return column.owned()
    if isinstance(column, Ragged):
        return column if column.values.base is None else column.copy()
    return column.copy() if isinstance(column, np.ndarray) and column.base is not None else column


def to_arrow(column: Column) -> pa.Array:
    """A column as Arrow: a row of numbers becomes a fixed list, a set of values a list, plain data a JSON text."""
    if isinstance(column, pa.Array):
        return plain(column)
    if isinstance(column, Nullable | Ragged):
        return column.to_arrow()
    if column.dtype == object:
        return _objects_to_arrow(column)
    if column.ndim == 1:
        return pa.array(column)
    return pa.FixedSizeListArray.from_arrays(pa.array(column.reshape(-1)), column.shape[1])


def from_arrow(array: pa.Array) -> Column:
    """The inverse of `to_arrow`."""
    if pa.types.is_fixed_size_list(array.type):
        return array.flatten().to_numpy(zero_copy_only=False).reshape(len(array), array.type.list_size)
    if pa.types.is_large_list(array.type):
        return Ragged.from_arrow(array)
    if pa.types.is_large_binary(array.type):
        return objects([json.loads(value) for value in array.to_pylist()])
    if pa.types.is_null(array.type):
        return objects([None] * len(array))
    return as_column(array)


def objects(values: Sequence[Any]) -> NDArray[np.object_]:
    """An array of objects, one per value."""
    array = np.empty(len(values), object)
    for i, value in enumerate(values):
        array[i] = value
    return array


def _objects_to_arrow(column: NDArray[np.object_]) -> pa.Array:
    if not column.size:
        return pa.nulls(0)
    return pa.array([json.dumps(value).encode() for value in column], pa.large_binary())
