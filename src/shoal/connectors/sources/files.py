"""Directories of Parquet, Arrow or CSV files: what is there, and what is added while the run goes on."""

import contextlib
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa

from shoal.connectors.formats.format import FORMATS, Format
from shoal.connectors.sources.file_log import FileLog, SeenFile
from shoal.connectors.sources.source import DRAIN, BadFile, Offset, RawBatch, Slice
from shoal.errors import CheckpointError, ConfigError, SourceError
from shoal.storage.directory import Directory, local_path

SCAN_INTERVAL_S = 0.25
SCAN_SHARE = 0.05
"""Looking for new files may take this share of the time, however many there are."""
SLICE_ROWS = 20_000


@dataclass(frozen=True)
class Files:
    """The files of a directory, each read once, oldest first (by time of change, then name).

    Names that begin with . or _, names with another ending and subdirectories are left alone.
    Write new files under another name and rename them: a file must be whole when it appears, and must not change.
    `rows_per_epoch` and `files_per_epoch` bound what one epoch takes (at least one row group, whatever its size;
    the rows of a CSV file are guessed from its size); without `follow` the stream ends when all files are read.
    `on_bad_file`: "fail" stops the run at a file that cannot be read, that has changed since it was first seen or
    that lacks a column; "dead-letter" records it, with the row from which on it is lost, and goes on.
    """

    path: str
    format: Literal["parquet", "arrow", "csv"] = "parquet"
    rows_per_epoch: int | None = None
    files_per_epoch: int | None = None
    follow: bool = True
    on_bad_file: Literal["fail", "dead-letter"] = "fail"

    def __post_init__(self) -> None:
        """Refuse unknown formats and limits that make no sense; from here on the path is absolute."""
        if self.format not in FORMATS:
            raise ConfigError(f"format of {self.path!r} must be one of {', '.join(FORMATS)}; got {self.format!r}")
        if self.on_bad_file not in ("fail", "dead-letter"):
            raise ConfigError(f"on_bad_file must be 'fail' or 'dead-letter'; got {self.on_bad_file!r}")
        for name in ("rows_per_epoch", "files_per_epoch"):
            limit = getattr(self, name)
            if limit is not None and limit < 1:
                raise ConfigError(f"{name} of {self.path!r} must be at least 1; got {limit}")
        path = local_path(self.path)
        if path is None:
            raise ConfigError(
                f"source directory must be a path or a file:// URI; got {self.path!r}; mount or copy it first"
            )
        object.__setattr__(self, "path", str(Path(path).absolute()))

    def start(self) -> Offset:
        """Before the first file."""
        return {"file": 0, "unit": 0, "ended": False}

    def cursor(self, directory: str) -> "FileCursor":
        """A cursor that notes the files it has seen, in the order it has seen them."""
        return FileCursor(self, Directory(directory))

    def read(self, piece: Slice, columns: Sequence[str]) -> Iterator[RawBatch | BadFile]:
        """The rows of a slice's row groups."""
        for part in piece.data["parts"]:
            yield from self._read_part(part, columns)

    def _read_part(self, part: Mapping[str, Any], columns: Sequence[str]) -> Iterator[RawBatch | BadFile]:
        path, row = part["path"], part["first_row"]
        if part["bad"]:
            yield self._passed_over(path, row, part["bad"])
            return
        try:
            _check_unchanged(part)
            for raw in FORMATS[self.format].read(path, part["units"], row, columns):
                yield raw
                row = max(row, raw.number(raw.batch.num_rows - 1) + 1)
        except (OSError, ValueError, pa.ArrowException) as error:
            yield self._passed_over(path, row, _reason(error))

    def _passed_over(self, path: str, row: int, reason: str) -> BadFile:
        if self.on_bad_file == "fail":
            where = f" from row {row} on" if row else ""
            raise SourceError(
                f"cannot read {path} as {self.format}{where}: {reason}; "
                "repair it and start again, or set on_bad_file='dead-letter' to pass over such files"
            )
        return BadFile(f"{path}, from row {row} on" if row else path, reason)


class FileCursor:
    """Notes files in a durable log, so that a position means the same rows after a restart."""

    def __init__(self, files: Files, directory: Directory, clock: Callable[[], float] = time.monotonic) -> None:
        """Read the log of an earlier run, if there is one."""
        self._files = files
        self._directory = directory
        self._clock = clock
        self._scan_at_s = float("-inf")
        self._log = FileLog(directory)
        self._known = {seen.path for seen in self._log.seen}
        self._looked_again = False

    def latest(self, start: Offset) -> Offset:
        """As many units as one epoch may take, and whether they are the last."""
        if start["ended"]:
            return start
        self._check_log(start)
        self._look_again(start)
        if self._directory.exists(DRAIN):
            return {**start, "ended": True}
        self._scan()
        file, unit = self._limit(start["file"], start["unit"])
        return {"file": file, "unit": unit, "ended": not self._files.follow and file >= len(self._log.seen)}

    def slices(self, start: Offset, end: Offset, parallelism: int) -> Sequence[Slice]:
        """The units between two offsets, dealt out in contiguous runs of about equal rows."""
        self._look_again(start)
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

    def _look_again(self, start: Offset) -> None:
        """After a restart: files of which nothing has been read may have been repaired meanwhile."""
        if self._looked_again:
            return
        self._looked_again = True
        changed = {}
        for number in range(start["file"] + bool(start["unit"]), len(self._log.seen)):
            seen = self._log.seen[number]
            with contextlib.suppress(OSError):
                status = Path(seen.path).stat()
                if seen.bad or (status.st_size, status.st_mtime_ns) != (seen.size, seen.changed_ns):
                    changed[number] = _probe(FORMATS[self._files.format], seen.path, status)
        self._log.replace(changed)

    def _scan(self) -> None:
        began_s = self._clock()
        if began_s < self._scan_at_s:
            return
        fresh = self._fresh()
        if fresh:
            self._known.update(seen.path for seen in fresh)
            self._log.note(fresh)
        took_s = self._clock() - began_s
        self._scan_at_s = began_s + took_s + max(SCAN_INTERVAL_S, took_s / SCAN_SHARE)

    def _fresh(self) -> list[SeenFile]:
        """Files not seen before, in the order they are to be read."""
        suffixes = FORMATS[self._files.format].suffixes
        found: list[tuple[int, str, os.stat_result]] = []
        foreign: list[str] = []
        try:
            with os.scandir(self._files.path) as entries:
                for entry in entries:
                    if entry.name[0] in "._" or entry.path in self._known or not entry.is_file():
                        continue
                    if not entry.name.endswith(suffixes):
                        foreign.append(entry.name)
                    elif (status := _status(entry)) is not None:
                        found.append((status.st_mtime_ns, entry.name, status))
        except OSError as error:
            raise SourceError(
                f"source directory {self._files.path} must be a directory that can be read; got: {_reason(error)}"
            ) from error
        if not (found or self._known or self._files.follow) and foreign:
            raise SourceError(
                f"source directory {self._files.path} has no file whose name ends in {' or '.join(suffixes)}; "
                f"it has {len(foreign)} others, like {min(foreign)}"
            )
        found.sort(key=lambda file: file[:2])
        format_ = FORMATS[self._files.format]
        return [_probe(format_, f"{self._files.path}/{name}", status) for _, name, status in found]

    def _limit(self, file: int, unit: int) -> tuple[int, int]:
        """The position after as many units as one epoch may take."""
        rows, files, seen = 0, 0, self._log.seen
        most_rows = self._files.rows_per_epoch or float("inf")
        most_files = self._files.files_per_epoch or float("inf")
        while file < len(seen) and rows < most_rows and files < most_files:
            units = seen[file].units
            while unit < len(units) and (rows == 0 or rows + units[unit] <= most_rows):
                rows += units[unit]
                unit += 1
            if unit < len(units):
                break
            file, unit, files = file + 1, 0, files + 1
        return file, unit

    def _check_log(self, offset: Offset) -> None:
        """A position counts files by the log; a log that is too short would give it another meaning."""
        if offset["file"] > len(self._log.seen):
            raise CheckpointError(
                f"file log in {self._directory.uri} must name at least {offset['file']} files; "
                f"got {len(self._log.seen)}; it does not belong to this checkpoint, or files of it are gone"
            )

    def _units(self, start: Offset, end: Offset) -> Iterator[dict[str, Any]]:
        self._check_log(end)
        seen = self._log.seen
        for number in range(start["file"], min(end["file"] + 1, len(seen))):
            units = seen[number].units
            first = start["unit"] if number == start["file"] else 0
            last = min(end["unit"], len(units)) if number == end["file"] else len(units)
            before = list(accumulate(units, initial=0))
            for unit in range(first, last):
                yield {"seen": seen[number], "unit": unit, "rows": units[unit], "first_row": before[unit]}


def _slice(units: Sequence[Mapping[str, Any]]) -> Slice:
    """Neighbouring units of one file are read in one go."""
    parts: list[dict[str, Any]] = []
    for unit in units:
        seen: SeenFile = unit["seen"]
        if parts and parts[-1]["path"] == seen.path:
            parts[-1]["units"].append(unit["unit"])
        else:
            part = {"path": seen.path, "size": seen.size, "changed_ns": seen.changed_ns, "bad": seen.bad}
            parts.append({**part, "first_row": unit["first_row"], "units": [unit["unit"]]})
    place = f"{parts[0]['path']} to {parts[-1]['path']}" if parts else "nothing"
    return Slice(place, sum(unit["rows"] for unit in units), {"parts": parts})


def _status(entry: "os.DirEntry[str]") -> os.stat_result | None:
    """Size and time of a file, unless it has just been removed."""
    try:
        return entry.stat()
    except FileNotFoundError:
        return None


def _probe(format_: Format, path: str, status: os.stat_result) -> SeenFile:
    """Look into a file once; a broken one counts as a single unit without rows."""
    bad = "" if status.st_size else "it is empty (0 bytes)"
    units: Sequence[int] = ()
    try:
        units = () if bad else format_.units(path)
    except (OSError, ValueError, pa.ArrowException) as error:
        bad = _reason(error)
    return SeenFile(path, status.st_size, status.st_mtime_ns, tuple(units) or (0,), bad)


def _check_unchanged(part: Mapping[str, Any]) -> None:
    now = Path(part["path"]).stat()
    if now.st_size != part["size"]:
        raise ValueError(
            f"it had {part['size']} bytes when it was first seen and has {now.st_size} now; files must not change"
        )
    if now.st_mtime_ns != part["changed_ns"]:
        raise ValueError("it was written again after it was first seen; files must not change")


def _reason(error: Exception) -> str:
    """An error's text as the middle of a sentence, in one line."""
    if isinstance(error, OSError) and error.errno is not None:
        return "it is gone" if isinstance(error, FileNotFoundError) else os.strerror(error.errno).lower()
    text = " ".join(str(error).split()).rstrip(".")
    return text[:1].lower() + text[1:]
