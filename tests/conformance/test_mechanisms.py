"""What every mechanism promises, as a plan and on every runtime that has it.

A new one is run by all of these as soon as the catalog, and the capabilities of a runtime, have it.
"""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.small_city import city, result_tables

from shoal.mechanisms.catalog import MECHANISMS
from shoal.mechanisms.plan import Queue, StepKind, Transfer
from shoal.model.control.binding import WorkerId
from shoal.model.control.costs import LinkCosts
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
        state_bytes, fragments = draw(st.integers(0, 10**9)), draw(st.integers(0, 100))
        instance = InstanceId(f"op/{number}")
        found.append(Transfer(instance, WorkerId(source), WorkerId(target), state_bytes, fragments, link))
    return found


COSTS = st.floats(1e3, 1e10).map(LinkCosts)


@pytest.mark.parametrize("name", MECHANISMS)
@given(transfers(), COSTS)
def test_a_plan_moves_every_transfer_exactly_once(name: str, wanted: list[Transfer], links: LinkCosts) -> None:
    plan = MECHANISMS[name].plan(wanted, links)
    resumed = [each for step in plan.steps if step.kind is StepKind.RESUME for each in step.transfers]
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
def test_no_instance_is_sent_before_it_is_extracted_or_resumed_before_it_is_imported(
    name: str, wanted: list[Transfer], links: LinkCosts
) -> None:
    done: dict[InstanceId, list[StepKind]] = {each.instance: [] for each in wanted}
    for step in MECHANISMS[name].plan(wanted, links).steps:
        for each in step.transfers:
            so_far = done[each.instance]
            needs = {StepKind.SEND: StepKind.EXTRACT, StepKind.IMPORT: StepKind.SEND, StepKind.RESUME: StepKind.IMPORT}
            assert step.kind not in needs or needs[step.kind] in so_far
            assert step.kind not in so_far
            so_far.append(step.kind)


@pytest.mark.parametrize("name", MECHANISMS)
@given(transfers(), COSTS)
def test_events_that_are_redirected_early_are_buffered(name: str, wanted: list[Transfer], links: LinkCosts) -> None:
    """Nothing may come to a target that has no state yet, unless it holds that back."""
    redirected: set[InstanceId] = set()
    held: set[InstanceId] = set()
    for step in MECHANISMS[name].plan(wanted, links).steps:
        names = {each.instance for each in step.transfers}
        redirected |= names if step.kind is StepKind.REDIRECT else set()
        held |= names if step.kind is StepKind.BUFFER else set()
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
    assert sorted(each.instance for queue in Queue for each in plan.served(queue) if queue is not Queue.PREAMBLE) == [
        *sorted(each.instance for each in rest)
    ]


RUNS = [
    pytest.param(kind.capabilities.name, name, marks=[pytest.mark.spark] * (kind.capabilities.name == "spark"))
    for kind in kinds()
    for name in kind.capabilities.mechanisms
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
    names = next(kind.capabilities.mechanisms for kind in kinds() if kind.capabilities.name == on)

    def act(run: Run, event: EpochCommitted) -> str:
        return run.rebind(shuffled(run.job.graph, 3, seed=event.epoch), names[event.epoch % len(names)])

    disturbed(on, request, names[0], act)
