"""The policy `highest-rate`: most results per second of work first."""

from collections.abc import Sequence
from dataclasses import dataclass

from shoal.policies.scheduling.policy import (
    BLOCK_EVENTS,
    BY_PRIORITY,
    LEAST_COST_S,
    Candidate,
    OperatorCost,
    Steady,
    Turn,
    downstream,
    first,
    output_selectivity,
)


@dataclass(frozen=True)
class HighestRate(Steady):
    """The operator that yields most results per second of work, one block at a time."""

    block_events: int = BLOCK_EVENTS

    def priorities(self, operators: Sequence[OperatorCost]) -> list[float]:
        """Output selectivity over the average cost on the path to the end."""
        selectivity = output_selectivity(operators)
        rates = []
        for position, one in enumerate(operators):
            costs_s = [one.cost_s, *(operators[next_].cost_s for next_ in downstream(operators, position))]
            rates.append(selectivity[position] / max(sum(costs_s) / len(costs_s), LEAST_COST_S))
        return rates

    def choose(self, candidates: Sequence[Candidate], left_s: float) -> Turn | None:  # noqa: ARG002
        """Highest rate first."""
        return Turn(first(candidates, BY_PRIORITY).position, self.block_events)
