"""Directories: whole files or none, on any filesystem, under any address."""

import pickle
from pathlib import Path
from typing import Any

import pyarrow.fs as pafs
import pytest

from shoal.errors import CheckpointError, ConfigError, RunError
from shoal.storage import directory as module
from shoal.storage.directory import Directory, local_path


def test_a_file_is_read_as_it_was_written(tmp_path: Path) -> None:
    directory = Directory(str(tmp_path / "deep" / "below"))
    directory.write("a/b", b"one")
    directory.write("a/b", b"two")
    assert directory.read("a/b") == b"two"
    assert directory.exists("a/b")
    assert not directory.exists("a/c")


def test_only_finished_files_directly_below_are_named(tmp_path: Path) -> None:
    directory = Directory(str(tmp_path))
    for name in ("b", "a", "sub/c"):
        directory.write(name, b"")
    (tmp_path / "d.tmp").touch()
    assert directory.names() == ["a", "b"]
    assert directory.leftovers() == ["d.tmp"]
    assert directory.names("sub") == ["c"]
    assert directory.names("nowhere") == []
    assert directory.directories() == ["sub"]


@pytest.mark.parametrize("before", [None, b"old"], ids=["nothing was there", "an old file was there"])
def test_a_crash_before_the_rename_changes_nothing_that_anyone_sees(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: bytes | None
) -> None:
    directory = Directory(str(tmp_path))
    if before is not None:
        directory.write("a", before)

    def crash(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "_move", crash)
    with pytest.raises(KeyboardInterrupt):
        directory.write("a", b"new")
    assert directory.names() == ([] if before is None else ["a"])
    assert [path.suffix for path in tmp_path.iterdir() if path.name != "a"] == [".tmp"]
    assert before is None or directory.read("a") == before


def test_a_write_that_fails_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(module, "_move", full)
    with pytest.raises(RunError, match=f"cannot write file 'a' below directory {tmp_path}: no space left on device"):
        Directory(str(tmp_path)).write("a", b"new")
    assert list(tmp_path.iterdir()) == []


def test_a_directory_that_cannot_be_made_is_an_error_that_says_why(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match=r"cannot write file 'a' below directory .*/file/below: not a directory"):
        Directory(str(tmp_path / "file" / "below")).write("a", b"")


def test_a_file_is_no_directory(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match=r"cannot look into directory .*/file: not a directory"):
        Directory(str(tmp_path / "file")).names()


def test_removing_what_is_gone_does_not_matter(tmp_path: Path) -> None:
    directory = Directory(str(tmp_path / "run"))
    directory.write("a", b"")
    directory.delete(["a", "a", "b"])
    assert directory.names() == []
    directory.clear()
    directory.clear()
    assert not (tmp_path / "run").exists()


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=f"file {tmp_path}/a is missing"):
        Directory(str(tmp_path)).require("a")
    with pytest.raises(FileNotFoundError):
        Directory(str(tmp_path)).read("a")


@pytest.mark.parametrize("address", ["{}", "{}/", "file://{}", "file:{}", "file://localhost{}", "FILE://{}"])
def test_a_path_has_many_addresses(tmp_path: Path, address: str) -> None:
    path = tmp_path / "a b%20c"
    Directory(address.format(path)).write("x", b"1")
    assert (path / "x").read_bytes() == b"1"


def test_a_directory_travels_by_its_address() -> None:
    assert pickle.loads(pickle.dumps(Directory("s3://bucket/run/"))).uri == "s3://bucket/run"


@pytest.mark.parametrize("address", ["s3://b/run?region=eu-west-1", "s3a://b/run?region=eu-west-1"])
def test_an_object_store_has_the_address_that_arrow_or_spark_gives_it(address: str) -> None:
    assert Directory(address).path("x") == "b/run/x"


@pytest.mark.parametrize(
    "address", ["", "/", "//", "file:", "file:///", "file://", "file://data/run", "s3://", "ftp://host/run", "foo:/bar"]
)
def test_an_address_that_cannot_be_used_is_refused_at_once(address: str) -> None:
    with pytest.raises(ConfigError, match=r"must .*; got"):
        Directory(address)


def test_a_system_that_cannot_be_reached_is_an_error_that_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    class Unreachable:
        @staticmethod
        def from_uri(uri: str) -> Any:
            raise OSError(f"no route\nto {uri}")

    monkeypatch.setattr(pafs, "FileSystem", Unreachable)
    with pytest.raises(ConfigError, match="cannot use directory 'hdfs://host/run': no route to hdfs://host/run"):
        Directory("hdfs://host/run").names()


def test_a_name_with_a_colon_is_a_path() -> None:
    assert local_path("runs/12:30/a") == "runs/12:30/a"


class Hdfs:
    """A filesystem whose rename does not replace, as that of HDFS."""

    type_name = "hdfs"

    def __init__(self) -> None:
        self.local = pafs.LocalFileSystem()

    def move(self, source: str, target: str) -> None:
        if Path(target).exists():
            raise OSError("target exists")
        self.local.move(source, target)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.local, name)


def test_a_file_is_replaced_also_where_renaming_does_not_replace(tmp_path: Path) -> None:
    directory = Directory(str(tmp_path))
    directory.__dict__["_located"] = (Hdfs(), str(tmp_path))
    directory.write("a", b"one")
    directory.write("a", b"two")
    assert directory.read("a") == b"two"
    assert [path.name for path in tmp_path.iterdir()] == ["a"]
