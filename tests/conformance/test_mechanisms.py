"""What every mechanism promises, as a plan and on every runtime that has it.

A new one is run by all of these as soon as the catalog, and the capabilities of a runtime, have it.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.small_city import city, result_tables

from shoal.mechanisms.catalog import DEFAULT, LOSSY, MECHANISMS
from shoal.mechanisms.plan import Queue, StepKind
from shoal.mechanisms.transfer import Transfer
from shoal.model.control.binding import WorkerId
from shoal.model.control.costs import LinkCosts
from shoal.model.control.fragment import Fragments
from shoal.model.control.messages import EpochCommitted
from shoal.model.query.graph import InstanceId
from shoal.policies.binding.static import shuffled
from shoal.runtimes.registry import kinds
from shoal.session.digest import differences
from shoal.session.run import Run, start

WORKERS = 5


@st.composite
def transfers(draw: st.DrawFn) -> list[Transfer]:
    """Instances that go from any worker to any other, with any state, over any link."""
    found = []
    for number in range(draw(st.integers(0, 12))):
        source = draw(st.integers(0, WORKERS - 1))
        target = (source + draw(st.integers(1, WORKERS - 1))) % WORKERS
        link = draw(st.integers(0, 2)), draw(st.integers(0, 2))
        state_bytes, fragments = draw(st.integers(0, 10**9)), draw(st.one_of(st.none(), fragment_lists(1000 * number)))
        instance, on_arrival, depth = InstanceId(f"op/{number}"), draw(st.booleans()), draw(st.integers(0, 3))
        ends = WorkerId(source), WorkerId(target)
        replicated = draw(st.booleans())
        found.append(
            Transfer(
                instance,
                *ends,
                state_bytes,
                fragments,
                link,
                on_arrival,
                bounded=True,
                replicated=replicated,
                depth=depth,
            )
        )
    return found


@st.composite
def fragment_lists(draw: st.DrawFn, first: int) -> Fragments:
    """Fragments with ids from a number on, of a few keys, that are needed at a few times."""
    size = draw(st.integers(0, 9))
    ids = np.arange(first, first + size, dtype=np.uint64)
    keys, times, sizes = (
        np.array(draw(st.lists(st.integers(*range_), min_size=size, max_size=size)), np.int64)
        for range_ in ((0, 3), (0, 4), (0, 500))
    )
    utility = np.array(draw(st.lists(st.floats(0, 9), min_size=size, max_size=size)))
    zeros = np.zeros(size, np.int64)
    return Fragments(ids, zeros, zeros, sizes, times, utility, np.ones(size, bool), keys.astype(np.uint64), times)


COSTS = st.floats(1e3, 1e10).map(LinkCosts)


@pytest.mark.parametrize("name", MECHANISMS)
@given(transfers(), COSTS)
def test_a_plan_moves_every_transfer_exactly_once(name: str, wanted: list[Transfer], links: LinkCosts) -> None:
    plan = MECHANISMS[name].plan(wanted, links)
    resumed = [each for batch in plan.batches if batch.moves for each in batch.transfers]
    assert sorted(resumed, key=lambda each: each.instance) == sorted(wanted, key=lambda each: each.instance)
    assert {each for step in plan.steps for each in step.transfers} == set(wanted)
    assert plan.mechanism == name


@pytest.mark.parametrize("name", MECHANISMS)
@given(transfers(), COSTS)
def test_a_plan_serves_queues_in_their_order(name: str, wanted: list[Transfer], links: LinkCosts) -> None:
    queues = [step.queue for step in MECHANISMS[name].plan(wanted, links).steps]
    assert queues == sorted(queues)


@pytest.mark.parametrize("name", MECHANISMS)
@given(transfers(), COSTS)
def test_every_fragment_is_in_one_batch_and_no_part_follows_the_whole(
    name: str, wanted: list[Transfer], links: LinkCosts
) -> None:
    done = set[InstanceId]()
    moved = list[int]()
    for batch in MECHANISMS[name].plan(wanted, links).batches:
        names = {each.instance for each in batch.transfers}
        assert not names & done
        done |= names if batch.moves else set()
        if batch.ids is not None:
            (transfer,) = batch.transfers
            assert transfer.fragments is not None
            assert set(batch.ids.tolist()) <= set(transfer.fragments.ids.tolist())
            moved += batch.ids.tolist()
    assert len(moved) == len(set(moved))


@pytest.mark.parametrize("name", MECHANISMS)
@given(transfers(), COSTS)
def test_state_is_extracted_before_it_is_sent_and_imported_before_its_instance_resumes(
    name: str, wanted: list[Transfer], links: LinkCosts
) -> None:
    needs: dict[StepKind, set[StepKind]] = {
        StepKind.SEND: {StepKind.EXTRACT},
        StepKind.IMPORT: {StepKind.SEND},
        StepKind.RESUME: {StepKind.IMPORT, StepKind.DROP, StepKind.EXPIRE},
    }
    for batch in MECHANISMS[name].plan(wanted, links).batches:
        for place, kind in enumerate(batch.kinds):
            assert kind not in needs or needs[kind] & set(batch.kinds[:place])


@pytest.mark.parametrize("name", MECHANISMS)
@given(transfers(), COSTS)
def test_events_that_are_redirected_early_are_buffered(name: str, wanted: list[Transfer], links: LinkCosts) -> None:
    """Nothing may come to a target that has no state yet, unless it holds that back."""
    redirected: set[InstanceId] = set()
    held: set[InstanceId] = set()
    for step in MECHANISMS[name].plan(wanted, links).steps:
        names = {each.instance for each in step.transfers}
        redirected |= names if step.kind is StepKind.REDIRECT else set()
        held |= names if step.kind in (StepKind.BUFFER, StepKind.DUPLICATE) else set()
        if step.kind in (StepKind.SEND, StepKind.IMPORT):
            assert redirected & names <= held


@pytest.mark.parametrize("name", MECHANISMS)
@given(transfers(), COSTS)
def test_the_same_transfers_give_the_same_plan(name: str, wanted: list[Transfer], links: LinkCosts) -> None:
    assert MECHANISMS[name].plan(wanted, links) == MECHANISMS[name].plan(list(wanted), links)


@pytest.mark.parametrize("name", MECHANISMS)
def test_nothing_to_move_is_a_plan_without_steps(name: str) -> None:
    assert list(MECHANISMS[name].plan([], LinkCosts()).steps) == []


@pytest.mark.parametrize("name", MECHANISMS)
@given(transfers(), COSTS, st.integers(0, 12))
def test_what_is_left_of_a_plan_can_be_planned_again(
    name: str, wanted: list[Transfer], links: LinkCosts, made: int
) -> None:
    rest = wanted[made:]
    plan = MECHANISMS[name].plan(rest, links)
    later = {each.instance for queue in Queue for each in plan.served(queue) if queue is not Queue.PREAMBLE}
    assert later == {each.instance for each in rest}


def marks_of(on: str, name: str) -> list[pytest.MarkDecorator]:
    """Spark is slow to start: of its mechanisms, the default is always tested alone, all of them always in turn."""
    if on != "spark":
        return []
    return [pytest.mark.spark] if name == DEFAULT else [pytest.mark.spark, pytest.mark.slow]


RUNS = [
    pytest.param(kind.capabilities.name, name, marks=marks_of(kind.capabilities.name, name))
    for kind in kinds()
    for name in kind.capabilities.mechanisms
    if name not in LOSSY
]
CITIES: dict[str, dict[str, Any]] = {
    "spark": {"rows_per_epoch": 1_500},
    "local": {"rate": 20_000.0},
    "simulated": {"rate": 9_000.0},
}
"""Enough epochs to move something in: by rows, or by time."""


def disturbed(
    on: str, request: pytest.FixtureRequest, mechanism: str, act: Callable[[Run, EpochCommitted], str]
) -> Run:
    """A run of the small city in which something is done after every epoch."""
    ready = city(**CITIES.get(on, {}))
    given = {"spark": request.getfixturevalue("spark")} if on == "spark" else {}
    asked: list[str] = []
    run = start(ready.job, on=on, workers=3, policy="round-robin", mechanism=mechanism, **given)
    tally = run.wait(lambda run, event: asked.append(act(run, event)))
    assert differences(result_tables(run), ready.expected(run.consumed)) == []
    assert tally.moves > 0
    reported = [event.rebind for event in run.finished]
    assert len(reported) == len(set(reported))
    late = {refused.command.id for refused in run.refused}  # type: ignore[union-attr]
    assert set(reported) <= set(asked) - late
    assert any(not move.aborted for event in run.finished for move in event.moves)
    return run


@pytest.mark.parametrize(("on", "name"), RUNS)
def test_random_rebindings_change_no_result(on: str, name: str, request: pytest.FixtureRequest) -> None:
    run = disturbed(on, request, name, lambda run, event: run.rebind(shuffled(run.job.graph, 3, seed=event.epoch)))
    assert run.mechanism == name


@pytest.mark.parametrize("on", [pytest.param("spark", marks=pytest.mark.spark), "local"])
def test_rebindings_by_each_mechanism_in_turn_change_no_result(on: str, request: pytest.FixtureRequest) -> None:
    listed = next(kind.capabilities.mechanisms for kind in kinds() if kind.capabilities.name == on)
    names = [name for name in listed if name not in LOSSY]

    def act(run: Run, event: EpochCommitted) -> str:
        return run.rebind(shuffled(run.job.graph, 3, seed=event.epoch), names[event.epoch % len(names)])

    disturbed(on, request, names[0], act)
