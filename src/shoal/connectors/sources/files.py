"""Directories of Parquet, Arrow or CSV files: those that exist, and those added during the run."""

import contextlib
import os
import re
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import Path
from typing import Any, Literal, get_args

import pyarrow as pa

from shoal.connectors.formats.conversion import TimeUnit
from shoal.connectors.formats.format import FORMATS, Format
from shoal.connectors.sources.file_log import FileLog, LoggedFile
from shoal.connectors.sources.source import DRAIN, BadFile, Offset, RawBatch, Slice, Wanted
from shoal.errors import CheckpointError, ConfigError, SourceError
from shoal.storage.directory import Directory, local_path

SCAN_INTERVAL_S = 0.25
SCAN_SHARE = 0.05
"""Scanning for new files takes at most this share of the time, whatever their number."""
SLICE_ROWS = 20_000
ROWS_PER_EPOCH = 1_000_000
OTHER_FILES = "(other)"
"""The partition of files whose names the pattern of partitions does not match."""


@dataclass(frozen=True)
class Files:
    """The files of a directory, each read once, oldest first (by time of change, then name), each from its first row.

    Names that begin with . or _, names with another suffix and subdirectories are ignored.
    Write a new file under another name, then rename it: a file must be complete when it appears, and must not change.
    One that changes after it was read is reported by a dead letter; what is new in it is not read.
    `rows_per_epoch` and `files_per_epoch` bound the input of one epoch (at least one row group, of any size;
    the rows of a CSV file are estimated from its size); None means all files there are. Watermarks advance where an
    epoch's input ends, on every runtime, so rows of the same epoch are not late by each other, in any order. Without
    `follow` the stream ends when all files are read.
    `partition`: a regular expression that divides the files by their names, for example `^(sensor-[0-9]+)`: those with
    the same text in its first group, or in all of it, are a partition with its own watermark. The watermark of the
    stream is the smallest of them.
    `on_bad_file`: "fail" stops the run at a file that cannot be read, that has changed since it was found or
    that lacks a column; "dead-letter" records it, with its first lost row, and continues.
    `time_unit`: what whole numbers in a column of times count since 1970: "s", "ms", "us" or "ns". Without it they are
    microseconds, and numbers that would then be times in 1970 are refused.
    """

    path: str
    format: Literal["parquet", "arrow", "csv"] = "parquet"
    rows_per_epoch: int | None = ROWS_PER_EPOCH
    files_per_epoch: int | None = None
    follow: bool = True
    on_bad_file: Literal["fail", "dead-letter"] = "fail"
    time_unit: TimeUnit | None = None
    partition: str | None = None

    def __post_init__(self) -> None:
        """Reject unknown formats and limits below 1; make the path absolute."""
        if self.format not in FORMATS:
            raise ConfigError(f"format of {self.path!r} must be one of {', '.join(FORMATS)}; got {self.format!r}")
        if self.on_bad_file not in ("fail", "dead-letter"):
            raise ConfigError(f"on_bad_file must be 'fail' or 'dead-letter'; got {self.on_bad_file!r}")
        if self.time_unit not in (None, *get_args(TimeUnit)):
            units = ", ".join(get_args(TimeUnit))
            raise ConfigError(f"time_unit of {self.path!r} must be one of {units}; got {self.time_unit!r}")
        for name in ("rows_per_epoch", "files_per_epoch"):
            limit = getattr(self, name)
            if limit is not None and limit < 1:
                raise ConfigError(f"{name} of {self.path!r} must be at least 1; got {limit}")
        try:
            re.compile(self.partition or "")
        except re.error as error:
            raise ConfigError(
                f"partition of {self.path!r} must be a regular expression; got {self.partition!r}: {error}"
            ) from error
        path = local_path(self.path)
        if path is None:
            raise ConfigError(
                f"source directory must be a path or a file:// URI; got {self.path!r}; mount or copy it first"
            )
        object.__setattr__(self, "path", str(Path(path).absolute()))

    def check(self) -> None:
        """Reject a directory that does not exist, or is a file; called before a run starts."""
        path = Path(self.path)
        if not path.is_dir():
            fault = "is a file; name its directory" if path.exists() else "does not exist"
            raise SourceError(f"source directory {path} {fault}")

    def start(self) -> Offset:
        """Before the first file."""
        start = {"file": 0, "unit": 0, "ended": False}
        return start if self.partition is None else {**start, "open": []}

    def partition_of(self, path: str) -> str:
        """The partition that a file belongs to; empty if the files are not divided."""
        if self.partition is None:
            return ""
        found = re.search(self.partition, Path(path).name)
        return (found and found[found.re.groups and 1]) or OTHER_FILES

    def cursor(self, directory: str) -> "FileCursor":
        """A cursor that logs the files it finds, in order."""
        return FileCursor(self, Directory(directory))

    def read(self, piece: Slice, columns: Sequence[str]) -> Iterator[RawBatch | BadFile]:
        """The rows of a slice's row groups."""
        return self.read_wanted(piece, Wanted(tuple(columns), pa.schema([])))

    def read_wanted(self, piece: Slice, wanted: Wanted) -> Iterator[RawBatch | BadFile]:
        """The same, with the columns that are only checked where the file's types do not make them fit."""
        for part in piece.data["parts"]:
            yield from self._read_part(part, wanted)

    def _read_part(self, part: Mapping[str, Any], wanted: Wanted) -> Iterator[RawBatch | BadFile]:
        path, row = part["path"], part["first_row"]
        if part["bad"]:
            yield BadFile(path, part["bad"]) if part["again"] else self._skipped(path, row, part["bad"])
            return
        try:
            _check_unchanged(part)
            for raw in FORMATS[self.format].read(path, part["units"], row, wanted):
                yield replace(raw, time_unit=self.time_unit)
                row = max(row, raw.number(raw.batch.num_rows - 1) + 1)
        except (OSError, ValueError, pa.ArrowException) as error:
            yield self._skipped(path, row, _reason(error))

    def _skipped(self, path: str, row: int, reason: str) -> BadFile:
        if self.on_bad_file == "fail":
            where = f" from row {row} on" if row else ""
            raise SourceError(
                f"cannot read {path} as {self.format}{where}: {reason}; "
                "repair it and start again, or set on_bad_file='dead-letter' to skip such files"
            )
        return BadFile(f"{path}, from row {row} on" if row else path, reason)


class FileCursor:
    """Logs files durably, so that a position means the same rows after a restart."""

    def __init__(self, files: Files, directory: Directory, clock: Callable[[], float] = time.monotonic) -> None:
        """Read the log of an earlier run, if any."""
        self._files = files
        self._directory = directory
        self._clock = clock
        self._scan_at_s = float("-inf")
        self._log = FileLog(directory)
        self._known = {file.path: file for file in self._log.files}
        self._rechecked = False
        self._partitions: set[str] = set()
        self._divided = 0

    def latest(self, start: Offset) -> Offset:
        """The end of the units that one epoch may read, and whether they are the last."""
        if start["ended"]:
            return start
        self._check_log(start)
        self._recheck(start)
        if self._directory.exists(DRAIN):
            return {**start, "ended": True}
        self._scan(start["file"])
        file, unit = self._limit(start["file"], start["unit"])
        end = {"file": file, "unit": unit, "ended": not self._files.follow and file >= len(self._log.files)}
        return end if self._files.partition is None else {**end, "open": self._open_partitions(file)}

    def _open_partitions(self, file: int) -> list[str]:
        """The partitions that may have more rows: all known ones, or without `follow` those of files to be read."""
        logged = self._log.files
        if not self._files.follow:
            return sorted({self._files.partition_of(each.path) for each in logged[file:]})
        self._partitions |= {self._files.partition_of(each.path) for each in logged[self._divided :]}
        self._divided = len(logged)
        return sorted(self._partitions)

    def slices(self, start: Offset, end: Offset, parallelism: int) -> Sequence[Slice]:
        """The units between two offsets, in contiguous runs of about equal rows."""
        self._recheck(start)
        divided: dict[str, list[dict[str, Any]]] = {}
        for unit in self._units(start, end):
            divided.setdefault(self._files.partition_of(unit["logged"].path), []).append(unit)
        if len(divided) <= 1:
            [(partition, units)] = (divided or {"": []}).items()
            return self._cut(partition, units, parallelism)
        each = max(1, parallelism // len(divided))
        return [piece for partition, units in divided.items() for piece in self._cut(partition, units, each)]

    def expected(self, start: Offset, parallelism: int) -> Sequence[Slice]:
        """What one epoch may read of the files that are logged; the next scan may find more for it."""
        file, unit = self._limit(start["file"], start["unit"])
        if start["ended"] or (file, unit) == (start["file"], start["unit"]) or self._directory.exists(DRAIN):
            return ()
        return self.slices(start, {**start, "file": file, "unit": unit}, parallelism)

    def _cut(self, partition: str, units: Sequence[dict[str, Any]], parallelism: int) -> list[Slice]:
        """Units of one partition in contiguous runs of about equal rows."""
        rows = sum(unit["rows"] for unit in units)
        pieces = min(parallelism, len(units), max(1, rows // SLICE_ROWS))
        if pieces <= 1:
            return [_slice(units, partition)]
        share, taken = rows / pieces, 0.0
        runs: list[list[dict[str, Any]]] = [[] for _ in range(pieces)]
        for unit in units:
            runs[min(pieces - 1, int((taken + unit["rows"] / 2) / share))].append(unit)
            taken += unit["rows"]
        return [_slice(run, partition) for run in runs if run]

    def _recheck(self, start: Offset) -> None:
        """After a restart, probe changed files that have not been read: they may have been repaired."""
        if self._rechecked:
            return
        self._rechecked = True
        changed = {}
        for number in range(start["file"] + bool(start["unit"]), len(self._log.files)):
            logged = self._log.files[number]
            with contextlib.suppress(OSError):
                status = Path(logged.path).stat()
                current = (status.st_size, status.st_mtime_ns) == (logged.size, logged.changed_ns)
                if not logged.again and (logged.bad or not current):
                    changed[number] = _probe(FORMATS[self._files.format], logged.path, status)
        self._log.replace(changed)

    def _scan(self, read: int) -> None:
        """Log new files, and those of the first `read` files of the log that have changed since."""
        began_s = self._clock()
        if began_s < self._scan_at_s:
            return
        fresh = self._fresh({file.path for file in self._log.files[:read]})
        if fresh:
            self._known.update({file.path: file for file in fresh})
            self._log.append(fresh)
        took_s = self._clock() - began_s
        self._scan_at_s = began_s + took_s + max(SCAN_INTERVAL_S, took_s / SCAN_SHARE)

    def _fresh(self, read: Collection[str]) -> list[LoggedFile]:
        """New files, in the order in which they will be read, and then files that have changed after they were read."""
        suffixes = FORMATS[self._files.format].suffixes
        found: list[tuple[int, str, os.stat_result]] = []
        foreign: list[str] = []
        changed: list[LoggedFile] = []
        try:
            with os.scandir(self._files.path) as entries:
                for entry in entries:
                    if entry.name[0] in "._" or not entry.is_file():
                        continue
                    if (known := self._known.get(entry.path)) is not None:
                        if entry.path in read and not known.again and (status := _status(entry)) is not None:
                            changed += _changed(known, status)
                        continue
                    if not entry.name.endswith(suffixes):
                        foreign.append(entry.name)
                    elif (status := _status(entry)) is not None:
                        found.append((status.st_mtime_ns, entry.name, status))
        except OSError as error:
            raise SourceError(
                f"source directory {self._files.path} must be a readable directory; got: {_reason(error)}"
            ) from error
        if not (found or self._known or self._files.follow) and foreign:
            raise SourceError(
                f"source directory {self._files.path} has no file whose name ends in {' or '.join(suffixes)}; "
                f"it has {len(foreign)} of other names, for example {min(foreign)}"
            )
        found.sort(key=lambda file: file[:2])
        format_ = FORMATS[self._files.format]
        return [*(_probe(format_, f"{self._files.path}/{name}", status) for _, name, status in found), *changed]

    def _limit(self, file: int, unit: int) -> tuple[int, int]:
        """The position after the units that one epoch may read."""
        rows, files, logged = 0, 0, self._log.files
        most_rows = self._files.rows_per_epoch or float("inf")
        most_files = self._files.files_per_epoch or float("inf")
        while file < len(logged) and rows < most_rows and files < most_files:
            units = logged[file].units
            while unit < len(units) and (rows == 0 or rows + units[unit] <= most_rows):
                rows += units[unit]
                unit += 1
            if unit < len(units):
                break
            file, unit, files = file + 1, 0, files + 1
        return file, unit

    def _check_log(self, offset: Offset) -> None:
        """Reject a log that is shorter than a position: the position would mean other rows."""
        if offset["file"] > len(self._log.files):
            raise CheckpointError(
                f"file log in {self._directory.uri} must name at least {offset['file']} files; "
                f"got {len(self._log.files)}; it does not belong to this checkpoint, or some of its files are missing"
            )

    def _units(self, start: Offset, end: Offset) -> Iterator[dict[str, Any]]:
        self._check_log(end)
        logged = self._log.files
        for number in range(start["file"], min(end["file"] + 1, len(logged))):
            units = logged[number].units
            first = start["unit"] if number == start["file"] else 0
            last = min(end["unit"], len(units)) if number == end["file"] else len(units)
            before = list(accumulate(units, initial=0))
            for unit in range(first, last):
                yield {"logged": logged[number], "unit": unit, "rows": units[unit], "first_row": before[unit]}


def _slice(units: Sequence[Mapping[str, Any]], partition: str) -> Slice:
    """A slice of the units; neighbouring units of one file are read at once."""
    parts: list[dict[str, Any]] = []
    for unit in units:
        logged: LoggedFile = unit["logged"]
        if parts and (parts[-1]["path"], parts[-1]["again"]) == (logged.path, logged.again):
            parts[-1]["units"].append(unit["unit"])
        else:
            part = {"path": logged.path, "size": logged.size, "changed_ns": logged.changed_ns, "bad": logged.bad}
            own = {"again": logged.again, "first_row": unit["first_row"], "units": [unit["unit"]]}
            parts.append({**part, **own})
    where = f"{parts[0]['path']} to {parts[-1]['path']}" if parts else "nothing"
    return Slice(where, sum(unit["rows"] for unit in units), {"parts": parts}, partition)


def _status(entry: "os.DirEntry[str]") -> os.stat_result | None:
    """Size and time of a file, unless it has just been removed."""
    try:
        return entry.stat()
    except FileNotFoundError:
        return None


def _probe(format_: Format, path: str, status: os.stat_result) -> LoggedFile:
    """Read the units of a file; a broken file counts as a single unit without rows."""
    bad = "" if status.st_size else "it is empty (0 bytes)"
    units: Sequence[int] = ()
    try:
        units = () if bad else format_.units(path)
    except (OSError, ValueError, pa.ArrowException) as error:
        bad = _reason(error)
    return LoggedFile(path, status.st_size, status.st_mtime_ns, tuple(units) or (0,), bad)


def _changed(known: LoggedFile, status: os.stat_result) -> list[LoggedFile]:
    """An entry of the log that reports a file which has changed after it was read; none if it has not."""
    if (status.st_size, status.st_mtime_ns) == (known.size, known.changed_ns):
        return []
    how = f"had {known.size} bytes and has {status.st_size}" if status.st_size != known.size else "was written again"
    reason = f"it {how} after it was read; what is new in it is not read, since files must not change"
    return [LoggedFile(known.path, status.st_size, status.st_mtime_ns, (0,), reason, again=True)]


def _check_unchanged(part: Mapping[str, Any]) -> None:
    now = Path(part["path"]).stat()
    if now.st_size != part["size"]:
        raise ValueError(
            f"it had {part['size']} bytes when it was found and has {now.st_size} now; files must not change"
        )
    if now.st_mtime_ns != part["changed_ns"]:
        raise ValueError("it was written again after it was found; files must not change")


def _reason(error: Exception) -> str:
    """An error's text for the middle of a sentence, in one line."""
    if isinstance(error, OSError) and error.errno is not None:
        return "it no longer exists" if isinstance(error, FileNotFoundError) else os.strerror(error.errno).lower()
    text = " ".join(str(error).split()).rstrip(".")
    return text[:1].lower() + text[1:]
