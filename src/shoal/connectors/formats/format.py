"""File formats: the units of a file, their rows, and how to read some of them."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from shoal.connectors.formats.delimited import Csv
from shoal.connectors.formats.parquet_groups import batches, without_nulls
from shoal.connectors.sources.source import RawBatch, Wanted, column_fault

BATCH_ROWS = 1 << 16
"""Rows that are decoded at once: a few columns of them stay in a core's cache until they are aggregated."""
_ALWAYS_FIT: Mapping[pa.DataType, tuple[pa.DataType, ...]] = {
    pa.int64(): (pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32()),
    pa.float64(): (pa.float32(), pa.float64(), pa.int8(), pa.int16(), pa.int32(), pa.uint8(), pa.uint16()),
    pa.bool_(): (pa.bool_(),),
}
"""For declared types, the types in a file all of whose values can be converted; texts may not be UTF-8."""
_MOSTLY_FIT = {**_ALWAYS_FIT, pa.string(): (pa.string(), pa.large_string(), pa.string_view())}
"""The same, with texts: who reads coarse times reads again if one is refused after all."""


class Format(Protocol):
    """One file format; errors are raised as `OSError`, `ValueError` or one of Arrow's."""

    @property
    def suffixes(self) -> tuple[str, ...]:
        """Suffixes of this format's file names."""

    def units(self, path: str) -> list[int]:
        """Rows of each unit that can be read on its own; called when a file is found, and again if it has changed."""

    def read(self, path: str, units: Sequence[int], first_row: int, wanted: Wanted) -> Iterator[RawBatch]:
        """Yield the wanted columns of some units in order; the first unit begins at `first_row`.

        `units` may name unit 0 of a file without units: it has no rows. Raise `ValueError` if a column to read is
        missing, also then. A column that is only checked may be missing, or left out if all its values fit.
        """


class Parquet:
    """Parquet files; a unit is a row group."""

    suffixes = (".parquet", ".pq")

    def units(self, path: str) -> list[int]:
        """Rows per row group, from the footer."""
        footer = pq.read_metadata(path)
        return [footer.row_group(i).num_rows for i in range(footer.num_row_groups)]

    def read(self, path: str, units: Sequence[int], first_row: int, wanted: Wanted) -> Iterator[RawBatch]:
        """The footer is read once; texts are read as dictionaries, which is twice as fast and what kernels need."""
        with pa.OSFile(path) as handle:
            footer = pq.read_metadata(handle)
            schema = footer.schema.to_arrow_schema()
            _require(schema, wanted.read)
            columns = [*wanted.read, *_doubtful(schema, wanted.checked, partial(without_nulls, footer))]
            texts = [name for name in columns if _is_bytes(schema.field(name).type)]
            coarse = wanted.coarse
            if coarse is not None and any(
                _doubtful(schema, coarse.beside, partial(without_nulls, footer), _MOSTLY_FIT)
            ):
                coarse = None
            with pq.ParquetFile(handle, metadata=footer, read_dictionary=texts) as file:
                groups = [unit for unit in units if unit < file.num_row_groups]
                for batch, oldest_us in batches(handle, file, groups, columns, BATCH_ROWS, coarse):
                    yield RawBatch(batch, path, first_row, oldest_us=oldest_us)
                    first_row += batch.num_rows


class ArrowFile:
    """Arrow IPC files (Feather v2); a unit is a record batch."""

    suffixes = (".arrow", ".feather")

    def units(self, path: str) -> list[int]:
        """Rows per record batch; only the first column is decoded."""
        with pa.memory_map(path) as mapped:
            file = pa.ipc.open_file(mapped, options=pa.ipc.IpcReadOptions(included_fields=[0]))
            return [file.get_batch(i).num_rows for i in range(file.num_record_batches)]

    def read(self, path: str, units: Sequence[int], first_row: int, wanted: Wanted) -> Iterator[RawBatch]:
        """The batches, mapped from the file or decompressed."""
        with pa.memory_map(path) as mapped:
            schema = pa.ipc.open_file(mapped).schema
            _require(schema, wanted.read)
            columns = [*wanted.read, *_doubtful(schema, wanted.checked, lambda _: False)]
            fields = [schema.names.index(name) for name in columns]
            file = pa.ipc.open_file(mapped, options=pa.ipc.IpcReadOptions(included_fields=fields))
            for unit in units:
                if unit < file.num_record_batches:
                    batch = _distinct_entries(file.get_batch(unit))
                    yield RawBatch(batch, path, first_row)
                    first_row += batch.num_rows


def _require(schema: pa.Schema, columns: Sequence[str]) -> None:
    if fault := column_fault(schema.names, columns):
        raise ValueError(f"it {fault}")


def _doubtful(
    schema: pa.Schema,
    checked: pa.Schema,
    without_nulls: Callable[[str], bool],
    fitting: Mapping[pa.DataType, tuple[pa.DataType, ...]] = _ALWAYS_FIT,
) -> Iterator[str]:
    """Columns of a file in which a value may be refused."""
    for field in checked:
        if field.name not in schema.names:
            continue
        given = schema.field(field.name).type
        if pa.types.is_dictionary(given):  # as pyarrow gives a column back that was one
            given = given.value_type
        always_fits = given in fitting.get(field.type, ()) and (field.nullable or without_nulls(field.name))
        if not always_fits:
            yield field.name


def _is_bytes(type_: pa.DataType) -> bool:
    texts = pa.types.is_string(type_) or pa.types.is_large_string(type_) or pa.types.is_string_view(type_)
    return bool(texts or pa.types.is_binary(type_))


def _distinct_entries(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Make the entries of dictionaries distinct: kernels compare texts by their index."""
    for at, column in enumerate(batch.columns):
        if pa.types.is_dictionary(column.type) and len(pc.unique(column.dictionary)) < len(column.dictionary):
            again = column.dictionary.take(column.indices).dictionary_encode()
            batch = batch.set_column(at, batch.schema.names[at], again)
    return batch


FORMATS: Mapping[str, Format] = {"parquet": Parquet(), "arrow": ArrowFile(), "csv": Csv()}
