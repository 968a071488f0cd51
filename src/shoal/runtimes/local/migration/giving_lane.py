"""The owner's side of moves: a part of a lane prepares instances for their new owners, and gives them away.

The package docstring lists the steps of a move; the methods here name the step that they implement.
"""

import time
from collections import deque
from collections.abc import Collection, Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from shoal.compiler.lane import Feed, Lane
from shoal.compiler.program import Input
from shoal.kernels.columns.block import Block
from shoal.kernels.columns.table import INSTANCE
from shoal.runtimes.local.dataflow.channel import Channel
from shoal.runtimes.local.dataflow.lane_node import LaneNode
from shoal.runtimes.local.dataflow.lane_state import LaneState
from shoal.runtimes.local.dataflow.load import LaneLoad
from shoal.runtimes.local.dataflow.parking import LaneGuard
from shoal.runtimes.local.dataflow.place_counts import PlaceCounts
from shoal.runtimes.local.migration.following_states import FollowingStates, lost_with, query_of
from shoal.runtimes.local.migration.ownership import Ownership
from shoal.runtimes.local.migration.part_messages import (
    Arrival,
    CopiedState,
    Gone,
    InputDrained,
    Message,
    MigrationRequest,
    MirroredRows,
    Prepared,
    PrepareRequest,
    StateArrival,
    Unprepared,
    WatermarkPromise,
)
from shoal.runtimes.local.migration.preparation import Preparation, begun
from shoal.runtimes.local.migration.reassignment import Reassigner
from shoal.runtimes.local.migration.transit import OutgoingInstance
from shoal.runtimes.local.migration.way import First, StateComes


class GivingLane(LaneNode):
    """A part of a lane that gives instances away.

    `load` counts the work of its instances, `moving_s` is the time spent on moves so far. `_own` are the instances
    settled here. `_requests` and `_to_prepare` are what other workers have requested, `_prepared` the preparations of
    instances, `_following` states that follow their instances. `_requested` are instances that this worker has
    requested, with the watermark of the request. `_observed` is the version of the ownership that was read from each
    input.
    """

    def __init__(
        self,
        lane: Lane,
        feeds: Sequence[tuple[Feed, Channel]],
        inputs: Mapping[str, Input],
        ownership: Ownership,
        home: int,
        guard: LaneGuard | None = None,
    ) -> None:
        """A part that reads the channels of its feeds."""
        super().__init__(lane, feeds, inputs, home)
        self.ownership = ownership
        cells = ownership.slots.cells
        places = None if cells is None else PlaceCounts(cells, lambda: ownership.now.division)
        self.load = LaneLoad(ownership.owner.size, places)
        self.moving_s = 0.0
        self._state = LaneState(lane, load=self.load, slots=ownership.slots, guard=guard)
        self._requested: dict[int, int] = {}
        self._requests: list[MigrationRequest] = []
        self._to_prepare: list[PrepareRequest] = []
        self._prepared: dict[int, Preparation] = {}
        self._outgoing: dict[int, OutgoingInstance] = {}
        self._following = FollowingStates()
        self._observed = [0] * len(self.inputs)
        mine, declared = np.flatnonzero(ownership.owner == home), len(lane.instances)
        self._own = set(mine[mine < declared].tolist())
        self._reassigner = Reassigner(self._state.kernel, ownership, home, mine[mine >= declared].tolist())

    @property
    def _giving(self) -> bool:
        """Whether an instance moves out, or is to."""
        return bool(self._requests or self._to_prepare or self._prepared or self._outgoing or self._following.states)

    def _messages_to(self, target: int) -> deque[Message]:
        return self.ownership.messages[target][self.home]

    def _among(self, block: Block, instances: Collection[int]) -> NDArray[np.bool_]:
        """The rows of a block that belong to some instances, as a mask."""
        special = np.zeros(self.load.size, bool)
        special[list(instances)] = True
        return special[block.columns[INSTANCE]]

    def _prepare(self) -> None:
        """Begin the preparations that can begin (step 0), and say which are ready."""
        waiting, self._to_prepare = self._to_prepare, []
        kept = self._reassigner.kept if waiting else set()
        begins: dict[int, PrepareRequest] = {}
        for request in waiting:
            instance, target, _ = request
            owner = int(self.ownership.owner[instance])
            if owner == target or instance in self._reassigner.unused:
                self._messages_to(target).append(Unprepared(instance, self.home))
            elif owner != self.home:
                self._messages_to(owner).append(request)
            elif instance not in self._own or instance in kept or instance in begins:
                self._to_prepare.append(request)  # until it has settled here
            else:
                begins[instance] = request
        self._cancel(begins)
        for instance, copy in self._state.copied(begins).items() if begins else ():
            target = begins[instance].target
            self._prepared[instance], copied = begun(copy, target, begins[instance].way)
            self._messages_to(target).append(CopiedState(instance, copied, self.home, self._left(copied)))
        for instance, preparation in self._prepared.items():
            if not preparation.ready and preparation.done(self._state, instance):
                preparation.ready = True
                self._messages_to(preparation.target).append(Prepared(instance))

    def _cancel(self, instances: Collection[int]) -> None:
        """Cancel the preparations of some instances."""
        for instance in [each for each in instances if each in self._prepared]:
            self._messages_to(self._prepared.pop(instance).target).append(Unprepared(instance, self.home))

    def _mirror(self, number: int, block: Block) -> None:
        """Send rows of instances that are recreated elsewhere to their new owners as well."""
        mirrored = [instance for instance, each in self._prepared.items() if each.mirrors]
        if mirrored:
            rows = np.flatnonzero(self._among(block, mirrored))
            for instance, part in by_instance(block.take(rows)) if rows.size else ():
                message = MirroredRows(instance, number, part, self._state.watermark_us, self.home)
                self._messages_to(self._prepared[instance].target).append(message)

    def _serve_requests(self) -> None:
        """Grant the requests that can be granted now (step 2); keep the others, or forward them to the owner."""
        waiting, self._requests = self._requests, []
        ready: dict[int, MigrationRequest] = {}
        kept, unused = self._reassigner.kept if waiting else set(), self._reassigner.unused
        for request in waiting:
            instance, target, watermark_us, _ = request
            owner = ready[instance].target if instance in ready else int(self.ownership.owner[instance])
            if owner == target == self.home:
                self._requested.pop(instance, None)
            elif owner != self.home:
                self._messages_to(owner).append(request)
            elif instance in unused:
                self._messages_to(target).append(Gone(instance))
            elif instance not in self._own or instance in kept or self._state.watermark_us < watermark_us:
                self._requests.append(request)  # until it has settled here and the watermark has been reached
            else:
                ready[instance] = request
        if ready:
            self._hand_over(ready)

    def _hand_over(self, requests: Mapping[int, MigrationRequest]) -> None:
        """Send the instances first, with or without their states; then publish all new owners as one value."""
        self._cancel([i for i, each in self._prepared.items() if i in requests and not each.serves(requests[i])])
        for instance, state in self._state.take_out(requests).items():
            self._own.remove(instance)
            self._messages_to(requests[instance].target).append(self._arrival(instance, state, requests[instance]))
        version = self.ownership.give(self.home, {instance: each.target for instance, each in requests.items()})
        for instance, request in requests.items():
            self._outgoing[instance] = OutgoingInstance(
                request.target, version, self._state.watermark_us, set(range(len(self.inputs)))
            )

    def _arrival(self, instance: int, state: LaneState, request: MigrationRequest) -> Arrival:
        """What the new owner of an instance gets at once."""
        left_s, way, prepared = time.perf_counter(), request.way, self._prepared.pop(instance, None)
        if prepared is None and way.comes is StateComes.AT_ONCE:
            return Arrival(instance, state, self.home, self._left(state), left_s)
        if prepared is not None or way.comes is StateComes.NEVER or way.first is not First.REQUESTED:
            self._emit_some(state.settle())  # since all fragments must be known
        if prepared is not None:
            rest = prepared.rest(state)
            self.ownership.moved_bytes[self.home] += rest.nbytes
            return Arrival(instance, state.emptied(), self.home, rest.nbytes, left_s, rest=rest)
        if way.comes is StateComes.NEVER:
            query = query_of(self.lane, int(self.ownership.slots.declared[instance]))
            return Arrival(instance, state.emptied(), self.home, 0, left_s, lost=lost_with(state, query))
        missing = self._following.add(instance, state, request.target, way)
        return Arrival(instance, state.emptied(), self.home, 0, left_s, missing)

    def _left(self, state: LaneState) -> int:
        """Count the bytes of a state that leaves."""
        state_bytes = state.nbytes
        self.ownership.moved_bytes[self.home] += state_bytes
        return state_bytes

    def _send_states(self) -> None:
        """Send states that follow their instances (step 7)."""
        for each in self._following.next() if self._following.states else ():
            message = StateArrival(each.instance, each.state, self._left(each.state))
            self._messages_to(each.target).append(message)

    def _emit_some(self, results: Block) -> None:
        if results.length:
            self._emit(results, None)

    def _forward_watermarks(self) -> None:
        """Tell targets which inputs are drained (step 5), and the watermark for those that are not (step 3)."""
        for instance, outgoing in list(self._outgoing.items()):
            messages = self._messages_to(outgoing.target)
            for number in [each for each in outgoing.open if self._observed[each] >= outgoing.version]:
                outgoing.open.remove(number)
                messages.append(InputDrained(instance, number))
            if outgoing.open and self._state.watermark_us > outgoing.promised_us:
                outgoing.promised_us = self._state.watermark_us
                messages.append(WatermarkPromise(instance, outgoing.promised_us))
            if not outgoing.open:
                del self._outgoing[instance]
                self.ownership.moves[self.home] += 1


def by_instance(block: Block) -> Iterator[tuple[int, Block]]:
    """The rows of each instance of a block, in order."""
    instances = block.columns[INSTANCE]
    for instance in np.unique(instances).tolist():
        yield instance, block.take(np.flatnonzero(instances == instance))
