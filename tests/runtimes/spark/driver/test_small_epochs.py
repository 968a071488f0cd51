"""Small epochs: the driver finishes them with the same results, and leaves to the workers what is theirs."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import cast

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from tests.runtimes.spark.crashing import Crash, crash_at
from tests.runtimes.spark.small_spark import Rows, Session, SmallRun, roots, small_spark
from tests.small_city import city

from shoal.policies.binding.static import round_robin
from shoal.runtimes.spark.driver import small_epochs
from shoal.runtimes.spark.driver.outcome import Outcome
from shoal.runtimes.spark.driver.position import Position
from shoal.runtimes.spark.driver.small_epochs import MOST_S, MOST_SENT_BYTES, MOST_STATE_BYTES, SmallEpochs
from shoal.runtimes.spark.rebinding.rebinding import Rebinding
from shoal.runtimes.spark.tasks import wire
from shoal.runtimes.spark.tasks.reports import Report
from shoal.session.digest import differences

pytestmark = pytest.mark.usefixtures("small_spark")
__all__ = ["roots", "small_spark"]


def position() -> Position:
    graph = city().job.graph
    return Position(graph, round_robin(graph, 2))


def small(spent_s: float = 0.0) -> SmallEpochs:
    found = SmallEpochs(cast(SparkSession, Session()))
    found.learn(Outcome({}, None, [Report(worker=0, executor="", cost_s=spent_s, load_s=0.0)]))
    return found


@pytest.fixture
def stages(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The numbers of workers of the stages that Spark is asked for."""
    asked: list[int] = []
    exchange = Rows.repartitionById

    def counted(self: Rows, workers: int, column: str) -> Rows:
        asked.append(workers)
        return exchange(self, workers, column)

    monkeypatch.setattr(Rows, "repartitionById", counted)
    monkeypatch.setattr(small_epochs, "MOST_S", 3600.0)  # however busy the machine of the tests is
    return asked


def test_results_equal_the_batch_oracle_and_only_the_first_epoch_has_an_exchange(
    roots: Callable[[], Path], stages: list[int]
) -> None:
    run = SmallRun(roots(), workers=3, small=True)
    assert run.go().consumed == 9_000
    results = {name: run.sink.table(name) for name in run.sink.names()}
    assert differences(results, city().expected(9_000)) == []
    assert stages == [3]


def test_a_crash_at_any_file_operation_changes_no_result(
    roots: Callable[[], Path], monkeypatch: pytest.MonkeyPatch, stages: list[int]
) -> None:
    quiet = SmallRun(roots(), epochs=3)
    quiet.go()
    counted = SmallRun(roots(), epochs=3, small=True)
    with monkeypatch.context() as patched:
        operations = crash_at(0, patched)
        counted.go()
    assert counted.digest() == quiet.digest()
    stages.clear()
    for operation in range(1, operations() + 1):
        run = SmallRun(roots(), epochs=3, small=True)
        with monkeypatch.context() as patched:
            crash_at(operation, patched)
            with pytest.raises(Crash):
                run.go()
        assert run.go().consumed == 4_500, f"crash at file operation {operation}"
        assert run.digest() == quiet.digest(), f"crash at file operation {operation}"
    assert len(stages) < 3 * operations(), "most epochs must be finished by the driver"


def test_epochs_that_turn_out_to_be_large_go_to_the_workers(
    roots: Callable[[], Path], monkeypatch: pytest.MonkeyPatch, stages: list[int]
) -> None:
    quiet = SmallRun(roots())
    quiet.go()
    stages.clear()
    monkeypatch.setattr(SmallEpochs, "fits", lambda *_: False)
    run = SmallRun(roots(), small=True)
    run.go()
    assert run.digest() == quiet.digest()
    assert len(stages) == 7, "six epochs and the flush"


def test_epochs_in_which_state_moves_go_to_the_workers(roots: Callable[[], Path], stages: list[int]) -> None:
    run = SmallRun(roots(), small=True, shuffle=True)
    run.go()
    results = {name: run.sink.table(name) for name in run.sink.names()}
    assert differences(results, city().expected(9_000)) == []
    assert len(stages) > 1


def test_the_first_epoch_of_a_run_is_not_small() -> None:
    assert not SmallEpochs(cast(SparkSession, Session())).expects(position(), has_code=False)
    assert small().expects(position(), has_code=False)


def test_user_code_runs_in_the_workers() -> None:
    assert not small().expects(position(), has_code=True)


def test_an_epoch_after_a_long_one_is_not_small() -> None:
    assert not small(spent_s=2 * MOST_S).expects(position(), has_code=False)


def test_an_epoch_with_much_state_is_not_small() -> None:
    much = replace(position(), segment_bytes={"a": MOST_STATE_BYTES, "b": 1})
    assert not small().expects(much, has_code=False)


def test_an_epoch_during_a_rebinding_is_not_small() -> None:
    before = position()
    moving = replace(before, rebinding=Rebinding("r", "megaphone", before.binding))
    assert not small().expects(moving, has_code=False)


def test_only_what_is_sent_to_workers_counts_as_sent() -> None:
    large = bytes(3 * MOST_SENT_BYTES)
    results = pa.Table.from_batches([wire.rows([(0, wire.RESULT, large)])])
    partials = pa.Table.from_batches([wire.rows([(0, wire.address(1, 0), large)])])
    assert small().fits(results)
    assert not small().fits(partials)
