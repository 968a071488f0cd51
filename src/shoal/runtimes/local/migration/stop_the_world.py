"""Stop-the-world moves, for comparison with those that stop no worker. They run inside a barrier:

1. Each part releases the instances that move away, with all rows that wait for them in its inputs. With the rows goes
   the watermark at which the part would have read them: a row must find the same windows closed as without a move.
2. If the target's watermark is higher, the old owner advances the instance to it, adds the rows that come before it,
   and emits the results. That is safe, since no rows but those released can come before it.
3. Each part adopts its new instances. One that is ahead of the part's watermark, or whose rows have come at a higher
   one, stays incoming until the part has reached it.
4. The new owners are published.
"""

import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from shoal.kernels.columns.block import Block
from shoal.runtimes.local.dataflow.channel import Packet
from shoal.runtimes.local.dataflow.load import Ints
from shoal.runtimes.local.dataflow.node import EMPTY
from shoal.runtimes.local.migration.giving_lane import by_instance
from shoal.runtimes.local.migration.moving_lane import MovingLane
from shoal.runtimes.local.migration.ownership import Ownership
from shoal.runtimes.local.migration.part_messages import HandOver
from shoal.runtimes.local.migration.transit import IncomingInstance


@dataclass
class BarrierRead:
    """How far an input is read at a barrier: the last portion and version, and the watermark at which rows come."""

    number: int
    portion: int
    version: int
    watermark_us: int


class PausedLane(MovingLane):
    """A part whose instances can also move while all workers are stopped."""

    @property
    def state_watermark_us(self) -> int:
        """The watermark of the instances settled here."""
        return self._state.watermark_us

    def release(self, instances: Sequence[int]) -> dict[int, IncomingInstance]:
        """Take out some instances, with all rows that wait for them here.

        The move of one that has come and not settled yet ends here, and is reported.
        """
        released = {instance: self._incoming.pop(instance) for instance in instances if instance in self._incoming}
        self._report_moves(released)
        settled = self._state.take_out([instance for instance in instances if instance not in released])
        for instance, state in settled.items():
            released[instance] = IncomingInstance(state, state.watermark_us, set())
        self._own.difference_update(released)
        for number, channel in enumerate(self.inputs):
            read = BarrierRead(number, self._portions[number], self._observed[number], self._state.watermark_us)
            channel.rewrite(partial(self._without, released, read))
        self.load.flush()
        self._count_rows()
        return released

    def advance_outgoing(self, outgoing: IncomingInstance, watermark_us: int) -> None:
        """Advance an outgoing instance to the watermark of its new owner, and emit the results."""
        results, late = outgoing.advance(max(watermark_us, outgoing.state.watermark_us), self._ports)
        self.load.flush()
        for rows in late:
            self._refuse(rows)
        for each in results:
            self._emit(each, None)

    def adopt(self, instances: Mapping[int, IncomingInstance]) -> None:
        """Take in instances; those ahead of this part's watermark stay incoming until it reaches theirs."""
        if self.sleep.asleep:
            self._wake_up()
            for channel, _ in self.sleep.downstream:
                channel.phase = self.phase
        for instance, arrived in instances.items():
            self._receive(instance, arrived.state, set()).rows = arrived.rows
        self._join_settled()
        self._count_rows()

    def _without(self, released: Mapping[int, IncomingInstance], read: BarrierRead, packet: Packet) -> Block:
        """Add the rows of some instances to those that wait for them; returns the rest of a packet."""
        block, stamp, number = packet.block, packet.stamp, read.number
        read.version = max(read.version, stamp.version)
        if not block.length:
            return EMPTY
        if stamp.portion != read.portion:
            read.portion, read.watermark_us = stamp.portion, max(read.watermark_us, self._watermark_at(read))
        chosen = self._among(block, released)
        if not chosen.any():
            return block
        rows = self._timely(number, self._timed(block.take(np.flatnonzero(chosen))), stamp.late_us)
        for instance, part in by_instance(rows) if rows.length else ():
            released[instance].add(number, part, read.watermark_us)
        rest = block.where(~chosen)
        return rest if rest.length else EMPTY

    def _watermark_at(self, read: BarrierRead) -> int:
        """The watermark of this part where an input is read so far, and the others as far as they were before.

        A lower one than if they had been read further: rows must not wait for a watermark that makes them late.
        """
        observed = [*self._observed[: read.number], read.version, *self._observed[read.number + 1 :]]
        if self.lane.processing or min(observed) < self.sleep.version:
            return self._state.watermark_us
        return self.watermark_us


def change_owners(ownership: Ownership, parts: Sequence[PausedLane], wanted: Ints, since_s: float) -> None:
    """Move every instance to its wanted worker, while all workers are stopped, as they are `since_s`."""
    made: list[HandOver] = []
    coming: dict[int, dict[int, IncomingInstance]] = defaultdict(dict)
    for part in parts:
        outgoing = np.flatnonzero((ownership.owner == part.home) & (wanted != part.home))
        released = part.release(outgoing.tolist()) if outgoing.size else {}
        for instance, each in released.items():
            target = int(wanted[instance])
            part.advance_outgoing(each, parts[target].state_watermark_us)
            coming[target][instance] = each
            ownership.moves[part.home] += 1
            ownership.moved_bytes[part.home] += each.state.nbytes
            made.append(HandOver(instance, part.home, target, each.state.nbytes, 0.0))
    for target, arrived in coming.items():
        parts[target].adopt(arrived)
    ownership.assign(wanted)
    ended_s = time.perf_counter()
    for move in made:
        ownership.finished_moves[move.target].append(move._replace(frozen_s=ended_s - since_s, ended_s=ended_s))
