"""Directories of Parquet, Arrow or CSV files: what is there, and what is added while the run goes on."""

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from shoal.connectors.directory import Directory
from shoal.connectors.formats import FORMATS, Format
from shoal.connectors.source import DRAIN, BadFile, Offset, RawBatch, Slice
from shoal.errors import ConfigError, SourceError

SCAN_INTERVAL_S = 0.25
SLICE_ROWS = 20_000


@dataclass(frozen=True)
class Files:
    """The files of a directory, oldest first, each read once; names beginning with . or _ are left alone.

    Write new files under another name and rename them: a file must be whole when it appears.
    `rows_per_epoch` and `files_per_epoch` bound what one epoch takes (at least one row group, whatever its size);
    without `follow` the stream ends when all files are read.
    `on_bad_file`: "fail" stops the run at a file that cannot be read, "dead-letter" records it and goes on.
    """

    path: str
    format: Literal["parquet", "arrow", "csv"] = "parquet"
    rows_per_epoch: int | None = None
    files_per_epoch: int | None = None
    follow: bool = True
    on_bad_file: Literal["fail", "dead-letter"] = "fail"

    def __post_init__(self) -> None:
        """Refuse unknown formats and limits that make no sense."""
        if self.format not in FORMATS:
            raise ConfigError(f"format of {self.path!r} must be one of {', '.join(FORMATS)}; got {self.format!r}")
        if self.on_bad_file not in ("fail", "dead-letter"):
            raise ConfigError(f"on_bad_file must be 'fail' or 'dead-letter'; got {self.on_bad_file!r}")
        for name in ("rows_per_epoch", "files_per_epoch"):
            limit = getattr(self, name)
            if limit is not None and limit < 1:
                raise ConfigError(f"{name} of {self.path!r} must be at least 1; got {limit}")

    def start(self) -> Offset:
        """Before the first file."""
        return {"file": 0, "unit": 0, "ended": False}

    def cursor(self, directory: str) -> "FileCursor":
        """A cursor that notes the files it has seen, in the order it has seen them."""
        return FileCursor(self, Directory(directory))

    def read(self, piece: Slice, columns: Sequence[str]) -> Iterator[RawBatch | BadFile]:
        """The rows of a slice's row groups."""
        reader = FORMATS[self.format]
        for part in piece.data["parts"]:
            path = part["path"]
            if part["bad"]:
                yield self._passed_over(path, part["bad"])
                continue
            try:
                _check_unchanged(path, part["size"])
                first_row = part["first_row"]
                for batch in reader.read(path, part["units"], columns):
                    yield RawBatch(batch, path, first_row)
                    first_row += batch.num_rows
            except (OSError, ValueError) as error:
                yield self._passed_over(path, str(error))

    def _passed_over(self, path: str, reason: str) -> BadFile:
        if self.on_bad_file == "fail":
            raise SourceError(
                f"cannot read {path} as {self.format}: {reason}; "
                "repair or remove it and start again, or set on_bad_file='dead-letter' to pass over such files"
            )
        return BadFile(path, reason)


@dataclass(frozen=True)
class SeenFile:
    """A file as it was when it was first seen: rows per unit (row group, record batch or whole file)."""

    path: str
    size: int
    units: tuple[int, ...]
    bad: str = ""


class FileCursor:
    """Notes files in a durable log, so that a position means the same rows after a restart."""

    def __init__(self, files: Files, directory: Directory) -> None:
        """Read the log of an earlier run, if there is one."""
        self._files = files
        self._directory = directory
        self._seen: list[SeenFile] = []
        self._scanned_at = float("-inf")
        for name in directory.names():
            if name.startswith("files-"):
                entries = json.loads(directory.read(name))
                self._seen += [SeenFile(e["path"], e["size"], tuple(e["units"]), e["bad"]) for e in entries]
        self._known = {seen.path for seen in self._seen}

    def latest(self, start: Offset) -> Offset:
        """As many units as one epoch may take, and whether they are the last."""
        if start["ended"]:
            return start
        if self._directory.exists(DRAIN):
            return {**start, "ended": True}
        self._scan()
        file, unit = self._limit(start["file"], start["unit"])
        return {"file": file, "unit": unit, "ended": not self._files.follow and file >= len(self._seen)}

    def slices(self, start: Offset, end: Offset, parallelism: int) -> Sequence[Slice]:
        """The units between two offsets, dealt out in contiguous runs of about equal rows."""
        units = list(self._units(start, end))
        rows = sum(unit["rows"] for unit in units)
        pieces = min(parallelism, len(units), max(1, rows // SLICE_ROWS))
        if pieces <= 1:
            return [_slice(units)]
        share, taken = rows / pieces, 0.0
        runs: list[list[dict[str, Any]]] = [[] for _ in range(pieces)]
        for unit in units:
            runs[min(pieces - 1, int((taken + unit["rows"] / 2) / share))].append(unit)
            taken += unit["rows"]
        return [_slice(run) for run in runs if run]

    def _scan(self) -> None:
        now = time.monotonic()
        if now - self._scanned_at < SCAN_INTERVAL_S:
            return
        self._scanned_at = now
        root = Path(self._files.path)
        if not root.is_dir():
            raise SourceError(f"source directory {self._files.path} does not exist or is not a directory")
        suffixes = FORMATS[self._files.format].suffixes
        fresh = [
            entry
            for entry in root.iterdir()
            if entry.name[0] not in "._" and entry.suffix in suffixes and str(entry) not in self._known
        ]
        fresh.sort(key=lambda entry: (entry.stat().st_mtime_ns, entry.name))
        if fresh:
            self._note([_probe(FORMATS[self._files.format], entry) for entry in fresh])

    def _note(self, fresh: list[SeenFile]) -> None:
        content = json.dumps([asdict(seen) for seen in fresh]).encode()
        self._directory.write(f"files-{len(self._seen):010d}.json", content)
        self._seen += fresh
        self._known.update(seen.path for seen in fresh)

    def _limit(self, file: int, unit: int) -> tuple[int, int]:
        """The position after as many units as one epoch may take."""
        rows, files = 0, 0
        most_rows = self._files.rows_per_epoch or float("inf")
        most_files = self._files.files_per_epoch or float("inf")
        while file < len(self._seen) and rows < most_rows and files < most_files:
            units = self._seen[file].units
            while unit < len(units) and (rows == 0 or rows + units[unit] <= most_rows):
                rows += units[unit]
                unit += 1
            if unit < len(units):
                break
            file, unit, files = file + 1, 0, files + 1
        return file, unit

    def _units(self, start: Offset, end: Offset) -> Iterator[dict[str, Any]]:
        for number in range(start["file"], min(end["file"] + 1, len(self._seen))):
            seen = self._seen[number]
            first = start["unit"] if number == start["file"] else 0
            last = end["unit"] if number == end["file"] else len(seen.units)
            for unit in range(first, last):
                before = sum(seen.units[:unit])
                yield {"seen": seen, "unit": unit, "rows": seen.units[unit], "first_row": before}


def _slice(units: Sequence[Mapping[str, Any]]) -> Slice:
    """Neighbouring units of one file are read in one go."""
    parts: list[dict[str, Any]] = []
    for unit in units:
        seen: SeenFile = unit["seen"]
        if parts and parts[-1]["path"] == seen.path:
            parts[-1]["units"].append(unit["unit"])
        else:
            part = {"path": seen.path, "size": seen.size, "bad": seen.bad, "first_row": unit["first_row"]}
            parts.append({**part, "units": [unit["unit"]]})
    place = f"{parts[0]['path']} to {parts[-1]['path']}" if parts else "nothing"
    return Slice(place, sum(unit["rows"] for unit in units), {"parts": parts})


def _probe(format_: Format, path: Path) -> SeenFile:
    """Look into a file once; a broken one counts as a single unit without rows."""
    size = path.stat().st_size
    try:
        return SeenFile(str(path), size, tuple(format_.units(str(path))) or (0,))
    except (OSError, ValueError) as error:
        return SeenFile(str(path), size, (0,), str(error))


def _check_unchanged(path: str, size: int) -> None:
    now = Path(path).stat().st_size
    if now != size:
        raise ValueError(f"it had {size} bytes when it was first seen and has {now} now; files must not change")
