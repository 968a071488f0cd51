"""Ways: how an instance changes its worker while the run goes on, as a plan of a mechanism says."""

from dataclasses import dataclass
from enum import StrEnum

from shoal.errors import MechanismError
from shoal.mechanisms.plan import Plan, Queue, StepKind


class StateComes(StrEnum):
    """When the state of an instance comes to the new owner."""

    AT_ONCE = "at once"
    """With the instance."""
    LATER = "later"
    """After the instance, one instance after another."""
    NEVER = "never"
    """It is dropped, and reported as lost."""


class First(StrEnum):
    """Which state comes first, if it comes later."""

    REQUESTED = "requested"
    """That of the instance that was requested first."""
    NEEDED = "needed"
    """That which a result depends on first."""
    USEFUL = "useful"
    """That with the largest utility per byte."""


class Ahead(StrEnum):
    """What the new owner gets before it gets the instance."""

    NOTHING = "nothing"
    COPY = "copy"
    """A copy of the state; what has changed since comes with the instance."""
    ROWS = "rows"
    """All rows, until no state is left that it cannot make of them."""
    STATE_AND_ROWS = "state and rows"
    """A copy of the state, and all rows from then on."""


@dataclass(frozen=True)
class MoveWay:
    """How an instance moves without a stop.

    `fetched`: the new owner asks for state that it needs before its turn.
    """

    comes: StateComes = StateComes.AT_ONCE
    first: First = First.REQUESTED
    fetched: bool = False
    ahead: Ahead = Ahead.NOTHING


AT_ONCE = MoveWay()

STEPS = frozenset(StepKind) - {StepKind.REPLICA, StepKind.TELL}
"""The steps that can be executed between threads, where whole instances move."""


def way_of(plan: Plan) -> MoveWay | None:
    """The way in which a plan moves its instances; None if all workers stop. Raises if it cannot be executed.

    >>> from shoal.mechanisms.catalog import MECHANISMS
    >>> from shoal.model.control.costs import LinkCosts
    >>> from shoal.model.control.binding import WorkerId
    >>> from shoal.model.query.graph import InstanceId
    >>> from shoal.mechanisms.transfer import Transfer
    >>> move = Transfer(InstanceId("op/0"), WorkerId(0), WorkerId(1))
    >>> found = way_of(MECHANISMS["meces"].plan([move], LinkCosts()))
    >>> found is not None and (found.comes.value, found.first.value, found.fetched)
    ('later', 'requested', True)
    """
    _check(plan)
    kinds = plan.kinds
    if StepKind.DROP in kinds:
        return MoveWay(StateComes.NEVER)
    if StepKind.PREAMBLE in kinds:
        return MoveWay(ahead=Ahead.COPY)
    if StepKind.DUPLICATE in kinds:
        return MoveWay(ahead=Ahead.STATE_AND_ROWS if StepKind.EXTRACT in kinds else Ahead.ROWS)
    if any(batch.queue is Queue.PREAMBLE and StepKind.REDIRECT in batch.kinds for batch in plan.batches):
        fetched = any(batch.fetched for batch in plan.batches)
        return MoveWay(StateComes.LATER, _first(plan), fetched)
    return None if StepKind.PAUSE in kinds else AT_ONCE


def _first(plan: Plan) -> First:
    if Queue.DEADLINE in plan.queues:
        return First.NEEDED
    return First.REQUESTED if StepKind.START in plan.kinds else First.USEFUL


def _check(plan: Plan) -> None:
    odd = [f"step {kind}" for kind in sorted(plan.kinds - STEPS)]
    odd += ["parts of instances" for batch in plan.batches if batch.ids is not None][:1]
    if odd:
        raise MechanismError(f"mechanism {plan.mechanism} has {odd[0]}, which the local runtime cannot execute")
