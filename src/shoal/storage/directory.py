"""A directory on any filesystem Arrow knows, with writes that are seen whole or not at all."""

import contextlib
import os
import re
import uuid
from collections.abc import Iterable
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.fs as pafs

from shoal.errors import CheckpointError, ConfigError, RunError, ShoalError

REMOTE_SCHEMES = ("hdfs", "viewfs", "s3", "s3a", "gs", "gcs", "abfs", "abfss")
UNFINISHED = ".tmp"
_ADDRESS_FAULTS = (FileNotFoundError, NotADirectoryError, IsADirectoryError, PermissionError)
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/")


def local_path(address: str) -> str | None:
    """The path a plain path or a `file:` URI names, taken literally; None for an address on another system.

    >>> local_path("file:///data/run 1"), local_path("data/run"), local_path("s3://bucket/run")
    ('/data/run 1', 'data/run', None)
    """
    found = _SCHEME.match(address)
    if found is None:
        return address
    if found[1].lower() != "file":
        return None
    path = address[len("file:") :]
    if path.startswith("//"):
        host, slash, rest = path[2:].partition("/")
        if host not in ("", "localhost") or not slash:
            raise ConfigError(f"file URI must hold an absolute path, as in file:///data; got {address!r}")
        path = f"/{rest}"
    return path


class Directory:
    """Files below one path or URI (`/data/run`, `file:///data/run`, `hdfs://…`, `s3://…`)."""

    def __init__(self, uri: str) -> None:
        """Name a directory; it is created with its first file."""
        self.uri = uri.rstrip("/")
        path = local_path(self.uri)
        if path is None and self.uri.partition(":")[0].lower() not in REMOTE_SCHEMES:
            schemes = ", ".join(f"{scheme}://" for scheme in ("file", *REMOTE_SCHEMES))
            raise ConfigError(f"directory must be a path or begin with one of {schemes}; got {uri!r}")
        if path == "" or self.uri.endswith(":"):
            raise ConfigError(f"directory must be a path or URI below the root; got {uri!r}")

    def __reduce__(self) -> tuple[type["Directory"], tuple[str]]:
        """Travel to other processes as the address alone."""
        return (Directory, (self.uri,))

    @cached_property
    def _located(self) -> tuple[pafs.FileSystem, str]:
        path = local_path(self.uri)
        if path is not None:
            return pafs.LocalFileSystem(), path
        try:
            # Spark says s3a, Arrow s3, for the same thing
            return pafs.FileSystem.from_uri(re.sub("^s3a:", "s3:", self.uri))
        except (OSError, pa.ArrowException) as error:
            raise ConfigError(f"cannot use directory {self.uri!r}: {' '.join(str(error).split())}") from error

    def path(self, name: str) -> str:
        """A file's path on its filesystem."""
        return f"{self._located[1]}/{name}"

    def write(self, name: str, content: bytes) -> None:
        """Write a file so that no reader ever sees a part of it; an existing file is replaced."""
        try:
            self._write(name, content)
        except OSError as error:
            raise _unusable(f"cannot write file {name!r} below directory {self.uri}", error) from error

    def _write(self, name: str, content: bytes) -> None:
        filesystem, _ = self._located
        target = self.path(name)
        renames = filesystem.type_name in ("local", "hdfs")
        place = _unfinished(target) if renames else target
        try:
            stream = filesystem.open_output_stream(place)
        except FileNotFoundError:
            filesystem.create_dir(target.rpartition("/")[0], recursive=True)
            stream = filesystem.open_output_stream(place)
        try:
            with stream:
                stream.write(content)
            if renames:
                _move(filesystem, place, target)
        except OSError:
            with contextlib.suppress(OSError):
                filesystem.delete_file(place)
            raise

    def read(self, name: str) -> bytes:
        """A file's content; `FileNotFoundError` where there is none."""
        filesystem, _ = self._located
        with filesystem.open_input_file(self.path(name)) as stream:
            return bytes(stream.read())

    def exists(self, name: str) -> bool:
        """Whether a file or directory is there."""
        return bool(self._info(self.path(name)).type != pafs.FileType.NotFound)

    def names(self, below: str = "") -> list[str]:
        """Names of the finished files directly below a subdirectory, sorted."""
        return [name for name in self._files(below) if not name.endswith(UNFINISHED)]

    def leftovers(self, below: str = "") -> list[str]:
        """Names of the files that somebody began to write and did not finish."""
        return [name for name in self._files(below) if name.endswith(UNFINISHED)]

    def _files(self, below: str) -> list[str]:
        selector = pafs.FileSelector(self.path(below) if below else self._located[1], allow_not_found=True)
        return sorted(info.base_name for info in self._info(selector) if info.type == pafs.FileType.File)

    def directories(self) -> list[str]:
        """Names of the subdirectories, sorted."""
        selector = pafs.FileSelector(self._located[1], allow_not_found=True)
        return sorted(info.base_name for info in self._info(selector) if info.type == pafs.FileType.Directory)

    def delete(self, names: Iterable[str]) -> None:
        """Remove files; those that are gone already do not matter."""
        filesystem, _ = self._located
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                filesystem.delete_file(self.path(name))

    def clear(self) -> None:
        """Remove the directory with all it holds."""
        filesystem, path = self._located
        if self._info(path).type != pafs.FileType.NotFound:
            filesystem.delete_dir(path)

    def require(self, name: str) -> bytes:
        """A file's content, or an error that names the file."""
        try:
            return self.read(name)
        except FileNotFoundError as error:
            raise CheckpointError(f"file {self.uri}/{name} is missing") from error

    def _info(self, path: str | pafs.FileSelector) -> Any:
        try:
            return self._located[0].get_file_info(path)
        except OSError as error:
            raise _unusable(f"cannot look into directory {self.uri}", error) from error


def _unusable(what: str, error: OSError) -> ShoalError:
    """The user's mistake where the address is to blame, else a failure of the run."""
    kind = ConfigError if isinstance(error, _ADDRESS_FAULTS) else RunError
    return kind(f"{what}: {os.strerror(error.errno).lower() if error.errno else ' '.join(str(error).split())}")


def _unfinished(target: str) -> str:
    """A name beside the file's own; the dot hides what a crash leaves from everyone who reads the directory."""
    parent, _, name = target.rpartition("/")
    return f"{parent}/.{name}.{uuid.uuid4().hex}{UNFINISHED}"


def _move(filesystem: pafs.FileSystem, place: str, target: str) -> None:
    """Rename over what is there; HDFS refuses that, so there the old file must go first."""
    try:
        filesystem.move(place, target)
    except OSError:
        if filesystem.type_name != "hdfs":
            raise
        filesystem.delete_file(target)
        filesystem.move(place, target)
