"""Result directories: which runs have written to a directory of Parquet files, and whether another one may.

The record `.shoal-runs` in the directory lists the runs by their checkpoints, in order. The files of the first are
`epoch-N.parquet`, those of the n-th after it `run-n-epoch-N.parquet`, so that no run replaces files of another.
"""

import posixpath
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

import pyarrow as pa

from shoal.errors import ConfigError
from shoal.storage.codec import Codec
from shoal.storage.directory import Directory
from shoal.storage.record import Record

Existing = Literal["refuse", "overwrite", "append"]
"""What to do with a directory that holds results of another run."""
EXISTING: tuple[Existing, ...] = ("refuse", "overwrite", "append")
RECORD_NAME = ".shoal-runs"
_OURS = re.compile(r"(?:run-[0-9]+-)?epoch-[0-9]+\.parquet|columns\.parquet")
_UNKNOWN = ""


@dataclass(frozen=True)
class ResultRuns:
    """The runs that have written to a directory: the checkpoint of each, empty for one that kept none.

    `home`: where the directory was then, so that checkpoints which were moved or copied along with it are found again.
    """

    runs: tuple[str, ...]
    home: str = ""

    def moved(self, home: str) -> tuple[str, ...]:
        """The checkpoints as they are called if they were moved along with the directory.

        >>> ResultRuns(("/a/kept", ""), "/a/results").moved("/b/results")
        ('/b/kept', '')
        """
        if not self.home or self.home == home:
            return self.runs
        return tuple(run and posixpath.normpath(f"{home}/{posixpath.relpath(run, self.home)}") for run in self.runs)


RECORD = Record(Codec([ResultRuns], format=1), subject="record of runs")


@dataclass(frozen=True)
class Opening:
    """What a sink is told before the first rows.

    `tables`: the columns of every result table. `checkpoint`: where the run can be resumed from, empty if nowhere.
    `resumed`: whether that checkpoint has epochs, whose results were written before.
    """

    tables: Mapping[str, pa.Schema]
    checkpoint: str = ""
    resumed: bool = False


@dataclass(frozen=True)
class ResultDirectory:
    """A directory with a subdirectory of files per table."""

    directory: Directory

    def run_number(self, opening: Opening, existing: Existing) -> int:
        """The number of a run that wants to write here: its own if it has one; `ConfigError` if it may not."""
        runs, tables = self._runs(opening), self.tables()
        if opening.checkpoint and opening.checkpoint in runs:
            return runs.index(opening.checkpoint)
        if not tables or existing == "overwrite":
            return 0
        if opening.resumed and not runs:
            return 0  # written before there were records
        if existing == "append":
            return max(len(runs), 1)
        raise ConfigError(
            f"directory {self.directory.uri} holds results of another run ({', '.join(tables[:3])}); "
            "use another directory, or --overwrite or --append (existing='overwrite' or 'append' in Python)"
        )

    def begin(self, number: int, opening: Opening, existing: Existing) -> None:
        """Record a run that has been given a number, after deleting the results that it is to overwrite."""
        runs = self._runs(opening)
        known = number < len(runs) and bool(opening.checkpoint) and runs[number] == opening.checkpoint
        if known or (opening.resumed and not runs):
            return
        if existing == "overwrite":
            runs = ()
            self._delete_results(self.tables())
        before = (*runs, *(_UNKNOWN for _ in range(number - len(runs))))[:number]
        record = ResultRuns((*before, opening.checkpoint), self.directory.uri)
        self.directory.write(RECORD_NAME, RECORD.encode(record))

    def tables(self) -> list[str]:
        """The subdirectories that have files of ours."""
        return [name for name in self.directory.directories() if self.files(name)]

    def files(self, table: str) -> list[str]:
        """The files of ours in a subdirectory."""
        return [name for name in self.directory.names(table) if _OURS.fullmatch(name)]

    def _runs(self, opening: Opening) -> tuple[str, ...]:
        """The checkpoints of the runs that have written here, where they are now."""
        if not self.directory.exists(RECORD_NAME):
            return ()
        record = RECORD.decode(self.directory.read(RECORD_NAME), f"{self.directory.uri}/{RECORD_NAME}")
        moved = record.moved(self.directory.uri)
        return moved if opening.resumed and opening.checkpoint in moved else record.runs

    def _delete_results(self, tables: Iterable[str]) -> None:
        """Delete our files; what others have put there stays."""
        for table in tables:
            self.directory.delete([f"{table}/{name}" for name in self.files(table)])


def file_name(number: int, epoch: int) -> str:
    """The name of a file of results.

    >>> file_name(0, 12), file_name(2, 12)
    ('epoch-0000000012.parquet', 'run-0002-epoch-0000000012.parquet')
    """
    run = f"run-{number:04d}-" if number else ""
    return f"{run}epoch-{epoch:010d}.parquet"
