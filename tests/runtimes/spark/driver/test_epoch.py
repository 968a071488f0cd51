"""Epochs one after another, without Spark: what is left on disk, and crashes at every single file operation."""

import random
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.runtimes.spark.crashing import Crash, crash_at, through_crashes
from tests.runtimes.spark.small_spark import SmallRun, roots, small_spark
from tests.small_city import city

from shoal.model.control.messages import AddQuery, Command, RemoveQuery
from shoal.model.query.aggregate import count
from shoal.model.query.expression import col
from shoal.model.query.window import tumbling
from shoal.runtimes.spark.state.checkpoint import KEPT_MANIFESTS
from shoal.runtimes.spark.state.segment import SegmentPart
from shoal.runtimes.spark.state.store import StateStore, hot_directory
from shoal.runtimes.spark.state.writing import OLDEST_EPOCHS
from shoal.session.digest import differences
from shoal.storage.directory import Directory
from shoal.workloads.traffic.queries import vehicles

pytestmark = pytest.mark.usefixtures("small_spark")
__all__ = ["roots", "small_spark"]


def files(root: Path, below: str) -> list[str]:
    return sorted(path.name for path in (root / "checkpoint" / below).iterdir())


def test_results_equal_the_batch_oracle(roots: Callable[[], Path]) -> None:
    run = SmallRun(roots(), shuffle=True, workers=3)
    assert run.go().consumed == 9_000
    results = {name: run.sink.table(name) for name in run.sink.names()}
    assert differences(results, city().expected(9_000)) == []


def test_a_crash_at_any_file_operation_changes_no_result(
    roots: Callable[[], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    quiet = SmallRun(roots(), epochs=3, shuffle=True)
    with monkeypatch.context() as patched:
        operations = crash_at(0, patched)
        quiet.go()
    assert operations() > 30
    for operation in range(1, operations() + 1):
        run = SmallRun(roots(), epochs=3, shuffle=True)
        with monkeypatch.context() as patched:
            crash_at(operation, patched)
            with pytest.raises(Crash):
                run.go()
        assert run.go().consumed == 4_500, f"crash at file operation {operation}"
        assert run.digest() == quiet.digest(), f"crash at file operation {operation}"


def test_a_crash_does_not_mix_up_state_that_lies_in_segments_of_many_epochs(
    roots: Callable[[], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three events per epoch: some instances are quiet, and their state stays where it was written."""
    quiet = SmallRun(roots(), epochs=12, rows_per_epoch=3)
    quiet.go(until=11)
    assert any(ref.instances is not None for ref in quiet.checkpoint.manifest(10).states)
    quiet.go()
    results = {name: quiet.sink.table(name) for name in quiet.sink.names()}
    assert differences(results, city().expected(36)) == []
    draw = random.Random(1)
    for _ in range(10):
        run = SmallRun(roots(), epochs=12, rows_per_epoch=3)
        through_crashes(run.go, draw, monkeypatch)
        assert run.digest() == quiet.digest()


def test_crashes_while_queries_come_and_go_change_no_result(
    roots: Callable[[], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    part = vehicles().filter(col("region") == 2).key_by("vehicle_type")
    extra = part.window(tumbling(2)).aggregate(n=count()).sink("extra")
    commands: dict[int, list[Command]] = {
        1: [RemoveQuery("avg_speed[1]"), RemoveQuery("top_speed[3]")],
        2: [AddQuery(extra)],
        3: [RemoveQuery("vehicle_count[0]"), AddQuery(city().job.graph.queries["avg_speed[1]"])],
    }
    quiet = SmallRun(roots(), epochs=5, commands=commands)
    quiet.go()
    draw = random.Random(0)
    for _ in range(25):
        run = SmallRun(roots(), epochs=5, commands=commands)
        through_crashes(run.go, draw, monkeypatch)
        assert run.digest() == quiet.digest()


def test_fifty_epochs_leave_only_the_files_the_next_one_needs(roots: Callable[[], Path]) -> None:
    root = roots()
    run = SmallRun(root, epochs=60, rows_per_epoch=300, shuffle=True, workers=3)
    run.go(until=50)
    needed = [ref.segment for ref in run.checkpoint.manifest(49).states]
    assert files(root, "state") == sorted(needed)
    assert len(needed) <= OLDEST_EPOCHS * run.workers
    assert files(root, "plans") == files(root, "epochs") == [f"{n:010d}" for n in range(50 - KEPT_MANIFESTS, 50)]
    assert len(files(root, "graphs")) == 1
    assert set(Directory(hot_directory(run.uri)).names()) <= set(needed)


def test_after_the_flush_no_state_is_left(roots: Callable[[], Path]) -> None:
    root = roots()
    runtime = SmallRun(root).go()
    assert runtime._runner.position.homes == {}
    assert files(root, "state") == []


def test_the_state_of_a_removed_query_vanishes(roots: Callable[[], Path]) -> None:
    root = roots()
    names = list(city().job.graph.queries)
    run = SmallRun(root, commands={2: [RemoveQuery(name) for name in names[1:]]})
    run.go(until=3)
    left = {instance for ref in run.checkpoint.manifest(2).states for instance in instances_in(run, ref.segment)}
    assert left == {city().job.graph.queries[names[0]].operators[-2].id + "/0"}
    assert files(root, "state") == sorted(ref.segment for ref in run.checkpoint.manifest(2).states)


def test_what_failed_attempts_left_behind_is_swept_at_the_next_start(roots: Callable[[], Path]) -> None:
    root = roots()
    run = SmallRun(root)
    run.go(until=2)
    segment = run.checkpoint.manifest(1).states[0].segment
    parts: list[SegmentPart] = StateStore(run.uri).read(segment)
    orphan, _ = StateStore(run.uri).write(2, 0, parts)
    (root / "checkpoint" / "state" / "0000000002-1-half.seg.0123.tmp").write_bytes(b"SHOAL1")
    assert orphan in files(root, "state")
    run.started()
    assert files(root, "state") == sorted(ref.segment for ref in run.checkpoint.manifest(1).states)


def instances_in(run: SmallRun, segment: str) -> list[str]:
    return [str(instance) for part in StateStore(run.uri).read(segment) for instance in part.instances]
