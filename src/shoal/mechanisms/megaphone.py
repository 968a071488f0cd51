"""Megaphone (fluid): one key or instance after another, while all others are processed.

After M. Hoffmann et al., "Megaphone: Latency-conscious state migration for distributed streaming dataflows",
PVLDB 12(9), 2019.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from shoal.mechanisms.all_at_once import MOVE
from shoal.mechanisms.batching import by_key
from shoal.mechanisms.plan import Batch, Plan, Queue, StepKind
from shoal.mechanisms.transfer import Transfer
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
    """One batch per key or transfer in the normal queue; the runtime decides how fast that queue is served.

    An operator that compares rows as they arrive moves as a whole if its fragments are known, as in all-at-once: its
    rows may need any of them.
    """

    name: str = "megaphone"
    summary: str = "one key or instance after another while the others are processed, throttled to avoid delays"

    def plan(self, transfers: Sequence[Transfer], links: LinkCosts) -> Plan:
        """Move instances one after another, in the given order."""
        del links  # the runtime's throttle uses them
        whole = tuple(each for each in transfers if each.on_arrival and each.fragments is not None)
        batches = [Batch(Queue.CRITICAL, MOVE, whole)] if whole else []
        batches += [batch for each in transfers if each not in whole for batch in _fluid(each)]
        return Plan(self.name, tuple(batches))


def _fluid(transfer: Transfer) -> Iterator[Batch]:
    for ids in by_key(transfer):
        yield Batch(Queue.NORMAL, HAND_OVER, (transfer,), ids)
    yield Batch(Queue.NORMAL, HAND_OVER, (transfer,))
