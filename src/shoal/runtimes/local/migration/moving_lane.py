"""The part of a lane on one worker, whose instances move in and out while the run goes on.

The package docstring lists the steps of a move; the methods here name the step that they implement.
"""

import time
from collections import deque
from collections.abc import Mapping, Sequence

import numpy as np

from shoal.compiler.lane import Feed, Lane
from shoal.compiler.program import Input
from shoal.kernels.columns.block import Block
from shoal.kernels.columns.table import INSTANCE
from shoal.runtimes.local.dataflow.channel import Channel, Packet
from shoal.runtimes.local.dataflow.lane_state import LaneState
from shoal.runtimes.local.dataflow.node import EMPTY
from shoal.runtimes.local.dataflow.parking import LaneGuard
from shoal.runtimes.local.dataflow.sleep import Sleep
from shoal.runtimes.local.migration.giving_lane import GivingLane, by_instance
from shoal.runtimes.local.migration.ownership import Ownership
from shoal.runtimes.local.migration.part_messages import (
    Arrival,
    CopiedState,
    FetchState,
    ForwardedRows,
    Gone,
    InputDrained,
    Message,
    MigrationRequest,
    MirroredRows,
    OfIncoming,
    OfReplica,
    Prepared,
    PrepareRequest,
    WatermarkPromise,
)
from shoal.runtimes.local.migration.preparation import Replica
from shoal.runtimes.local.migration.reassignment import Reassignment
from shoal.runtimes.local.migration.transit import IncomingInstance
from shoal.runtimes.local.migration.way import AT_ONCE, Ahead, MoveWay
from shoal.runtimes.migration.key_sample import KeySample


class MovingLane(GivingLane):
    """The part of a lane on one worker, which gives instances away and takes others in.

    `_to_request` are instances to be requested, `_gathered` those of them that are to be split or merged. `_preparing`
    are those that are prepared, `_replicas` what is here of them, by instance and owner, and `_copied` those whose copy
    is here while others are copied. `_incoming` have come and are not settled yet. Only the worker that runs the part
    touches these, except where a method says otherwise. `sample` is what utilities of state are learned from, if any.
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
        super().__init__(lane, feeds, inputs, ownership, home, guard)
        self._to_request: deque[tuple[int, MoveWay]] = deque()
        self._gathered: set[int] = set()
        self._preparing: dict[int, MoveWay] = {}
        self._copied: list[int] = []
        self._replicas: dict[tuple[int, int], Replica] = {}
        self._incoming: dict[int, IncomingInstance] = {}
        self.sample: KeySample | None = None
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
        """Bytes of state, incoming instances, replicas and states to be sent included."""
        incoming = sum(each.state.nbytes for each in list(self._incoming.values()))
        replicas = sum(each.state.nbytes for each in list(self._replicas.values()))
        return super().state_bytes + incoming + replicas + self._following.nbytes

    @property
    def busy(self) -> bool:
        """Whether an instance moves in or out, or is split or merged."""
        return bool(self._taking or self._incoming or self._giving) or self._reassigner.busy

    @property
    def _taking(self) -> bool:
        """Whether an instance is to come, and has not."""
        return bool(self._to_request or self._requested or self._preparing or self._copied or self._replicas)

    @property
    def in_transit(self) -> bool:
        """Whether an instance or a message is between two workers, so that a barrier cannot move instances."""
        if self._taking or self._giving or any(self.ownership.messages[self.home]):
            return True
        return not all(incoming.complete or incoming.from_barrier for incoming in list(self._incoming.values()))

    def turn(self, events: int) -> int:
        """Process rows and emit results; then advance all moves of this part."""
        began_s, moving_s = time.thread_time(), self.moving_s
        self._read_messages()
        taken = super().turn(events)
        if self.busy:
            began = time.perf_counter()
            self._reassign()
            self._send_requests()
            self._prepare()
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
            self._cancel(self._reassigner.received())
            missing = self._reassigner.advance(self._state, self._own, self._observed)
            self._to_request.extend((number, AT_ONCE) for number in missing if number not in self._gathered)
            self._gathered.update(missing)

    def _send_requests(self) -> None:
        if self._to_request and self.sleep.asleep:
            self._wake_up()
        self.sleep.confirmed = self.sleep.acknowledged
        while self._to_request and self.sleep.confirmed:
            instance, way = self._to_request.popleft()
            self._gathered.discard(instance)
            owner = int(self.ownership.owner[instance])
            if owner == self.home or instance in self._requested:
                continue
            if way.ahead is Ahead.NOTHING:
                self._requested[instance] = self._emitted_us
                self._messages_to(owner).append(MigrationRequest(instance, self.home, self._emitted_us, way))
            elif instance not in self._preparing:
                self._preparing[instance] = way
                self._messages_to(owner).append(PrepareRequest(instance, self.home, way))

    def _fetch_states(self) -> None:
        """Ask for states that instances need now (step 7)."""
        for instance, incoming in self._incoming.items():
            if incoming.fetches and incoming.report.source is not None:
                incoming.fetches = False
                if incoming.missing is not None:
                    incoming.missing = incoming.missing._replace(rows_fetch=False, results_fetch=False)
                    self._messages_to(incoming.report.source).append(FetchState(instance))

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
        elif isinstance(message, Arrival):
            self._arrive(message)
        elif isinstance(message, Gone):
            self._requested.pop(message.instance, None)
        elif isinstance(message, FetchState):
            self._following.fetch(message.instance)
        elif isinstance(message, OfIncoming):
            self._read_of_incoming(self._incoming[message.instance], message)
        else:
            self._read_of_replica(message)

    def _read_of_incoming(self, incoming: IncomingInstance, message: OfIncoming) -> None:
        if isinstance(message, ForwardedRows):
            incoming.add(message.number, message.block, message.watermark_us)
        elif isinstance(message, WatermarkPromise):
            incoming.promised_us = message.watermark_us
        elif isinstance(message, InputDrained):
            incoming.drain(message.number)
        else:
            message.state.load = self.load
            incoming.complete_with(message)

    def _read_of_replica(self, message: OfReplica) -> None:
        """Read what leads to a replica (step 0)."""
        instance = message.instance
        if isinstance(message, PrepareRequest):
            self._to_prepare.append(message)
        elif isinstance(message, CopiedState):
            self._replicas[instance, message.source] = Replica(message.state, message.state_bytes)
        elif isinstance(message, MirroredRows):
            self._replicas[instance, message.source].add(
                self._ports[message.number], message.block, message.watermark_us
            )
        elif isinstance(message, Prepared):
            way = self._preparing.pop(instance, None)
            if way is not None and way.ahead is Ahead.COPY:
                self._copied.append(instance)
            elif way is not None:
                self._to_request.append((instance, AT_ONCE))
        else:
            self._replicas.pop((instance, message.source), None)
            self._preparing.pop(instance, None)
        if self._copied and all(way.ahead is not Ahead.COPY for way in self._preparing.values()):
            self._to_request.extend((each, AT_ONCE) for each in self._copied)  # all are copied: move them together
            self._copied.clear()

    def _arrive(self, message: Arrival) -> None:
        instance, state = message.instance, message.state
        self._preparing.pop(instance, None)
        replica = None
        if message.rest is not None:
            replica = self._replicas.pop((instance, message.source))
            state = replica.taken_over(message.rest, state.watermark_us)
        incoming = self._receive(instance, state, set(range(len(self.inputs))))
        incoming.missing = message.missing
        report = incoming.report
        report.source, report.left_s, report.lost = message.source, message.left_s, message.lost
        report.arrived(message.state_bytes + (0 if replica is None else replica.state_bytes))

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
        if self.sample is not None:
            self.sample.take(self._ports[number], block)
        if self._prepared:
            self._mirror(number, block)
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
            settled = {instance: self._incoming.pop(instance) for instance in joining}
            self._state.absorb([incoming.state for incoming in settled.values()])
            self._own.update(joining)
            self._report_moves(settled)

    def _report_moves(self, ended: Mapping[int, IncomingInstance]) -> None:
        """Report the moves of instances that were incoming; one at a barrier has been reported there."""
        reports = (incoming.report.hand_over(instance, self.home) for instance, incoming in ended.items())
        self.ownership.finished_moves[self.home].extend(each for each in reports if each is not None)

    def _output_watermark_us(self) -> int:
        marks = [incoming.state.watermark_us for incoming in self._incoming.values()]
        return max(self._emitted_us, min([self._state.watermark_us, *marks, *self._requested.values()]))
