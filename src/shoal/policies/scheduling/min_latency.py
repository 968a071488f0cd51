"""The policy `min-latency`: closest to the end first."""

from collections.abc import Sequence
from dataclasses import dataclass

from shoal.policies.scheduling.policy import (
    BLOCK_EVENTS,
    BY_PRIORITY,
    Candidate,
    OperatorCost,
    Steady,
    Turn,
    first,
    output_cost_s,
)


@dataclass(frozen=True)
class MinLatency(Steady):
    """The operator with the smallest output cost, one block at a time."""

    block_events: int = BLOCK_EVENTS

    def priorities(self, operators: Sequence[OperatorCost]) -> list[float]:
        """The inverse of the output cost."""
        return [1.0 / cost for cost in output_cost_s(operators)]

    def choose(self, candidates: Sequence[Candidate], left_s: float) -> Turn | None:  # noqa: ARG002
        """Smallest output cost first."""
        return Turn(first(candidates, BY_PRIORITY).position, self.block_events)
