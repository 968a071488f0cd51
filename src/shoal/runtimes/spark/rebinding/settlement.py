"""Settlement: updates rebindings after the commit of an epoch that has made some of their moves."""

import time
from collections.abc import Iterable, Mapping
from dataclasses import replace

from shoal.model.control.binding import Move
from shoal.model.control.messages import MoveReport, MovesFinished
from shoal.model.query.graph import InstanceId
from shoal.runtimes.spark.driver.outcome import Outcome
from shoal.runtimes.spark.driver.position import Position
from shoal.runtimes.spark.rebinding.rebinding import ENDED, GONE, Rebinding
from shoal.runtimes.spark.state.postponed import Loss, Postponed


def settled(
    position: Position,
    outcome: Outcome,
    postponed: Iterable[Postponed] = (),
    began_us: int = 0,
    *,
    final: bool = False,
) -> tuple[Position, list[MovesFinished]]:
    """The position after an epoch without the rebindings that finished with it, and their events.

    `postponed`: state that was so before the epoch. `began_us`: when all other moves of the epoch began.
    """
    if final:
        position = position.without_rebinding(ENDED)
    open_, closed = position.rebinding, position.closed
    if open_ is None and not closed:
        return position, []
    measured, lost = _measured(outcome), outcome.lost
    since_us = {each.instance: each.begun_us for each in postponed}
    now_s = time.time()

    def report(move: Move) -> MoveReport:
        """The report of a move; an instance without state has no waiting time."""
        if move.instance not in position.binding.worker_of:  # its query was removed with the same epoch
            return MoveReport(move.instance, move.source, move.target, aborted=GONE)
        state_bytes, frozen_s, late_s = measured.get(move.instance, (0, 0.0, 0.0))
        seconds = max(0.0, now_s - since_us.get(move.instance, began_us) / 1e6)
        made = MoveReport(move.instance, move.source, move.target, state_bytes, frozen_s, late_s)
        return replace(made, seconds=seconds, late_results=0, lost=lost.get(move.instance))

    done = [rebinding.committed(report) for rebinding in closed]
    if open_ is not None:
        open_ = open_.committed(report, position.postponed)
        if open_.goal == position.binding and not open_.now:
            done.append(open_)
            open_ = None
    return replace(position, rebinding=open_, closed=()), [_finished(rebinding) for rebinding in done]


def losses(position: Position, finished: Iterable[MovesFinished]) -> tuple[Loss, ...]:
    """The state that was discarded by rebindings which finish with an epoch, or are still in progress after it.

    A rebinding reports all of its moves at its end. So a run that dies before needs also the losses of earlier epochs.
    """
    reports = {event.rebind: event.moves for event in finished}
    if position.rebinding is not None:
        reports[position.rebinding.id] = position.rebinding.reports
    return tuple(Loss(id_, move) for id_, moves in reports.items() for move in moves if move.lost is not None)


def _measured(outcome: Outcome) -> Mapping[InstanceId, tuple[int, float, float]]:
    """For every moved instance: its bytes, how long its worker loaded state, and how long it waited for this state.

    Nothing is processed between epochs, so an instance is frozen only while its new worker loads state.
    """
    return {
        instance: (state.bytes, report.load_s, state.late_s)
        for report in outcome.reports
        for instance, state in report.arrived.items()
    }


def _finished(rebinding: Rebinding) -> MovesFinished:
    return MovesFinished(rebinding.id, rebinding.reports, rebinding.resumed, at_s=time.time())
