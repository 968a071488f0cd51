"""The policy `min-cost`: upstream first, so that every turn has much to do."""

from collections.abc import Sequence
from dataclasses import dataclass

from shoal.policies.scheduling.policy import Candidate, OperatorCost, Steady, Turn, above_threshold, downstream


@dataclass(frozen=True)
class MinCost(Steady):
    """The most upstream operator among those that are worth a turn."""

    threshold: int = 1000
    idle_s: float = 0.0002

    def priorities(self, operators: Sequence[OperatorCost]) -> list[float]:
        """The number of operators downstream of each."""
        return [float(len(downstream(operators, position))) for position in range(len(operators))]

    def choose(self, candidates: Sequence[Candidate], left_s: float) -> Turn | None:
        """Most upstream first."""
        return above_threshold(candidates, left_s, self.threshold, self.idle_s)
