"""The part of a lane on one worker, whose instances move in and out while the run goes on.

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
from shoal.runtimes.local.dataflow.channel import Channel, Packet
from shoal.runtimes.local.dataflow.lane_node import LaneNode
from shoal.runtimes.local.dataflow.lane_state import LaneState
from shoal.runtimes.local.dataflow.load import LaneLoad
from shoal.runtimes.local.dataflow.node import EMPTY
from shoal.runtimes.local.dataflow.parking import LaneGuard
from shoal.runtimes.local.dataflow.sleep import Sleep
from shoal.runtimes.local.migration.following_states import FollowingStates, lost_with, query_of
from shoal.runtimes.local.migration.ownership import Ownership
from shoal.runtimes.local.migration.part_messages import (
    Arrival,
    FetchState,
    ForwardedRows,
    Gone,
    InputDrained,
    Message,
    MigrationRequest,
    StateArrival,
    WatermarkPromise,
)
from shoal.runtimes.local.migration.reassignment import Reassigner, Reassignment
from shoal.runtimes.local.migration.transit import IncomingInstance, OutgoingInstance
from shoal.runtimes.local.migration.way import AT_ONCE, First, MoveWay, StateComes


class MovingLane(LaneNode):
    """The part of a lane on one worker.

    `load` counts the work of its instances, `moving_s` is the time spent on moves so far. `_to_request` are instances
    to be requested, `_requested` those requested, with the watermark of the request, and `_requests` those that other
    workers have requested. `_own` are the instances settled here, `_following` states that follow their instances,
    `_observed` the version of the ownership that was read from each input. Only the worker that runs the part touches
    these, except where a method says otherwise.
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
        self.load = LaneLoad(ownership.owner.size)
        self.moving_s = 0.0
        self._state = LaneState(lane, load=self.load, slots=ownership.slots, guard=guard)
        self._to_request: deque[tuple[int, MoveWay]] = deque()
        self._requested: dict[int, int] = {}
        self._requests: list[MigrationRequest] = []
        self._outgoing: dict[int, OutgoingInstance] = {}
        self._incoming: dict[int, IncomingInstance] = {}
        self._following = FollowingStates()
        self._observed = [0] * len(self.inputs)
        mine, declared = np.flatnonzero(ownership.owner == home), len(lane.instances)
        self._own = set(mine[mine < declared].tolist())
        self._reassigner = Reassigner(self._state.kernel, ownership, home, mine[mine >= declared].tolist())
        self.sleep = Sleep(phase=0 if self._own else 1)
        ownership.sleep(home, asleep=self.sleep.asleep)

    def request(self, instance: int, way: MoveWay = AT_ONCE) -> None:
        """Request an instance of another worker (step 1); any thread may call this."""
        self._to_request.append((instance, way))

    def reassign(self, order: Reassignment) -> None:
        """Give the keys of some instances to others; any thread may call this."""
        self._reassigner.queue.append(order)

    @property
    def waiting(self) -> bool:
        """Whether rows or messages wait, or requests or states that can be sent."""
        if (
            super().waiting
            or any(self.ownership.messages[self.home])
            or self._reassigner.queue
            or self._following.states
        ):
            return True
        return bool(self._to_request) and (self.sleep.asleep or self.sleep.acknowledged)

    @property
    def phase(self) -> int:
        """The phase of its sleep, see `Sleep`."""
        return self.sleep.phase

    @property
    def state_bytes(self) -> int:
        """Bytes of state, incoming instances and states to be sent included."""
        incoming = sum(incoming.state.nbytes for incoming in list(self._incoming.values()))
        return super().state_bytes + incoming + self._following.nbytes

    @property
    def busy(self) -> bool:
        """Whether an instance moves in or out, or is split or merged."""
        moving = self._to_request or self._requested or self._requests or self._outgoing or self._incoming
        return bool(moving or self._following.states) or self._reassigner.busy

    @property
    def in_transit(self) -> bool:
        """Whether an instance or a message is between two workers, so that a barrier cannot move instances."""
        if self._to_request or self._requested or self._requests or self._outgoing or self._following.states:
            return True
        return any(self.ownership.messages[self.home]) or not all(
            incoming.complete for incoming in list(self._incoming.values())
        )

    def turn(self, events: int) -> int:
        """Process rows and emit results; then advance all moves of this part."""
        began_s, moving_s = time.thread_time(), self.moving_s
        self._read_messages()
        taken = super().turn(events)
        if self.busy:
            began = time.perf_counter()
            self._reassign()
            self._send_requests()
            self._serve_requests()
            self._send_states()
            self._forward_watermarks()
            self.moving_s += time.perf_counter() - began
        elif not self._own and not self.sleep.asleep:
            self._fall_asleep()
        self.load.charge(max(0.0, time.thread_time() - began_s - (self.moving_s - moving_s)))
        self._count_rows()
        return taken

    def _count_rows(self) -> None:
        incoming = (incoming.state.counts for incoming in self._incoming.values())
        self.load.rows = sum((*incoming, *self._following.counts), self._state.counts)

    def _fall_asleep(self) -> None:
        """Stop the splits first: readers downstream may ignore this part only when it gets no more rows."""
        self.ownership.sleep(self.home)
        self.sleep.fall_asleep()
        super()._emit(EMPTY, None)

    def _wake_up(self) -> None:
        """Wake up first and publish the version second: a split that reads the version must find the part awake."""
        self.sleep.wake(self.ownership.now.versions[self.home] + 1)
        self.ownership.wake(self.home)
        self._emit(EMPTY, None)

    def _emit(self, results: Block, marker_s: float | None) -> None:
        if not self.sleep.asleep:
            super()._emit(results, marker_s)

    def _watermark(self) -> int:
        awake = not self.sleep.asleep and self.sleep.notified(self._observed)
        return super()._watermark() if awake else self._state.watermark_us

    def _reassign(self) -> None:
        if self._reassigner.busy:
            missing = self._reassigner.advance(self._state, self._own, self._observed)
            asked = {number for number, _ in self._to_request}
            self._to_request.extend((number, AT_ONCE) for number in missing if number not in asked)

    def _send_requests(self) -> None:
        if self._to_request and self.sleep.asleep:
            self._wake_up()
        self.sleep.confirmed = self.sleep.acknowledged
        while self._to_request and self.sleep.confirmed:
            instance, way = self._to_request.popleft()
            owner = int(self.ownership.owner[instance])
            if owner != self.home and instance not in self._requested:
                self._requested[instance] = self._emitted_us
                self._messages_to(owner).append(MigrationRequest(instance, self.home, self._emitted_us, way))

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
        left_s, way = time.perf_counter(), request.way
        if way.comes is StateComes.AT_ONCE:
            return Arrival(instance, state, self.home, self._left(state), left_s)
        if way.comes is StateComes.NEVER or way.first is not First.REQUESTED:  # which ask for all fragments
            self._emit_some(state.settle())
        if way.comes is StateComes.NEVER:
            query = query_of(self.lane, int(self.ownership.slots.declared[instance]))
            return Arrival(instance, state.emptied(), self.home, 0, left_s, lost=lost_with(instance, state, query))
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

    def _fetch_states(self) -> None:
        """Ask for states that instances need now (step 7)."""
        for instance, incoming in self._incoming.items():
            if incoming.fetches and incoming.report.source is not None:
                incoming.fetches = False
                if incoming.missing is not None:
                    incoming.missing = incoming.missing._replace(rows_fetch=False, results_fetch=False)
                    self._messages_to(incoming.report.source).append(FetchState(instance))

    def _emit_some(self, results: Block) -> None:
        if results.length:
            self._emit(results, None)

    def _messages_to(self, target: int) -> deque[Message]:
        return self.ownership.messages[target][self.home]

    def _take(self, number: int, taken: int, events: int) -> Packet | None:
        packet = super()._take(number, taken, events)
        if packet is not None:
            self._observed[number] = max(self._observed[number], packet.stamp.version)
        self._read_messages()  # a split sends rows here only after the state was handed over
        return packet

    def _read_messages(self) -> None:
        boxes = self.ownership.messages[self.home]
        for messages in boxes if any(boxes) else ():
            while messages:
                self._read(messages.popleft())

    def _read(self, message: Message) -> None:
        if isinstance(message, MigrationRequest):
            self._requests.append(message)
            return
        if isinstance(message, Arrival):
            self._arrive(message)
        elif isinstance(message, Gone):
            self._requested.pop(message.instance, None)
        elif isinstance(message, FetchState):
            self._following.fetch(message.instance)
        else:
            self._read_of(self._incoming[message.instance], message)

    def _read_of(
        self, incoming: IncomingInstance, message: ForwardedRows | WatermarkPromise | InputDrained | StateArrival
    ) -> None:
        if isinstance(message, ForwardedRows):
            incoming.add(message.number, message.block, message.watermark_us)
        elif isinstance(message, WatermarkPromise):
            incoming.promised_us = message.watermark_us
        elif isinstance(message, InputDrained):
            incoming.drain(message.number)
        else:
            message.state.load = self.load
            incoming.complete_with(message)

    def _arrive(self, message: Arrival) -> None:
        incoming = self._receive(message.instance, message.state, set(range(len(self.inputs))))
        incoming.missing = message.missing
        report = incoming.report
        report.source, report.left_s, report.lost = message.source, message.left_s, message.lost
        report.arrived(message.state_bytes)

    def _receive(self, instance: int, state: LaneState, open_: set[int]) -> IncomingInstance:
        state.load = self.load
        self._requested.pop(instance, None)
        self._reassigner.unused.discard(instance)
        self._incoming[instance] = incoming = IncomingInstance(state, state.watermark_us, open_)
        return incoming

    def _add(self, number: int, block: Block, packet: Packet) -> None:
        """Route rows of incoming and outgoing instances apart from the others (steps 3 and 4)."""
        if self._reassigner.busy:
            block = self._reassigner.relabel(self._ports[number], block, self.load)
        if self._incoming or self._outgoing:
            chosen = self._among(block, {*self._incoming, *self._outgoing})
            if chosen.any():
                began = time.perf_counter()
                parted = list(by_instance(block.take(np.flatnonzero(chosen))))
                block = block.where(~chosen)
                self.moving_s += time.perf_counter() - began
                for instance, rows in parted:
                    self._route(instance, number, rows)
        if block.length:
            super()._add(number, block, packet)

    def _among(self, block: Block, instances: Collection[int]) -> NDArray[np.bool_]:
        """The rows of a block that belong to some instances, as a mask."""
        special = np.zeros(self.load.size, bool)
        special[list(instances)] = True
        return special[block.columns[INSTANCE]]

    def _route(self, instance: int, number: int, block: Block) -> None:
        incoming = self._incoming.get(instance)
        if incoming is None:
            forwarded = ForwardedRows(instance, number, block, self._state.watermark_us)
            self._messages_to(self._outgoing[instance].target).append(forwarded)
        elif number in incoming.open:
            incoming.hold(number, block, self._state.watermark_us)
        else:
            incoming.add(number, block, self._state.watermark_us)

    def _refuse_unread(self, late: Block) -> None:
        self.load.take(late.columns[INSTANCE])
        super()._refuse_unread(late)

    def _refuse(self, late: Block) -> None:
        super()._refuse(self.ownership.slots.labelled(late))

    def _advance(self, watermark_us: int) -> list[Block]:
        """Results of the instances settled here, and of incoming ones up to their promised watermarks."""
        found = super()._advance(watermark_us)
        for incoming in self._incoming.values():
            results, late = incoming.advance(self._state.watermark_us, self._ports)
            found += results
            for rows in late:
                self._refuse(rows)
        if self._incoming:
            began = time.perf_counter()
            self._fetch_states()
            self._join_settled()
            self.moving_s += time.perf_counter() - began
        return found

    def _join_settled(self) -> None:
        """Merge complete incoming instances whose watermark is that of the others (step 6)."""
        here_us = self._state.watermark_us
        joining = [i for i, each in self._incoming.items() if each.complete and each.state.watermark_us == here_us]
        if joining:
            settled = [(instance, self._incoming.pop(instance)) for instance in joining]
            self._state.absorb([incoming.state for _, incoming in settled])
            self._own.update(joining)
            reports = (incoming.report.hand_over(instance, self.home) for instance, incoming in settled)
            self.ownership.finished_moves[self.home].extend(each for each in reports if each is not None)

    def _output_watermark_us(self) -> int:
        marks = [incoming.state.watermark_us for incoming in self._incoming.values()]
        return max(self._emitted_us, min([self._state.watermark_us, *marks, *self._requested.values()]))

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
