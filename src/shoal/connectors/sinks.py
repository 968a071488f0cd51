"""Sinks: where result tables go; writing the same table and epoch twice has the effect of writing it once."""

import sys
from collections import defaultdict
from dataclasses import dataclass, field, replace
from typing import Protocol, TextIO, runtime_checkable
from urllib.parse import quote, unquote

import pyarrow as pa
import pyarrow.parquet as pq

from shoal.connectors.result_directory import EXISTING, Existing, Opening, ResultDirectory, file_name
from shoal.errors import ConfigError
from shoal.storage.directory import Directory
from shoal.storage.writable import check_writable

COLUMNS = "columns.parquet"
"""Name of the file without rows that has the columns of a table."""


class Sink(Protocol):
    """Receives the rows of one table and one epoch at a time."""

    def write(self, table: str, epoch: int, rows: pa.Table) -> None:
        """Store the rows of an epoch; called again after a restart, it must replace what the first call wrote."""


@runtime_checkable
class OpenedSink(Sink, Protocol):
    """A sink that wants to know tables and columns before the first rows; other sinks need only `write`."""

    def opened(self, opening: Opening) -> Sink:
        """The sink for one run; raises if the run must not write to it. Called before a run starts; writes nothing."""

    def begin(self, opening: Opening) -> None:
        """Prepare for the rows of the run; called once, right before it starts, on the sink that `opened` gave."""


@dataclass
class MemorySink:
    """Keeps results in this process: for tests, notebooks and the oracle.

    >>> sink = MemorySink()
    >>> sink.write("t", 0, pa.table({"n": [1]}))
    >>> sink.write("t", 0, pa.table({"n": [1]}))
    >>> sink.table("t").to_pydict()
    {'n': [1]}
    """

    _parts: dict[str, dict[int, pa.Table]] = field(default_factory=lambda: defaultdict(dict))
    _columns: dict[str, pa.Schema] = field(default_factory=dict)

    def __repr__(self) -> str:
        """The tables; their rows would fill the screen."""
        return f"MemorySink({', '.join(self.names()) or 'no tables'})"

    def opened(self, opening: Opening) -> "MemorySink":  # noqa: ARG002  (the protocol's)
        """The sink itself: any run may add to it."""
        return self

    def begin(self, opening: Opening) -> None:
        """Give every table its columns, so that one without rows is empty, not missing."""
        self._columns |= opening.tables

    def write(self, table: str, epoch: int, rows: pa.Table) -> None:
        """Store rows in memory."""
        self._parts[table][epoch] = rows

    def names(self) -> list[str]:
        """Tables that have been written."""
        return sorted({*self._parts, *self._columns})

    def table(self, name: str) -> pa.Table:
        """All rows of a table, epoch by epoch."""
        parts = self._parts.get(name, {})
        if not parts and name in self._columns:
            return self._columns[name].empty_table()
        if not parts:
            raise KeyError(f"no rows for table {name!r}; there are {', '.join(self.names()) or 'none'}")
        return pa.concat_tables([parts[epoch] for epoch in sorted(parts)])


@dataclass(frozen=True)
class ParquetSink:
    """Writes `<directory>/<table>/epoch-<number>.parquet`, each file atomically.

    A table is a directory that pyarrow, DuckDB and Spark read as one. In its name everything but ASCII letters,
    digits and `_.-~` becomes %XX as in a URL, and so does a leading . or _, which would hide it. A table also has
    `columns.parquet`, without rows, so that its columns are known before there are results.
    `existing`: whether to "refuse" a directory with results of another run, "overwrite" or "append" to them. A run that
    resumes from its checkpoint always goes on with its own.
    """

    path: str
    existing: Existing = "refuse"
    run: int = field(default=0, repr=False)
    """The number of the run among those that have written here; `opened` sets it."""

    def __post_init__(self) -> None:
        """Reject an address that cannot be written to."""
        Directory(self.path)
        if self.existing not in EXISTING:
            raise ConfigError(f"existing of {self.path!r} must be {', '.join(EXISTING)}; got {self.existing!r}")

    def opened(self, opening: Opening) -> "ParquetSink":
        """The sink of one run; refuses a directory that holds the results of another."""
        check_writable(self.path, "sink")
        return replace(self, run=ResultDirectory(Directory(self.path)).run_number(opening, self.existing))

    def begin(self, opening: Opening) -> None:
        """Record the run, and write the columns of every table."""
        directory = Directory(self.path)
        ResultDirectory(directory).begin(self.run, opening, self.existing)
        for table, columns in opening.tables.items():
            name = f"{directory_name(table)}/{COLUMNS}"
            if not directory.exists(name):
                directory.write(name, _parquet(columns.empty_table()))

    def write(self, table: str, epoch: int, rows: pa.Table) -> None:
        """Write one file."""
        Directory(self.path).write(f"{directory_name(table)}/{file_name(self.run, epoch)}", _parquet(rows))

    def names(self) -> list[str]:
        """Tables that have been written."""
        return sorted(unquote(name) for name in ResultDirectory(Directory(self.path)).tables())

    def table(self, name: str) -> pa.Table:
        """All rows written so far."""
        directory = Directory(self.path)
        below = directory_name(name)
        files = ResultDirectory(directory).files(below)
        if not files:
            raise KeyError(f"no rows for table {name!r} in {self.path}; there are {', '.join(self.names()) or 'none'}")
        return pa.concat_tables([_read(directory.read(f"{below}/{file}")) for file in files])


def _read(content: bytes) -> pa.Table:
    """The rows of a Parquet file, read by the calling thread alone.

    `pq.read_table` gives the file to Arrow's threads, and some still have it when the call returns. If the file is a
    Python object, such a thread must take Python's lock to let go of it, and aborts the process if Python is exiting.
    """
    with pq.ParquetFile(pa.BufferReader(content), pre_buffer=False) as file:
        return file.read(use_threads=False)


def _parquet(rows: pa.Table) -> bytes:
    written = pa.BufferOutputStream()
    pq.write_table(rows, written)
    return bytes(written.getvalue().to_pybytes())


def directory_name(table: str) -> str:
    """The name of a table's directory: plain names unchanged, every unsafe character as %XX.

    >>> directory_name("avg_speed"), directory_name("a/b"), directory_name("../x")
    ('avg_speed', 'a%2Fb', '%2E.%2Fx')
    """
    if not table:
        raise ConfigError("name of a table must not be empty")
    name = quote(table, safe="")
    return f"%{ord(name[0]):02X}{name[1:]}" if name[0] in "._" else name


@dataclass
class ConsoleSink:
    """Prints the first rows of every table and epoch once; a restarted run may repeat its last epoch."""

    rows: int = 10
    stream: TextIO = field(default_factory=lambda: sys.stdout)
    _printed: dict[str, int] = field(default_factory=dict, init=False, repr=False)

    def write(self, table: str, epoch: int, rows: pa.Table) -> None:
        """Print rows."""
        if self._printed.get(table) == epoch or (table in self._printed and not rows.num_rows):
            return
        self._printed[table] = epoch
        shown = rows.slice(0, self.rows).to_pylist()
        print(f"-- {table}, epoch {epoch}: {rows.num_rows} rows", file=self.stream)
        for row in shown:
            print("   " + "  ".join(f"{name}={value}" for name, value in row.items()), file=self.stream)
        if rows.num_rows > len(shown):
            print(f"   ... {rows.num_rows - len(shown)} more", file=self.stream)


def sink_from_uri(uri: str) -> Sink:
    """A sink by its address: `parquet:DIR`, `console:` or `memory:`."""
    kind, _, rest = uri.partition(":")
    if kind == "parquet" and rest:
        return ParquetSink(rest)
    if kind == "console" and not rest:
        return ConsoleSink()
    if kind == "memory" and not rest:
        return MemorySink()
    raise ConfigError(f"sink must be parquet:DIR, console: or memory:; got {uri!r}")
