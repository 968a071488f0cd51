"""Stages: whether a round rebalances, by whether throughput has risen since the decision was taken."""

from dataclasses import dataclass

FLIPS, MIDDLE, LAST = 0, 2, 4
"""Of five stages: the first flips the decision, a decision begins in the middle."""
BETA = 20
"""The same decision is taken this many times in a row at most."""


@dataclass(frozen=True)
class DecisionStages:
    """The pointer, the decision, how often it was taken in a row, and the throughput of the last round.

    >>> DecisionStages().after(100.0).after(100.0).after(90.0).after(80.0)
    DecisionStages(pointer=2, rebalances=True, taken=1, throughput=80.0)
    """

    pointer: int = MIDDLE
    rebalances: bool = False
    taken: int = 0
    throughput: float = 0.0

    def after(self, throughput: float, beta: int = BETA) -> "DecisionStages":
        """The stages after a round: one to the right if the throughput has risen, else one to the left."""
        pointer = min(LAST, self.pointer + 1) if throughput > self.throughput else self.pointer - 1
        if pointer == FLIPS or self.taken >= beta:
            return DecisionStages(MIDDLE, not self.rebalances, 1, throughput)
        return DecisionStages(pointer, self.rebalances, self.taken + 1, throughput)
