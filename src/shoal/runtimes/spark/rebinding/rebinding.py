"""Rebindings in progress on Spark: their goals, and the reports of their moves so far."""

from collections.abc import Callable, Container, Iterable, Mapping
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
    """A rebinding, from its acceptance until the epoch of its last move is committed.

    `now`: the moves that take effect with the next epoch, or have taken effect while their state is not read yet.
    `reports`: finished and aborted moves. `resumed`: an earlier process began it.
    """

    id: str
    mechanism: str
    goal: Binding
    resumed: bool = False
    now: tuple[Move, ...] = ()
    reports: tuple[MoveReport, ...] = ()

    def moving(self, moves: Iterable[Move]) -> "Rebinding":
        """The rebinding with further moves that take effect with the next epoch."""
        return replace(self, now=(*self.now, *moves))

    def aborted(self, here: Binding, reason: str) -> "Rebinding":
        """The rebinding with all moves aborted that the binding `here` does not contain yet."""
        return replace(self, goal=here, reports=(*self.reports, *_aborted(here.diff(self.goal), reason)))

    def committed(
        self, report: Callable[[Move], MoveReport], unread: Container[InstanceId] = frozenset()
    ) -> "Rebinding":
        """The rebinding after the epoch of `now` is committed; moves of `unread` instances have not ended yet."""
        ended = tuple(move for move in self.now if move.instance not in unread)
        left = tuple(move for move in self.now if move.instance in unread)
        return replace(self, now=left, reports=(*self.reports, *map(report, ended)))

    def with_workers(self, worker_of: Mapping[InstanceId, int]) -> "Rebinding":
        """The rebinding with other target workers for some instances."""
        changed = {instance: WorkerId(worker) for instance, worker in worker_of.items()}
        return replace(self, goal=Binding({**self.goal.worker_of, **changed}, self.goal.workers))

    def fitted(self, before: Binding, after: Binding) -> "Rebinding":
        """The rebinding fitted to a changed set of instances: moves of lost ones are aborted, new ones stay."""
        gone = (move for move in before.diff(self.goal) if move.instance not in after.worker_of)
        new = {
            instance: worker
            for instance, worker in after.worker_of.items()
            if instance not in self.goal.worker_of and worker < self.goal.workers
        }
        goal = Binding({**self.goal.worker_of, **new}, self.goal.workers).fitted(tuple(after.worker_of))
        return replace(self, goal=goal, reports=(*self.reports, *_aborted(gone, GONE)))


def _aborted(moves: Iterable[Move], reason: str) -> Iterable[MoveReport]:
    return (MoveReport(move.instance, move.source, move.target, aborted=reason) for move in moves)
