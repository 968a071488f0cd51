"""Attacks by another user of the machine on directories: made first, linked elsewhere, open to others."""

import logging
import os
import stat
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.runtimes.spark.state.test_segment import part, plain

from shoal.compiler.codegen import generated
from shoal.errors import CheckpointError, ConfigError
from shoal.kernels import compiled
from shoal.runtimes.spark.state import store as store_module
from shoal.runtimes.spark.state.checkpoint import Checkpoint
from shoal.runtimes.spark.state.segment import encode
from shoal.runtimes.spark.state.store import StateStore, hot_root
from shoal.session import graphfile
from shoal.storage.directory import Directory
from shoal.storage.private import private_directory

STRANGER = 54_321


def owned_by_a_stranger(monkeypatch: pytest.MonkeyPatch, theirs: Path) -> None:
    """Make a directory look as if another user had created it."""
    lstat = os.lstat

    def status(path: Any, **options: Any) -> Any:
        found = lstat(path, **options)
        if Path(path) != theirs:
            return found
        return SimpleNamespace(st_mode=found.st_mode, st_uid=STRANGER)

    monkeypatch.setattr(os, "lstat", status)


def locked(address: str) -> None:
    """What a run does before anything else with its checkpoint."""
    checkpoint = Checkpoint(address)
    checkpoint.check_usable()
    checkpoint.lock()
    checkpoint.unlock()


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_new_checkpoint_is_closed_to_others_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        locked(str(tmp_path / "run"))
    finally:
        os.umask(before)
    assert mode(tmp_path / "run") == 0o700


def test_a_checkpoint_that_another_user_made_first_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "run").mkdir()
    owned_by_a_stranger(monkeypatch, tmp_path / "run")
    with pytest.raises(ConfigError, match=f"run must belong to user .* it belongs to user {STRANGER}, who could"):
        locked(str(tmp_path / "run"))


@pytest.mark.parametrize("address", ["{}/run", "file://{}/run"])
def test_a_checkpoint_that_is_a_symbolic_link_is_refused(address: str, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "run").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ConfigError, match="run must be a directory; it is a symbolic link"):
        locked(address.format(tmp_path))
    assert not list((tmp_path / "elsewhere").iterdir())


@pytest.mark.parametrize("open_mode", [0o777, 0o770, 0o702])
def test_a_checkpoint_that_others_can_write_is_refused(open_mode: int, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run").chmod(open_mode)
    with pytest.raises(ConfigError, match=f"must be writable by its owner only; its mode is {open_mode:04o}; if you"):
        locked(str(tmp_path / "run"))


def test_a_checkpoint_that_others_may_only_read_stays_as_its_owner_wants(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run").chmod(0o755)
    locked(str(tmp_path / "run"))
    assert mode(tmp_path / "run") == 0o755


def test_shared_memory_of_a_stranger_is_not_read_and_the_run_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """State comes from the checkpoint; a copy that the stranger has put there is never looked at."""
    monkeypatch.setattr(store_module, "SHARED_MEMORY", tmp_path)
    checkpoint = str(tmp_path / "run")
    name, _ = StateStore(checkpoint, hot=False).write(1, 0, [part(3)])
    forged = Directory(store_module.hot_directory(checkpoint))
    forged.write(name, encode([part(4)]))
    assert plain(StateStore(checkpoint).read(name)) == plain([part(4)])
    owned_by_a_stranger(monkeypatch, hot_root())
    with caplog.at_level(logging.WARNING, "shoal"):
        assert plain(StateStore(checkpoint).read(name)) == plain([part(3)])
    assert "state is not kept in shared memory" in caplog.text
    assert f"it belongs to user {STRANGER}" in caplog.text


def test_shared_memory_is_closed_to_others_even_if_it_was_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_module, "SHARED_MEMORY", tmp_path)
    hot_root().mkdir()
    hot_root().chmod(0o755)
    StateStore(str(tmp_path / "run"))
    assert mode(hot_root()) == 0o700


def test_a_link_in_the_place_of_shared_memory_is_not_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_module, "SHARED_MEMORY", tmp_path)
    (tmp_path / "home").mkdir()
    hot_root().symlink_to(tmp_path / "home")
    StateStore(str(tmp_path / "run")).write(1, 0, [part()])
    assert not list((tmp_path / "home").iterdir())


def test_split_datasets_of_a_stranger_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The name is predictable, so a stranger can offer rows of their own there."""
    monkeypatch.setattr(tempfile, "gettempdir", lambda: str(tmp_path))
    theirs = tmp_path / f"shoal-datasets-{os.getuid()}"
    theirs.mkdir()
    owned_by_a_stranger(monkeypatch, theirs)
    (tmp_path / "events.csv").write_text("1,1\n")
    (tmp_path / "job.yaml").write_text(
        "stream-definitions: [{stream-id: 1, name: s, tuple-format: [{name: ts, type: timestamp}]}]\n"
        "datasets: [{file: events.csv, type: csv}]\n"
        "spequeries: {queries: [{name: q, operators: [{name: a, type: source, parameters: {stream: s}},"
        " {name: z, type: sink}], edges: [{from: a, to: z}]}]}\n"
    )
    with pytest.raises(ConfigError, match=r"directory for split datasets .* must belong to"):
        graphfile.job_from_graph(tmp_path / "job.yaml")


def test_machine_code_that_others_can_write_is_not_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Numba's files are pickles: who can write them runs code here."""
    kept = tmp_path / "kept"
    monkeypatch.setenv("SHOAL_CACHE_DIR", str(kept))
    monkeypatch.setattr(generated, "_LOADED", generated.Loaded())
    code = generated.Code("def chain(n):\n    return n + 1\n", "int64(int64)")
    generated.function_of(code)
    monkeypatch.setattr(generated, "_LOADED", generated.Loaded())
    assert code.is_kept
    assert mode(kept) == 0o700
    kept.chmod(0o777)
    with caplog.at_level(logging.WARNING, "shoal"):
        assert not code.is_kept
        assert generated.function_of(code)(2) == 3
    assert not sum(generated.function_of(code).stats.cache_hits.values())
    assert "machine code is not kept for later runs: directory" in caplog.text


def test_a_cache_of_numba_is_trusted_beside_the_source_or_if_nobody_else_can_write_it(tmp_path: Path) -> None:
    source = tmp_path / "package" / "loops.py"
    cache = tmp_path / "numba" / "package_1"
    cache.mkdir(parents=True)
    assert compiled._is_trusted(source.parent / "__pycache__", source)
    assert compiled._is_trusted(cache, source)
    cache.parent.chmod(0o777)
    assert not compiled._is_trusted(cache, source)


@pytest.mark.parametrize("name", ["../victim", "state/../../victim", "/etc/passwd", "a\0b", ".."])
def test_no_file_name_of_a_checkpoint_leads_out_of_it(name: str, tmp_path: Path) -> None:
    """A forged manifest names a segment outside, so that it is read, or deleted as no longer needed."""
    victim = tmp_path / "victim"
    victim.write_text("precious")
    directory = Directory(str(tmp_path / "run"))
    for attempt in (directory.read, directory.exists, directory.require, lambda each: directory.delete([each])):
        with pytest.raises(CheckpointError, match="must stay below directory"):
            attempt(name)
    with pytest.raises(CheckpointError, match="must stay below directory"):
        directory.write(name, b"forged")
    assert victim.read_text() == "precious"


def test_a_file_where_a_private_directory_should_be_is_refused(tmp_path: Path) -> None:
    (tmp_path / "place").write_text("")
    with pytest.raises(ConfigError, match=r"cache .*place must be a directory; it is a file"):
        private_directory(tmp_path / "place", "cache")
