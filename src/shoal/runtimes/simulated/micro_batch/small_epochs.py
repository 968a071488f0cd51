"""Small epochs: their workers have so little to do that the driver does it itself. Decided as Spark's driver does it.

That is where driver and workers share one machine, and no code of the user is run.
"""

from shoal.compiler.program import Program
from shoal.model.query.code import codes_in
from shoal.runtimes.simulated.machine.machine import Machine
from shoal.runtimes.simulated.micro_batch.epoch_costs import SmallEpochCosts
from shoal.runtimes.simulated.micro_batch.epoch_work import EpochWork
from shoal.runtimes.simulated.micro_batch.timeline import Bound, Timeline


class SmallEpochs:
    """Decides by the epoch before whether one is small; the first epoch of a run is not."""

    def __init__(self) -> None:
        """No epoch yet."""
        self._spent_s = float("inf")
        self._sent_bytes = 0.0

    def includes(self, work: EpochWork, bound: Bound, costs: SmallEpochCosts, *, moves: bool) -> bool:
        """Whether an epoch is small; one in which instances move is not."""
        if moves or self._spent_s > costs.most_s or self._sent_bytes > costs.most_sent_bytes:
            return False
        sent_bytes = sum(float(each.sent_bytes.sum()) for each in work.slices)
        return float(bound.held_bytes.sum()) <= costs.most_state_bytes and sent_bytes <= 2 * costs.most_sent_bytes

    def learn(self, work: EpochWork, times: Timeline) -> None:
        """Take note of an epoch."""
        self._spent_s = float(times.busy_s.sum())
        self._sent_bytes = float(work.carried_bytes.sum())


def has_small_epochs(machine: Machine, program: Program) -> bool:
    """Whether epochs of a program can be small on a machine."""
    operators = program.graph.operators.values()
    return len(machine.hosts) == 1 and not codes_in([operator.parameters for operator in operators])
