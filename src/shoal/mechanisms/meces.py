"""Meces (on demand): the target starts at once and asks for the state that its events need; the rest follows.

After R. Gu et al., "Meces: Latency-efficient Rescaling via Prioritized State Migration for Stateful Distributed Stream
Processing Systems", USENIX ATC 2022.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from shoal.mechanisms.all_at_once import MOVE
from shoal.mechanisms.batching import by_key
from shoal.mechanisms.plan import Batch, Plan, Queue, StepKind
from shoal.mechanisms.transfer import Transfer
from shoal.model.control.costs import LinkCosts

BEGIN = (StepKind.PAUSE, StepKind.REDIRECT, StepKind.BUFFER, StepKind.START)
"""The source stops and the target starts, without state."""
FOLLOW = (StepKind.EXTRACT, StepKind.SEND, StepKind.IMPORT, StepKind.RESUME)
"""Some state follows, and events that wait for it are processed."""


@dataclass(frozen=True)
class Meces:
    """All transfers begin in the preamble; keys or instances follow in the normal queue, sooner if they are fetched.

    An operator that compares rows as they arrive moves as a whole if its fragments are known, as in all-at-once.
    """

    name: str = "meces"
    summary: str = "the new worker starts at once and fetches what its events need; the rest follows"

    def plan(self, transfers: Sequence[Transfer], links: LinkCosts) -> Plan:
        """Start all targets at once, then send keys or instances in the given order unless others are asked for."""
        del links  # the same for every link
        whole = tuple(each for each in transfers if each.on_arrival and each.fragments is not None)
        begun = tuple(each for each in transfers if each not in whole)
        batches = [Batch(Queue.PREAMBLE, BEGIN, begun)] if begun else []
        batches += [Batch(Queue.CRITICAL, MOVE, whole)] if whole else []
        return Plan(self.name, (*batches, *(batch for each in begun for batch in fetchable(each))))


def fetchable(transfer: Transfer) -> Iterator[Batch]:
    """The keys of a transfer in the normal queue, any of which the target may ask for; then what is left."""
    for ids in by_key(transfer):
        yield Batch(Queue.NORMAL, FOLLOW, (transfer,), ids, fetched=True)
    yield Batch(Queue.NORMAL, FOLLOW, (transfer,), fetched=transfer.fragments is None)
