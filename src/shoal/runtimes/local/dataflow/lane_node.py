"""Nodes with state: a lane, or the part of it that one worker has, behind an input per feed."""

import time
from collections.abc import Mapping, Sequence

import numpy as np

from shoal.compiler.lane import Feed, Lane
from shoal.compiler.late import late_letters
from shoal.compiler.program import Input
from shoal.kernels.columns.block import Block
from shoal.kernels.kernel import FOREVER_US, NEVER_US
from shoal.model.query.schema import TIME
from shoal.runtimes.local.dataflow.channel import Channel, Packet, Stamp
from shoal.runtimes.local.dataflow.lane_state import LaneState
from shoal.runtimes.local.dataflow.node import Node


class LaneNode(Node):
    """The operators with state of one lane."""

    def __init__(
        self, lane: Lane, feeds: Sequence[tuple[Feed, Channel]], inputs: Mapping[str, Input], home: int = 0
    ) -> None:
        """A lane behind the channels of its feeds."""
        super().__init__(f"lane {lane.number}", [channel for _, channel in feeds], home)
        self.lane = lane
        self._inputs = inputs
        self._ports = [feed.port for feed, _ in feeds]
        self._state = LaneState(lane)
        self._oldest_s: float | None = None
        self._told_us = NEVER_US

    @property
    def phase(self) -> int:
        """It never sleeps."""
        return 0

    @property
    def state_bytes(self) -> int:
        """Memory of what the node remembers."""
        return self._state.nbytes

    def turn(self, events: int) -> int:
        """Take rows in, go on as far as the slowest input allows, and answer."""
        taken, marker_s, oldest_s = 0, None, None
        for number, channel in enumerate(self.inputs):
            if not channel.waiting:
                continue
            of_input = 0
            while (packet := self._take(number, of_input, events)) is not None:
                marker_s = packet.stamp.marker_s if marker_s is None else marker_s
                if packet.block.length:
                    of_input += packet.block.length
                    oldest_s = packet.stamp.taken_s if oldest_s is None else min(oldest_s, packet.stamp.taken_s)
                    self._add(number, self._timed(packet.block), packet)
            taken += of_input
        self._oldest_s = self._oldest_s if oldest_s is None else oldest_s
        for answers in self._answers(self._watermark()):
            self._tell(answers, None)
        if self._closed_us() > self._told_us or marker_s is not None:
            self._tell(Block({}, 0), marker_s)
        self.consumed += taken
        return taken

    def _answers(self, mark_us: int) -> list[Block]:
        """What has become certain."""
        answers = self._state.go_on(mark_us)
        return [answers] if answers.length else []

    def _closed_us(self) -> int:
        """How far event time is closed behind everything answered."""
        return self._state.mark_us

    def _tell(self, answers: Block, marker_s: float | None) -> None:
        """Send answers, or how far event time is closed behind all of them."""
        if not answers.length:
            self._told_us = self._closed_us()
        held_us = self.lane.kernel.hold_us if self.lane.kernel is not None else 0
        outgoing = self._told_us if self._told_us == FOREVER_US else max(NEVER_US, self._told_us - held_us)
        oldest_s = time.time() if self._oldest_s is None else self._oldest_s
        self._send(answers, Stamp(outgoing, oldest_s, marker_s, phase=self.phase))

    def _watermark(self) -> int:
        slowest = self.watermark_us
        if self.lane.processing and slowest < FOREVER_US:
            return time.time_ns() // 1000
        return slowest

    def _timed(self, block: Block) -> Block:
        """With the processing clock, rows happen when they come."""
        if not self.lane.processing:
            return block
        now = np.full(block.length, time.time_ns() // 1000)
        return Block({**block.columns, TIME: now}, block.length)

    def _add(self, number: int, block: Block, packet: Packet) -> None:
        """Bring rows of an input to the state; those that come too late are dead letters."""
        self._refuse(self._state.add(self._ports[number], block, shared=packet.shared))

    def _refuse(self, late: Block) -> None:
        if late.length:
            self.results.refused["late"] += late.length
            self.results.dead.append(late_letters(self.lane, late, self._inputs))
