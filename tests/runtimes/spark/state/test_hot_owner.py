"""Copies in shared memory of runs that were killed are deleted by the next run; those of living runs are not."""

import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from shoal.runtimes.spark.state import store
from shoal.runtimes.spark.state.hot_owner import OWNER, claim_shared_memory
from shoal.runtimes.spark.state.store import hot_directory


@pytest.fixture(autouse=True)
def memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(store, "SHARED_MEMORY", tmp_path)
    return tmp_path


def left_by(owner: str, checkpoint: str) -> Path:
    """A directory of hot copies, with its owner."""
    directory = Path(hot_directory(checkpoint))
    directory.mkdir(parents=True, mode=0o700)
    directory.parent.chmod(0o700)
    (directory / "0000000001-0-abc.seg").write_bytes(b"state")
    if owner:
        (directory / OWNER).write_text(owner)
    return directory


def test_copies_of_dead_processes_are_deleted_and_others_are_kept() -> None:
    with subprocess.Popen([sys.executable, "-c", "pass"]) as ended:
        ended.wait()
    mine = psutil.Process()
    dead = left_by(f"{ended.pid} 1.0", "/a")
    reused = left_by(f"{mine.pid} 1.0", "/b")
    alive = left_by(f"{mine.pid} {mine.create_time()}", "/c")
    unknown = left_by("", "/d")
    nonsense = left_by("nobody", "/e")
    claim_shared_memory("/f")
    assert [each.exists() for each in (dead, reused, alive, unknown, nonsense)] == [False, False, True, True, True]
    assert (Path(hot_directory("/f")) / OWNER).read_text().split()[0] == str(os.getpid())


def test_a_run_that_resumes_uses_the_copies_that_its_dead_predecessor_left() -> None:
    dead = left_by("999999999 1.0", "/a")
    claim_shared_memory("/a")
    assert (dead / "0000000001-0-abc.seg").exists()
