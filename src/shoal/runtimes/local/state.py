"""Nodes with state: a lane, or the part of it that one worker has, behind an input per feed."""

import time
from collections.abc import Mapping, Sequence

import numpy as np

from shoal.kernels.block import Block
from shoal.kernels.kernel import FOREVER_US, NEVER_US, Kernel
from shoal.kernels.table import RowTable, Tables
from shoal.model.schema import TIME
from shoal.query.lane import Feed, Lane
from shoal.query.late import late_letters
from shoal.query.program import Input
from shoal.runtimes.local.channel import Channel, Packet, Stamp
from shoal.runtimes.local.node import EMPTY, Node

FEW_ROWS = 1 << 16
"""Rows that may wait before they are brought to the state, though no answer is due; or as many as the state has."""


class LaneNode(Node):
    """The operators with state of one lane.

    What has come is brought to the state when answers are due, or when as much waits as the state has: in between,
    a block costs what it holds, however large the state is.
    """

    def __init__(
        self, lane: Lane, feeds: Sequence[tuple[Feed, Channel]], inputs: Mapping[str, Input], home: int = 0
    ) -> None:
        """A lane behind the channels of its feeds."""
        super().__init__(f"lane {lane.number}", [channel for _, channel in feeds], home)
        if lane.kernel is None:
            raise TypeError("a lane without a kernel has no state")
        self.lane = lane
        self._kernel: Kernel = lane.kernel
        self._inputs = inputs
        self._ports = [feed.port for feed, _ in feeds]
        self._state: Tables = {}
        self._fresh: list[Tables] = []
        self._fresh_rows = 0
        self._mark = NEVER_US
        self._advanced_us = NEVER_US
        self._oldest_s: float | None = None

    @property
    def state_bytes(self) -> int:
        """Memory of the state and of what waits to be brought to it."""
        return sum(table.nbytes for tables in (self._state, *list(self._fresh)) for table in list(tables.values()))

    def turn(self, events: int) -> int:
        """Take rows in, go on as far as the slowest input allows, and answer."""
        taken, marker_s, before = 0, None, self._mark
        oldest_s = None
        for number, port in enumerate(self._ports):
            of_port = 0
            while (packet := self._take(number, of_port, events)) is not None:
                marker_s = packet.stamp.marker_s if marker_s is None else marker_s
                if packet.block.length:
                    of_port += packet.block.length
                    oldest_s = packet.stamp.taken_s if oldest_s is None else min(oldest_s, packet.stamp.taken_s)
                    self._add(port, packet)
            taken += of_port
        self._oldest_s = self._oldest_s if oldest_s is None else oldest_s
        self._mark = max(self._mark, self._watermark())
        answers = self._answers()
        if answers.length or self._mark > before or marker_s is not None:
            self._go_on(answers, marker_s)
        self.consumed += taken
        return taken

    def _answers(self) -> Block:
        """What has become certain, if anything is due; otherwise what has come goes on waiting."""
        due = (self._fresh or self._mark > self._advanced_us) and self._kernel.due(self._advanced_us, self._mark)
        if due or self._fresh_rows > max(FEW_ROWS, _rows(self._state)):
            come = self._kernel.together(self._fresh) if self._fresh else {}
            self._fresh, self._fresh_rows = [], 0
            self._state, answers = self.lane.advanced(self._state, come, self._advanced_us, self._mark)
            self._advanced_us = self._mark
            if answers.length:
                return answers
        return EMPTY

    def _go_on(self, answers: Block, marker_s: float | None) -> None:
        """Send answers, and tell those behind how far event time is closed."""
        outgoing = self._mark if self._mark == FOREVER_US else max(NEVER_US, self._mark - self._kernel.hold_us)
        oldest_s = time.time() if self._oldest_s is None else self._oldest_s
        self._send(answers, Stamp(outgoing, oldest_s, marker_s))

    def _watermark(self) -> int:
        slowest = self.watermark_us
        if self.lane.processing and slowest < FOREVER_US:
            return time.time_ns() // 1000
        return slowest

    def _add(self, port: int, packet: Packet) -> None:
        """Lift a block, without the rows that come too late."""
        kernel, block = self._kernel, packet.block
        if self.lane.processing:
            now = np.full(block.length, time.time_ns() // 1000)
            block = Block({**block.columns, TIME: now}, block.length)
        late = kernel.late(port, block, self._mark)
        if late.any():
            self._refuse(block.take(np.flatnonzero(late)))
            block = block.where(~late)
        lifted = kernel.lift(port, block)
        if packet.shared:
            lifted = {number: _owned(table) for number, table in lifted.items()}
        self._fresh.append(lifted)
        self._fresh_rows += _rows(lifted)

    def _refuse(self, late: Block) -> None:
        self.results.refused["late"] += late.length
        self.results.dead.append(late_letters(self.lane, late, self._inputs))


def _rows(tables: Tables) -> int:
    return sum(len(table) for table in tables.values())


def _owned(table: object) -> object:
    """A table that does not look into memory that will be used again; partial aggregates never do."""
    if not isinstance(table, RowTable):
        return table
    columns = {n: c.copy() if isinstance(c, np.ndarray) and c.base is not None else c for n, c in table.columns.items()}
    return RowTable(columns)
