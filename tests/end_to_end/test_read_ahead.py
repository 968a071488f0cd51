"""Reading ahead on Spark changes no result and leaves nothing behind, whatever happens between two epochs."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from tests.end_to_end.crash import KILLED, SHOAL, Fault, Workspace, summary
from tests.small_city import EVENTS, REGIONS, VEHICLES, city, city_events, digest

from shoal.connectors.sources.files import Files
from shoal.model.control.messages import EpochCommitted
from shoal.policies.binding.static import shuffled
from shoal.runtimes.spark.ahead.shelf import Shelf
from shoal.runtimes.spark.cluster.session import READ_AHEAD
from shoal.runtimes.spark.state.store import hot_directory
from shoal.session.run import Run, start

PUT = "shoal.runtimes.spark.ahead.shelf:Shelf.put"
MAKE = "shoal.runtimes.spark.ahead.reader:Reader._make"
FORGET = "shoal.runtimes.spark.ahead.shelf:Shelf.forget_until"
ROWS_PER_FILE = 1_500
EPOCH_ROWS = 1_000

pytestmark = pytest.mark.timeout(300)


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """The events of the small city in six files of six row groups each."""
    directory = tmp_path / "events"
    directory.mkdir()
    for number in range(EVENTS // ROWS_PER_FILE):
        write(directory, number)
    return directory


def write(directory: Path, number: int) -> None:
    rows = pa.table(city_events().batch(number * ROWS_PER_FILE, (number + 1) * ROWS_PER_FILE))
    unfinished = directory / f".{number:03d}"
    pq.write_table(rows, unfinished, row_group_size=250)
    os.utime(unfinished, (1_700_000_000 + number, 1_700_000_000 + number))
    unfinished.rename(directory / f"{number:03d}.parquet")


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of what was read ahead, when the driver forgets it."""
    names: list[str] = []
    forget = Shelf.forget_until

    def noted(self: Shelf, epoch: int) -> None:
        names.extend(path.name for path in self.path.iterdir() if "." not in path.name)
        forget(self, epoch)

    monkeypatch.setattr(Shelf, "forget_until", noted)
    return names


def followed(
    spark: SparkSession, source: Files, checkpoint: Path, steer: Callable[[Run, EpochCommitted], None] | None = None
) -> Run:
    run = start(city(source=source).job, spark=spark, checkpoint=str(checkpoint), workers=2)
    run.wait(steer)
    return run


@pytest.fixture
def without(spark: SparkSession) -> "SparkSession":
    """A session in which nothing is read ahead."""
    other = spark.newSession()
    other.conf.set(READ_AHEAD, "false")
    return other


def test_results_are_the_same_and_shared_memory_is_empty_afterwards(
    spark: SparkSession, without: SparkSession, files: Path, tmp_path: Path, made: list[str]
) -> None:
    source = Files(str(files), rows_per_epoch=EPOCH_ROWS, follow=False)
    plain = followed(without, source, tmp_path / "plain")
    assert made == []
    run = followed(spark, source, tmp_path / "ahead")
    assert len(made) >= 3
    assert (run.consumed, digest(run)) == (EVENTS, digest(plain))
    assert not Path(hot_directory(str(tmp_path / "ahead"))).exists()


def test_results_are_the_same_whatever_the_bindings(
    spark: SparkSession, without: SparkSession, files: Path, tmp_path: Path
) -> None:
    source, graph = Files(str(files), rows_per_epoch=EPOCH_ROWS, follow=False), city().job.graph

    def rebind(run: Run, epoch: EpochCommitted) -> None:
        if epoch.epoch % 3 != 1:
            run.rebind(shuffled(graph, 2, seed=epoch.epoch))

    moved = followed(spark, source, tmp_path / "moved", rebind)
    assert moved.tally.moves > 0
    assert digest(moved) == digest(followed(without, source, tmp_path / "plain"))


def test_files_that_come_meanwhile_are_read_once(
    spark: SparkSession, without: SparkSession, tmp_path: Path, made: list[str]
) -> None:
    """What was expected of an epoch is less than what it gets."""
    directory = tmp_path / "events"
    directory.mkdir()
    for number in (0, 1):
        write(directory, number)
    left = [2, 3, 4, 5]

    def more(run: Run, epoch: EpochCommitted) -> None:
        if left:
            write(directory, left.pop(0))
        elif epoch.rows and run.consumed == EVENTS:
            run.drain()

    run = followed(spark, Files(str(directory), rows_per_epoch=EPOCH_ROWS), tmp_path / "follows", more)
    assert run.consumed == EVENTS
    assert made != []
    plain = followed(without, Files(str(directory), rows_per_epoch=EPOCH_ROWS, follow=False), tmp_path / "plain")
    assert digest(run) == digest(plain)


def command(root: Path, files: Path) -> list[str]:
    settings = ["--set", f"regions={REGIONS}", "--set", f"vehicles={VEHICLES}"]
    kept = ["--checkpoint", str(root / "checkpoint"), "--sink", f"parquet:{root / 'results'}"]
    source = ["--source", f"parquet:{files}", "--epoch-rows", str(EPOCH_ROWS)]
    return [SHOAL, "run", "traffic", *source, *settings, *kept, "--json"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fault", "ends"),
    [
        pytest.param(Fault(MAKE, 3, "before", "process"), False, id="a Python worker that is about to read ahead"),
        pytest.param(Fault(PUT, 3, "before", "process"), False, id="a Python worker before it leaves a slice"),
        pytest.param(Fault(PUT, 3, "after", "process"), False, id="a Python worker with the lock of a slice"),
        pytest.param(Fault(PUT, 4, "after", "run"), True, id="the run"),
        pytest.param(Fault(FORGET, 2, "before", "run"), True, id="the driver before it forgets"),
    ],
)
def test_a_kill_changes_no_result(
    fault: Fault, ends: bool, tmp_path: Path, files: Path, spark: SparkSession, without: SparkSession
) -> None:
    workspace = Workspace(tmp_path / "run")
    done = subprocess.run(
        command(workspace.root, files),
        env=workspace.environment(fault),
        capture_output=True,
        text=True,
        check=False,
        start_new_session=True,
    )
    source = Files(str(files), rows_per_epoch=EPOCH_ROWS, follow=False)
    if ends:
        assert done.returncode == KILLED
        run = start(
            city(source=source).job, spark=spark, checkpoint=f"{workspace.root}/checkpoint", sink=workspace.sink
        )
        run.wait()
    else:
        assert summary(done)
    assert workspace.struck
    assert workspace.digest() == digest(followed(without, source, tmp_path / "plain"))
    assert not Path(hot_directory(f"{workspace.root}/checkpoint")).exists()
