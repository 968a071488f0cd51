"""Executes the plans of rebindings between threads, and reports their moves.

A plan that pauses instances is executed at a barrier: all workers stop between two turns, one of them moves every
instance, and all continue. Any other plan is executed by migration requests, in the plan's order, without a stop. A
barrier is retried until no request is in transit.
"""

import threading
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field, replace

from shoal.errors import BindingError, MechanismError
from shoal.mechanisms.all_at_once import MOVE
from shoal.mechanisms.catalog import mechanism_named
from shoal.mechanisms.mechanism import Mechanism
from shoal.mechanisms.plan import Plan, Queue, StepKind
from shoal.mechanisms.transfer import Transfer
from shoal.model.control.binding import Move, WorkerId
from shoal.model.control.costs import LinkCosts
from shoal.model.control.messages import MoveReport, Rebind, Repartition
from shoal.model.control.topology import Topology
from shoal.model.query.graph import InstanceId
from shoal.runtimes.local.migration.divided_lanes import DividedLanes
from shoal.runtimes.local.migration.ownership import HandOver
from shoal.runtimes.local.scheduling.bound_pool import BoundPool
from shoal.runtimes.local.scheduling.worker_pool import WorkerPool

MECHANISMS = ("megaphone", "all-at-once")
"""The mechanisms that can be executed between threads; the first is the default."""
QUEUES = frozenset({Queue.CRITICAL, Queue.NORMAL})
STEPS = frozenset(MOVE)
DIVIDED = "split or merged before it was moved"
SUPERSEDED = "superseded by a newer rebinding"
ENDED = "the run has ended"


@dataclass(eq=False)
class Rebinding:
    """A rebinding in progress: the moves that are left, and the finished ones."""

    id: str
    left: dict[InstanceId, MoveReport]
    done: list[MoveReport] = field(default_factory=list)

    def add(self, instance: InstanceId, made: HandOver) -> bool:
        """Record a hand-over; returns whether it belongs to this rebinding. It may be a detour to another worker."""
        report = self.left.get(instance)
        if report is None:
            return False
        report = replace(
            report,
            state_bytes=report.state_bytes + made.state_bytes,
            frozen_s=(report.frozen_s or 0.0) + made.frozen_s,
            late_s=max(report.late_s or 0.0, made.late_s),
        )
        if made.target == report.target:
            del self.left[instance]
            self.done.append(report)
        else:
            self.left[instance] = report
        return True

    def abort(self, reason: str, owner_of: Callable[[InstanceId], int | None]) -> None:
        """Abort the moves whose instance is not with its target, by `owner_of`."""
        for instance, report in list(self.left.items()):
            if owner_of(instance) != report.target:
                del self.left[instance]
                self.done.append(replace(report, aborted=reason))


class Migration:
    """Executes rebindings; any thread may begin one, one thread calls `advance` and `finished`."""

    def __init__(
        self,
        lanes: DividedLanes,
        pool: WorkerPool,
        topology_of: Callable[[int], Topology],
        mechanism: str | None,
    ) -> None:
        """Nothing moves yet; `mechanism` is the default for rebindings that name none."""
        self._lanes = lanes
        self._pool = pool
        self._topology_of = topology_of
        self._default = mechanism
        self._pauses = False
        self._open: list[Rebinding] = []
        self._lock = threading.Lock()

    def begin(self, command: Rebind | Repartition) -> None:
        """Begin a rebinding, which supersedes the one before, or a repartition; raises if it is invalid."""
        if isinstance(command, Rebind):
            self._rebind(command)
        else:
            self._repartition(command)

    def _repartition(self, command: Repartition) -> None:
        """Split and merge; moves of the instances concerned are aborted."""
        with self._lock:
            reason = self._lanes.repartition(command)
            if reason:
                raise BindingError(reason)
            self._abort_divided()
            self._pauses = pauses(mechanism_named(self._default, MECHANISMS, "the local runtime"))
            self._move()

    def _abort_divided(self) -> None:
        """Abort moves of instances that are split or merged, or no longer exist."""
        self._record_finished()
        for each in self._open:
            each.abort(DIVIDED, self._lanes.target)

    def _record_finished(self) -> None:
        for instance, made in self._lanes.finished_moves():
            next((each for each in self._open if each.add(instance, made)), None)

    def _rebind(self, command: Rebind) -> None:
        mechanism = mechanism_named(command.mechanism or self._default, MECHANISMS, "the local runtime")
        lanes, workers = self._lanes, command.binding.workers
        with self._lock:
            reason = lanes.set_target(command.binding)
            if reason:
                raise BindingError(reason)
            if isinstance(self._pool, BoundPool) and self._pool.threads != workers:
                self._pool.resize(self._topology_of(workers).node_of)
            moves = {move.instance: move for move in lanes.moves()}
            for before in self._open:
                before.abort(SUPERSEDED, lambda i: moves[i].source if i in moves else lanes.target(i))
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
            self._stop_the_world()
        else:
            self._lanes.request(each.instance for queue in sorted(plan.queues) for each in plan.served(queue))

    def _stop_the_world(self) -> None:
        """Move at a barrier; if requests are in transit, `advance` retries."""
        if not self._lanes.in_transit:
            self._pool.stop_the_world(lambda: self._lanes.move_at_barrier(self._pool.stopped_since_s))

    def advance(self) -> None:
        """Request again what is not at its target; an older request may have moved it. Called periodically."""
        with self._lock:
            if self._lanes.advance():
                self._abort_divided()
            if not self._lanes.reached:
                self._move()

    def _move(self) -> None:
        if self._pauses:
            self._stop_the_world()
        else:
            self._lanes.request_all()

    def finished(self, *, ended: bool = False) -> Iterator[tuple[str, tuple[MoveReport, ...]]]:
        """Rebindings whose moves are all finished or aborted since the last call, the oldest first."""
        with self._lock:
            self._record_finished()
            if ended:
                for each in self._open:
                    each.abort(ENDED, lambda _: None)
            newest = self._open[-1] if self._open else None
            reached = ended or newest is None or self._lanes.reached
            done = [each for each in self._open if not each.left and (each is not newest or reached)]
            self._open = [each for each in self._open if each not in done]
        yield from ((each.id, tuple(each.done)) for each in done)


def pauses(mechanism: Mechanism) -> bool:
    """Whether the plans of a mechanism pause instances."""
    any_ = Transfer(InstanceId("any/0"), WorkerId(0), WorkerId(1))
    return StepKind.PAUSE in mechanism.plan([any_], LinkCosts()).kinds


def executable(plan: Plan) -> Plan:
    """The plan, if it can be executed between threads; raises otherwise."""
    odd = [f"queue {queue.name.lower()}" for queue in plan.queues - QUEUES]
    odd += [f"step {kind}" for kind in plan.kinds - STEPS]
    if odd:
        raise MechanismError(f"mechanism {plan.mechanism} has {odd[0]}, which the local runtime cannot execute")
    return plan
