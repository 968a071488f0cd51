"""The journal of a run as a file: one JSON object per line."""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import get_args

from shoal.control.journal import Entry
from shoal.errors import ConfigError, MessageError, RunError, reason_of
from shoal.storage.codec import Codec
from shoal.storage.private import create
from shoal.storage.writable import check_writable

NAME = "journal.jsonl"
FORMAT = 1
ENTRIES = Codec[Entry](get_args(Entry), format=FORMAT)


class JournalFile:
    """Appends entries to the journal in a directory; entries of earlier runs are kept."""

    def __init__(self, directory: str) -> None:
        """Open the journal; the directory is created for this user alone if it does not exist."""
        self.path = Path(directory) / NAME
        check_writable(directory, f"journal {self.path} cannot be written:")
        try:
            create(self.path.parent)
            self._end_line()
        except OSError as error:
            raise ConfigError(f"journal {self.path} cannot be written: {reason_of(error)}") from error

    def _end_line(self) -> None:
        """End a line that a crash has left unfinished."""
        if self.path.exists() and self.path.stat().st_size and self.path.read_bytes()[-1:] != b"\n":
            with self.path.open("a") as file:
                file.write("\n")

    def add(self, entries: Iterable[Entry]) -> None:
        """Append entries."""
        lines = [ENTRIES.encode(entry) for entry in entries]
        if not lines:
            return
        try:
            with self.path.open("ab") as file:
                file.write(b"".join(line + b"\n" for line in lines))
        except OSError as error:
            raise RunError(f"journal {self.path} cannot be written: {reason_of(error)}") from error

    def entries(self) -> list[Entry]:
        """The entries so far, also those of earlier runs; without those that this version cannot read."""
        lines = self.path.read_bytes().split(b"\n") if self.path.exists() else []
        return list(_entries(lines, self.path, strict=False))


def read_journal(directory: str) -> list[Entry]:
    """All entries of the journal in a directory; lines that a crash cut off are skipped."""
    path = Path(directory) / NAME
    try:
        lines = path.read_bytes().split(b"\n")
    except (FileNotFoundError, NotADirectoryError):
        raise ConfigError(
            f"{directory} has no journal; a run with --checkpoint DIR or --journal DIR keeps one there"
        ) from None
    return list(_entries(lines, path))


def _entries(lines: list[bytes], path: Path, *, strict: bool = True) -> Iterator[Entry]:
    for number, line in enumerate(lines, 1):
        try:
            yield ENTRIES.decode(line)
        except MessageError as error:
            if strict and _is_whole(line):
                raise ConfigError(f"line {number} of {path} {error}") from error


def _is_whole(line: bytes) -> bool:
    """Whether a line is JSON, and so was not cut off by a crash while it was written."""
    try:
        json.loads(line)
    except ValueError:
        return False
    return True
