"""Drop: nothing moves; the target starts with empty state, and the loss is reported."""

from collections.abc import Sequence
from dataclasses import dataclass

from shoal.mechanisms.plan import Batch, Plan, Queue, StepKind
from shoal.mechanisms.transfer import Transfer
from shoal.model.control.costs import LinkCosts

DISCARD = (StepKind.PAUSE, StepKind.REDIRECT, StepKind.DROP, StepKind.RESUME)


@dataclass(frozen=True)
class Drop:
    """One batch that discards all state: for hosts that are about to go, and as the baseline of shedding."""

    name: str = "drop"
    summary: str = "nothing moves; the new worker starts with empty state, and what was lost is reported"

    def plan(self, transfers: Sequence[Transfer], links: LinkCosts) -> Plan:
        """Stop all instances, discard their state and start them empty."""
        del links  # nothing is sent
        return Plan(self.name, (Batch(Queue.CRITICAL, DISCARD, tuple(transfers)),) if transfers else ())
