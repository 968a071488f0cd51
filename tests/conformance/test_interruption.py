"""A migration whose source is gone at any byte loses exactly what its report says, with every kernel and mechanism."""

import random
from collections import Counter
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.conformance.interruptions import Interrupted, Step, replayed, stepped
from tests.conformance.kernel_case import EVENTS, KernelCase
from tests.conformance.kernels import CASES, NULL_CASES
from tests.conformance.migrations import begun
from tests.conformance.oracles import PORT, Event, Result

from shoal.kernels.aggregate.windowed import WINDOW_END, AggregateKernel
from shoal.kernels.columns.table import INSTANCE
from shoal.kernels.kernel import FOREVER_US
from shoal.kernels.session_window import SessionKernel
from shoal.mechanisms.catalog import MECHANISMS
from shoal.runtimes.migration.state_copy import StateCopy

SUMS = next(case for case in CASES if case.id == "tumbling sum of integers per integer")
EVENT: Event = {
    "ts": 0,
    "road": 0,
    "far": -1,
    "kind": "car",
    "toll": True,
    "day": 0,
    "observed": 0,
    "n": 1,
    "speed": 1.0,
    INSTANCE: 0,
    PORT: 0,
}
STREAMS = st.lists(EVENTS, min_size=1, max_size=25)
every_kernel = pytest.mark.parametrize("case", [*CASES, *NULL_CASES], ids=lambda case: case.id)


def check(case: KernelCase, mechanism: str, events: Sequence[Event], seed: int) -> Interrupted | None:
    """Interrupt a migration, and compare it with a run that loses what the report says; None if it cannot be moved."""
    if mechanism == "window-recreation" and not case.kernel.bounded:
        return None
    draw = random.Random(seed)
    steps = stepped(case, events, draw)
    run = Interrupted(case, mechanism, draw, draw.randint(0, len(steps) - 1))
    found = run.results(steps)
    assert run.loss is not None
    lost = set(run.loss.lost.ids.tolist())
    if run.expected is not None:
        assert lost == run.expected
    assert not lost & run.unchanged
    assert case.disagreement(found, replayed(case, steps, run.changes)) == ""
    check_once(case, found)
    return run


def check_once(case: KernelCase, found: Sequence[Result]) -> None:
    """No window of time was emitted twice."""
    if isinstance(case.kernel, AggregateKernel | SessionKernel):
        names = (INSTANCE, *case.names)
        places = [names.index(name) for name in (INSTANCE, WINDOW_END, *case.kernel.keys(0))]
        assert max(Counter(repr([row[place] for place in places]) for row in found).values(), default=1) == 1


@every_kernel
def test_a_migration_loses_what_its_report_says(case: KernelCase) -> None:
    @settings(deadline=None, max_examples=4)
    @given(STREAMS, st.sampled_from(sorted(MECHANISMS)), st.integers(0, 2**32))
    def holds(events: list[Event], mechanism: str, seed: int) -> None:
        check(case, mechanism, events, seed)

    holds()


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_every_mechanism_is_interrupted_in_the_middle(mechanism: str) -> None:
    wanted = {"all"} if mechanism == "drop" else {"all", "some"}
    for seed in range(300):
        draw = random.Random(seed)
        events = [{**EVENT, "ts": draw.randint(-60, 60), "road": draw.randint(-2, 2)} for _ in range(20)]
        run = check(SUMS, mechanism, events, seed)
        assert run is not None
        assert run.loss is not None
        lost, every = len(run.loss.lost), len(run.loss.every)
        wanted -= {"all"} if lost == every > 0 else {"some"} if lost else set()
        if not wanted:
            return
    pytest.fail(f"{mechanism} never lost {' or '.join(wanted)} of its state")


def test_drop_restarts_with_empty_state() -> None:
    events = [{**EVENT, "ts": ts} for ts in (0, 1, 2, 8)]
    before, after = [Step(0, events[:3])], [Step(0, events[3:]), Step(0, (), FOREVER_US)]
    here = SUMS.kernel.open()
    SUMS.kernel.process(here, SUMS.block(events[:3]))
    moving = begun(SUMS, "drop", here)
    shipment = moving.leave()
    assert shipment is not None
    moving.arrive(shipment)
    moving.rows(0, SUMS.block(events[3:]))
    found = SUMS.results(moving.advance(FOREVER_US))
    assert found == replayed(SUMS, after, [])
    assert found != replayed(SUMS, [*before, *after], [])
    lost = moving.loss.lost_state(SUMS.kernel, ["sums"])
    assert lost is not None
    assert (lost.fragments, lost.rows, lost.keys, lost.share) == (1, 3, 1, 1.0)
    [loss] = lost.queries
    assert (loss.query, loss.rows, loss.most_results) == ("sums", 3, 1)
    assert loss.most_errors == {"total": 3.0}


@pytest.mark.parametrize("mechanism", ["rhino", "checkpoint-assisted"])
def test_a_copy_is_advanced_to_the_watermark_at_which_the_source_stopped(mechanism: str) -> None:
    here = SUMS.kernel.open()
    SUMS.kernel.process(here, SUMS.block([{**EVENT, "ts": ts} for ts in (0, 1, 2)]))
    moving = begun(SUMS, mechanism, here, StateCopy.of(SUMS.kernel, here))
    copy = moving.leave()
    assert copy is not None
    moving.arrive(copy)
    assert len(SUMS.results(moving.advance(1000))) == 1  # the source has emitted the window that was copied
    moving.rows(0, SUMS.block([{**EVENT, "ts": 2000}]))
    difference = moving.leave()
    assert difference is not None
    loss, results = moving.interrupt([(difference, 0)])
    assert (len(loss.lost), len(loss.stale.fragments)) == (1, 0)
    assert SUMS.results(results) == SUMS.results(moving.advance(FOREVER_US)) == []


def test_a_report_of_a_move_adds_up_the_losses_of_its_queries() -> None:
    draw = random.Random(1)
    events = [{**EVENT, "ts": draw.randint(0, 60), INSTANCE: draw.randint(0, 2)} for _ in range(30)]
    here = SUMS.kernel.open()
    SUMS.kernel.process(here, SUMS.block(events))
    moving = begun(SUMS, "all-at-once", here)
    shipment = moving.leave()
    assert shipment is not None
    assert shipment.piece is not None
    loss, _ = moving.interrupt([(shipment, shipment.nbytes // 2)])
    lost = loss.lost_state(SUMS.kernel, ["one", "two", "one"])
    assert lost is not None
    assert {each.query for each in lost.queries} == {"one", "two"}
    assert lost.fragments == len(loss.lost) == sum(each.fragments for each in lost.queries)
    assert lost.state_bytes == loss.lost.total_bytes == sum(each.state_bytes for each in lost.queries)
    assert lost.rows == sum(each.rows for each in lost.queries)
    assert lost.share == pytest.approx(1 - loss.utility_kept)
    assert moving.loss is loss


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", MECHANISMS)
@every_kernel
def test_a_migration_loses_what_its_report_says_in_many_more_runs(case: KernelCase, mechanism: str) -> None:
    @settings(deadline=None, max_examples=12)
    @given(STREAMS, st.integers(0, 2**32))
    def holds(events: list[Event], seed: int) -> None:
        check(case, mechanism, events, seed)

    holds()
