"""Stop-the-world moves, for comparison with those that stop no worker. They run inside a barrier:

1. Each part releases the instances that move away, after adding all rows that wait for them in its inputs.
2. If the target's watermark is higher, the old owner advances the instance to it and emits the results. That is safe,
   since all rows sent to the old owner have been added.
3. Each part adopts its new instances. One that is ahead of the part's watermark stays incoming until they are equal.
4. The new owners are published.
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
from shoal.runtimes.local.migration.giving_lane import by_instance
from shoal.runtimes.local.migration.moving_lane import MovingLane
from shoal.runtimes.local.migration.ownership import Ownership
from shoal.runtimes.local.migration.part_messages import HandOver


class PausedLane(MovingLane):
    """A part whose instances can also move while all workers are stopped."""

    @property
    def state_watermark_us(self) -> int:
        """The watermark of the instances settled here."""
        return self._state.watermark_us

    def release(self, instances: Sequence[int]) -> dict[int, LaneState]:
        """Take out the states of some instances, with all rows that wait for them here."""
        states = {instance: self._incoming.pop(instance).state for instance in instances if instance in self._incoming}
        states |= self._state.take_out([instance for instance in instances if instance not in states])
        self._own.difference_update(states)
        for number, channel in enumerate(self.inputs):
            channel.rewrite(partial(self._without, number, states))
        self.load.flush()
        self._count_rows()
        return states

    def advance_outgoing(self, state: LaneState, watermark_us: int) -> None:
        """Advance an outgoing instance to the watermark of its new owner, and emit the results."""
        results = state.advance(watermark_us)
        self.load.flush()
        if results.length:
            self._emit(results, None)

    def adopt(self, states: Mapping[int, LaneState]) -> None:
        """Take in instances; those ahead of this part's watermark stay incoming until it reaches theirs."""
        if self.sleep.asleep:
            self._wake_up()
            for channel, _ in self.sleep.downstream:
                channel.phase = self.phase
        for instance, state in states.items():
            self._receive(instance, state, set())
        self._join_settled()
        self._count_rows()

    def _without(self, number: int, states: Mapping[int, LaneState], block: Block) -> Block:
        """Add the rows of some instances to their states; returns the rest of the block."""
        if not block.length:
            return EMPTY
        chosen = self._among(block, states)
        for instance, rows in by_instance(block.take(np.flatnonzero(chosen))):
            self._refuse(states[instance].add(self._ports[number], self._timed(rows), shared=False))
        rest = block.where(~chosen)
        return rest if rest.length else EMPTY


def change_owners(ownership: Ownership, parts: Sequence[PausedLane], wanted: Ints, since_s: float) -> None:
    """Move every instance to its wanted worker, while all workers are stopped, as they are `since_s`."""
    made: list[HandOver] = []
    coming: dict[int, dict[int, LaneState]] = defaultdict(dict)
    for part in parts:
        outgoing = np.flatnonzero((ownership.owner == part.home) & (wanted != part.home))
        states = part.release(outgoing.tolist()) if outgoing.size else {}
        for instance, state in states.items():
            target = int(wanted[instance])
            part.advance_outgoing(state, parts[target].state_watermark_us)
            coming[target][instance] = state
            ownership.moves[part.home] += 1
            ownership.moved_bytes[part.home] += state.nbytes
            made.append(HandOver(instance, part.home, target, state.nbytes, 0.0))
    for target, arrived in coming.items():
        parts[target].adopt(arrived)
    ownership.assign(wanted)
    ended_s = time.perf_counter()
    for each in made:
        ownership.finished_moves[each.target].append(each._replace(frozen_s=ended_s - since_s, ended_s=ended_s))
