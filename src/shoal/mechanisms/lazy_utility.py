"""Lazy migration for utility: the most useful state first, so that an interruption loses the least."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count

from shoal.mechanisms.batching import by_utility
from shoal.mechanisms.plan import Batch, Plan, Queue, StepKind
from shoal.mechanisms.shedding.consignment import consigned
from shoal.mechanisms.shedding.selection import GreedySelection, Selection
from shoal.mechanisms.transfer import SharedCapacity, Transfer
from shoal.model.control.costs import LinkCosts
from shoal.model.control.fragment import Fragments

STOP = (StepKind.PAUSE, StepKind.REDIRECT, StepKind.BUFFER)
"""The source stops, and the target waits."""
PART = (StepKind.EXTRACT, StepKind.SEND, StepKind.IMPORT)
"""Some state arrives; the target still waits for the rest, or for an interruption."""


@dataclass(frozen=True)
class LazyUtility:
    """Fragments by utility per byte, those of operators downstream first.

    The target resumes with the last batch, or with what it has when the link is interrupted. If it is known how much a
    link can carry, the selection chooses what goes first, among the fragments of all instances that share the link.
    """

    selection: Selection = field(default_factory=GreedySelection)
    name: str = "lazy-utility"
    summary: str = "the most useful state first; after an interruption the new worker continues with what it has"

    def plan(self, transfers: Sequence[Transfer], links: LinkCosts) -> Plan:
        """Stop all instances, then send their state by utility."""
        del links  # what a link can carry in time is known with each transfer
        if not transfers:
            return Plan(self.name)
        ordered = sorted(transfers, key=lambda each: each.depth)
        stopped = Batch(Queue.PREAMBLE, STOP, tuple(ordered))
        shared = dict[SharedCapacity, list[Transfer]]()
        free = list[Transfer]()
        for each in ordered:
            (free if each.capacity is None else shared.setdefault(each.capacity, [])).append(each)
        first = (batch for capacity, several in shared.items() for batch in self._limited(several, capacity))
        rest = (batch for each in free for batch in self._best_first(each))
        return Plan(self.name, (stopped, *first, *rest))

    def _best_first(self, transfer: Transfer) -> Iterator[Batch]:
        for ids in by_utility(transfer, self.selection):
            yield Batch(Queue.NORMAL, PART, (transfer,), ids)
        yield Batch(Queue.NORMAL, (*PART, StepKind.RESUME), (transfer,))

    def _limited(self, transfers: Sequence[Transfer], capacity: SharedCapacity) -> Iterator[Batch]:
        """What fits, then the rest unless it is dropped; every target resumes after its last part."""
        listed, rank = [each.fragments or Fragments.none() for each in transfers], count(1)
        found = consigned(self.selection, listed, capacity.nbytes)
        sent = [each for each in found if each.chosen or not capacity.drops]
        last = {each.place: number for number, each in enumerate(sent)}
        ending = (StepKind.DROP, StepKind.RESUME) if capacity.drops else (*PART, StepKind.RESUME)
        for place, transfer in enumerate(transfers):
            if place not in last:
                yield Batch(Queue.NORMAL, ending, (transfer,), rank=next(rank))
        for number, each in enumerate(sent):
            transfer = transfers[each.place]
            yield Batch(Queue.NORMAL, PART, (transfer,), each.fragments.ids, rank=next(rank))
            if last[each.place] == number:
                yield Batch(Queue.NORMAL, ending, (transfer,), rank=next(rank))
