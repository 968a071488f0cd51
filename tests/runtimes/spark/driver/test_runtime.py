"""The Spark runtime where it meets Spark: its files, its settings, and a source's own notes."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from tests.end_to_end.test_bad_input import FILE_ROWS, FILES, Inbox
from tests.runtimes.spark.state.test_store import spoil
from tests.small_city import REGIONS, city, city_events, result_tables

from shoal.connectors.sinks import ParquetSink
from shoal.connectors.sources.generator import Generator
from shoal.errors import CheckpointError, RunError
from shoal.model.control.messages import EpochCommitted
from shoal.runtimes.spark.driver import runtime
from shoal.runtimes.spark.driver.epoch import EpochRunner
from shoal.runtimes.spark.state.checkpoint import EpochPlan
from shoal.session.digest import differences
from shoal.session.job import Job
from shoal.session.run import Run, start
from shoal.workloads.traffic.queries import STREAM, queries


class Stopped:
    """A run over files that was stopped in the middle, in a directory of its own."""

    def __init__(self, root: Path, inbox: Inbox, spark: SparkSession) -> None:
        self.root, self.inbox, self.spark = root, inbox, spark
        self.checkpoint = root / "checkpoint"

    def start(self, job: Job | None = None) -> Run:
        kept: dict[str, Any] = {"checkpoint": str(self.checkpoint), "sink": ParquetSink(str(self.root / "results"))}
        return start(job or self.inbox.job(), spark=self.spark, **kept)

    def copy(self, root: Path) -> "Stopped":
        shutil.copytree(self.root, root, dirs_exist_ok=True)
        return Stopped(root, self.inbox, self.spark)

    def newest(self, below: str) -> Path:
        found = [path for path in (self.checkpoint / below).iterdir() if not path.name.startswith(".")]
        return max(found, key=lambda path: int("".join(filter(str.isdigit, path.name))))


@pytest.fixture(scope="module")
def original(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Stopped:
    inbox = Inbox(tmp_path_factory.mktemp("inbox"))
    stopped = Stopped(tmp_path_factory.mktemp("stopped"), inbox, spark)
    stopped.start().wait(stop_after(1))
    return stopped


@pytest.fixture
def stopped(original: Stopped, tmp_path: Path) -> Stopped:
    return original.copy(tmp_path)


def stop_after(epoch: int) -> Callable[[Run, EpochCommitted], None]:
    def watch(run: Run, event: EpochCommitted) -> None:
        if event.epoch >= epoch:
            run.stop()

    return watch


@pytest.mark.parametrize(
    ("below", "damage"),
    [
        pytest.param("spark/offsets", "flipped", id="a position of Spark's that has changed"),
        pytest.param("spark/offsets", "gone", id="a position of Spark's that is gone"),
        pytest.param("spark/commits", "cut", id="a commit of Spark's that was cut"),
        pytest.param(f"sources/{STREAM}", "flipped", id="a file log that has changed"),
    ],
)
def test_damage_is_an_error_that_names_the_file(below: str, damage: str, stopped: Stopped) -> None:
    path = stopped.newest(below)
    spoil(path, damage)
    with pytest.raises(CheckpointError, match=f"{path} is (damaged|missing)"):
        stopped.start().wait()


def test_a_file_log_that_is_gone_is_an_error(stopped: Stopped) -> None:
    shutil.rmtree(stopped.checkpoint / "sources")
    with pytest.raises(CheckpointError, match=f"file log in {stopped.checkpoint}/sources/{STREAM} must name at least"):
        stopped.start().wait()


def test_a_commit_of_sparks_that_is_gone_is_made_again(stopped: Stopped) -> None:
    stopped.newest("spark/commits").unlink()
    run = stopped.start()
    run.wait()
    assert run.consumed == FILES * FILE_ROWS
    assert differences(result_tables(run), stopped.inbox.expected_results()) == []


def test_a_checkpoint_of_another_kind_of_source_is_refused(stopped: Stopped) -> None:
    generated = Job.of("other", queries(REGIONS), {STREAM: Generator(city_events(), 6_000)})
    with pytest.raises(CheckpointError, match="position of stream 'vehicles'"):
        stopped.start(generated).wait()


def test_adaptive_execution_of_the_users_own_session_changes_nothing(spark: SparkSession) -> None:
    before = spark.conf.get("spark.sql.adaptive.enabled") or "false"
    spark.conf.set("spark.sql.adaptive.enabled", "true")
    try:
        ready = city()
        run = start(ready.job, spark=spark, workers=5)
        run.wait()
    finally:
        spark.conf.set("spark.sql.adaptive.enabled", before)
    assert differences(result_tables(run), ready.expected(run.consumed)) == []


def test_a_run_ends_as_soon_as_its_input_has_been_read(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The driver is told, and does not wait until it looks again."""
    monkeypatch.setattr(runtime, "POLL_S", 3600.0)
    ready = city()
    run = start(ready.job, spark=spark, checkpoint=str(tmp_path / "checkpoint"))
    assert [event.epoch for event in epochs_of(run)] == [0, 1, 2, 3]
    assert differences(result_tables(run), ready.expected(run.consumed)) == []


def test_a_run_whose_driver_fails_before_or_after_a_manifest_goes_on(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk is full in the middle of epoch 1; old state cannot be removed at the end of the last one."""
    ready = city()
    kept: dict[str, Any] = {"checkpoint": str(tmp_path / "checkpoint"), "sink": ParquetSink(str(tmp_path / "results"))}
    write, clean = ParquetSink.write, EpochRunner._clean

    def full(self: ParquetSink, table: str, epoch: int, rows: pa.Table) -> None:
        if (table, epoch) == ("top_speed", 1):
            raise OSError("no space left on device")
        write(self, table, epoch, rows)

    def stuck(self: EpochRunner, plan: EpochPlan) -> None:
        if plan.epoch == 2:
            raise OSError("permission denied")
        clean(self, plan)

    with monkeypatch.context() as patched:
        patched.setattr(ParquetSink, "write", full)
        with pytest.raises(RunError, match="no space left on device"):
            start(ready.job, spark=spark, **kept).wait()
    with monkeypatch.context() as patched:
        patched.setattr(EpochRunner, "_clean", stuck)
        with pytest.raises(RunError, match="permission denied"):
            start(ready.job, spark=spark, **kept).wait()
    run = start(ready.job, spark=spark, **kept)
    assert [event.epoch for event in epochs_of(run)] == [3]
    assert run.consumed == 9_000
    assert differences(result_tables(run), ready.expected(9_000)) == []


def epochs_of(run: Run) -> list[EpochCommitted]:
    committed: list[EpochCommitted] = []
    run.wait(lambda _, event: committed.append(event))
    return committed
