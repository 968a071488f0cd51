"""Migration between threads: plans of rebindings are executed, and what became of their moves is told.

A plan that pauses instances is executed at a barrier: all workers stop between two turns, one of them gives every
instance to its new worker, and all go on. Any other plan is executed by migration requests, in the plan's order: the
new worker asks the old one for an instance, while everything else goes on. A barrier waits until all requests that are
on their way have been answered.
"""

import threading
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field, replace

from shoal.errors import BindingError, MechanismError
from shoal.mechanisms.catalog import mechanism_named
from shoal.mechanisms.mechanism import Mechanism
from shoal.mechanisms.plan import Plan, Queue, StepKind, Transfer
from shoal.model.control.binding import Move, WorkerId
from shoal.model.control.costs import LinkCosts
from shoal.model.control.messages import MoveReport, Rebind, Repartition
from shoal.model.control.topology import Topology
from shoal.model.query.graph import InstanceId
from shoal.runtimes.local.migration.divided_lanes import Placement
from shoal.runtimes.local.migration.ownership import HandOver
from shoal.runtimes.local.scheduling.bound_pool import BoundCrew
from shoal.runtimes.local.scheduling.worker_pool import Crew

MECHANISMS = ("megaphone", "all-at-once")
"""The mechanisms whose plans can be executed between threads; the first is the default."""
QUEUES = frozenset({Queue.CRITICAL, Queue.NORMAL})
STEPS = frozenset(StepKind) - {StepKind.PREAMBLE, StepKind.DROP}
DIVIDED = "split or merged before it was moved"
SUPERSEDED = "superseded by a newer rebinding"
ENDED = "the run has ended"


@dataclass(eq=False)
class Rebinding:
    """A rebinding whose moves are not all done: what is left of them, and what has become of the others."""

    id: str
    left: dict[InstanceId, MoveReport]
    done: list[MoveReport] = field(default_factory=list)

    def add(self, instance: InstanceId, made: HandOver) -> bool:
        """Count a hand-over in; whether it was that of a move of this rebinding, perhaps by a detour."""
        report = self.left.get(instance)
        if report is None:
            return False
        report = replace(
            report,
            state_bytes=report.state_bytes + made.state_bytes,
            frozen_s=report.frozen_s + made.frozen_s,
            late_s=max(report.late_s, made.late_s),
        )
        if made.target == report.target:
            del self.left[instance]
            self.done.append(report)
        else:
            self.left[instance] = report
        return True

    def abort(self, reason: str, owner_of: Callable[[InstanceId], int | None]) -> None:
        """Give up what has not been handed over, by who owns what."""
        for instance, report in list(self.left.items()):
            if owner_of(instance) != report.target:
                del self.left[instance]
                self.done.append(replace(report, aborted=reason))


class Migration:
    """Executes rebindings; any thread may begin one, one thread asks what is finished."""

    def __init__(
        self, placement: Placement, crew: Crew, topology_of: Callable[[int], Topology], mechanism: str | None
    ) -> None:
        """Nothing moves yet; `mechanism` is that of rebindings that name none."""
        self._placement = placement
        self._crew = crew
        self._topology_of = topology_of
        self._usual = mechanism
        self._pauses = False
        self._open: list[Rebinding] = []
        self._lock = threading.Lock()

    def begin(self, command: Rebind | Repartition) -> None:
        """Begin a rebinding, which supersedes the one before, or a repartition; raises where it makes no sense."""
        if isinstance(command, Rebind):
            self._rebind(command)
        else:
            self._repartition(command)

    def _repartition(self, command: Repartition) -> None:
        """Split and merge; moves of the instances that are concerned are given up."""
        with self._lock:
            reason = self._placement.repartition(command)
            if reason:
                raise BindingError(reason)
            self._give_up_divided()
            self._pauses = pauses(mechanism_named(self._usual, MECHANISMS, "the local runtime"))
            self._move()

    def _give_up_divided(self) -> None:
        """Moves of instances that are being split or merged, or are gone, are not waited for any more."""
        self._count_in()
        for each in self._open:
            each.abort(DIVIDED, self._placement.target)

    def _count_in(self) -> None:
        for instance, made in self._placement.settled():
            next((each for each in self._open if each.add(instance, made)), None)

    def _rebind(self, command: Rebind) -> None:
        mechanism = mechanism_named(command.mechanism or self._usual, MECHANISMS, "the local runtime")
        placement, workers = self._placement, command.binding.workers
        with self._lock:
            reason = placement.want(command.binding)
            if reason:
                raise BindingError(reason)
            if isinstance(self._crew, BoundCrew) and self._crew.threads != workers:
                self._crew.resize(self._topology_of(workers).node_of)
            moves = {move.instance: move for move in placement.moves()}
            for before in self._open:
                before.abort(SUPERSEDED, lambda i: moves[i].source if i in moves else placement.target(i))
            reports = {i: MoveReport(i, move.source, move.target) for i, move in moves.items()}
            self._open.append(Rebinding(command.id, reports))
            self._execute(executable(mechanism.plan(self._transfers(moves.values(), workers), LinkCosts())))

    def _transfers(self, moves: Collection[Move], workers: int) -> list[Transfer]:
        most = max([workers, *(1 + max(move.source, move.target) for move in moves)])
        node_of = self._topology_of(most).node_of
        return [
            Transfer(move.instance, move.source, move.target, link=(node_of[move.source], node_of[move.target]))
            for move in moves
        ]

    def _execute(self, plan: Plan) -> None:
        self._pauses = StepKind.PAUSE in plan.kinds
        if self._pauses:
            self._stop_and_change()
        else:
            self._placement.ask(each.instance for queue in sorted(plan.queues) for each in plan.served(queue))

    def _stop_and_change(self) -> None:
        """Have a barrier; where requests are on their way, `go_on` tries again."""
        if not self._placement.between:
            self._crew.meet(lambda: self._placement.change(self._crew.standing_since_s))

    def go_on(self) -> None:
        """Ask again: a request that was on its way may have taken an instance elsewhere since."""
        with self._lock:
            if self._placement.go_on():
                self._give_up_divided()
            if not self._placement.reached:
                self._move()

    def _move(self) -> None:
        if self._pauses:
            self._stop_and_change()
        else:
            self._placement.invite()

    def finished(self, *, ended: bool = False) -> Iterator[tuple[str, tuple[MoveReport, ...]]]:
        """Rebindings whose moves are all made or given up since the last time, the oldest first."""
        with self._lock:
            self._count_in()
            if ended:
                for each in self._open:
                    each.abort(ENDED, lambda _: None)
            newest = self._open[-1] if self._open else None
            reached = ended or newest is None or self._placement.reached
            done = [each for each in self._open if not each.left and (each is not newest or reached)]
            self._open = [each for each in self._open if each not in done]
        yield from ((each.id, tuple(each.done)) for each in done)


def pauses(mechanism: Mechanism) -> bool:
    """Whether the plans of a mechanism stop instances."""
    any_ = Transfer(InstanceId("any/0"), WorkerId(0), WorkerId(1))
    return StepKind.PAUSE in mechanism.plan([any_], LinkCosts()).kinds


def executable(plan: Plan) -> Plan:
    """A plan that can be executed between threads; others are refused."""
    odd = [f"queue {queue.name.lower()}" for queue in plan.queues - QUEUES]
    odd += [f"step {kind}" for kind in plan.kinds - STEPS]
    if odd:
        raise MechanismError(f"mechanism {plan.mechanism} has {odd[0]}, which the local runtime cannot execute")
    return plan
