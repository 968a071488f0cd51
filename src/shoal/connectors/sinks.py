"""Sinks: where result tables go; writing the same table and epoch twice is the same as writing it once."""

import io
import sys
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Protocol, TextIO

import pyarrow as pa
import pyarrow.parquet as pq

from shoal.connectors.directory import Directory
from shoal.errors import ConfigError


class Sink(Protocol):
    """Takes the rows of one table and one epoch at a time."""

    def write(self, table: str, epoch: int, rows: pa.Table) -> None:
        """Keep rows; a second write of the same table and epoch replaces the first."""


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

    def write(self, table: str, epoch: int, rows: pa.Table) -> None:
        """Keep rows."""
        self._parts[table][epoch] = rows

    def names(self) -> list[str]:
        """Tables that have been written."""
        return sorted(self._parts)

    def table(self, name: str) -> pa.Table:
        """All rows of a table, epoch by epoch."""
        parts = self._parts.get(name, {})
        if not parts:
            raise KeyError(f"no rows for table {name!r}; there are {', '.join(self.names()) or 'none'}")
        return pa.concat_tables([parts[epoch] for epoch in sorted(parts)])


@dataclass(frozen=True)
class ParquetSink:
    """Writes `<directory>/<table>/epoch-<number>.parquet`, each file whole or not at all."""

    path: str

    def write(self, table: str, epoch: int, rows: pa.Table) -> None:
        """Write one file."""
        buffer = io.BytesIO()
        pq.write_table(rows, buffer)
        Directory(self.path).write(f"{table}/epoch-{epoch:010d}.parquet", buffer.getvalue())

    def names(self) -> list[str]:
        """Tables that have been written."""
        return Directory(self.path).directories()

    def table(self, name: str) -> pa.Table:
        """All rows written so far."""
        directory = Directory(self.path)
        files = directory.names(name)
        if not files:
            raise KeyError(f"no rows for table {name!r} in {self.path}")
        return pa.concat_tables([pq.read_table(io.BytesIO(directory.read(f"{name}/{file}"))) for file in files])


@dataclass
class ConsoleSink:
    """Prints the first rows of every table and epoch."""

    rows: int = 10
    stream: TextIO = field(default_factory=lambda: sys.stdout)

    def write(self, table: str, epoch: int, rows: pa.Table) -> None:
        """Print rows."""
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
    if kind == "console":
        return ConsoleSink()
    if kind == "memory":
        return MemorySink()
    raise ConfigError(f"sink must be parquet:DIR, console: or memory:; got {uri!r}")
