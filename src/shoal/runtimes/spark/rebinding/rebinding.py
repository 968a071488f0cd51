"""Rebindings that are under way on Spark: where they lead, and what has become of their moves so far."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from shoal.model.control.binding import Binding, Move, WorkerId
from shoal.model.control.messages import MoveReport
from shoal.model.query.graph import InstanceId

SUPERSEDED = "superseded by a newer rebinding"
GONE = "the instance is gone"
RESTARTED = "the run was started again with another number of workers"
ENDED = "the run has ended"


@dataclass(frozen=True)
class Rebinding:
    """A rebinding from when it is accepted until the epoch of its last move is committed.

    `now` are the moves that take effect with the next epoch, `reports` what has become of the others so far. `resumed`:
    an earlier process began it.
    """

    id: str
    mechanism: str
    goal: Binding
    resumed: bool = False
    now: tuple[Move, ...] = ()
    reports: tuple[MoveReport, ...] = ()

    def moving(self, moves: Iterable[Move]) -> "Rebinding":
        """With moves that take effect with the next epoch."""
        return replace(self, now=(*self.now, *moves))

    def aborted(self, here: Binding, reason: str) -> "Rebinding":
        """With all that is not made under a binding given up."""
        return replace(self, goal=here, reports=(*self.reports, *_given_up(here.diff(self.goal), reason)))

    def committed(self, report: Callable[[Move], MoveReport]) -> "Rebinding":
        """Once the epoch of `now` is committed."""
        return replace(self, now=(), reports=(*self.reports, *map(report, self.now)))

    def with_workers(self, worker_of: Mapping[InstanceId, int]) -> "Rebinding":
        """With other goals for some instances."""
        changed = {instance: WorkerId(worker) for instance, worker in worker_of.items()}
        return replace(self, goal=Binding({**self.goal.worker_of, **changed}, self.goal.workers))

    def fitted(self, before: Binding, after: Binding) -> "Rebinding":
        """For a binding of other instances: what is gone does not move, what is new stays where it is."""
        gone = (move for move in before.diff(self.goal) if move.instance not in after.worker_of)
        new = {
            instance: worker
            for instance, worker in after.worker_of.items()
            if instance not in self.goal.worker_of and worker < self.goal.workers
        }
        goal = Binding({**self.goal.worker_of, **new}, self.goal.workers).fitted(tuple(after.worker_of))
        return replace(self, goal=goal, reports=(*self.reports, *_given_up(gone, GONE)))


def _given_up(moves: Iterable[Move], reason: str) -> Iterable[MoveReport]:
    return (MoveReport(move.instance, move.source, move.target, aborted=reason) for move in moves)
