"""The shelf: makers never wait, takers wait for makers only, and nothing is left behind."""

import fcntl
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from shoal.runtimes.spark.ahead.shelf import Shelf, new_shelf
from shoal.runtimes.spark.state.store import hot_directory
from shoal.storage.directory import Directory

HOLD = """
import sys
from pathlib import Path
from shoal.runtimes.spark.ahead.shelf import Shelf
with Shelf(Path(sys.argv[1])).making(3, "a") as mine:
    print(mine, flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def shelf(tmp_path: Path) -> Shelf:
    return Shelf(tmp_path)


@pytest.fixture
def checkpoint(tmp_path: Path) -> Iterator[str]:
    yield str(tmp_path / "checkpoint")
    Directory(hot_directory(str(tmp_path / "checkpoint"))).clear()


def test_what_is_made_can_be_taken_more_than_once(shelf: Shelf) -> None:
    with shelf.making(3, "a") as mine:
        shelf.put(3, "a", b"rows")
    assert mine
    assert (shelf.taken(3, "a"), shelf.taken(3, "a")) == (b"rows", b"rows")
    assert (shelf.taken(3, "b"), shelf.taken(4, "a")) == (None, None)


def test_a_taker_waits_for_the_maker(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    asks, flock = Event(), fcntl.flock

    def asked(lock: int, operation: int) -> Any:
        if operation == fcntl.LOCK_EX:
            asks.set()
        return flock(lock, operation)

    monkeypatch.setattr(fcntl, "flock", asked)
    with ThreadPoolExecutor(1) as beside:
        with shelf.making(3, "a"):
            taken = beside.submit(shelf.taken, 3, "a")
            assert asks.wait(60)
            shelf.put(3, "a", b"rows")
        assert taken.result(60) == b"rows"


def test_a_second_maker_does_not_wait(shelf: Shelf) -> None:
    with shelf.making(3, "a") as first, shelf.making(3, "a") as second, shelf.making(3, "b") as other:
        assert (first, second, other) == (True, False, True)


def test_a_maker_that_fails_leaves_nothing_to_take(shelf: Shelf) -> None:
    with pytest.raises(RuntimeError), shelf.making(3, "a"):
        raise RuntimeError
    assert shelf.taken(3, "a") is None


def test_nobody_waits_for_a_maker_that_was_killed(shelf: Shelf) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(shelf.path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as maker:
        assert maker.stdout is not None
        assert maker.stdout.readline() == b"True\n"
        with shelf.making(3, "a") as mine:
            assert not mine
        os.kill(maker.pid, signal.SIGKILL)
        maker.wait()
    assert shelf.taken(3, "a") is None


def test_what_was_made_for_past_epochs_is_forgotten(shelf: Shelf) -> None:
    for epoch in (9, 10, 11):
        with shelf.making(epoch, "a"):
            shelf.put(epoch, "a", b"rows")
    shelf.forget_until(10)
    assert [shelf.taken(epoch, "a") for epoch in (9, 10, 11)] == [None, None, b"rows"]
    assert len(list(shelf.path.iterdir())) == 2


def test_a_maker_that_outlives_the_run_leaves_nothing_behind(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path / "ahead-1")
    shelf.path.mkdir()
    with shelf.making(3, "a") as mine:
        assert mine
        shelf.remove()
        shelf.put(3, "a", b"rows")
    with shelf.making(3, "b") as mine:
        assert not mine
    shelf.forget_until(3)
    shelf.remove()
    assert list(tmp_path.iterdir()) == []


def test_a_run_that_ends_while_a_file_is_written_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shelf = Shelf(tmp_path / "ahead-1")
    shelf.path.mkdir()
    write = Path.write_bytes

    def written(path: Path, content: bytes) -> int:
        length = write(path, content)
        shelf.remove()
        return length

    monkeypatch.setattr(Path, "write_bytes", written)
    shelf.put(3, "a", b"rows")
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_cannot_be_written_leaves_no_part_of_it(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: Path, content: bytes) -> int:
        path.touch()
        raise OSError(28, "no space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(OSError, match="no space"):
        shelf.put(3, "a", b"rows")
    assert list(shelf.path.iterdir()) == []


def test_a_new_shelf_is_private_and_replaces_those_of_runs_that_were_killed(checkpoint: str) -> None:
    killed = new_shelf(checkpoint)
    assert killed is not None
    with killed.making(3, "a"):
        killed.put(3, "a", b"rows")
    found = new_shelf(checkpoint)
    assert found is not None
    assert found.path.stat().st_mode & 0o777 == 0o700
    assert [path.name for path in Path(hot_directory(checkpoint)).iterdir()] == [found.path.name]
    assert found.taken(3, "a") is None
