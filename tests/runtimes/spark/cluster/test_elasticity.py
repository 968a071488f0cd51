"""The number of workers changes while a run goes on: no result changes, and none comes later."""

import random
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.runtimes.spark.crashing import Crash, crash_at
from tests.runtimes.spark.driver.test_snapshot import committed
from tests.runtimes.spark.small_spark import SmallRun, roots, small_spark
from tests.small_city import city, result_tables

from shoal.model.control.messages import Command, EpochCommitted, Rebind
from shoal.policies.binding.static import round_robin, shuffled
from shoal.session.digest import differences
from shoal.session.run import Run, start

__all__ = ["roots", "small_spark"]
SIZES = {1: 8, 2: 3, 4: 1, 5: 6}
"""Workers from each epoch on; it begins with four."""


def elastic(root: Path, epochs: int = 6) -> SmallRun:
    graph = city().job.graph
    commands: dict[int, list[Command]] = {at: [Rebind(round_robin(graph, size))] for at, size in SIZES.items()}
    return SmallRun(root, epochs=epochs, workers=4, commands=commands)


@pytest.mark.usefixtures("small_spark")
def test_every_epoch_gives_the_results_it_would_have_given(roots: Callable[[], Path]) -> None:
    steady, changing = SmallRun(roots(), workers=4), elastic(roots())
    expected, found = committed(steady.go()), committed(changing.go())
    assert [event.snapshot.binding.workers for event in found] == [4, 8, 3, 3, 1, 6, 6]
    assert [event.results for event in found] == [event.results for event in expected]
    assert [len(event.snapshot.busy_s) for event in found] == [4, 8, 3, 3, 1, 6, 6]
    assert changing.digest() == steady.digest()


@pytest.mark.usefixtures("small_spark")
def test_crashes_while_the_number_of_workers_changes_change_no_result(
    roots: Callable[[], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """At random moments, again and again; a restart begins with four workers, as the job says."""
    quiet = SmallRun(roots(), workers=4)
    quiet.go()
    draw = random.Random(5)
    for _ in range(15):
        run = elastic(roots())
        for operation in [draw.randint(1, 80) for _ in range(3)]:
            with monkeypatch.context() as patched:
                crash_at(operation, patched)
                try:
                    run.go()
                except Crash:
                    continue
                break
        else:
            run.go()
        assert run.digest() == quiet.digest()


@pytest.mark.slow
def test_on_spark_no_epoch_misses_results(spark: SparkSession) -> None:
    ready = city(rows_per_epoch=500)
    sizes = iter([8, 3])

    def change(run: Run, event: EpochCommitted) -> None:
        """Ask for the next size once the last is there."""
        if event.snapshot.binding.workers == asked[-1] and (size := next(sizes, None)):
            asked.append(size)
            run.rebind(shuffled(run.job.graph, size, seed=event.epoch))

    asked = [4]
    expected = followed(start(ready.job, spark=spark, workers=4))
    changing = start(ready.job, spark=spark, workers=4)
    found = followed(changing, change)
    workers = [event.snapshot.binding.workers for event in found]
    assert list(dict.fromkeys(workers)) == [4, 8, 3]
    assert workers == sorted(workers, key=[4, 8, 3].index)
    assert [event.results for event in found] == [event.results for event in expected]
    assert differences(result_tables(changing), ready.expected(changing.consumed)) == []


def followed(run: Run, change: Callable[[Run, EpochCommitted], None] | None = None) -> list[EpochCommitted]:
    epochs: list[EpochCommitted] = []

    def watch(run: Run, event: EpochCommitted) -> None:
        epochs.append(event)
        if change is not None:
            change(run, event)

    run.wait(watch)
    return epochs
