"""The file log: the files a source has found, in order, so that a position means the same after a restart."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from shoal.errors import CheckpointError
from shoal.storage.codec import Codec
from shoal.storage.directory import Directory
from shoal.storage.record import Record

PREFIX = "files-"
MERGED_ENTRIES = 256
"""Log entries that are merged into one, so that their number stays small in a run of months."""


@dataclass(frozen=True)
class LoggedFile:
    """A file as it was when it was found; `units` has the rows per row group, record batch or whole file.

    `bad` says why it cannot be read. `again`: it had been read before, and has changed since; that is only reported.
    """

    path: str
    size: int
    changed_ns: int
    units: tuple[int, ...]
    bad: str = ""
    again: bool = False


@dataclass(frozen=True)
class LogEntry:
    """One entry of the log: files in the order in which they were found."""

    KIND: ClassVar[str] = "seen-files"

    files: tuple[LoggedFile, ...]


FORMAT = 2
RECORD = Record(Codec([LogEntry], format=FORMAT), subject="file log")


class FileLog:
    """Grows by whole entries; each is named by the number of files logged before it.

    After a crash during a merge an entry may repeat files of others; the numbers show which.
    """

    def __init__(self, directory: Directory) -> None:
        """Read the entries of an earlier run."""
        self.files: list[LoggedFile] = []
        self._directory = directory
        self._entries: list[int] = []
        for name in directory.names():
            if name.startswith(PREFIX):
                self._load(name)

    def append(self, fresh: Sequence[LoggedFile]) -> None:
        """Add files durably."""
        self._entries.append(len(self.files))
        self._write(len(self.files), fresh)
        self.files += fresh
        if len(self._entries) > MERGED_ENTRIES:
            self._merge()

    def replace(self, changed: Mapping[int, LoggedFile]) -> None:
        """Replace files by their positions in the log."""
        for position, file in changed.items():
            self.files[position] = file
        if changed:
            self._merge()

    def _merge(self) -> None:
        """Write all recent entries as one, then delete the others."""
        first, *others = self._entries
        self._write(first, self.files[first:])
        self._directory.delete(_name(number) for number in others)
        self._entries = []

    def _write(self, number: int, files: Sequence[LoggedFile]) -> None:
        self._directory.write(_name(number), RECORD.encode(LogEntry(tuple(files))))

    def _load(self, name: str) -> None:
        number = self._number(name)
        files = RECORD.decode(self._directory.read(name), f"{self._directory.uri}/{name}").files
        if number > len(self.files):
            raise CheckpointError(
                f"file log {self._directory.uri} must continue with file {len(self.files)}; got {name}; "
                "restore the missing entry from a copy, or start with a new checkpoint directory"
            )
        self.files += files[len(self.files) - number :]
        self._entries.append(number)

    def _number(self, name: str) -> int:
        """The number of files logged before an entry."""
        text = name.removeprefix(PREFIX).removesuffix(".json")
        if not text.isdecimal():
            raise CheckpointError(
                f"file log {self._directory.uri} must have files named {_name(0)} and so on; got {name}; remove it"
            )
        return int(text)


def _name(number: int) -> str:
    return f"{PREFIX}{number:010d}.json"
