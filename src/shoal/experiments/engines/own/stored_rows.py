"""Streams whose rows are pushed by a caller, as files: Spark reads its sources in processes of their own."""

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import ClassVar

import pyarrow as pa

from shoal.connectors.sources.source import Offset, RawBatch, Slice
from shoal.experiments.engines.own.pushed_rows import Inbox

END = "end"
"""The file that says how many files there are, when no more will come."""
READ = "read"
"""The file with the number of files that the run has read."""
SUFFIX = ".arrow"
AHEAD_FILES = 20
"""Files that may wait before no more are written."""
POLL_S = 0.02
WAIT_S = 0.5


@dataclass(frozen=True)
class StoredRows:
    """A source of the Arrow files that a `RowWriter` puts into a directory, in order of their numbers."""

    live: ClassVar[bool] = True

    directory: str
    rows_per_epoch: int = 1_000_000

    @property
    def place(self) -> str:
        """What row numbers count in, for people."""
        return f"stream {Path(self.directory).name}"

    def start(self) -> Offset:
        """Before the first file."""
        return {"file": 0, "ended": False}

    def cursor(self, directory: str) -> "StoredCursor":  # noqa: ARG002  (the files are what must survive)
        """A cursor over the files."""
        return StoredCursor(self)

    def read(self, piece: Slice, columns: Sequence[str]) -> Iterator[RawBatch]:
        """The rows of some files."""
        for name, first_row in piece.data["files"]:
            with pa.memory_map(str(Path(self.directory) / name)) as file:
                table = pa.ipc.open_file(file).read_all().select(list(columns))
            row = first_row
            for batch in table.to_batches():
                yield RawBatch(batch, self.place, row)
                row += batch.num_rows


class StoredCursor:
    """Counts the files that are there."""

    def __init__(self, source: StoredRows) -> None:
        """Nothing read yet."""
        self._directory = Path(source.directory)
        self._limit = source.rows_per_epoch
        self._place = source.place
        self._files: list[tuple[str, int, int]] = []

    def latest(self, start: Offset) -> Offset:
        """The end of the files that one epoch may read; the writer learns how far the run has come."""
        if start["ended"]:
            return start
        _replace(self._directory / READ, str(start["file"]))
        end = self._directory / END
        last = int(end.read_text()) if end.exists() else None
        self._list()
        stop, rows = start["file"], 0
        while stop < len(self._files) and (not rows or rows + self._files[stop][1] <= self._limit):
            rows, stop = rows + self._files[stop][1], stop + 1
        return {"file": stop, "ended": stop == last}

    def slices(self, start: Offset, end: Offset, parallelism: int) -> Sequence[Slice]:
        """Contiguous runs of files."""
        self._list()
        files = self._files[start["file"] : end["file"]]
        number = max(1, min(parallelism, len(files)))
        cuts = [len(files) * n // number for n in range(number + 1)]
        return [self._slice(files[a:b]) for a, b in pairwise(cuts)]

    def _slice(self, files: Sequence[tuple[str, int, int]]) -> Slice:
        listed = [[name, first_row] for name, _, first_row in files]
        return Slice(self._place, sum(rows for _, rows, _ in files), {"files": listed})

    def _list(self) -> None:
        """Learn of files that have been written; a name has the number of a file and that of its rows."""
        names = sorted(each.name for each in self._directory.glob(f"*{SUFFIX}"))
        for name in names[len(self._files) :]:
            rows = int(name.removesuffix(SUFFIX).partition("-")[2])
            before = self._files[-1] if self._files else ("", 0, 0)
            self._files.append((name, rows, before[2] + before[1]))


class RowWriter:
    """Writes what comes to an inbox as files, on a thread; it waits when the run is behind."""

    def __init__(self, inbox: Inbox, directory: Path) -> None:
        """Create the directory and start."""
        directory.mkdir(parents=True)
        self._inbox, self._directory = inbox, directory
        self._number = 0
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._write, name=f"shoal-rows-{inbox.stream}", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop writing; the inbox must have been closed or ended."""
        self._closing.set()
        self._inbox.close()
        self._thread.join()

    def _write(self) -> None:
        ended = False
        while not ended and not self._inbox.closed:
            if self._number - self._read() > AHEAD_FILES:
                self._closing.wait(POLL_S)
            elif self._inbox.waited(WAIT_S):
                batches, ended = self._inbox.taken()
                if batches:
                    self._put(pa.Table.from_batches(batches))
        if ended:
            _replace(self._directory / END, str(self._number))

    def _put(self, rows: pa.Table) -> None:
        path = self._directory / f"{self._number:09}-{rows.num_rows}{SUFFIX}"
        hidden = path.with_suffix(".part")
        with pa.OSFile(str(hidden), "wb") as file, pa.ipc.new_file(file, rows.schema) as writer:
            writer.write_table(rows)
        hidden.rename(path)
        self._number += 1

    def _read(self) -> int:
        read = self._directory / READ
        return int(read.read_text()) if read.exists() else 0


def _replace(path: Path, text: str) -> None:
    """Write a file that always has one text or another."""
    hidden = path.with_name(f"{path.name}.part")
    hidden.write_text(text)
    hidden.rename(path)
