"""A directory on any filesystem Arrow knows, with writes that are seen whole or not at all."""

import uuid
from collections.abc import Iterable
from functools import cached_property

import pyarrow.fs as pafs

from shoal.errors import CheckpointError, ConfigError

_RENAMING = ("local", "hdfs")


class Directory:
    """Files below one path or URI (`/data/run`, `hdfs://…`, `s3://…`)."""

    def __init__(self, uri: str) -> None:
        """Name a directory; it is created with its first file."""
        self.uri = uri.rstrip("/")

    def __reduce__(self) -> tuple[type["Directory"], tuple[str]]:
        """Travel to other processes as the address alone."""
        return (Directory, (self.uri,))

    @cached_property
    def _located(self) -> tuple[pafs.FileSystem, str]:
        if "://" not in self.uri:
            return pafs.LocalFileSystem(), self.uri
        try:
            return pafs.FileSystem.from_uri(self.uri)
        except (OSError, ValueError) as error:
            raise ConfigError(f"cannot use directory {self.uri!r}: {error}") from error

    def path(self, name: str) -> str:
        """A file's path on its filesystem."""
        return f"{self._located[1]}/{name}"

    def write(self, name: str, content: bytes) -> None:
        """Write a file so that no reader ever sees a part of it; an existing file is replaced."""
        filesystem, _ = self._located
        target = self.path(name)
        renames = filesystem.type_name in _RENAMING
        place = f"{target}.{uuid.uuid4().hex}.tmp" if renames else target
        try:
            stream = filesystem.open_output_stream(place)
        except FileNotFoundError:
            filesystem.create_dir(target.rpartition("/")[0], recursive=True)
            stream = filesystem.open_output_stream(place)
        with stream:
            stream.write(content)
        if renames:
            filesystem.move(place, target)

    def read(self, name: str) -> bytes:
        """A file's content; `FileNotFoundError` where there is none."""
        filesystem, _ = self._located
        with filesystem.open_input_file(self.path(name)) as stream:
            return bytes(stream.read())

    def exists(self, name: str) -> bool:
        """Whether a file or directory is there."""
        return bool(self._located[0].get_file_info(self.path(name)).type != pafs.FileType.NotFound)

    def names(self, below: str = "") -> list[str]:
        """Names of the finished files directly below a subdirectory, sorted."""
        filesystem, _ = self._located
        selector = pafs.FileSelector(self.path(below) if below else self._located[1], allow_not_found=True)
        return sorted(
            info.base_name
            for info in filesystem.get_file_info(selector)
            if info.type == pafs.FileType.File and not info.base_name.endswith(".tmp")
        )

    def directories(self) -> list[str]:
        """Names of the subdirectories, sorted."""
        filesystem, path = self._located
        found = filesystem.get_file_info(pafs.FileSelector(path, allow_not_found=True))
        return sorted(info.base_name for info in found if info.type == pafs.FileType.Directory)

    def delete(self, names: Iterable[str]) -> None:
        """Remove files; those that are gone already do not matter."""
        filesystem, _ = self._located
        for name in names:
            try:
                filesystem.delete_file(self.path(name))
            except FileNotFoundError:
                continue

    def clear(self) -> None:
        """Remove the directory with all it holds."""
        filesystem, path = self._located
        if filesystem.get_file_info(path).type != pafs.FileType.NotFound:
            filesystem.delete_dir(path)

    def require(self, name: str) -> bytes:
        """A file's content, or an error that names the file."""
        try:
            return self.read(name)
        except FileNotFoundError as error:
            raise CheckpointError(f"file {self.uri}/{name} is missing") from error
