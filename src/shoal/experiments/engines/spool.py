"""Rows as files, for engines that read directories: one directory for each stream, file after file."""

import os
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

FILE_ROWS = 100_000
"""Rows of a file."""
FIRST_TIME_S = 1_700_000_000
NULL = "\\N"
"""What stands for a null in CSV, where an empty text is a text."""
Writer = Callable[[pa.Table, Path], None]


class Spool:
    """Writes rows below a directory; `format` is one of `WRITERS`."""

    def __init__(self, directory: Path, streams: Mapping[str, pa.Schema], format_: str) -> None:
        """Create a directory for each stream."""
        self.directory = directory
        self.format = format_
        self._write = WRITERS[format_]
        self._schemas = {name: _nullable(schema) for name, schema in streams.items()}
        self._waiting: dict[str, list[pa.RecordBatch]] = {name: [] for name in streams}
        self._rows = dict.fromkeys(streams, 0)
        self._files = dict.fromkeys(streams, 0)
        for name in streams:
            self.path(name).mkdir()

    def path(self, stream: str) -> Path:
        """The directory of a stream."""
        return self.directory / stream

    def schema(self, stream: str) -> pa.Schema:
        """The columns of a stream, all of which may be null."""
        return self._schemas[stream]

    def add(self, stream: str, rows: pa.RecordBatch) -> None:
        """Keep rows until they fill a file."""
        self._waiting[stream].append(rows.cast(self._schemas[stream]))
        self._rows[stream] += rows.num_rows
        if self._rows[stream] >= FILE_ROWS:
            self.flush(stream)

    def flush(self, stream: str) -> None:
        """Write the rows that wait, if any."""
        if self._rows[stream]:
            self.write(stream, pa.Table.from_batches(self._waiting[stream]))
        self._waiting[stream], self._rows[stream] = [], 0

    def write(self, stream: str, rows: pa.Table) -> None:
        """Write a file that appears when it is complete."""
        number = self._files[stream]
        self._files[stream] = number + 1
        path = self.path(stream) / f"{number:06}.{self.format}"
        hidden = path.with_name(f".{path.name}")
        self._write(rows, hidden)
        in_order(hidden, number)
        hidden.rename(path)

    def close(self) -> None:
        """Write everything that waits."""
        for stream in self._waiting:
            self.flush(stream)


def in_order(path: Path, number: int) -> None:
    """Give a file a distinct time: Spark reads files by time, and those of one millisecond in any order."""
    os.utime(path, (FIRST_TIME_S + number, FIRST_TIME_S + number))


def write_parquet(table: pa.Table, path: Path) -> None:
    """Write one Parquet file."""
    pq.write_table(table, path)


def write_csv(table: pa.Table, path: Path, *, header: bool = False) -> None:
    """Write one CSV file; a null is `NULL`."""
    columns = [_text(column) for column in table.columns]
    options = pyarrow.csv.WriteOptions(include_header=header)
    pyarrow.csv.write_csv(pa.table(columns, names=table.column_names), path, options)


def _text(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """A column that CSV can have: numbers without nulls stay numbers, which are written faster."""
    if pa.types.is_dictionary(column.type) or column.null_count:
        return pc.fill_null(column.cast(pa.string()), NULL)
    return column


def _nullable(schema: pa.Schema) -> pa.Schema:
    return pa.schema([field.with_nullable(True) for field in schema])


WRITERS: Mapping[str, Writer] = {
    "parquet": write_parquet,
    "csv": write_csv,
    "headed-csv": partial(write_csv, header=True),
}
