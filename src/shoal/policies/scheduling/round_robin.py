"""The policy `round-robin`: turns in equal numbers."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from shoal.policies.scheduling.policy import BLOCK_EVENTS, Candidate, OperatorCost, Steady, Turn


@dataclass(frozen=True)
class RoundRobin(Steady):
    """The operator that has had the fewest turns, one block at a time."""

    sources_last: ClassVar[bool] = False

    block_events: int = BLOCK_EVENTS

    def priorities(self, operators: Sequence[OperatorCost]) -> list[float]:
        """All equal."""
        return [0.0] * len(operators)

    def choose(self, candidates: Sequence[Candidate], left_s: float) -> Turn | None:  # noqa: ARG002
        """Fewest turns first."""
        return Turn(min(candidates, key=lambda one: one.turns).position, self.block_events)
