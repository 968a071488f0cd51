"""Lazy migration for latency: every part of the state arrives just before a result depends on it.

The part of seed 002 on lazy migration: windows go by the time at which they close, across keys. Of an operator that
compares rows as they arrive, the essential part of its state goes first and the rest when a match needs it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from shoal.mechanisms.batching import by_time
from shoal.mechanisms.meces import BEGIN, FOLLOW, fetchable
from shoal.mechanisms.plan import Batch, Plan, Queue, StepKind
from shoal.mechanisms.transfer import Transfer
from shoal.model.control.costs import LinkCosts

TELL = (StepKind.PAUSE, StepKind.REDIRECT, StepKind.BUFFER, StepKind.TELL, StepKind.START)
"""The target starts once it knows which state will follow."""


@dataclass(frozen=True)
class LazyLatency:
    """Batches with deadlines, the soonest first; operators upstream before those downstream.

    Where whole instances move, only the runtime knows when each is needed: it orders the last batches of that queue.
    """

    name: str = "lazy-latency"
    summary: str = "the new worker starts at once; each part of the state arrives just before a result depends on it"

    def plan(self, transfers: Sequence[Transfer], links: LinkCosts) -> Plan:
        """Start all targets, then send state by the time at which it is needed."""
        del links  # the executor orders batches by their deadlines and its own transmission times
        ordered = sorted(transfers, key=lambda each: -each.depth)
        timed = [each for each in ordered if not each.on_arrival and each.fragments is not None]
        told = [each for each in ordered if each.on_arrival and each.fragments is not None]
        whole = [each for each in ordered if each.fragments is None]
        begun = (*timed, *whole)
        batches = [Batch(Queue.PREAMBLE, BEGIN, begun)] if begun else []
        batches += [Batch(Queue.CRITICAL, TELL, (each,)) for each in told]
        batches += sorted((batch for each in timed for batch in _due(each)), key=lambda batch: batch.due_us)
        batches += [Batch(Queue.DEADLINE, FOLLOW, (each,), fetched=True) for each in whole]
        return Plan(self.name, (*batches, *(batch for each in told for batch in fetchable(each))))


def _due(transfer: Transfer) -> Iterator[Batch]:
    for due_us, ids in by_time(transfer):
        yield Batch(Queue.DEADLINE, FOLLOW, (transfer,), ids, due_us=due_us)
    yield Batch(Queue.DEADLINE, FOLLOW, (transfer,))
