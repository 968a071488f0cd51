"""Settlement: what an epoch's commit means for the rebindings it has carried out a part of."""

import time
from collections.abc import Mapping
from dataclasses import replace

from shoal.model.control.binding import Move
from shoal.model.control.messages import MoveReport, MovesFinished
from shoal.model.query.graph import InstanceId
from shoal.runtimes.spark.driver.outcome import Outcome
from shoal.runtimes.spark.driver.position import Position
from shoal.runtimes.spark.rebinding.rebinding import ENDED, GONE, Rebinding


def settled(position: Position, outcome: Outcome, *, final: bool = False) -> tuple[Position, list[MovesFinished]]:
    """The position after an epoch without the rebindings that are finished with it, and what is to tell of these."""
    if final:
        position = position.without_rebinding(ENDED)
    open_, closed = position.rebinding, position.closed
    if open_ is None and not closed:
        return position, []
    measured = _measured(outcome)

    def report(move: Move) -> MoveReport:
        """What became of a move; nobody has waited for an instance without state."""
        if move.instance not in position.binding.worker_of:  # its query was removed with the same epoch
            return MoveReport(move.instance, move.source, move.target, aborted=GONE)
        state_bytes, frozen_s, late_s = measured.get(move.instance, (0, 0.0, 0.0))
        return MoveReport(move.instance, move.source, move.target, state_bytes, frozen_s, late_s)

    done = [rebinding.committed(report) for rebinding in closed]
    if open_ is not None:
        open_ = open_.committed(report)
        if open_.goal == position.binding:
            done.append(open_)
            open_ = None
    return replace(position, rebinding=open_, closed=()), [_finished(rebinding) for rebinding in done]


def _measured(outcome: Outcome) -> Mapping[InstanceId, tuple[int, float, float]]:
    """Bytes of every instance that has come to a worker, how long that loaded state, and waited for the instance's.

    Between epochs nothing is processed anyway, so that an instance is frozen while its new worker loads what it has.
    """
    return {
        instance: (state.bytes, report.load_s, state.late_s)
        for report in outcome.reports
        for instance, state in report.arrived.items()
    }


def _finished(rebinding: Rebinding) -> MovesFinished:
    return MovesFinished(rebinding.id, rebinding.reports, rebinding.resumed, at_s=time.time())
