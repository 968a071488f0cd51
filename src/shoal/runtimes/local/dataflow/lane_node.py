"""Nodes with state: a lane, or the part of it on one worker, with an input per feed."""

import time
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from shoal.compiler.lane import Feed, Lane
from shoal.compiler.late import late_letters
from shoal.compiler.program import Input
from shoal.kernels.columns.block import Block
from shoal.kernels.columns.table import Tables
from shoal.kernels.kernel import FOREVER_US, NEVER_US
from shoal.model.query.schema import TIME
from shoal.runtimes.local.dataflow.channel import Channel, Packet, Stamp
from shoal.runtimes.local.dataflow.lane_state import LaneState, StateMerge
from shoal.runtimes.local.dataflow.node import Node
from shoal.runtimes.local.dataflow.parking import LaneGuard


class LaneNode(Node):
    """The operators with state of one lane."""

    def __init__(
        self,
        lane: Lane,
        feeds: Sequence[tuple[Feed, Channel]],
        inputs: Mapping[str, Input],
        home: int = 0,
        guard: LaneGuard | None = None,
    ) -> None:
        """A lane that reads the channels of its feeds."""
        super().__init__(f"lane {lane.number}", [channel for _, channel in feeds], home)
        self.lane = lane
        self._inputs = inputs
        self._ports = [feed.port for feed, _ in feeds]
        self._state = LaneState(lane, guard=guard)
        self._oldest_s: float | None = None
        self._emitted_us = NEVER_US
        self._emitted_idle = False
        self._portions = [0] * len(self.inputs)
        self.whole: Callable[[Block], Block] | None = None
        """Leaves out results of windows that lack rows, if whole windows may be shed."""

    @property
    def phase(self) -> int:
        """A whole lane never sleeps."""
        return 0

    @property
    def state_bytes(self) -> int:
        """Bytes of state."""
        return self._state.nbytes

    @property
    def tables(self) -> Tables:
        """The state without rows that are not merged yet."""
        return self._state.tables

    @property
    def merge(self) -> StateMerge | None:
        """The last merge of new rows into the state; another object after every merge."""
        return self._state.merge

    def turn(self, events: int) -> int:
        """Process rows, advance to the lowest watermark of the inputs, and emit results."""
        taken, marker_s, oldest_s = 0, None, None
        for number, channel in enumerate(self.inputs):
            if not channel.waiting:
                continue
            of_input, before_us = 0, channel.watermark_us
            while (packet := self._take(number, of_input, events)) is not None:
                marker_s = packet.stamp.marker_s if marker_s is None else marker_s
                if packet.block.length:
                    of_input += packet.block.length
                    oldest_s = packet.stamp.taken_s if oldest_s is None else min(oldest_s, packet.stamp.taken_s)
                    if packet.stamp.portion != self._portions[number]:
                        self._portions[number] = packet.stamp.portion
                        self._settle(channel, before_us)
                    block = self._timely(number, self._timed(packet.block), packet.stamp.late_us)
                    if block.length:
                        self._add(number, block, packet)
                before_us = channel.watermark_us
            taken += of_input
        self._oldest_s = self._oldest_s if oldest_s is None else oldest_s
        for results in self._advance(self._watermark()):
            self._emit(results, None)
        news = self._output_watermark_us() > self._emitted_us or self._idle != self._emitted_idle
        if news or marker_s is not None:
            self._emit(Block({}, 0), marker_s)
        self.consumed += taken
        return taken

    def _settle(self, channel: Channel, before_us: int) -> None:
        """Emit the results that are due before the rows just read: these must not count in windows that have closed."""
        read_us, channel.watermark_us = channel.watermark_us, before_us
        for results in self._advance(self._watermark()):
            self._emit(results, None)
        channel.watermark_us = read_us

    def _advance(self, watermark_us: int) -> list[Block]:
        """Advance the state; returns the results that are due."""
        results = self._state.advance(watermark_us)
        return [results] if results.length else []

    @property
    def _idle(self) -> bool:
        """Whether all inputs are idle, so that watermarks downstream do not wait for this lane."""
        return any(channel.idle for channel in self.inputs) and all(channel.asleep for channel in self.inputs)

    def _output_watermark_us(self) -> int:
        """The watermark that may be emitted after all results so far."""
        return self._state.watermark_us

    def _emit(self, results: Block, marker_s: float | None) -> None:
        """Emit results, or the watermark after all of them."""
        if results.length and self.whole is not None:
            results = self.whole(results)
            if not results.length:
                return
        if not results.length:
            self._emitted_us, self._emitted_idle = self._output_watermark_us(), self._idle
        held_us = self.lane.kernel.hold_us if self.lane.kernel is not None else 0
        outgoing = self._emitted_us if self._emitted_us == FOREVER_US else max(NEVER_US, self._emitted_us - held_us)
        oldest_s = time.time() if self._oldest_s is None else self._oldest_s
        idle = self._emitted_idle and not results.length
        self._send(results, Stamp(outgoing, oldest_s, marker_s, phase=self.phase, idle=idle))

    def _watermark(self) -> int:
        slowest = self.watermark_us
        if self.lane.processing and slowest < FOREVER_US:
            return time.time_ns() // 1000
        return slowest

    def _timed(self, block: Block) -> Block:
        """With processing time, the time of a row is when it arrives."""
        if not self.lane.processing:
            return block
        now = np.full(block.length, time.time_ns() // 1000)
        return Block({**block.columns, TIME: now}, block.length)

    def _timely(self, number: int, block: Block, late_us: int) -> Block:
        """The rows that are not late by the watermark of their own partition, whatever has been read of others."""
        if late_us == NEVER_US or self.lane.processing:
            return block
        late = self._state.kernel.late(self._ports[number], block, late_us - self.lane.hold_us)
        if not late.any():
            return block
        self._refuse_unread(block.take(np.flatnonzero(late)))
        return block.where(~late)

    def _add(self, number: int, block: Block, packet: Packet) -> None:
        """Add rows of an input to the state; late ones become dead letters."""
        self._refuse(self._state.add(self._ports[number], block, shared=packet.shared))

    def _refuse_unread(self, late: Block) -> None:
        """Refuse rows that are not added to the state."""
        self._refuse(late)

    def _refuse(self, late: Block) -> None:
        if late.length:
            self.results.refused["late"] += late.length
            self.results.reject(late_letters(self.lane, late, self._inputs))
