"""Channels: queues of events from one operator to the next, with one writer and one reader.

Each counter has one writer: the producer counts events written, the consumer events read, so that both can read the
other's without a lock. Events lie in blocks of the channel's chunks, where the reader follows the writer. Texts, lists
and results larger than a block are passed by reference, and so are many events at once that nobody will overwrite.
"""

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from shoal.kernels.columns.block import Block, Column, take
from shoal.kernels.columns.table import owned_column
from shoal.kernels.kernel import NEVER_US
from shoal.runtimes.local.memory.blocks import Chunk, Layout, Pool, Sizes, layout_of

FEWEST_ROWS = 256
"""Events per block at first; blocks grow until they hold twice as many as are written at a time."""
PASSED_ROWS = 16_384
"""From so many events on, copying them costs more than reading them as a packet of their own."""
WHOLE_ROWS = 64
"""From so many results on, those of one turn are not divided: a sink has a fixed cost for each packet."""


class Stamp(NamedTuple):
    """The watermark after some events, when the oldest was due, and the marker that follows them.

    `version` is the newest version of the ownership that the writer has read. `phase` counts how often the part that
    wrote this first has fallen asleep and woken up; watermarks do not wait for a channel in an odd phase. `late_us` is
    the watermark by which the events are late, if that does not depend on when they are read; `portion` then counts the
    advances of the watermark before them. `idle`: watermarks do not wait for the channel until events follow.
    """

    watermark_us: int
    taken_s: float
    marker_s: float | None = None
    version: int = 0
    phase: int = 0
    late_us: int = NEVER_US
    portion: int = 0
    idle: bool = False


@dataclass(frozen=True)
class Packet:
    """Events from one read, with their stamp; `shared` if they lie in memory that will be reused."""

    block: Block
    stamp: Stamp
    shared: bool = False

    @property
    def owned(self) -> Block:
        """The events in memory that is not reused."""
        if not self.shared:
            return self.block
        return Block({name: np.array(column) for name, column in self.block.columns.items()}, self.block.length)


class _Span(NamedTuple):
    """Rows start .. stop - 1 of some columns: of a block of a chunk, or of separate arrays."""

    columns: Mapping[str, Column]
    start: int
    stop: int
    stamp: Stamp
    chunk: Chunk | None
    ends_block: bool


class Channel:
    """A bounded queue of events; a full one holds its writer back, never its reader."""

    def __init__(
        self, sizes: Sizes, pool: Pool, wanted: frozenset[str] | None = None, *, to_sink: bool = False
    ) -> None:
        """An empty channel; `wanted` names the columns that its reader needs, if not all; `to_sink`: of results."""
        self._wanted = wanted
        self._whole_rows = WHOLE_ROWS if to_sink else sizes.block_rows + 1
        self.watermark_us = NEVER_US
        self.phase = 0
        self.idle = False
        self.capacity = sizes.capacity
        self.pool = pool
        self._sizes = sizes
        self.spans: deque[_Span] = deque()
        """What waits to be read; always the same object, so that a scheduler can look at it without a call."""
        self._written = 0
        self._read = 0
        self._chunk: Chunk | None = None
        self._block_index = 0
        self._filled = 0
        self._rows = min(FEWEST_ROWS, sizes.block_rows)
        self._promised_us = NEVER_US
        self._done: list[Chunk] = []

    @property
    def asleep(self) -> bool:
        """Whether watermarks do not wait for it: what was read last is a phase of sleep, or that its stream is idle."""
        return self.idle or self.phase % 2 == 1

    @property
    def pending(self) -> int:
        """Events that wait to be read."""
        return self._written - self._read

    @property
    def waiting(self) -> bool:
        """Whether there is anything to read, if only a watermark."""
        return bool(self.spans)

    @property
    def full(self) -> bool:
        """Whether the writer should wait."""
        return self._written - self._read >= self.capacity

    @property
    def oldest_s(self) -> float | None:
        """When the oldest event that waits was due."""
        try:
            return self.spans[0].stamp.taken_s
        except IndexError:
            return None

    @property
    def next_us(self) -> int:
        """The watermark of the next read."""
        try:
            return self.spans[0].stamp.watermark_us
        except IndexError:
            return NEVER_US

    def write(self, block: Block, stamp: Stamp, *, lasting: bool = False) -> None:
        """Add events; only the one writer calls this. `lasting`: nobody will overwrite them, so they may be passed on.

        If they have to be divided, only the last part carries their watermark.
        """
        if self._wanted is not None and block.length:
            block = Block({name: c for name, c in block.columns.items() if name in self._wanted}, block.length)
        if self._sizes.memory == "queue" and block.length:
            self._write_entries(block, stamp)
        elif lasting and block.length >= PASSED_ROWS:
            self._append(_Span(block.columns, 0, block.length, stamp, None, ends_block=False))
        elif (layout := self._layout(block)) is None:
            self._append(_Span(_owned(block.columns, 0), 0, block.length, stamp, None, ends_block=False))
        else:
            self._write_rows(block, stamp, layout)
        self._promised_us = stamp.watermark_us

    def read(self, most: int) -> Packet | None:
        """Take contiguous events from the front, about `most` of them; only the one reader calls this.

        The packet of the read before becomes invalid: its memory may be overwritten from now on.
        """
        self._release()
        if not self.spans:
            return None
        first = self.spans.popleft()
        stop, stamp, marker, version = first.stop, first.stamp, first.stamp.marker_s, first.stamp.version
        self._finish(first)
        while self.spans and stop - first.start < most and _continues(first, stop, self.spans[0]):
            next_ = self.spans.popleft()
            self._finish(next_)
            stop = stop if next_.stop == next_.start else next_.stop
            stamp, marker = next_.stamp, next_.stamp.marker_s if marker is None else marker
            version = max(version, stamp.version)
        self._read += stop - first.start
        self.watermark_us = max(self.watermark_us, stamp.watermark_us)
        self.phase = max(self.phase, stamp.phase)
        self.idle = stamp.idle
        taken_s, late_us, portion = first.stamp.taken_s, first.stamp.late_us, first.stamp.portion
        read = Stamp(stamp.watermark_us, taken_s, marker, version, stamp.phase, late_us, portion, stamp.idle)
        return Packet(_rows(first.columns, first.start, stop), read, first.chunk is not None)

    def rewrite(self, kept: Callable[[Packet], Block]) -> None:
        """Replace the events that wait, packet by packet; only while no thread reads or writes.

        `kept` returns the events that stay. While it runs, the channel has the watermark before the packet. Afterwards
        what the reader has read of watermark, phase and idleness is as before.
        """
        before_us, phase, idle, packets = self.watermark_us, self.phase, self.idle, list[Packet]()
        read_us = before_us
        while (packet := self.read(self.capacity)) is not None:
            after_us, self.watermark_us = self.watermark_us, read_us
            packets.append(Packet(kept(Packet(packet.owned, packet.stamp)), packet.stamp))
            self.watermark_us = read_us = after_us
        self.watermark_us = self._promised_us = before_us
        self.phase, self.idle = phase, idle
        for packet in packets:
            self.write(packet.block, packet.stamp)

    def _layout(self, block: Block) -> Layout | None:
        return layout_of(block) if 0 < block.length < min(self._whole_rows, self._sizes.block_rows + 1) else None

    def _part(self, stamp: Stamp, *, last: bool) -> Stamp:
        if last:
            return stamp
        phase = stamp.phase - stamp.phase % 2  # more rows follow
        return Stamp(self._promised_us, stamp.taken_s, phase=phase, late_us=stamp.late_us, portion=stamp.portion)

    def _append(self, span: _Span) -> None:
        self._written += span.stop - span.start
        self.spans.append(span)

    def _write_entries(self, block: Block, stamp: Stamp) -> None:
        """Write small batches, each a separate allocation."""
        rows = self._sizes.entry_rows
        for start in range(0, block.length, rows):
            chosen = np.arange(start, min(start + rows, block.length))
            entry = {name: take(column, chosen) for name, column in block.columns.items()}
            part = self._part(stamp, last=start + rows >= block.length)
            self._append(_Span(entry, 0, chosen.size, part, None, ends_block=False))

    def _write_rows(self, block: Block, stamp: Stamp, layout: Layout) -> None:
        """Append events to the open block, and open more as needed."""
        start = 0
        while self._rows < min(2 * block.length, self._sizes.block_rows):
            self._rows = min(2 * self._rows, self._sizes.block_rows)
        while start < block.length:
            chunk = self._open_block(layout)
            if chunk is None:
                rest = _owned(block.columns, start)
                self._append(_Span(rest, 0, block.length - start, stamp, None, ends_block=False))
                return
            columns, at = chunk.blocks[self._block_index], self._filled
            rows = min(block.length - start, chunk.rows - at)
            for name, column in block.columns.items():
                columns[name][at : at + rows] = column[start : start + rows]
            self._filled += rows
            start += rows
            ends = self._filled == chunk.rows
            self._append(_Span(columns, at, at + rows, self._part(stamp, last=start == block.length), chunk, ends))

    def _open_block(self, layout: Layout) -> Chunk | None:
        """The chunk whose block has room; None if the channel has as many chunks as allowed."""
        if self._chunk is not None and self._filled == self._chunk.rows:
            self._block_index, self._filled = self._block_index + 1, 0
            if self._block_index == self._sizes.chunk_blocks:
                self._chunk = None
        if self._chunk is not None and self._chunk.layout != layout:
            self._chunk = None
            self.pool.drop()
        if self._chunk is None:
            self._chunk, self._block_index, self._filled = self.pool.take(layout, self._rows), 0, 0
        return self._chunk

    def _finish(self, span: _Span) -> None:
        if span.ends_block and span.chunk is not None:
            self._done.append(span.chunk)

    def _release(self) -> None:
        """Free the blocks read before; return a chunk to the pool when all its blocks are free."""
        for chunk in self._done:
            chunk.read += 1
            if chunk.read == self._sizes.chunk_blocks:
                self.pool.give_back(chunk)
        self._done.clear()


def _continues(first: _Span, stop: int, next_: _Span) -> bool:
    """Whether a span starts where the ones read end and belongs to the same portion, or has only a watermark."""
    if next_.stop == next_.start:
        return True
    a, b = first.stamp, next_.stamp
    return next_.columns is first.columns and next_.start == stop and a.portion == b.portion and a.late_us == b.late_us


def _owned(columns: Mapping[str, Column], start: int) -> Mapping[str, Column]:
    """Columns from a row on, none of which refers to memory that may be overwritten."""
    owned = {}
    for name, column in columns.items():
        rest = column[start:] if start else column
        owned[name] = owned_column(rest)
    return owned


def _rows(columns: Mapping[str, Column], start: int, stop: int) -> Block:
    return Block({name: column[start:stop] for name, column in columns.items()}, stop - start)
