"""Lazy migration for utility: the most useful state first, so that an interruption loses the least."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from shoal.mechanisms.batching import by_utility
from shoal.mechanisms.plan import Batch, Plan, Queue, StepKind
from shoal.mechanisms.transfer import Transfer
from shoal.model.control.costs import LinkCosts

STOP = (StepKind.PAUSE, StepKind.REDIRECT, StepKind.BUFFER)
"""The source stops, and the target waits."""
PART = (StepKind.EXTRACT, StepKind.SEND, StepKind.IMPORT)
"""Some state arrives; the target still waits for the rest, or for an interruption."""


@dataclass(frozen=True)
class LazyUtility:
    """Fragments by utility per byte, those of operators downstream first.

    The target resumes with the last batch, or with what it has when the link is interrupted.
    """

    name: str = "lazy-utility"
    summary: str = "the most useful state first; after an interruption the new worker continues with what it has"

    def plan(self, transfers: Sequence[Transfer], links: LinkCosts) -> Plan:
        """Stop all instances, then send their state by utility."""
        del links  # the same for every link
        if not transfers:
            return Plan(self.name)
        ordered = sorted(transfers, key=lambda each: each.depth)
        stopped = Batch(Queue.PREAMBLE, STOP, tuple(ordered))
        return Plan(self.name, (stopped, *(batch for each in ordered for batch in _best_first(each))))


def _best_first(transfer: Transfer) -> Iterator[Batch]:
    for part in by_utility(transfer):
        yield Batch(Queue.NORMAL, PART, (transfer,), part.ids)
    yield Batch(Queue.NORMAL, (*PART, StepKind.RESUME), (transfer,))
