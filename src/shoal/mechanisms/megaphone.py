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
"""Events go to the target once the state has left the source; other instances are not delayed."""


@dataclass(frozen=True)
class Megaphone:
    """One batch per transfer in the normal queue; the runtime decides how fast that queue is served."""

    name: str = "megaphone"

    def plan(self, transfers: Sequence[Transfer], links: LinkCosts) -> Plan:
        """Move instances one after another, in the given order."""
        del links  # the runtime's throttle uses them
        return Plan(self.name, tuple(Batch(Queue.NORMAL, HAND_OVER, (transfer,)) for transfer in transfers))
