"""File formats: how many rows a file's units have, and how to read some of them."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Protocol

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

BATCH_ROWS = 1 << 20
CSV_ROW_BYTES = 40


class Format(Protocol):
    """One file format; errors come as `OSError` or `ValueError` (which Arrow's errors are)."""

    @property
    def suffixes(self) -> tuple[str, ...]:
        """Endings of this format's file names."""

    def units(self, path: str) -> list[int]:
        """Rows of each unit that can be read on its own."""

    def read(self, path: str, units: Sequence[int], columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """The rows of some units; a missing column is left out, for the caller to complain about."""


class Parquet:
    """Parquet files; a unit is a row group."""

    suffixes = (".parquet", ".pq")

    def units(self, path: str) -> list[int]:
        """Rows per row group, from the footer."""
        footer = pq.read_metadata(path)
        return [footer.row_group(i).num_rows for i in range(footer.num_row_groups)]

    def read(self, path: str, units: Sequence[int], columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """The chosen columns of the chosen row groups, texts as dictionaries."""
        schema = pq.read_schema(path)
        present = [name for name in columns if name in schema.names]
        texts = [name for name in present if pa.types.is_string(schema.field(name).type)]
        with pq.ParquetFile(path, read_dictionary=texts) as file:
            yield from file.iter_batches(BATCH_ROWS, row_groups=list(units), columns=present, use_threads=False)


class ArrowFile:
    """Arrow IPC files (Feather v2); a unit is a record batch."""

    suffixes = (".arrow", ".feather")

    def units(self, path: str) -> list[int]:
        """Rows per record batch."""
        with pa.memory_map(path) as mapped:
            file = pa.ipc.open_file(mapped)
            return [file.get_batch(i).num_rows for i in range(file.num_record_batches)]

    def read(self, path: str, units: Sequence[int], columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """The chosen columns of the chosen batches."""
        with pa.memory_map(path) as mapped:
            file = pa.ipc.open_file(mapped)
            present = [name for name in columns if name in file.schema.names]
            for unit in units:
                yield file.get_batch(unit).select(present)


class Csv:
    """CSV files with a header line; the whole file is one unit, and every field arrives as text."""

    suffixes = (".csv",)

    def units(self, path: str) -> list[int]:
        """One unit; its number of rows is only guessed from the file's size."""
        with Path(path).open(encoding="utf-8") as file:
            if not file.readline().strip():
                raise ValueError("the header line is missing")
        return [max(1, Path(path).stat().st_size // CSV_ROW_BYTES)]

    def read(self, path: str, units: Sequence[int], columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """The chosen columns; an empty field is a null."""
        del units
        with Path(path).open(encoding="utf-8") as file:
            header = file.readline().strip().split(",")
        present = [name.strip('"') for name in header if name.strip('"') in columns]
        convert = pacsv.ConvertOptions(
            include_columns=present,
            column_types=dict.fromkeys(present, pa.string()),
            strings_can_be_null=True,
            null_values=[""],
            quoted_strings_can_be_null=False,
        )
        parse = pacsv.ParseOptions(newlines_in_values=True)
        for batch in pacsv.open_csv(path, convert_options=convert, parse_options=parse):
            if batch.num_rows:
                yield batch


FORMATS: Mapping[str, Format] = {"parquet": Parquet(), "arrow": ArrowFile(), "csv": Csv()}
