"""Nodes: the operators of a program as they are scheduled, each run by one worker at a time."""

import time
from abc import ABC, abstractmethod
from collections import defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from shoal.connectors.admission import admit, dead_letters, file_letter
from shoal.connectors.source import BadFile, Cursor, RawBatch, Source
from shoal.kernels.block import Block, arrow_schema
from shoal.kernels.kernel import FOREVER_US, NEVER_US
from shoal.kernels.table import Tables
from shoal.model.schema import TIME
from shoal.query.lane import Feed, Lane, Outlet
from shoal.query.late import late_letters
from shoal.query.program import Input
from shoal.query.steps import Step
from shoal.runtimes.local.channel import Channel, Packet

EMPTY = Block({}, 0)


@dataclass
class Results:
    """Rows of result tables on their way to the sinks, with when their oldest event was taken in.

    The node adds at one end, whoever hands them on takes from the other; refusals are only ever counted up.
    """

    rows: deque[tuple[str, pa.RecordBatch, float]] = field(default_factory=deque)
    dead: deque[pa.RecordBatch] = field(default_factory=deque)
    refused: dict[str, int] = field(default_factory=lambda: defaultdict(int))


class Node(ABC):
    """Something that takes packets from its inputs and puts packets into its outputs."""

    def __init__(self, name: str, inputs: Sequence[Channel] = ()) -> None:
        """A node without outputs yet."""
        self.name = name
        self.inputs = list(inputs)
        self.outputs: list[Channel] = []
        self.results = Results()
        self.consumed = 0
        self.produced = 0

    @property
    def pending(self) -> int:
        """Events that wait at the inputs."""
        return sum(channel.pending for channel in self.inputs)

    @property
    def ready(self) -> bool:
        """Whether there is something to do and room for what comes of it."""
        return any(channel.waiting for channel in self.inputs) and not self.blocked

    @property
    def blocked(self) -> bool:
        """Whether a reader downstream is too far behind."""
        return any(channel.full for channel in self.outputs)

    @abstractmethod
    def turn(self, events: int) -> int:
        """Take in about so many events, fewer if there are no more or an output is full; returns how many."""

    def _send(self, block: Block, watermark_us: int, taken_s: float) -> None:
        self.produced += block.length
        packet = Packet(block, watermark_us, taken_s)
        for channel in self.outputs:
            channel.write(packet)

    def _take(self, number: int, taken: int, events: int) -> Packet | None:
        """The next packet of an input, unless enough was taken or an output is full."""
        return None if taken >= events or self.blocked else self.inputs[number].read()


class SourceNode(Node):
    """Reads a stream, refuses what does not fit it, and cuts it into blocks."""

    def __init__(self, input_: Input, source: Source, columns: Sequence[str], location: str, block_rows: int) -> None:
        """Open the source; nothing is read yet."""
        super().__init__(f"source {input_.stream}")
        full = arrow_schema(input_.schema)
        self._input = input_
        self._source = source
        self._columns = tuple(columns)
        self._expected = pa.schema([full.field(name) for name in columns])
        self._cursor: Cursor = source.cursor(location)
        self._offset = source.start()
        self._batches: Iterator[RawBatch | BadFile] = iter(())
        self._block_rows = block_rows
        self._blocks: list[tuple[Block, int]] = []
        self._mark = NEVER_US
        self.ended = False
        self.stopping = False

    @property
    def ready(self) -> bool:
        """Whether there is room for more; whether there is more is found out by asking."""
        return not self.ended and not self.blocked

    def turn(self, events: int) -> int:
        """Read about so many events."""
        taken = 0
        while taken < events and not self.blocked and not self.ended:
            if not self._blocks and not self._fill():
                break
            if self._blocks:
                block, mark = self._blocks.pop(0)
                self._mark = max(self._mark, mark)
                self._send(block, self._mark, time.time())
                taken += block.length
        return taken

    def _fill(self) -> bool:
        """Admit one more batch; false where there is nothing to read now."""
        item = next(self._batches, None)
        if item is None:
            return self._ask()
        if isinstance(item, BadFile):
            self.results.refused["file"] += 1
            self.results.dead.append(file_letter(self._input.stream, item))
            return True
        self._admit(item)
        return True

    def _ask(self) -> bool:
        """Find out whether the source reaches further."""
        if self._offset["ended"] or self.stopping:
            self.ended = True
            self._send(EMPTY, FOREVER_US, time.time())
            return False
        end = self._cursor.latest(self._offset)
        if end == self._offset:
            return False
        slices = self._cursor.slices(self._offset, end, 1)
        self._offset = end
        self._batches = (raw for piece in slices for raw in self._source.read(piece, self._columns))
        return True

    def _admit(self, raw: RawBatch) -> None:
        ahead = self._input.max_ahead_us
        limit = None if ahead is None else time.time_ns() // 1000 + ahead
        admitted = admit(raw, self._expected, self._input.time, limit)
        self.consumed += raw.batch.num_rows
        for refusal in admitted.refusals:
            self.results.refused[refusal.reason] += int(refusal.rows.size)
        if admitted.refusals:
            self.results.dead.append(dead_letters(self._input.stream, raw, admitted.refusals))
        for start in range(0, admitted.batch.num_rows, self._block_rows):
            block = Block.from_arrow(admitted.batch.slice(start, self._block_rows))
            newest = int(block.columns[self._input.time].max())
            self._blocks.append((block, newest - self._input.lateness_us))


class StepNode(Node):
    """An operator without state."""

    def __init__(self, step: Step, source: Channel) -> None:
        """A step behind a channel."""
        super().__init__(step.text.split(" ", 1)[0], [source])
        self._step = step

    def turn(self, events: int) -> int:
        """Apply the step to what waits."""
        taken = 0
        while (packet := self._take(0, taken, events)) is not None:
            taken += packet.block.length
            block = self._step.apply(packet.block) if packet.block.length else EMPTY
            self._send(block, packet.watermark_us, packet.taken_s)
        self.consumed += taken
        return taken


class OutletNode(Node):
    """Result rows of a query, or of several that share a table."""

    def __init__(self, outlet: Outlet, source: Channel) -> None:
        """An outlet behind a channel."""
        super().__init__(f"sink {outlet.table}", [source])
        self._outlet = outlet
        self.answered = 0
        self.waited_s = 0.0

    def turn(self, events: int) -> int:
        """Turn answers into rows."""
        taken = 0
        while (packet := self._take(0, taken, events)) is not None:
            if packet.block.length:
                taken += packet.block.length
                rows = self._outlet.rows(packet.block)
                if rows.num_rows:
                    self.results.rows.append((self._outlet.table, rows, packet.taken_s))
                    self.answered += rows.num_rows
                    self.waited_s += rows.num_rows * (time.time() - packet.taken_s)
        self.consumed += taken
        return taken


class LaneNode(Node):
    """The operators with state of one lane; an input per feed."""

    def __init__(self, lane: Lane, feeds: Sequence[tuple[Feed, Channel]], inputs: Mapping[str, Input]) -> None:
        """A lane behind the channels of its feeds."""
        super().__init__(f"lane {lane.number}", [channel for _, channel in feeds])
        self.lane = lane
        self._inputs = inputs
        self._ports = [feed.port for feed, _ in feeds]
        self._state: Tables = {}
        self._mark = NEVER_US

    def turn(self, events: int) -> int:
        """Take rows in, go on as far as the slowest input allows, and answer."""
        kernel = self.lane.kernel
        if kernel is None:
            raise TypeError("a lane without a kernel has no state")
        taken, fresh, oldest_s = 0, [], time.time()
        for number, port in enumerate(self._ports):
            of_port = 0
            while (packet := self._take(number, of_port, events)) is not None:
                if packet.block.length:
                    of_port += packet.block.length
                    oldest_s = min(oldest_s, packet.taken_s)
                    fresh.append(self._lifted(port, packet.block))
            taken += of_port
        before, after = self._mark, max(self._mark, self._watermark())
        come = kernel.gathered(fresh) if fresh else {}
        if come or after > before:
            self._state, answers = self.lane.advanced(self._state, come, before, after)
            self._mark = after
            outgoing = after if after == FOREVER_US else max(NEVER_US, after - kernel.hold_us)
            self._send(answers, outgoing, oldest_s)
        self.consumed += taken
        return taken

    def _watermark(self) -> int:
        slowest = min(channel.watermark_us for channel in self.inputs)
        if self.lane.processing and slowest < FOREVER_US:
            return time.time_ns() // 1000
        return slowest

    def _lifted(self, port: int, block: Block) -> Tables:
        kernel = self.lane.kernel
        assert kernel is not None
        if self.lane.processing:
            now = np.full(block.length, time.time_ns() // 1000)
            block = Block({**block.columns, TIME: now}, block.length)
        late = kernel.late(port, block, self._mark)
        if late.any():
            self._refuse(block.take(np.flatnonzero(late)))
            block = block.where(~late)
        return kernel.lift(port, block)

    def _refuse(self, late: Block) -> None:
        self.results.refused["late"] += late.length
        self.results.dead.append(late_letters(self.lane, late, self._inputs))
