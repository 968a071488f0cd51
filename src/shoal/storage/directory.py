"""A directory on any filesystem that Arrow supports, with atomic writes."""

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
    """The local path of a plain path or a `file:` URI, without decoding; None for any other address.

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
        """Pickle the address only."""
        return (Directory, (self.uri,))

    @cached_property
    def _located(self) -> tuple[pafs.FileSystem, str]:
        path = local_path(self.uri)
        if path is not None:
            return pafs.LocalFileSystem(), path
        try:
            # Spark's s3a is Arrow's s3
            return pafs.FileSystem.from_uri(re.sub("^s3a:", "s3:", self.uri))
        except (OSError, pa.ArrowException) as error:
            raise ConfigError(f"cannot use directory {self.uri!r}: {' '.join(str(error).split())}") from error

    def path(self, name: str) -> str:
        """A file's path on its filesystem; names may come from files, so one that leads elsewhere is refused."""
        if ".." in name.split("/") or name.startswith("/") or "\0" in name:
            raise CheckpointError(f"file name {name!r} must stay below directory {self.uri}; it leads out of it")
        return f"{self._located[1]}/{name}"

    def write(self, name: str, content: bytes) -> None:
        """Write a file atomically; an existing file is replaced."""
        try:
            self._write(name, content)
        except OSError as error:
            raise _unusable(f"cannot write file {name!r} below directory {self.uri}", error) from error

    def _write(self, name: str, content: bytes) -> None:
        filesystem, _ = self._located
        target = self.path(name)
        renames = filesystem.type_name in ("local", "hdfs")
        path = _unfinished(target) if renames else target
        try:
            stream = filesystem.open_output_stream(path)
        except FileNotFoundError:
            filesystem.create_dir(target.rpartition("/")[0], recursive=True)
            stream = filesystem.open_output_stream(path)
        try:
            with stream:
                stream.write(content)
            if renames:
                _move(filesystem, path, target)
        except OSError:
            with contextlib.suppress(OSError):
                filesystem.delete_file(path)
            raise

    def read(self, name: str) -> bytes:
        """A file's content; raises `FileNotFoundError` if it does not exist."""
        filesystem, _ = self._located
        with filesystem.open_input_file(self.path(name)) as stream:
            return bytes(stream.read())

    def exists(self, name: str) -> bool:
        """Whether a file or directory exists."""
        return bool(self._info(self.path(name)).type != pafs.FileType.NotFound)

    def names(self, below: str = "") -> list[str]:
        """Names of the finished files directly below a subdirectory, sorted."""
        return [name for name in self._files(below) if not name.endswith(UNFINISHED)]

    def leftovers(self, below: str = "") -> list[str]:
        """Names of unfinished files, left by writers that crashed."""
        return [name for name in self._files(below) if name.endswith(UNFINISHED)]

    def _files(self, below: str) -> list[str]:
        selector = pafs.FileSelector(self.path(below) if below else self._located[1], allow_not_found=True)
        return sorted(info.base_name for info in self._info(selector) if info.type == pafs.FileType.File)

    def directories(self) -> list[str]:
        """Names of the subdirectories, sorted."""
        selector = pafs.FileSelector(self._located[1], allow_not_found=True)
        return sorted(info.base_name for info in self._info(selector) if info.type == pafs.FileType.Directory)

    def delete(self, names: Iterable[str]) -> None:
        """Delete files; missing ones are ignored."""
        filesystem, _ = self._located
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                filesystem.delete_file(self.path(name))

    def clear(self) -> None:
        """Delete the directory and its content."""
        filesystem, path = self._located
        if self._info(path).type != pafs.FileType.NotFound:
            filesystem.delete_dir(path)

    def require(self, name: str) -> bytes:
        """A file's content; raises a `CheckpointError` that names the file if it is missing."""
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
    """A `ConfigError` if the address is wrong, else a `RunError`."""
    kind = ConfigError if isinstance(error, _ADDRESS_FAULTS) else RunError
    return kind(f"{what}: {os.strerror(error.errno).lower() if error.errno else ' '.join(str(error).split())}")


def _unfinished(target: str) -> str:
    """A temporary name beside the file; the dot hides it from other readers after a crash."""
    parent, _, name = target.rpartition("/")
    return f"{parent}/.{name}.{uuid.uuid4().hex}{UNFINISHED}"


def _move(filesystem: pafs.FileSystem, path: str, target: str) -> None:
    """Rename over an existing file; HDFS cannot do that, so there the old file is deleted first."""
    try:
        filesystem.move(path, target)
    except OSError:
        if filesystem.type_name != "hdfs":
            raise
        filesystem.delete_file(target)
        filesystem.move(path, target)
