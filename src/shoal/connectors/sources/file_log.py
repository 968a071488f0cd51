"""The file log: which files a source has seen, in which order, so that a position means the same after a restart."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from shoal.errors import CheckpointError
from shoal.storage.codec import Codec
from shoal.storage.directory import Directory
from shoal.storage.record import Record

PREFIX = "files-"
MERGED_ENTRIES = 256
"""So many log entries are merged into one, so that a run of months leaves no millions of them."""


@dataclass(frozen=True)
class SeenFile:
    """A file as it was when it was first seen: rows per unit (row group, record batch or whole file)."""

    path: str
    size: int
    changed_ns: int
    units: tuple[int, ...]
    bad: str = ""


@dataclass(frozen=True)
class SeenFiles:
    """One entry of the log: files in the order in which they were seen."""

    files: tuple[SeenFile, ...]


FORMAT = 2
RECORD = Record(Codec([SeenFiles], format=FORMAT), subject="file log")


class FileLog:
    """Grows by whole entries; each is named by the number of files noted before it.

    An entry may repeat files that others hold, after a crash in the middle of merging: the numbers tell.
    """

    def __init__(self, directory: Directory) -> None:
        """Read what is there."""
        self.seen: list[SeenFile] = []
        self._directory = directory
        self._entries: list[int] = []
        for name in directory.names():
            if name.startswith(PREFIX):
                self._load(name)

    def note(self, fresh: Sequence[SeenFile]) -> None:
        """Add files for good."""
        self._entries.append(len(self.seen))
        self._write(len(self.seen), fresh)
        self.seen += fresh
        if len(self._entries) > MERGED_ENTRIES:
            self._merge()

    def replace(self, changed: Mapping[int, SeenFile]) -> None:
        """Note files of an earlier run anew, each in its old place."""
        for number, file in changed.items():
            self.seen[number] = file
        if changed:
            self._merge()

    def _merge(self) -> None:
        """All entries of late as one, written before the others go."""
        first, *others = self._entries
        self._write(first, self.seen[first:])
        self._directory.delete(_name(number) for number in others)
        self._entries = []

    def _write(self, number: int, files: Sequence[SeenFile]) -> None:
        self._directory.write(_name(number), RECORD.encode(SeenFiles(tuple(files))))

    def _load(self, name: str) -> None:
        number = self._number(name)
        files = RECORD.decode(self._directory.read(name), f"{self._directory.uri}/{name}").files
        if number > len(self.seen):
            raise CheckpointError(
                f"file log {self._directory.uri} must go on with file {len(self.seen)}; got {name}; "
                "restore the missing entry from a copy, or start anew with another checkpoint directory"
            )
        self.seen += files[len(self.seen) - number :]
        self._entries.append(number)

    def _number(self, name: str) -> int:
        """How many files were noted before an entry."""
        text = name.removeprefix(PREFIX).removesuffix(".json")
        if not text.isdecimal():
            raise CheckpointError(
                f"file log {self._directory.uri} must have files named {_name(0)} and so on; got {name}; remove it"
            )
        return int(text)


def _name(number: int) -> str:
    return f"{PREFIX}{number:010d}.json"
