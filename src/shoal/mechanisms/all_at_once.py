"""All at once: everything stops, moves and goes on; simple, and the baseline of all others."""

from collections.abc import Sequence
from dataclasses import dataclass

from shoal.mechanisms.plan import Batch, Plan, Queue, StepKind, Transfer
from shoal.model.control.costs import LinkCosts

MOVE = (
    StepKind.PAUSE,
    StepKind.REDIRECT,
    StepKind.BUFFER,
    StepKind.EXTRACT,
    StepKind.SEND,
    StepKind.IMPORT,
    StepKind.RESUME,
)
"""The source stops, the target starts when it has everything."""


@dataclass(frozen=True)
class AllAtOnce:
    """One critical batch with all transfers."""

    name: str = "all-at-once"

    def plan(self, transfers: Sequence[Transfer], links: LinkCosts) -> Plan:
        """Stop all instances that move, move them together, resume all of them."""
        del links  # whatever they are like, everything has to be there before anything goes on
        return Plan(self.name, (Batch(Queue.CRITICAL, MOVE, tuple(transfers)),) if transfers else ())
