"""Nodes that take events in: they read a stream, refuse what does not fit it, and cut it into blocks."""

import time
from collections import deque
from collections.abc import Iterator, Sequence

import pyarrow as pa

from shoal.connectors.admission import admit, dead_letters, file_letter
from shoal.connectors.source import BadFile, Cursor, Offset, RawBatch, Source
from shoal.kernels.block import Block, arrow_schema
from shoal.kernels.kernel import FOREVER_US, NEVER_US
from shoal.query.program import Input
from shoal.runtimes.local.channel import Stamp
from shoal.runtimes.local.node import EMPTY, Node

MARKER_S = 0.05
"""How often a marker is sent along with the events, to measure how long they take to the sinks."""
POLL_S = 0.0005
"""How long a source that had nothing is left alone."""
PIECES = 8
"""Pieces that a stretch of a source is cut into at most, so that events are made just before they are needed."""


class SourceNode(Node):
    """Reads a stream."""

    is_source = True

    def __init__(
        self, input_: Input, source: Source, columns: Sequence[str], location: str, block_rows: int, home: int = 0
    ) -> None:
        """Open the source; nothing is read yet."""
        super().__init__(f"source {input_.stream}", home=home)
        full = arrow_schema(input_.schema)
        self._input = input_
        self._source = source
        self._columns = tuple(columns)
        self._expected = pa.schema([full.field(name) for name in columns])
        self._cursor: Cursor = source.cursor(location)
        self._offset = source.start()
        self._batches: Iterator[RawBatch | BadFile] = iter(())
        self._block_rows = block_rows
        self._blocks: deque[tuple[Block, int]] = deque()
        self._mark = NEVER_US
        self._due_s: float | None = None
        self._asleep_until_s = 0.0
        self._marked_s = 0.0
        self.ended = False
        self.stopping = False

    @property
    def ready(self) -> bool:
        """Whether there is room for more and it is time to ask whether there is more."""
        return not self.ended and not self.blocked and (self.stopping or time.time() >= self._asleep_until_s)

    @property
    def watermark_us(self) -> int:
        """How far event time is closed behind what was read."""
        return self._mark

    def turn(self, events: int) -> int:
        """Read about so many events."""
        taken = 0
        while taken < events and not self.blocked and not self.ended:
            if not self._blocks and not self._fill():
                break
            if self._blocks:
                block, mark = self._blocks.popleft()
                self._mark = max(self._mark, mark)
                self._send(block, self._stamp())
                taken += block.length
        return taken

    def _stamp(self) -> Stamp:
        now_s = time.time()
        due_s = now_s if self._due_s is None else self._due_s
        if now_s - self._marked_s < MARKER_S:
            return Stamp(self._mark, due_s)
        self._marked_s = now_s
        return Stamp(self._mark, due_s, now_s)

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
            self._send(EMPTY, Stamp(FOREVER_US, time.time(), time.time()))
            return False
        end = self._cursor.latest(self._offset)
        if end == self._offset:
            self._asleep_until_s = time.time() + POLL_S
            return False
        self._due_s = self._scheduled_s(self._offset)
        slices = self._cursor.slices(self._offset, end, PIECES)
        self._offset = end
        self._batches = (raw for piece in slices for raw in self._source.read(piece, self._columns))
        return True

    def _scheduled_s(self, offset: Offset) -> float | None:
        """When the next event was due by the source's rate, be it long ago; None where it has none."""
        scheduled = getattr(self._cursor, "scheduled_s", None)
        return None if scheduled is None else scheduled(offset)

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
