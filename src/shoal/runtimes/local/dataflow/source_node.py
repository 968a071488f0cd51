"""Source nodes: they read a stream, refuse rows that do not fit its schema, and cut it into blocks.

The watermark advances where the cursor's offsets are, as on the other runtimes, so that the same rows are late. Between
two offsets only that of generated events does, block by block: their windows close within milliseconds.
"""

import time
from collections import deque
from collections.abc import Generator as Generating
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from shoal.compiler.program import Input
from shoal.compiler.watermarks import IDLE, Reading, advanced_stream, partition_us
from shoal.connectors.admission import EARLIEST_US, LATEST_US, Admitted, admit, admitted_rows, dead_letters, file_letter
from shoal.connectors.sources.generator import Generator, GeneratorCursor
from shoal.connectors.sources.source import (
    BadFile,
    Cursor,
    Offset,
    RawBatch,
    Slice,
    Source,
    Wanted,
    close_cursor,
    open_partitions,
    rows_of,
)
from shoal.kernels.columns.block import Block, Column, arrow_schema
from shoal.kernels.kernel import FOREVER_US, NEVER_US
from shoal.kernels.loops import range_of
from shoal.model.control.shedding import StreamShedding
from shoal.runtimes.local.dataflow.channel import Stamp
from shoal.runtimes.local.dataflow.node import EMPTY, Node
from shoal.runtimes.local.dataflow.production import Helper, Production
from shoal.runtimes.local.memory.block_size import block_rows as rows_per_block
from shoal.runtimes.local.memory.blocks import Sizes
from shoal.runtimes.shedder import Positions, Shedder

MARKER_S = 0.05
"""How often a marker follows the events, to measure the time to the sinks."""
POLL_S = 0.0004
"""The time between two polls of a source whose events have all been read."""
TICK_S = 0.1
"""How often a source without events sends its watermark again, so that windows by the clock close."""
UNPACED_S = 1.0
"""How late events count that come without a rate, while there are any: they need all workers."""
PIECES = 8
"""The largest number of slices per read of files; generated events are made block by block."""


class AdmittedBatch(NamedTuple):
    """A batch, which of its rows are admitted, and these as a block."""

    raw: RawBatch
    admitted: Admitted
    block: Block


class PlainBlock(NamedTuple):
    """Generated events that need no checks, and the newest of their times."""

    block: Block
    newest_us: int


class NotYet:
    """Another worker makes what comes next."""


Made = RawBatch | BadFile | PlainBlock | AdmittedBatch


class SourceNode(Node):
    """Reads a stream."""

    is_source = True

    def __init__(
        self,
        input_: Input,
        source: Source,
        columns: Sequence[str],
        location: str,
        block_rows: int,
        home: int = 0,
        shedding: StreamShedding | None = None,
        target_s: float = Sizes.target_ms / 1e3,
        helpers: int = 0,
    ) -> None:
        """Open the source; nothing is read yet. `shedding`: which rows are dropped, if any may be.

        `helpers`: how many workers may help to make events, if the source allows it.
        """
        super().__init__(f"source {input_.stream}", home=home)
        full = arrow_schema(input_.schema)
        self.stream_name = input_.stream
        self._input = input_
        self._source = source
        self._columns = tuple(columns)
        self._wanted = Wanted.of(full, columns)
        self._expected = pa.schema([full.field(name) for name in columns])
        self._cursor: Cursor = source.cursor(location)
        self._offset = source.start()
        self._batches: Iterator[Made | NotYet] = iter(())
        self._types = {field.name: _plain_type(field.type) for field in self._expected}
        self._block_rows = block_rows
        self._target_s = target_s
        self._blocks: deque[tuple[Block, int]] = deque()
        self._generated = isinstance(self._cursor, GeneratorCursor)
        helped = isinstance(source, Generator) and source.concurrent
        self._production = Production[list[Made]](self._made_of, helpers if helped else 0)
        self.helpers = [Helper(input_.stream, self._production) for _ in range(helpers if helped else 0)]
        """Nodes that make events while this one sends others."""
        self.paced = isinstance(source, Generator) and source.rate is not None
        """Whether it is known when every event is due."""
        self._marks: dict[str, int] = {}
        self._newest_us: dict[str, int] = {}
        self._partition = ""
        self._made_at: Positions | None = None
        self._portion = 0
        self._watermark_us = NEVER_US
        self._idle = False
        self._due_s: float | None = None
        self._polled = self._unread = False
        self._sent_s = self._marked_s = self.next_poll_s = 0.0
        self.ended = False
        self.stopping = False
        self.lag_s = 0.0
        """How late the newest block was sent, by when its events were due."""
        self.shedder = None if shedding is None else Shedder(input_.stream, input_.time, shedding)
        self.sheds = shedding is not None and shedding.active
        """Whether rows still to be read are to be shed; any thread may set it."""

    @property
    def ready(self) -> bool:
        """Whether the outputs have room, and events may be available."""
        awake = self.stopping or self._unread or time.time() >= self.next_poll_s
        return awake and not self.ended and not self.blocked and not self._production.stuck

    @property
    def behind_s(self) -> float:
        """How late events are read; events that are due at no time are late while some can be read."""
        if self.ended:
            return 0.0
        if self.paced:
            return self.lag_s
        return UNPACED_S if self.hurries else 0.0

    @property
    def hurries(self) -> bool:
        """Whether events that are due at no time wait to be read, as fast as possible."""
        return not self.paced and not self.ended and bool(self._unread or self._blocks)

    @property
    def watermark_us(self) -> int:
        """The watermark after the events read."""
        return self._watermark_us

    def turn(self, events: int) -> int:
        """Read about `events` events."""
        self._production.in_turn = True
        try:
            return self._turn(events)
        finally:
            self._production.in_turn = False

    def _turn(self, events: int) -> int:
        taken, self._polled = 0, False
        while taken < events and not self.blocked and not self.ended:
            if not self._blocks and not self._fill():
                break
            if self._blocks:
                block, watermark_us = self._blocks.popleft()
                self._watermark_us = max(self._watermark_us, watermark_us)
                self._send(block, self._stamp())
                taken += block.length
        return taken

    def close(self) -> None:
        """Close the file that is being read, if a run ends inside one, and release what the source holds."""
        if isinstance(self._batches, Generating):
            self._batches.close()
        close_cursor(self._cursor)

    def _stamp(self) -> Stamp:
        now_s = self._sent_s = time.time()
        due_s = now_s if self._due_s is None else self._due_s
        self.lag_s = now_s - due_s
        late_us = NEVER_US if self._generated else partition_us(self._marks, self.stream_name, self._partition)
        marker_s = None
        if now_s - self._marked_s >= MARKER_S:
            self._marked_s, marker_s = now_s, due_s
        return Stamp(self._watermark_us, due_s, marker_s, late_us=late_us, portion=self._portion, idle=self._idle)

    def _fill(self) -> bool:
        """Admit one more batch; returns whether there may be more to read now."""
        item = next(self._batches, None)
        if item is None:
            if self._unread:
                self._advance()
            self._unread = False
            return self._poll()
        if isinstance(item, NotYet):
            return False
        if isinstance(item, PlainBlock):
            self._cut(item.block, self._made_at, item.newest_us)
            self.consumed += item.block.length
            return True
        if isinstance(item, BadFile):
            self.results.refused["file"] += 1
            self.results.reject(file_letter(self.stream_name, item))
            return True
        self._enter(item if isinstance(item, AdmittedBatch) else self._entry_of(item))
        return True

    def _poll(self) -> bool:
        """Ask the source for its latest offset, at most once per turn; end the stream if it has ended."""
        if self._offset["ended"] or self.stopping:
            self.ended = True
            self._send(EMPTY, Stamp(FOREVER_US, time.time(), time.time()))
            return False
        if self._polled:
            return False
        self._polled = True
        self.next_poll_s = time.time() + POLL_S
        end = self._cursor.latest(self._offset)
        if end == self._offset:
            self._tick()
            return False
        self._batches = self._read(self._offset, end)
        self._unread, self._idle = True, False
        self._offset = end
        return True

    def _advance(self) -> None:
        """Advance the watermarks of the partitions to the newest events read, and send that of the stream."""
        opened, ended = open_partitions(self._offset), bool(self._offset["ended"])
        name = self.stream_name
        readings = [Reading(name, newest_us, each, opened, ended) for each, newest_us in self._newest_us.items()]
        self._newest_us = {}
        self._update(readings or [Reading(name, open=opened, ended=ended)])
        if not self._generated:
            self._portion += 1
            self._send(EMPTY, Stamp(self._watermark_us, time.time(), idle=self._idle))

    def _update(self, readings: Sequence[Reading]) -> None:
        now_us = time.time_ns() // 1000
        self._marks = advanced_stream(self._input, self._marks, readings, now_us)
        self._watermark_us = max(self._watermark_us, self._marks.get(self.stream_name, NEVER_US))
        self._idle = bool(self._marks.get(IDLE + self.stream_name))

    def _tick(self) -> None:
        """Without events, send the watermark again from time to time, and that the stream is idle."""
        now_s = time.time()
        if now_s >= self._sent_s + TICK_S:
            self._sent_s = now_s
            self._update(())
            self._send(EMPTY, Stamp(self._watermark_us, now_s, idle=self._idle))

    def _read(self, start: Offset, end: Offset) -> Iterator[Made | NotYet]:
        """The rows between two offsets."""
        cursor = self._cursor
        if isinstance(cursor, GeneratorCursor):
            yield from self._produced(cursor, start, end)
            return
        for piece in cursor.slices(start, end, PIECES):
            self._due_s, self._partition = None, piece.partition
            yield from rows_of(self._source, piece, self._wanted)

    def _produced(self, cursor: GeneratorCursor, start: Offset, end: Offset) -> Iterator[Made | NotYet]:
        """Generated events between two offsets, and when they were due."""
        pieces = max(1, -(-(end["position"] - start["position"]) // self._rows_due(cursor, start, end)))
        slices = cursor.slices(start, end, pieces)
        self._production.offer(slices)
        for piece in slices:
            while (made := self._production.take()) is None:
                yield NotYet()
            self._due_s, self._partition = cursor.scheduled_s(piece), piece.partition
            self._made_at = self._positions(piece)
            made.reverse()
            while made:
                yield made.pop()  # kept by nobody else, so that the next source finds its memory in the caches

    def _made_of(self, piece: Slice) -> list[Made]:
        """The events of a slice of generated ones; any thread may call this."""
        block = self._plain_block(piece)
        if block is not None:
            return [block]
        read = rows_of(self._source, piece, self._wanted)
        return [item if isinstance(item, BadFile) else self._entry_of(item) for item in read]

    def _rows_due(self, cursor: GeneratorCursor, start: Offset, end: Offset) -> int:
        """The events per block of those between two offsets; blocks are as large as allowed without a rate."""
        (whole,) = cursor.slices(start, end, 1)
        due_s = cursor.scheduled_s(whole)
        if due_s is None:
            return self._block_rows
        rows = end["position"] - start["position"]
        return rows_per_block(rows, time.time() - due_s, self._target_s, self._block_rows)

    def _plain_block(self, piece: Slice) -> PlainBlock | None:
        """Generated events, if they are plain arrays of the right types and times; others must be admitted."""
        plain = self._source.plain if isinstance(self._source, Generator) else None
        start, stop = (piece.data["start"], piece.data["stop"]) if plain is not None else (0, 0)
        if plain is None or start == stop:
            return None
        made = plain.columns(start, stop)
        columns = {name: made[name] for name in self._columns if name in made}
        if {name: _type_of(column) for name, column in columns.items()} != self._types:
            return None
        earliest, latest = range_of(columns[self._input.time].view(np.int64))
        limit = self._limit_us()
        fits = earliest >= EARLIEST_US and latest <= (LATEST_US if limit is None else min(limit, LATEST_US))
        return PlainBlock(Block(columns, stop - start), int(latest)) if fits else None

    def _positions(self, piece: Slice) -> Positions | None:
        """The positions of generated events; None if nothing is shed."""
        if self.shedder is None or not isinstance(self._source, Generator):
            return None
        return Positions(self._source.place, np.arange(piece.data["start"], piece.data["stop"]))

    def _limit_us(self) -> int | None:
        ahead = self._input.max_ahead_us
        return None if ahead is None else time.time_ns() // 1000 + ahead

    def _entry_of(self, raw: RawBatch) -> AdmittedBatch:
        admitted = admit(raw, self._expected, self._input.time, self._limit_us(), self._wanted.checked)
        return AdmittedBatch(raw, admitted, Block.from_arrow(admitted.batch))

    def _enter(self, entry: AdmittedBatch) -> None:
        raw, admitted = entry.raw, entry.admitted
        self.consumed += raw.batch.num_rows
        for refusal in admitted.refusals:
            self.results.refused[refusal.reason] += int(refusal.rows.size)
        if admitted.refusals:
            self.results.reject(dead_letters(self.stream_name, raw, admitted.refusals))
        if admitted.batch.num_rows:
            shed = self.shedder is not None
            positions = Positions.of(raw, admitted_rows(raw, admitted.refusals)) if shed else None
            self._cut(entry.block, positions)

    def _cut(self, whole: Block, positions: Positions | None, whole_newest_us: int | None = None) -> None:
        """Divide admitted events into blocks, each with its watermark; those that are shed count for it, too.

        `whole_newest_us`: the newest of their times, if it is known.
        """
        keeps = self._keeps(whole, positions)
        for start in range(0, whole.length, self._block_rows):
            stop = min(whole.length, start + self._block_rows)
            block = Block({name: column[start:stop] for name, column in whole.columns.items()}, stop - start)
            newest_us = whole_newest_us
            if newest_us is None or block.length < whole.length:
                newest_us = int(range_of(block.columns[self._input.time])[1])
            self._newest_us[self._partition] = max(self._newest_us.get(self._partition, NEVER_US), newest_us)
            watermark_us = newest_us - self._input.lateness_us if self._generated else NEVER_US
            self._blocks.append((block if keeps is None else block.where(keeps[start:stop]), watermark_us))

    def _keeps(self, whole: Block, positions: Positions | None) -> NDArray[np.bool_] | None:
        """The events that are not shed; None for all."""
        shedder = self.shedder
        if shedder is None or positions is None:
            return None
        shedding = shedder.shedding.switched(active=self.sheds)
        _, newest = range_of(whole.columns[self._input.time])
        shedder.shedding = shedding
        keeps = shedder.keeps(whole, positions) if shedding.ranges else None
        shedder.shedding = shedding.read(int(newest))
        return keeps


def _type_of(column: Column) -> np.dtype[np.generic] | None:
    """The NumPy type of a generated column, objects for a dictionary of texts; None for others."""
    if isinstance(column, np.ndarray):
        return column.dtype
    texts = isinstance(column, pa.DictionaryArray) and column.type.value_type == pa.string() and not column.null_count
    return np.dtype(object) if texts else None


def _plain_type(type_: pa.DataType) -> np.dtype[np.generic]:
    """The NumPy type of a column in kernels; times are integers."""
    plain = pa.int64() if pa.types.is_timestamp(type_) else type_
    return np.dtype(object) if pa.types.is_string(plain) else np.dtype(plain.to_pandas_dtype())
