"""What every mechanism promises; a new one is run by all of these as soon as the catalog has it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.mechanisms.catalog import MECHANISMS
from shoal.mechanisms.plan import Queue, StepKind, Transfer
from shoal.model.binding import WorkerId
from shoal.model.costs import LinkCosts
from shoal.model.graph import InstanceId

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
