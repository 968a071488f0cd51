"""Executes the plans of rebindings between threads, and reports their moves.

A plan that moves all instances at once is executed at a barrier: all workers stop between two turns, one of them moves
every instance, and all continue. Any other plan is executed by migration requests, in the plan's order, without a stop;
`way` says how. A barrier is retried until no request is in transit.

A rebinding with a limit is executed at a barrier, too, where all state is known and `stop_the_world` chooses.

What is dropped must be reported. So moves that drop state are not aborted by a newer rebinding, since the requests are
on their way, and no instance is split or merged meanwhile.
"""

import threading
import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field, replace
from typing import TypeVar

from shoal.errors import BindingError, MechanismError
from shoal.mechanisms.catalog import check_limit, mechanism_named
from shoal.mechanisms.mechanism import Mechanism
from shoal.mechanisms.plan import Plan
from shoal.mechanisms.transfer import Transfer
from shoal.model.control.binding import Binding, Move, WorkerId
from shoal.model.control.costs import LinkCosts
from shoal.model.control.messages import LostState, MoveLimit, MoveReport, Rebind, Repartition
from shoal.model.control.topology import Topology
from shoal.model.query.graph import InstanceId
from shoal.runtimes.local.migration.divided_lanes import DividedLanes
from shoal.runtimes.local.migration.part_messages import HandOver
from shoal.runtimes.local.migration.stop_the_world import BarrierShedding
from shoal.runtimes.local.migration.way import AT_ONCE, MoveWay, StateComes, way_of
from shoal.runtimes.local.scheduling.bound_pool import BoundPool
from shoal.runtimes.local.scheduling.worker_pool import WorkerPool

MECHANISMS = (
    "megaphone",
    "all-at-once",
    "rhino",
    "meces",
    "lazy-latency",
    "lazy-utility",
    "window-recreation",
    "state-recreation",
    "drop",
)
"""The mechanisms that can be executed between threads; the first is the default."""
DIVIDED = "split or merged before it was moved"
SUPERSEDED = "superseded by a newer rebinding"
ENDED = "the run has ended"
N = TypeVar("N", int, float)


@dataclass(eq=False)
class Rebinding:
    """A rebinding in progress since `began_s`: the moves that are left, and the finished ones.

    `drops`: moves drop state.
    """

    id: str
    left: dict[InstanceId, MoveReport]
    began_s: float = 0.0
    drops: bool = False
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
            seconds=max(0.0, made.ended_s - self.began_s),
            late_results=total(report.late_results, made.late_results),
            emission_delay_s=largest(report.emission_delay_s, made.emission_delay_s),
            emission_delay_sum_s=total(report.emission_delay_sum_s, made.emission_delay_sum_s),
            lost=both(report.lost, made.lost),
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
        shedding_of: Callable[[MoveLimit], BarrierShedding],
    ) -> None:
        """Nothing moves yet; `mechanism` is the default for rebindings that name none.

        `shedding_of` says how state is chosen under a limit.
        """
        self._shedding_of = shedding_of
        self._shedding: BarrierShedding | None = None
        self._lanes = lanes
        self._pool = pool
        self._topology_of = topology_of
        self._default = mechanism
        self._way: MoveWay | None = AT_ONCE
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
            self._shedding = None
            self._record_finished()
            if any(each.drops and each.left for each in self._open):
                raise BindingError("instances cannot be split or merged while others are dropped; try again later")
            reason = self._lanes.repartition(command)
            if reason:
                raise BindingError(reason)
            self._abort_divided()
            barrier = stops(mechanism_named(self._default, MECHANISMS, "the local runtime"))
            self._way = None if barrier else AT_ONCE
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
        check_limit(command.limit, mechanism.name)
        limited = command.limit is not None and command.limit.drops
        shedding = self._shedding_of(command.limit) if command.limit is not None and limited else None
        lanes, workers = self._lanes, command.binding.workers
        with self._lock:
            if (mechanism.name == "drop" or limited) and lanes.repartitioning:
                raise BindingError("no instance can be dropped while others are split or merged; try again later")
            self._shedding = None  # before the target changes: a barrier that comes meanwhile must drop nothing
            moves, plan = self._planned(command.binding, mechanism)
            began_s = time.perf_counter()
            self._record_finished()  # moves that have finished belong to the rebindings before
            if isinstance(self._pool, BoundPool) and self._pool.threads != workers:
                self._pool.resize(self._topology_of(workers).node_of)
            for before in (each for each in self._open if not each.drops):
                before.abort(SUPERSEDED, lambda i: moves[i].source if i in moves else lanes.target(i))
            way = None if limited else way_of(plan)
            reports = {i: MoveReport(i, move.source, move.target) for i, move in moves.items()}
            drops = way is not None and way.comes is StateComes.NEVER
            self._open.append(Rebinding(command.id, reports, began_s, drops))
            self._shedding = shedding if moves else None
            self._execute(plan, way)

    def _planned(self, binding: Binding, mechanism: Mechanism) -> tuple[dict[InstanceId, Move], Plan]:
        """Make a binding the target; returns the moves to it, and their plan. If there is none, nothing changes."""
        lanes = self._lanes
        before = lanes.target_binding
        reason = lanes.set_target(binding)
        if reason:
            raise BindingError(reason)
        moves = {move.instance: move for move in lanes.moves()}
        try:
            return moves, mechanism.plan(self._transfers(moves.values(), binding.workers), LinkCosts())
        except MechanismError:
            lanes.set_target(before)
            raise

    def _transfers(self, moves: Collection[Move], workers: int) -> list[Transfer]:
        most = max([workers, *(1 + max(move.source, move.target) for move in moves)])
        node_of = self._topology_of(most).node_of
        kernel_of = self._lanes.kernel_of
        return [
            Transfer(
                move.instance,
                move.source,
                move.target,
                link=(node_of[move.source], node_of[move.target]),
                on_arrival=kernel_of(move.instance).on_arrival,
                bounded=kernel_of(move.instance).bounded,
            )
            for move in moves
        ]

    def _execute(self, plan: Plan, way: MoveWay | None) -> None:
        """Begin the moves; what a dropping plan has to move again has no state that could be dropped."""
        self._way = AT_ONCE if way is not None and way.comes is StateComes.NEVER else way
        if way is None:
            self._stop_the_world()
        else:
            moved = (each.instance for batch in plan.batches if batch.moves for each in batch.transfers)
            self._lanes.request(moved, way)

    def _stop_the_world(self) -> None:
        """Move at a barrier; if requests are in transit, `advance` retries."""
        if not self._lanes.in_transit:
            self._pool.stop_the_world(self._move_at_barrier)

    def _move_at_barrier(self) -> None:
        shedding = self._shedding
        if self._lanes.move_at_barrier(self._pool.stopped_since_s, shedding) and self._shedding is shedding:
            self._shedding = None  # what is moved again has lost enough

    def advance(self) -> None:
        """Request again what is not at its target; an older request may have moved it. Called periodically."""
        with self._lock:
            if self._lanes.advance():
                self._abort_divided()
            if not self._lanes.reached:
                self._move()

    def _move(self) -> None:
        if self._way is None:
            self._stop_the_world()
        else:
            self._lanes.request_all(self._way)

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


def stops(mechanism: Mechanism) -> bool:
    """Whether all workers stop for the plans of a mechanism."""
    any_ = Transfer(InstanceId("any/0"), WorkerId(0), WorkerId(1))
    return way_of(mechanism.plan([any_], LinkCosts())) is None


def total(one: N | None, other: N | None) -> N | None:
    """The sum of two measurements; None if neither was made."""
    return one if other is None else other if one is None else one + other


def largest(one: float | None, other: float | None) -> float | None:
    """The larger of two measurements; None if neither was made."""
    return max((each for each in (one, other) if each is not None), default=None)


def both(one: LostState | None, other: LostState | None) -> LostState | None:
    """What was lost in two moves of an instance; the share is that of all state it had in either."""
    if one is None or other is None:
        return one or other
    return LostState(
        one.fragments + other.fragments,
        one.rows + other.rows,
        one.keys + other.keys,
        one.state_bytes + other.state_bytes,
        max(one.share, other.share),
        one.queries + other.queries,
    )
