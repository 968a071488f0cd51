"""Parquet files that are generated once and read by every engine.

File n holds the events n * rows .. (n + 1) * rows - 1; modification times follow the same order, a second apart,
because engines read the oldest file first and a clock's ticks are too coarse for small files.
"""

import os
import tempfile
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

FIRST_MTIME_S = 1_704_067_200


class Batches(Protocol):
    """What generates events by their numbers."""

    def batch(self, start: int, stop: int) -> pa.RecordBatch | dict[str, pa.Array]:
        """Events number start .. stop - 1."""


@dataclass(frozen=True)
class Dataset:
    """A directory of equally large files."""

    path: Path
    files: int
    rows_per_file: int

    @property
    def rows(self) -> int:
        """Rows of all files."""
        return self.files * self.rows_per_file

    @property
    def glob(self) -> str:
        """The pattern that names all files."""
        return f"{self.path}/*.parquet"

    def first(self, files: int) -> "Dataset":
        """A directory with the first files only."""
        if files > self.files:
            raise ValueError(f"data set has {self.files} files; asked for {files}")
        if files == self.files:
            return self
        path = self.path.with_name(f"{self.path.name}-first-{files}")
        path.mkdir(exist_ok=True)
        for number in range(files):
            link = path / _name(number)
            if not link.exists():
                link.hardlink_to(self.path / _name(number))
        return Dataset(path, files, self.rows_per_file)

    def newest(self, column: str) -> datetime:
        """The latest event time, which the last file holds."""
        times = pq.read_table(self.path / _name(self.files - 1), columns=[column])
        return pc.max(times[column]).as_py()


def cache() -> Path:
    """Where data sets are kept between trials."""
    return Path(tempfile.gettempdir()) / "shoal-experiments"


def made(name: str, events: Batches, files: int, rows_per_file: int, groups: int) -> Dataset:
    """A data set of generated events with `groups` row groups per file, written now or by an earlier trial."""
    path = cache() / f"{name}-{rows_per_file}x{files}"
    path.mkdir(parents=True, exist_ok=True)
    for number in range(files):
        target = path / _name(number)
        if target.exists():
            continue
        rows = pa.table(events.batch(number * rows_per_file, (number + 1) * rows_per_file))
        unfinished = target.with_suffix(f".{os.getpid()}")
        pq.write_table(rows, unfinished, row_group_size=-(-rows_per_file // groups))
        os.utime(unfinished, (FIRST_MTIME_S + number, FIRST_MTIME_S + number))
        unfinished.rename(target)
    return Dataset(path, files, rows_per_file)


def _name(number: int) -> str:
    return f"{number:05d}.parquet"
