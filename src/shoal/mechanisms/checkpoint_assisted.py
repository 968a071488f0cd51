"""Checkpoint-assisted: as rhino, but the target has a copy of the state already, replicated there periodically."""

from collections.abc import Sequence
from dataclasses import dataclass

from shoal.mechanisms.all_at_once import MOVE
from shoal.mechanisms.plan import Batch, Plan, Queue, StepKind
from shoal.mechanisms.transfer import Transfer
from shoal.model.control.costs import LinkCosts

NO_REPLICA = "the new worker has no replica: its state was copied first, as by rhino"


@dataclass(frozen=True)
class CheckpointAssisted:
    """The replica instead of a preamble where there is one; then one critical batch with what has changed since."""

    name: str = "checkpoint-assisted"
    summary: str = "moves what has changed since the last copy at the new worker, which is made there periodically"

    def plan(self, transfers: Sequence[Transfer], links: LinkCosts) -> Plan:
        """Use the replicas; copy what has none, then stop all, send the difference and resume them at once."""
        del links  # the same for every link
        if not transfers:
            return Plan(self.name)
        replicated = tuple(each for each in transfers if each.replicated)
        others = tuple(each for each in transfers if not each.replicated)
        batches = [Batch(Queue.PREAMBLE, (StepKind.REPLICA,), replicated)] if replicated else []
        batches += [Batch(Queue.PREAMBLE, (StepKind.PREAMBLE,), others, note=NO_REPLICA)] if others else []
        return Plan(self.name, (*batches, Batch(Queue.CRITICAL, MOVE, tuple(transfers))))
