"""What every epoch says of itself: a policy reasons about nothing else."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.runtimes.spark.small_spark import SmallRun, pretend

from shoal.model.control.messages import EpochCommitted, RunEnded
from shoal.runtimes.spark.driver.runtime import SparkRuntime
from shoal.runtimes.spark.state.store import hot_directory
from shoal.storage.directory import Directory

WORKERS = 3


def committed(runtime: SparkRuntime) -> list[EpochCommitted]:
    runtime._events.put(RunEnded(at_s=0.0))
    *found, _ = runtime.events()
    return [event for event in found if isinstance(event, EpochCommitted)]


@pytest.fixture(scope="module")
def epochs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[EpochCommitted]]:
    """Six epochs and the flush, with other bindings in each."""
    root = tmp_path_factory.mktemp("run")
    with pytest.MonkeyPatch.context() as patched:
        pretend(patched)
        run = SmallRun(root, workers=WORKERS, shuffle=True)
        yield committed(run.go())
    Directory(hot_directory(str(Path(root) / "checkpoint"))).clear()


def test_the_period_is_how_long_the_epoch_took(epochs: list[EpochCommitted]) -> None:
    assert [event.snapshot.period_s for event in epochs] == [event.duration_s for event in epochs]
    assert all(event.duration_s > 0 for event in epochs)


def test_every_table_with_rows_has_the_epochs_latency(epochs: list[EpochCommitted]) -> None:
    for event in epochs:
        assert set(event.snapshot.latency_s.values()) <= {event.latency_s}
        assert bool(event.snapshot.latency_s) == (event.results > 0)
    tables = set().union(*(event.snapshot.latency_s for event in epochs))
    assert tables == {"avg_speed", "vehicle_count", "top_speed"}


def test_every_worker_has_its_time(epochs: list[EpochCommitted]) -> None:
    for event in epochs:
        assert len(event.snapshot.busy_s) == WORKERS
        assert all(0 < busy_s < event.duration_s for busy_s in event.snapshot.busy_s)
        assert sum(event.snapshot.busy_s) < event.duration_s


def test_instances_share_the_time_of_their_workers(epochs: list[EpochCommitted]) -> None:
    for event in epochs:
        reported_s = [0.0] * WORKERS
        for instance, load in event.snapshot.loads.items():
            reported_s[event.snapshot.binding.worker_of[instance]] += load.cost_s
        for worker, busy_s in enumerate(event.snapshot.busy_s):
            assert reported_s[worker] <= busy_s * 1.001


def test_every_event_is_processed_in_its_epoch_and_nothing_waits_behind_it(epochs: list[EpochCommitted]) -> None:
    for event in epochs:
        loads = event.snapshot.loads.values()
        assert sum(load.events for load in loads) == 3 * event.rows
        assert not any(load.backlog for load in loads)


def test_without_executors_there_is_one_node(epochs: list[EpochCommitted]) -> None:
    for event in epochs:
        assert event.snapshot.topology is not None
        assert event.snapshot.topology.node_of == (0,) * WORKERS
