"""Stop-the-world moves, for comparison with those that stop no worker. They run inside a barrier:

1. Each part releases the instances that move away, with all rows that wait for them in its inputs. With the rows goes
   the watermark at which the part would have read them: a row must find the same windows closed as without a move.
2. If the target's watermark is higher, the old owner advances the instance to it, adds the rows that come before it,
   and emits the results. That is safe, since no rows but those released can come before it.
3. Each part adopts its new instances. One that is ahead of the part's watermark, or whose rows have come at a higher
   one, stays incoming until the part has reached it.
4. The new owners are published.

With a limit (`BarrierShedding`), only a part of the state moves. Between threads state changes its owner at once,
whatever its size; the limit stands for a link that is slower. What its capacity is until the deadline, at the given
bandwidth, is chosen from all states between steps 2 and 3. All else is dropped, and reported.
"""

import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
from numpy.typing import NDArray

from shoal.compiler.lane import Lane
from shoal.compiler.shedding.state_utility import fragments_of
from shoal.errors import ConfigError
from shoal.kernels.columns.block import Block
from shoal.kernels.kernel import State
from shoal.kernels.worth import NOTHING_LEARNED, Learned
from shoal.mechanisms.shedding.capacity import TransferLink, capacity_bytes
from shoal.mechanisms.shedding.consignment import consigned
from shoal.mechanisms.shedding.selection import Selection
from shoal.model.control.fragment import Fragments, Ids
from shoal.model.control.messages import LostState, MoveLimit
from shoal.runtimes.local.dataflow.channel import Packet
from shoal.runtimes.local.dataflow.lane_state import LaneState
from shoal.runtimes.local.dataflow.load import Ints
from shoal.runtimes.local.dataflow.node import EMPTY
from shoal.runtimes.local.migration.following_states import lost_of, query_of
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

    def settle_outgoing(self, outgoing: IncomingInstance) -> None:
        """Merge the rows of an outgoing instance that are not in its tables yet, and emit the results."""
        results = outgoing.state.settle()
        self.load.flush()
        if results.length:
            self._emit(results, None)

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


@dataclass
class OwnerChange:
    """Instances of a lane that change their owner while all workers are stopped.

    `leaving` are those between two owners, `lost` what was dropped of them. `source_of` has their old owners.
    """

    ownership: Ownership
    parts: Sequence[PausedLane]
    wanted: Ints
    leaving: dict[int, IncomingInstance] = field(default_factory=dict)
    source_of: dict[int, int] = field(default_factory=dict)
    lost: dict[int, LostState] = field(default_factory=dict)

    def release(self, *, settled: bool = False) -> None:
        """Take the instances from their owners, at the watermarks of their new owners.

        `settled`: rows that wait to be merged are, so that all fragments are known. Called for lanes upstream first,
        since instances may emit results.
        """
        for part in self.parts:
            outgoing = np.flatnonzero((self.ownership.owner == part.home) & (self.wanted != part.home))
            released = part.release(outgoing.tolist()) if outgoing.size else {}
            for instance, each in released.items():
                part.advance_outgoing(each, self.parts[int(self.wanted[instance])].state_watermark_us)
                if settled:
                    part.settle_outgoing(each)
                self.leaving[instance], self.source_of[instance] = each, part.home

    def learned(self, instance: int) -> Learned:
        """What the old owner of an instance has learned of the input."""
        sample = self.parts[self.source_of[instance]].sample
        return NOTHING_LEARNED if sample is None else sample.learned

    def finish(self, since_s: float) -> None:
        """Give the instances to their new owners, which are published; all workers are stopped `since_s`."""
        made: list[HandOver] = []
        coming: dict[int, dict[int, IncomingInstance]] = defaultdict(dict)
        for instance, each in self.leaving.items():
            source, target, nbytes = self.source_of[instance], int(self.wanted[instance]), each.state.nbytes
            coming[target][instance] = each
            self.ownership.moves[source] += 1
            self.ownership.moved_bytes[source] += nbytes
            made.append(HandOver(instance, source, target, nbytes, 0.0, lost=self.lost.get(instance)))
        for target, arrived in coming.items():
            self.parts[target].adopt(arrived)
        self.ownership.assign(self.wanted)
        ended_s = time.perf_counter()
        for move in made:
            self.ownership.finished_moves[move.target].append(
                move._replace(frozen_s=ended_s - since_s, ended_s=ended_s)
            )


@dataclass(frozen=True)
class BarrierShedding:
    """The limit of a rebinding, and how state is chosen under it; `bytes_per_s` is 0 if no bandwidth was given."""

    limit: MoveLimit
    selection: Selection
    bytes_per_s: float = 0.0

    def __post_init__(self) -> None:
        """Reject a deadline of which nobody knows how much can move until then."""
        if self.limit.deadline_s is not None and self.limit.capacity_bytes is None and not self.bytes_per_s:
            raise ConfigError("a move with a deadline between threads needs a bandwidth; set bytes_per_s")

    def capacity_bytes(self, now_s: float) -> int:
        """The bytes that can still move; time is that of the wall."""
        known, deadline_s = self.limit.capacity_bytes, self.limit.deadline_s
        if deadline_s is None or not self.bytes_per_s:
            return known or 0
        found = capacity_bytes([TransferLink(self.bytes_per_s)], max(0.0, deadline_s - now_s))
        return found if known is None else min(found, known)

    def shed(self, lanes: Sequence[Lane], changes: Sequence[OwnerChange]) -> None:
        """Drop what does not fit from the states that change their owner; called while all workers are stopped."""
        pairs = list(zip(lanes, changes, strict=True))
        leaving = [_LeavingState(lane, change, each) for lane, change in pairs for each in change.leaving]
        listed = [each.fragments() for each in leaving]
        kept: dict[int, list[Ids]] = {}
        for part in consigned(self.selection, listed, self.capacity_bytes(time.time())) if leaving else ():
            if part.chosen:
                kept.setdefault(part.place, []).append(part.fragments.ids)
        for place, (each, fragments) in enumerate(zip(leaving, listed, strict=True)):
            ids = np.concatenate(kept[place]) if place in kept else np.zeros(0, np.uint64)
            each.keep(fragments, np.isin(fragments.ids, ids))


@dataclass(frozen=True)
class _LeavingState:
    """The state of an instance between two owners."""

    lane: Lane
    change: OwnerChange
    instance: int

    @property
    def _state(self) -> LaneState:
        return self.change.leaving[self.instance].state

    def fragments(self) -> Fragments:
        """All fragments, with the utilities of the queries, or by what the old owner has learned."""
        state = self._state
        learned, declared = self.change.learned(self.instance), self.change.ownership.slots.declared
        return fragments_of(self.lane, State(dict(state.tables), state.watermark_us), learned, declared)

    def keep(self, fragments: Fragments, mask: NDArray[np.bool_]) -> None:
        """Drop all other fragments, and note what is lost."""
        if mask.all():
            return
        state = self._state
        whole = State(dict(state.tables), state.watermark_us)
        lost = state.kernel.extract(whole, fragments.ids[~mask])
        state.keep(whole.tables, [])
        query = query_of(self.lane, int(self.change.ownership.slots.declared[self.instance]))
        self.change.lost[self.instance] = lost_of(state.kernel, fragments, mask, lost, query)
