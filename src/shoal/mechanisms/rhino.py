"""Rhino (pre-copy): state is copied while the source still processes; only the difference delays an instance.

After B. Del Monte et al., "Rhino: Efficient Management of Very Large Distributed State for Stream Processing Engines",
SIGMOD 2020.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from shoal.mechanisms.all_at_once import MOVE
from shoal.mechanisms.plan import Batch, Plan, Queue, StepKind
from shoal.mechanisms.transfer import Transfer
from shoal.model.control.costs import LinkCosts


@dataclass(frozen=True)
class Rhino:
    """A preamble with a copy of everything, then one critical batch with what has changed since."""

    name: str = "rhino"
    summary: str = (
        "copies state while its worker continues; then moves all instances at once, with what has changed since"
    )

    def plan(self, transfers: Sequence[Transfer], links: LinkCosts) -> Plan:
        """Copy all moving instances, then stop them, send the difference and resume them at once."""
        del links  # the same for every link
        if not transfers:
            return Plan(self.name)
        every = tuple(transfers)
        preamble = Batch(Queue.PREAMBLE, (StepKind.PREAMBLE,), every)
        return Plan(self.name, (preamble, Batch(Queue.CRITICAL, MOVE, every)))
