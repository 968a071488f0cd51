"""Damage to any file of a checkpoint is an error that names the file, or harmless; results are never wrong."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.runtimes.spark.small_spark import Context, SmallRun
from tests.runtimes.spark.state.test_store import spoil

from shoal.errors import CheckpointError
from shoal.runtimes.spark.state.checkpoint import Checkpoint
from shoal.runtimes.spark.state.store import hot_directory
from shoal.runtimes.spark.tasks import task as tasks
from shoal.storage.directory import Directory

DAMAGES = ("gone", "cut", "flipped")
LAST, NEXT = "0000000002", "0000000003"


@pytest.fixture(scope="module", autouse=True)
def small_spark_for_all() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(tasks, "TaskContext", Context)
        patched.setattr(tasks, "freeze_what_stays", lambda: None)
        yield


class Interrupted(BaseException):
    """The process ends between the results and the manifest of an epoch."""


@pytest.fixture(scope="module")
def interrupted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SmallRun]:
    """A run that has committed epochs 0 to 2 and was interrupted at the end of epoch 3."""
    run = SmallRun(tmp_path_factory.mktemp("interrupted"), shuffle=True)
    write = Checkpoint.write_manifest

    def fail_in_epoch_3(self: Checkpoint, manifest: object) -> None:
        if getattr(manifest, "epoch", 0) == 3:
            raise Interrupted
        write(self, manifest)  # type: ignore[arg-type]

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Checkpoint, "write_manifest", fail_in_epoch_3)
        with pytest.raises(Interrupted):
            run.go()
    yield run
    Directory(hot_directory(run.uri)).clear()


@pytest.fixture(scope="module")
def quiet(tmp_path_factory: pytest.TempPathFactory) -> str:
    run = SmallRun(tmp_path_factory.mktemp("quiet"))
    run.go()
    return run.digest()


@pytest.fixture
def copied(interrupted: SmallRun, tmp_path: Path) -> Iterator[Callable[[], SmallRun]]:
    """Copies of the interrupted run, as after a reboot: with nothing in shared memory."""
    made: list[SmallRun] = []

    def copy() -> SmallRun:
        root = tmp_path / str(len(made))
        shutil.copytree(interrupted.root, root)
        made.append(SmallRun(root, shuffle=True))
        return made[-1]

    yield copy
    for run in made:
        Directory(hot_directory(run.uri)).clear()


def all_files(run: SmallRun) -> list[str]:
    root = Path(run.uri)
    return sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file() and path.name != "lock")


def refusal(run: SmallRun) -> str:
    """Why a run does not go on to its end, if it does not."""
    try:
        run.go()
    except CheckpointError as error:
        return str(error)
    return ""


def test_whichever_file_is_damaged_results_are_never_wrong(copied: Callable[[], SmallRun], quiet: str) -> None:
    refused, recovered = [], []
    for name in all_files(copied()):
        for damage in DAMAGES:
            run = copied()
            spoil(Path(run.uri, name), damage)
            error = refusal(run)
            if error:
                assert f"{run.uri}/{name}" in error
                refused.append((name, damage))
            else:
                assert run.digest() == quiet, f"{name} {damage}"
                recovered.append((name, damage))
    for kind in (f"epochs/{LAST}", f"plans/{NEXT}", "graphs/", "state/", "spark/offsets/2", "spark/offsets/3"):
        assert {damage for name, damage in refused if name.startswith(kind)} >= {"cut", "flipped"}
    assert {(f"plans/{NEXT}", "gone"), ("spark/commits/2", "gone")} <= set(recovered)


def test_a_damaged_hot_copy_does_not_matter(copied: Callable[[], SmallRun], quiet: str) -> None:
    for damage in DAMAGES:
        run = copied()
        shutil.copytree(Path(run.uri, "state"), hot_directory(run.uri), dirs_exist_ok=True)
        for path in Path(hot_directory(run.uri)).iterdir():
            spoil(path, damage)
        run.go()
        assert run.digest() == quiet


def test_a_checkpoint_with_no_manifest_left_is_refused(copied: Callable[[], SmallRun]) -> None:
    run = copied()
    shutil.rmtree(Path(run.uri, "epochs"))
    with pytest.raises(CheckpointError, match=f"epochs/{LAST} is missing, though Spark has done that epoch"):
        run.go()


def test_a_checkpoint_without_sparks_part_is_refused(copied: Callable[[], SmallRun]) -> None:
    run = copied()
    shutil.rmtree(Path(run.uri, "spark"))
    with pytest.raises(CheckpointError, match="spark/offsets/2 is missing"):
        run.go()
