"""Shedding on Spark without Spark: what the plan of an epoch says is shed again after a crash, and is remembered."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest
from tests.runtimes.spark.crashing import Crash, crash_at
from tests.runtimes.spark.small_spark import SmallRun, roots, small_spark

from shoal.model.control.messages import Command, EpochCommitted, ShedInput
from shoal.model.control.shedding import ShedRange, ShedRule, StreamShedding
from shoal.runtimes.spark.driver.runtime import SparkRuntime
from shoal.workloads.traffic.queries import STREAM

pytestmark = pytest.mark.usefixtures("small_spark")
__all__ = ["roots", "small_spark"]

RULE = ShedRule("random", 0.4, seed=1)
SWITCHED: Mapping[int, Sequence[Command]] = {1: [ShedInput(active=True)], 3: [ShedInput(active=False)]}


def asked(rule: ShedRule | None = RULE, *, always: bool = False) -> Mapping[str, StreamShedding]:
    return {STREAM: StreamShedding().asked(rule, always=always)}


def shed(runtime: SparkRuntime) -> list[int]:
    events = list(runtime._events._queue.queue)
    return [sum(c.rows for c in each.shed.values()) for each in events if isinstance(each, EpochCommitted)]


def ranges(run: SmallRun) -> tuple[ShedRange, ...]:
    last = run.checkpoint.last_epoch()
    assert last is not None
    return run.checkpoint.manifest(last).shedding[STREAM].ranges


def test_rows_are_shed_from_the_epoch_after_a_command_to_the_epoch_before_the_next(
    roots: Callable[[], Path],
) -> None:
    run = SmallRun(roots(), commands=SWITCHED, shedding=asked())
    counted = shed(run.go())
    assert [number > 0 for number in counted] == [False, True, True, False, False, False, False]
    assert 0.35 < sum(counted) / 3_000 < 0.45
    [found] = ranges(run)
    assert found.rule == RULE


def test_a_crash_at_any_file_operation_sheds_the_same_rows(
    roots: Callable[[], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """At every third of them, which hits each kind of file."""
    switched = {1: [ShedInput(active=True)], 2: [ShedInput(active=False)]}
    quiet = SmallRun(roots(), epochs=3, commands=switched, shedding=asked())
    with monkeypatch.context() as patched:
        operations = crash_at(0, patched)
        quiet.go()
    for operation in range(1, operations() + 1, 3):
        run = SmallRun(roots(), epochs=3, commands=switched, shedding=asked())
        with monkeypatch.context() as patched:
            crash_at(operation, patched)
            with pytest.raises(Crash):
                run.go()
        run.go()
        assert run.digest() == quiet.digest(), f"crash at file operation {operation}"
        assert ranges(run) == ranges(quiet)


def test_a_run_that_is_resumed_without_shedding_ends_it_and_one_with_another_share_begins_again(
    roots: Callable[[], Path],
) -> None:
    root = roots()
    assert min(shed(SmallRun(root, shedding=asked(always=True)).go(until=2))) > 0
    assert shed(SmallRun(root).go(until=4)) == [0, 0]
    other = ShedRule("random", 0.1)
    last = SmallRun(root, shedding=asked(other, always=True))
    assert min(shed(last.go(until=6))[:2]) > 0
    first, second = ranges(last)
    assert (first.rule, second.rule) == (RULE, other)
    assert first.end_us < second.start_us
