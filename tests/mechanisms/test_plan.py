"""Plans: what cannot be carried out cannot be constructed."""

import pytest

from shoal.errors import MechanismError
from shoal.mechanisms.plan import Batch, Plan, Queue, StepKind
from shoal.mechanisms.transfer import Transfer
from shoal.model.control.binding import WorkerId
from shoal.model.query.graph import InstanceId

MOVE = (StepKind.EXTRACT, StepKind.SEND, StepKind.IMPORT, StepKind.RESUME)


def transfer(name: str) -> Transfer:
    return Transfer(InstanceId(name), WorkerId(0), WorkerId(1), state_bytes=10)


def test_a_transfer_to_the_same_worker_is_refused() -> None:
    with pytest.raises(MechanismError, match="instance 'a' must move to another worker; got 2 twice"):
        Transfer(InstanceId("a"), WorkerId(2), WorkerId(2))


@pytest.mark.parametrize(
    ("kinds", "reason"),
    [
        pytest.param(MOVE[1:], "a batch has step send without extract before it", id="sends what was not extracted"),
        pytest.param((*MOVE[:2], MOVE[3]), "has step resume without import", id="resumes what was not imported"),
        pytest.param((MOVE[1], MOVE[0], *MOVE[2:]), "has step send without extract", id="the wrong way round"),
        pytest.param((*MOVE, MOVE[-1]), "must have each step at most once", id="a step twice"),
    ],
)
def test_steps_in_an_impossible_order_are_refused(kinds: tuple[StepKind, ...], reason: str) -> None:
    with pytest.raises(MechanismError, match=reason):
        Batch(Queue.NORMAL, kinds, (transfer("a"),))


@pytest.mark.parametrize(
    ("batches", "reason"),
    [
        pytest.param(
            (Batch(Queue.NORMAL, MOVE, (transfer("a"),)), Batch(Queue.CRITICAL, MOVE, (transfer("b"),))),
            "a plan of odd must serve its queues in their order; got normal, critical",
            id="a queue too early",
        ),
        pytest.param(
            (Batch(Queue.PREAMBLE, (StepKind.PREAMBLE,), (transfer("a"),)),),
            "a plan of odd must resume each of its 1 instances once; got 0 times in all, 0 instances",
            id="a transfer that is lost",
        ),
        pytest.param(
            (Batch(Queue.NORMAL, MOVE, (transfer("a"),)),) * 2,
            "a plan of odd must resume each of its 1 instances once; got 2 times in all, 1 instances",
            id="a transfer that is repeated",
        ),
    ],
)
def test_a_plan_that_loses_repeats_or_reorders_is_refused(batches: tuple[Batch, ...], reason: str) -> None:
    with pytest.raises(MechanismError, match=reason):
        Plan("odd", batches)


def test_a_plan_tells_its_steps_in_order() -> None:
    one, other = transfer("a"), transfer("b")
    plan = Plan("any", (Batch(Queue.CRITICAL, MOVE, (one,)), Batch(Queue.NORMAL, MOVE, (other,))))
    assert [step.kind for step in plan.steps] == [*MOVE, *MOVE]
    assert [step.transfers for step in plan.steps] == [(one,)] * 4 + [(other,)] * 4
    assert plan.kinds == set(MOVE)
    assert plan.queues == {Queue.CRITICAL, Queue.NORMAL}
    assert (plan.served(Queue.CRITICAL), plan.served(Queue.NORMAL), plan.served(Queue.FETCH)) == ((one,), (other,), ())
