"""Blocks: events as columns, the only form in which kernels read them.

Numbers, booleans and times (microseconds since 1970) are NumPy arrays; texts and lists stay Arrow arrays.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from shoal.model.query.schema import FieldType, Schema

Column = Any
"""A NumPy array, or an Arrow array for texts and lists."""

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
    return pa.schema([(field.name, ARROW_TYPES[field.type]) for field in schema.fields])


@dataclass(frozen=True)
class Block:
    """Columns of equal length."""

    columns: Mapping[str, Column]
    length: int

    @classmethod
    def from_arrow(cls, batch: pa.RecordBatch) -> "Block":
        """A null-free Arrow batch as a block, without copying numbers."""
        return cls({name: as_column(batch.column(i)) for i, name in enumerate(batch.schema.names)}, batch.num_rows)

    def where(self, mask: NDArray[np.bool_]) -> "Block":
        """The rows a mask selects; the block itself when it selects all."""
        rows = np.flatnonzero(mask)
        return self if rows.size == self.length else self.take(rows)

    def take(self, rows: NDArray[np.int64]) -> "Block":
        """The given rows, in the given order."""
        return Block({name: take(column, rows) for name, column in self.columns.items()}, rows.size)


def as_column(array: pa.Array) -> Column:
    """A null-free Arrow array in the form that kernels read."""
    type_ = array.type
    if pa.types.is_timestamp(type_):
        return array.cast(pa.timestamp("us", tz=type_.tz)).view(pa.int64()).to_numpy(zero_copy_only=False)
    if pa.types.is_integer(type_) or pa.types.is_floating(type_) or pa.types.is_boolean(type_):
        return array.to_numpy(zero_copy_only=False)
    return _with_distinct_entries(array) if pa.types.is_dictionary(type_) else array


def _with_distinct_entries(array: pa.DictionaryArray) -> pa.DictionaryArray:
    """Arrow lets a dictionary hold a text twice; kernels rely on one code per text."""
    entries = array.dictionary
    repeated = pc.count_distinct(entries, mode="all").as_py() < len(entries)
    return encoded(plain(array)) if repeated else array


def as_arrow(column: Column, type_: pa.DataType) -> pa.Array:
    """A kernel's column as an Arrow array of the given type."""
    if isinstance(column, np.ndarray):
        array = pa.array(column)
        return array.view(type_) if pa.types.is_timestamp(type_) and array.type == pa.int64() else array.cast(type_)
    return column if column.type == type_ else column.cast(type_)


def take(column: Column, rows: NDArray[np.int64]) -> Column:
    """The given rows of a column."""
    if isinstance(column, np.ndarray):
        return column[rows]
    return column.take(pa.array(rows))


def concat(columns: Sequence[Column]) -> Column:
    """Concatenate columns of one kind."""
    if len(columns) == 1:
        return columns[0]
    if isinstance(columns[0], np.ndarray):
        return np.concatenate(columns)
    return pa.concat_arrays([plain(column) for column in columns])


def plain(array: pa.Array) -> pa.Array:
    """Texts without their dictionary."""
    return array.dictionary_decode() if pa.types.is_dictionary(array.type) else array


def encoded(array: pa.Array) -> pa.DictionaryArray:
    """Texts with a dictionary."""
    return array if pa.types.is_dictionary(array.type) else pc.dictionary_encode(array)
