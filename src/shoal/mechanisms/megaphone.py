"""Megaphone (fluid): one instance after another, while all others are processed.

After M. Hoffmann et al., "Megaphone: Latency-conscious state migration for distributed streaming dataflows",
PVLDB 12(9), 2019.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from shoal.mechanisms.plan import Batch, Plan, Queue, StepKind, Transfer
from shoal.model.control.costs import LinkCosts

HAND_OVER = (
    StepKind.EXTRACT,
    StepKind.REDIRECT,
    StepKind.BUFFER,
    StepKind.SEND,
    StepKind.IMPORT,
    StepKind.RESUME,
)
"""Events go to the target when the state has left the source; nobody else is held up."""


@dataclass(frozen=True)
class Megaphone:
    """A batch of its own for every transfer, in the normal queue: the runtime decides how fast it is served."""

    name: str = "megaphone"

    def plan(self, transfers: Sequence[Transfer], links: LinkCosts) -> Plan:
        """Hand instances over one after another, in the order given."""
        del links  # the runtime's throttle knows them
        return Plan(self.name, tuple(Batch(Queue.NORMAL, HAND_OVER, (transfer,)) for transfer in transfers))
