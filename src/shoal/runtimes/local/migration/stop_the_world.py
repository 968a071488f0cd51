"""Standstills: instances change their worker while nobody does anything, for comparison with moves that stop nobody.

All parts of a lane are quiet, so that the state of an instance can be taken from one and given to another at once. What
waits for it in front of the old owner is brought to its state first. If the new owner is further in event time, the
instance is brought as far, which all that has been sent to the old one allows, and the old one answers; if it is less
far, the instance is a guest there until it is.
"""

import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np

from shoal.kernels.columns.block import Block
from shoal.runtimes.local.dataflow.lane_state import LaneState
from shoal.runtimes.local.dataflow.load import Ints
from shoal.runtimes.local.dataflow.node import EMPTY
from shoal.runtimes.local.migration.moving_lane import MovingLane, apart
from shoal.runtimes.local.migration.ownership import HandOver, Ownership


class StillLane(MovingLane):
    """A part whose instances come and go only while nobody does anything."""

    @property
    def mark_us(self) -> int:
        """How far event time is closed for what is settled here."""
        return self._state.mark_us

    def give_up(self, instances: Sequence[int]) -> dict[int, LaneState]:
        """The states of some instances, with all that waits for them here."""
        states = {instance: self._guests.pop(instance).state for instance in instances if instance in self._guests}
        states |= self._state.take_out([instance for instance in instances if instance not in states])
        self._own.difference_update(states)
        for number, channel in enumerate(self.inputs):
            channel.sift(partial(self._sifted, number, states))
        self.load.note()
        self._count_rows()
        return states

    def bring_on(self, state: LaneState, mark_us: int) -> None:
        """Close event time for an instance that leaves up to where its new owner is, and answer."""
        answers = state.go_on(mark_us)
        self.load.note()
        if answers.length:
            self._tell(answers, None)

    def take_up(self, states: Mapping[int, LaneState]) -> None:
        """Have instances from now on; those that are further than the others stay guests until these are as far."""
        if self.sleep.asleep:
            self._wake_up()
            for channel, _ in self.sleep.behind:
                channel.phase = self.phase
        for instance, state in states.items():
            self._welcome(instance, state, set())
        self._admit()
        self._count_rows()

    def _sifted(self, number: int, states: Mapping[int, LaneState], block: Block) -> Block:
        """What is left of a block of an input without the rows that go to the given states."""
        if not block.length:
            return EMPTY
        chosen = self._among(block, states)
        for instance, rows in apart(block.take(np.flatnonzero(chosen))):
            self._refuse(states[instance].add(self._ports[number], self._timed(rows), shared=False))
        rest = block.where(~chosen)
        return rest if rest.length else EMPTY


def change_owners(ownership: Ownership, parts: Sequence[StillLane], wanted: Ints, since_s: float) -> None:
    """Give every instance to the worker that is to have it; nobody else may run, and has not `since_s`."""
    made: list[HandOver] = []
    coming: dict[int, dict[int, LaneState]] = defaultdict(dict)
    for part in parts:
        leaving = np.flatnonzero((ownership.owner == part.home) & (wanted != part.home))
        states = part.give_up(leaving.tolist()) if leaving.size else {}
        for instance, state in states.items():
            target = int(wanted[instance])
            part.bring_on(state, parts[target].mark_us)
            coming[target][instance] = state
            ownership.moves[part.home] += 1
            ownership.moved_bytes[part.home] += state.nbytes
            made.append(HandOver(instance, part.home, target, state.nbytes, 0.0))
    for target, arrived in coming.items():
        parts[target].take_up(arrived)
    ownership.assign(wanted)
    frozen_s = time.perf_counter() - since_s
    for each in made:
        ownership.settled[each.target].append(each._replace(frozen_s=frozen_s))
