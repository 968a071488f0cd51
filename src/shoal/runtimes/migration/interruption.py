"""Interruption: the source is gone for good in the middle of a migration. What is lost, and what the target has then.

1. Of a shipment under way, whole fragments have arrived, in the order of its piece.
2. Where events were redirected, the target has what has arrived; all else is lost.
3. Where the source still worked alone and the target has a copy, the copy is advanced to the watermark of the source.
   Results are discarded then, since the source has emitted them, and so is what the watermark drops.
4. Where both received events, the target has what it made of them.

The loss is what the state of an undisturbed run has and the target has not, or has in another version, which is stale.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from shoal.kernels.columns.block import Block
from shoal.kernels.columns.table import Tables
from shoal.kernels.kernel import NEVER_US, Kernel, State, concat_blocks
from shoal.mechanisms.shedding.lost_state import lost_state
from shoal.mechanisms.shedding.report import Shed, shed_reports
from shoal.model.control.fragment import Fragments
from shoal.model.control.messages import LostState
from shoal.runtimes.migration.departure import Departure
from shoal.runtimes.migration.piece import Piece
from shoal.runtimes.migration.state_copy import Difference, StateCopy
from shoal.runtimes.migration.takeover import Receiver

NOTHING = Piece(Fragments.none(), {}, NEVER_US)
"""A piece without fragments."""


@dataclass(frozen=True, eq=False)
class LossReport:
    """Exactly what a migration has lost.

    `every`: all fragments that were to be at the target. `lost`: those that are not there, or not as they were, and
    `tables` their content. `stale`: what the target has that is not in the state of an undisturbed run.
    """

    every: Fragments
    lost: Fragments
    tables: Tables
    stale: Piece = NOTHING

    @classmethod
    def of_pieces(cls, kernel: Kernel, every: Sequence[Fragments], lost: Sequence[Piece]) -> "LossReport":
        """The loss of whole pieces."""
        tables = kernel.merged([piece.tables for piece in lost]) if lost else {}
        return cls(Fragments.concat(every), Fragments.concat([piece.fragments for piece in lost]), tables)

    @classmethod
    def of_difference(cls, kernel: Kernel, truth: Piece, here: State) -> "LossReport":
        """The loss of a target that goes on with `here`, where an undisturbed run would have `truth`."""
        difference = StateCopy.of(kernel, here).difference(kernel, truth)
        copy = State(dict(here.tables), here.watermark_us)
        listed = kernel.fragments(copy)
        stale = listed.where(np.isin(listed.ids, difference.removed))
        replaced = Piece(stale, kernel.extract(copy, stale.ids), here.watermark_us)
        return cls(truth.fragments, difference.added.fragments, difference.added.tables, replaced)

    @property
    def utility_kept(self) -> float:
        """The share of the utility that was not lost; 1 if there was none."""
        whole = float(self.every.utility.sum())
        return 1 - float(self.lost.utility.sum()) / whole if whole else 1.0

    def sheds(self, kernel: Kernel, queries: Sequence[str]) -> tuple[Shed, ...]:
        """What each query has lost, as of state that was shed on purpose; `queries`: that of every instance number."""
        arrived = ~np.isin(self.every.ids, self.lost.ids)
        return shed_reports(kernel, self.every, arrived, self.tables, queries)

    def lost_state(self, kernel: Kernel, queries: Sequence[str]) -> LostState | None:
        """The loss as the report of a move has it; None if nothing was lost."""
        if not len(self.lost):
            return None
        return lost_state(self.sheds(kernel, queries), float(self.every.utility.sum()))


@dataclass(frozen=True, eq=False)
class Sent:
    """State under way, a piece or a difference or none, and how many of its bytes have arrived."""

    piece: Piece | None
    difference: Difference | None
    arrived_bytes: int


def before_redirection(
    kernel: Kernel, source: Departure, copy: Piece | None, sent: Sequence[Sent]
) -> tuple[LossReport, State]:
    """The source worked alone so far: the loss, and the state that the target makes of its copy, if it has one."""
    here = caught_up(kernel, _arrived(kernel, copy, sent), source.state.watermark_us)
    return LossReport.of_difference(kernel, source.whole(), here), here


def during_duplication(
    kernel: Kernel, source: Departure, target: Receiver, copy: Piece | None, sent: Sequence[Sent]
) -> tuple[LossReport, Block]:
    """Both received events so far, and the target perhaps a part of `copy`, the state from before."""
    if copy is not None:
        left = any(each.piece is copy for each in sent)
        target.arrive(_arrived(kernel, copy, sent) if left else NOTHING)
    results = target.end()
    return LossReport.of_difference(kernel, source.whole(), target.state), results


def after_copying(kernel: Kernel, target: Receiver, copy: Piece, sent: Sequence[Sent]) -> tuple[LossReport, Block]:
    """The target has a copy, or a part of it, and perhaps a part of what has changed since."""
    whole, arrived_bytes = next((each.difference, each.arrived_bytes) for each in sent if each.difference is not None)
    truth, arrived = whole.applied(kernel, copy), _first_of(kernel, whole, arrived_bytes)
    here = caught_up(kernel, _arrived(kernel, copy, sent), truth.watermark_us, arrived)
    loss = LossReport.of_difference(kernel, truth, here)
    target.arrive(Piece(kernel.fragments(here), here.tables, here.watermark_us))
    return loss, target.end()


def after_redirection(
    kernel: Kernel,
    source: Departure,
    target: Receiver,
    sent: Sequence[Sent],
    taken: Sequence[Fragments],
    dropped: Sequence[Piece],
) -> tuple[LossReport, Block]:
    """The target gets pieces; `taken`: the fragments of all that have left, `dropped`: what was not sent."""
    left = source.take()
    lost, results = [*dropped, left], list[Block]()
    for each in sent:
        if each.piece is not None:
            here = each.piece.first(kernel, each.arrived_bytes)
            lost.append(_rest(kernel, each.piece, here))
            results.append(target.arrive(here))
    results.append(target.end())
    loss = LossReport.of_pieces(kernel, [*taken, left.fragments], lost)
    return loss, concat_blocks([each for each in results if each.length])


def caught_up(kernel: Kernel, copy: Piece, watermark_us: int, arrived: Difference | None = None) -> State:
    """The state that a target makes of a copy and what has arrived of a difference, at the watermark of the source."""
    state = State(dict(copy.tables), copy.watermark_us)
    if arrived is not None:
        kernel.extract(state, arrived.removed)
    kernel.close_until(state, watermark_us)  # the source has emitted these results
    if arrived is not None:
        kernel.absorb(state, arrived.added.tables)
    return state


def _arrived(kernel: Kernel, copy: Piece | None, sent: Sequence[Sent]) -> Piece:
    """What the target has of a copy: all of it unless it is under way."""
    under_way = [each.arrived_bytes for each in sent if copy is not None and each.piece is copy]
    if copy is None:
        return NOTHING
    return copy.first(kernel, under_way[0]) if under_way else copy


def _rest(kernel: Kernel, piece: Piece, arrived: Piece) -> Piece:
    rest = piece.fragments.where(~np.isin(piece.fragments.ids, arrived.fragments.ids))
    return Piece(rest, kernel.extract(State(dict(piece.tables)), rest.ids), piece.watermark_us)


def _first_of(kernel: Kernel, difference: Difference, arrived_bytes: int) -> Difference:
    """What has arrived of a difference: first the ids of what is to be removed, then what is to be added."""
    removed, expired = difference.removed, difference.expired
    ids = removed[: expired + max(0, arrived_bytes) // removed.itemsize]
    return Difference(ids, difference.added.first(kernel, arrived_bytes - difference.listed_bytes), expired)
