"""Channels: what flows from one operator to the next, in order, from one writer to one reader.

Each number here has one writer: the producer counts what it has written, the consumer what it has read, so that
both may look at the other's without a lock. Events lie in blocks of the channel's chunks, where the reader follows the
writer; texts and lists, and answers larger than a block, are handed over as they are.
"""

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from shoal.kernels.columns.block import Block, Column, take
from shoal.kernels.kernel import NEVER_US
from shoal.runtimes.local.memory.blocks import Chunk, Layout, Pool, Sizes, layout_of

FEWEST_ROWS = 256
"""Events per block while little has come; blocks grow until they hold twice what comes at a time."""


class Stamp(NamedTuple):
    """How far event time is closed behind some events, when the oldest was due, and the marker that follows them.

    `version` is the newest change of owners that the writer has seen. `phase` counts how often who wrote this first has
    fallen asleep and woken up; event time does not wait for a channel in an odd phase.
    """

    watermark_us: int
    taken_s: float
    marker_s: float | None = None
    version: int = 0
    phase: int = 0


@dataclass(frozen=True)
class Packet:
    """Events read together, with their stamp; `shared` if they lie in memory that will be used again."""

    block: Block
    stamp: Stamp
    shared: bool = False

    @property
    def owned(self) -> Block:
        """The events in memory of their own."""
        if not self.shared:
            return self.block
        return Block({name: np.array(column) for name, column in self.block.columns.items()}, self.block.length)


class _Span(NamedTuple):
    """Rows start .. stop - 1 of some columns: of a chunk's block, or of arrays of their own."""

    columns: Mapping[str, Column]
    start: int
    stop: int
    stamp: Stamp
    chunk: Chunk | None
    ends_block: bool


class Channel:
    """A bounded queue of events; a full one holds its writer back, never its reader."""

    def __init__(self, sizes: Sizes, pool: Pool, wanted: frozenset[str] | None = None) -> None:
        """An empty channel; `wanted` names the columns that its reader looks at, if not all."""
        self._wanted = wanted
        self.watermark_us = NEVER_US
        self.phase = 0
        self.capacity = sizes.capacity
        self.pool = pool
        self._sizes = sizes
        self._spans: deque[_Span] = deque()
        self._written = 0
        self._read = 0
        self._chunk: Chunk | None = None
        self._place = 0
        self._filled = 0
        self._rows = min(FEWEST_ROWS, sizes.block_rows)
        self._promised_us = NEVER_US
        self._done: list[Chunk] = []

    @property
    def asleep(self) -> bool:
        """Whether nothing comes before another phase begins, as far as has been read."""
        return self.phase % 2 == 1

    @property
    def pending(self) -> int:
        """Events that wait to be read."""
        return self._written - self._read

    @property
    def waiting(self) -> bool:
        """Whether there is anything to read, be it only how far event time is closed."""
        return bool(self._spans)

    @property
    def full(self) -> bool:
        """Whether the writer should wait."""
        return self._written - self._read >= self.capacity

    @property
    def oldest_s(self) -> float | None:
        """When the oldest event that waits was due."""
        try:
            return self._spans[0].stamp.taken_s
        except IndexError:
            return None

    @property
    def next_us(self) -> int:
        """How far event time will be closed by what is read next."""
        try:
            return self._spans[0].stamp.watermark_us
        except IndexError:
            return NEVER_US

    def write(self, block: Block, stamp: Stamp) -> None:
        """Add events; only the one writer calls this.

        Where they have to be divided, only the last part says how far event time is closed behind them all.
        """
        if self._wanted is not None and block.length:
            block = Block({name: c for name, c in block.columns.items() if name in self._wanted}, block.length)
        if self._sizes.memory == "queue" and block.length:
            self._write_entries(block, stamp)
        elif (layout := self._layout(block)) is None:
            self._append(_Span(_owned(block.columns, 0), 0, block.length, stamp, None, ends_block=False))
        else:
            self._write_rows(block, stamp, layout)
        self._promised_us = stamp.watermark_us

    def read(self, most: int) -> Packet | None:
        """Take what lies together at the front, up to about so many events; only the one reader calls this.

        What was read before must no longer be looked at: its memory may be written again from now on.
        """
        self._release()
        if not self._spans:
            return None
        first = self._spans.popleft()
        stop, stamp, marker, version = first.stop, first.stamp, first.stamp.marker_s, first.stamp.version
        self._finish(first)
        while self._spans and stop - first.start < most and _goes_on(first, stop, self._spans[0]):
            next_ = self._spans.popleft()
            self._finish(next_)
            stop = stop if next_.stop == next_.start else next_.stop
            stamp, marker = next_.stamp, next_.stamp.marker_s if marker is None else marker
            version = max(version, stamp.version)
        self._read += stop - first.start
        self.watermark_us = max(self.watermark_us, stamp.watermark_us)
        self.phase = max(self.phase, stamp.phase)
        read = Stamp(stamp.watermark_us, first.stamp.taken_s, marker, version, stamp.phase)
        return Packet(_rows(first.columns, first.start, stop), read, first.chunk is not None)

    def sift(self, kept: Callable[[Block], Block]) -> None:
        """Put something else in place of what waits, packet by packet; only while nobody reads or writes.

        To the reader nothing has happened: it has read no further than before.
        """
        read_us, phase, packets = self.watermark_us, self.phase, list[Packet]()
        while (packet := self.read(self.capacity)) is not None:
            packets.append(Packet(kept(packet.owned), packet.stamp))
        self.watermark_us = self._promised_us = read_us
        self.phase = phase
        for packet in packets:
            self.write(packet.block, packet.stamp)

    def _layout(self, block: Block) -> Layout | None:
        return layout_of(block) if 0 < block.length <= self._sizes.block_rows else None

    def _part(self, stamp: Stamp, *, last: bool) -> Stamp:
        if last:
            return stamp
        return Stamp(self._promised_us, stamp.taken_s, phase=stamp.phase - stamp.phase % 2)  # more rows follow

    def _append(self, span: _Span) -> None:
        self._written += span.stop - span.start
        self._spans.append(span)

    def _write_entries(self, block: Block, stamp: Stamp) -> None:
        """Small batches, each an allocation of its own."""
        rows = self._sizes.entry_rows
        for start in range(0, block.length, rows):
            chosen = np.arange(start, min(start + rows, block.length))
            entry = {name: take(column, chosen) for name, column in block.columns.items()}
            part = self._part(stamp, last=start + rows >= block.length)
            self._append(_Span(entry, 0, chosen.size, part, None, ends_block=False))

    def _write_rows(self, block: Block, stamp: Stamp, layout: Layout) -> None:
        """Copy events to where the last ones ended, from block to block."""
        start = 0
        while self._rows < min(2 * block.length, self._sizes.block_rows):
            self._rows = min(2 * self._rows, self._sizes.block_rows)
        while start < block.length:
            chunk = self._open_block(layout)
            if chunk is None:
                rest = _owned(block.columns, start)
                self._append(_Span(rest, 0, block.length - start, stamp, None, ends_block=False))
                return
            columns, at = chunk.blocks[self._place], self._filled
            rows = min(block.length - start, chunk.rows - at)
            for name, column in block.columns.items():
                columns[name][at : at + rows] = column[start : start + rows]
            self._filled += rows
            start += rows
            ends = self._filled == chunk.rows
            self._append(_Span(columns, at, at + rows, self._part(stamp, last=start == block.length), chunk, ends))

    def _open_block(self, layout: Layout) -> Chunk | None:
        """The chunk whose block has room; None where the channel has as many chunks as it may."""
        if self._chunk is not None and self._filled == self._chunk.rows:
            self._place, self._filled = self._place + 1, 0
            if self._place == self._sizes.chunk_blocks:
                self._chunk = None
        if self._chunk is not None and self._chunk.layout != layout:
            self._chunk = None
            self.pool.drop()
        if self._chunk is None:
            self._chunk, self._place, self._filled = self.pool.take(layout, self._rows), 0, 0
        return self._chunk

    def _finish(self, span: _Span) -> None:
        if span.ends_block and span.chunk is not None:
            self._done.append(span.chunk)

    def _release(self) -> None:
        """Blocks read before are free; a chunk whose blocks all are goes back."""
        for chunk in self._done:
            chunk.read += 1
            if chunk.read == self._sizes.chunk_blocks:
                self.pool.give_back(chunk)
        self._done.clear()


def _goes_on(first: _Span, stop: int, next_: _Span) -> bool:
    """Whether a span begins where the ones read end, or says only how far event time is closed."""
    return next_.stop == next_.start or (next_.columns is first.columns and next_.start == stop)


def _owned(columns: Mapping[str, Column], start: int) -> Mapping[str, Column]:
    """Columns from a row on, none of which looks into memory that its owner may write again."""
    owned = {}
    for name, column in columns.items():
        rest = column[start:] if start else column
        owned[name] = rest.copy() if isinstance(rest, np.ndarray) and rest.base is not None else rest
    return owned


def _rows(columns: Mapping[str, Column], start: int, stop: int) -> Block:
    return Block({name: column[start:stop] for name, column in columns.items()}, stop - start)
