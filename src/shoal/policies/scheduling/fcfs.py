"""The policy `fcfs`: first come, first served."""

from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import ClassVar

from shoal.policies.scheduling.policy import BLOCK_EVENTS, Candidate, OperatorCost, Steady, Turn, first

_BY_WAIT = attrgetter("waited_s")


@dataclass(frozen=True)
class Fcfs(Steady):
    """The operator whose oldest event has waited longest, one block at a time."""

    by_age: ClassVar[bool] = True

    block_events: int = BLOCK_EVENTS

    def priorities(self, operators: Sequence[OperatorCost]) -> list[float]:
        """All equal."""
        return [0.0] * len(operators)

    def choose(self, candidates: Sequence[Candidate], left_s: float) -> Turn | None:  # noqa: ARG002
        """Oldest first."""
        return Turn(first(candidates, _BY_WAIT).position, self.block_events)
