"""All at once: all moving instances stop, move and resume; simple, and the baseline of all others."""

from collections.abc import Sequence
from dataclasses import dataclass

from shoal.mechanisms.plan import Batch, Plan, Queue, StepKind
from shoal.mechanisms.transfer import Transfer
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
"""The source stops; the target starts once it has all state."""


@dataclass(frozen=True)
class AllAtOnce:
    """One critical batch with all transfers."""

    name: str = "all-at-once"
    summary: str = "all instances at once while their workers stop"

    def plan(self, transfers: Sequence[Transfer], links: LinkCosts) -> Plan:
        """Stop all instances that move, move them together, resume all of them."""
        del links  # every transfer must finish before any instance resumes
        return Plan(self.name, (Batch(Queue.CRITICAL, MOVE, tuple(transfers)),) if transfers else ())
