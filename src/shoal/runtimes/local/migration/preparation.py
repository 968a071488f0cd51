"""Preparations: what a new owner has of an instance before it gets it, so that little is left to be handed over.

The old owner sends a copy of the state and later what has changed since; or it sends all rows to both, so that the new
owner makes the same state of them, and nothing is left.
"""

from dataclasses import dataclass

import numpy as np

from shoal.kernels.columns.block import Block
from shoal.kernels.kernel import FOREVER_US, NEVER_US, State
from shoal.model.control.fragment import NO_DEADLINE_US, Fragments, Ids
from shoal.runtimes.local.dataflow.lane_state import LaneState
from shoal.runtimes.local.migration.following_states import fragments_of
from shoal.runtimes.local.migration.part_messages import MigrationRequest, RestOfState
from shoal.runtimes.local.migration.way import Ahead, MoveWay, StateComes
from shoal.runtimes.migration.piece import Piece
from shoal.runtimes.migration.state_copy import StateCopy


@dataclass(eq=False)
class Preparation:
    """The owner's side: an instance that is prepared for a worker.

    `copied`: the copy that the worker has. `before`: the fragments that the worker cannot make of the rows that it
    gets; at watermarks before `expires_us` some of them are still there. `ready`: the worker may request the instance.
    """

    target: int
    mirrors: bool
    copied: StateCopy | None = None
    before: Ids | None = None
    expires_us: int = NEVER_US
    ready: bool = False

    def done(self, state: LaneState, instance: int) -> bool:
        """Whether the worker has, or can make, all state of the instance; `state` is that of all instances here."""
        if self.before is None or not self.before.size or state.watermark_us == FOREVER_US:
            return True
        if state.watermark_us < self.expires_us:
            return False
        self.expires_us = state.watermark_us + 1  # until the watermark advances, nothing else expires
        now = state.copied([instance])[instance]
        now.settle()  # its results will come from the state itself
        return not np.isin(fragments_of(now).ids, self.before).any()

    def serves(self, request: MigrationRequest) -> bool:
        """Whether it is of use for a request."""
        return self.ready and request.target == self.target and request.way.comes is StateComes.AT_ONCE

    def rest(self, state: LaneState) -> RestOfState:
        """What is left to be sent of a state that leaves and whose fresh rows are merged."""
        if self.copied is None:
            return RestOfState()
        now = Piece(fragments_of(state), state.tables, state.watermark_us)
        return RestOfState(self.copied.difference(state.kernel, now))


def begun(copy: LaneState, target: int, way: MoveWay) -> tuple[Preparation, LaneState]:
    """Begin to prepare an instance, given a copy of its state; also returns what its new owner gets now."""
    if way.ahead is Ahead.COPY:
        copy.keep(copy.tables, [])  # fresh rows are part of the difference
        copied = StateCopy.of(copy.kernel, State(dict(copy.tables), copy.watermark_us))
        return Preparation(target, mirrors=False, copied=copied), copy
    if way.ahead is Ahead.STATE_AND_ROWS:
        return Preparation(target, mirrors=True), copy
    copy.settle()  # its results will come from the state itself
    before = fragments_of(copy)
    timed = len(before) and bool((before.deadline_us != NO_DEADLINE_US).all())
    expires_us = int(before.deadline_us.max()) if timed else NEVER_US
    return Preparation(target, mirrors=True, before=before.ids, expires_us=expires_us), copy.emptied()


@dataclass(eq=False)
class Replica:
    """The new owner's side: what it has of an instance of another worker. Nothing of it is emitted."""

    state: LaneState
    state_bytes: int

    def add(self, port: int, block: Block, watermark_us: int) -> None:
        """Process rows that the owner has got at a watermark; late ones are refused there."""
        self.state.advance(watermark_us)
        self.state.add(port, block, shared=False)

    def taken_over(self, rest: RestOfState, watermark_us: int) -> LaneState:
        """The state of the instance where the owner had a watermark, after all of its results up to there."""
        if rest.difference is None:
            self.state.advance(watermark_us)
            self.state.settle()
            return self.state
        copy = Piece(Fragments.none(), self.state.tables, watermark_us)
        whole = self.state.emptied()
        whole.watermark_us = watermark_us
        whole.keep(rest.difference.applied(self.state.kernel, copy).tables, [])
        return whole
