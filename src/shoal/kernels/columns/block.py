"""Blocks: events as columns, the only form in which kernels read them.

Numbers, booleans and times (microseconds since 1970) are NumPy arrays, or `Nullable` if one is null; texts and lists
stay Arrow arrays, which know their nulls.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from shoal.kernels.columns.nullable import Nullable, concat_nullable, nullable
from shoal.kernels.columns.ragged import Ragged, concat_ragged
from shoal.model.query.schema import FieldType, Schema

Column = Any
"""A NumPy array, a `Nullable` if a number is null, or an Arrow array for texts and lists; in state also a `Ragged`."""

ARROW_TYPES: Mapping[FieldType, pa.DataType] = {
    "int64": pa.int64(),
    "float64": pa.float64(),
    "string": pa.string(),
    "bool": pa.bool_(),
    "timestamp": pa.timestamp("us"),
    "list<int64>": pa.list_(pa.int64()),
    "list<float64>": pa.list_(pa.float64()),
}


def arrow_schema(schema: Schema) -> pa.Schema:
    """The Arrow schema of a stream or a result."""
    return pa.schema([pa.field(field.name, ARROW_TYPES[field.type], field.nullable) for field in schema.fields])


@dataclass(frozen=True)
class Block:
    """Columns of equal length."""

    columns: Mapping[str, Column]
    length: int

    @classmethod
    def from_arrow(cls, batch: pa.RecordBatch) -> "Block":
        """An Arrow batch as a block, without copying numbers that have no nulls."""
        return cls({name: as_column(batch.column(i)) for i, name in enumerate(batch.schema.names)}, batch.num_rows)

    def where(self, mask: NDArray[np.bool_]) -> "Block":
        """The rows a mask selects; the block itself when it selects all."""
        return self if mask.all() else self.take(np.flatnonzero(mask))

    def take(self, rows: NDArray[np.int64]) -> "Block":
        """The given rows, in the given order."""
        return Block({name: take(column, rows) for name, column in self.columns.items()}, rows.size)


def as_column(array: pa.Array) -> Column:
    """An Arrow array in the form that kernels read."""
    type_ = array.type
    if pa.types.is_timestamp(type_):
        return _numbers(array.cast(pa.timestamp("us", tz=type_.tz)).view(pa.int64()))
    if pa.types.is_integer(type_) or pa.types.is_floating(type_) or pa.types.is_boolean(type_):
        return _numbers(array)
    return _with_distinct_entries(array) if pa.types.is_dictionary(type_) else array


def _numbers(array: pa.Array) -> Column:
    if not array.null_count:
        return array.to_numpy(zero_copy_only=False)
    zero = False if pa.types.is_boolean(array.type) else 0
    values = pc.fill_null(array, zero).to_numpy(zero_copy_only=False)
    return nullable(values, array.is_valid().to_numpy(zero_copy_only=False))


def _with_distinct_entries(array: pa.DictionaryArray) -> pa.DictionaryArray:
    """Arrow lets a dictionary hold a text twice, and null; kernels rely on one code per text and none for null."""
    entries = array.dictionary
    repeated = entries.null_count or pc.count_distinct(entries, mode="all").as_py() < len(entries)
    return encoded(plain(array)) if repeated else array


def as_arrow(column: Column, type_: pa.DataType) -> pa.Array:
    """A kernel's column as an Arrow array of the given type."""
    if isinstance(column, np.ndarray | Nullable):
        array = pa.array(column) if isinstance(column, np.ndarray) else column.to_arrow()
        if array.type == type_:
            return array
        return array.view(type_) if pa.types.is_timestamp(type_) and array.type == pa.int64() else array.cast(type_)
    return column if column.type == type_ else column.cast(type_)


def take(column: Column, rows: NDArray[np.int64]) -> Column:
    """The given rows of a column."""
    if isinstance(column, np.ndarray):
        return column[rows] if column.ndim == 1 else np.take(column, rows, axis=0)
    if isinstance(column, Nullable):
        return nullable(column.values[rows], column.valid[rows])
    if isinstance(column, Ragged):
        return column[rows]
    if pa.types.is_dictionary(column.type) and not column.indices.null_count:
        codes = column.indices.to_numpy(zero_copy_only=False)[rows]  # Arrow takes a tenth of a millisecond for few rows
        return pa.DictionaryArray.from_arrays(pa.array(codes), column.dictionary, safe=False)
    return column.take(pa.array(rows))


def between(column: Column, begin: int, end: int) -> Column:
    """The rows begin .. end - 1 of a column, not copied."""
    if isinstance(column, Nullable):
        return nullable(column.values[begin:end], column.valid[begin:end])
    return column[begin:end]


def concat(columns: Sequence[Column]) -> Column:
    """Concatenate columns of one kind."""
    if len(columns) == 1:
        return columns[0]
    if any(isinstance(column, Nullable) for column in columns):
        return concat_nullable(columns)
    if isinstance(columns[0], np.ndarray):
        return np.concatenate(columns)
    if isinstance(columns[0], Ragged):
        return concat_ragged(columns)
    return pa.concat_arrays([plain(column) for column in columns])


def plain(array: pa.Array) -> pa.Array:
    """Texts without their dictionary."""
    return array.dictionary_decode() if pa.types.is_dictionary(array.type) else array


def encoded(array: pa.Array) -> pa.DictionaryArray:
    """Texts with a dictionary."""
    return array if pa.types.is_dictionary(array.type) else pc.dictionary_encode(array)
