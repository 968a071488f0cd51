"""A channel beside a list of everything written to it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from shoal.kernels.columns.block import Block
from shoal.kernels.kernel import NEVER_US
from shoal.runtimes.local.dataflow.channel import FEWEST_ROWS, Channel, Packet, Stamp
from shoal.runtimes.local.memory.blocks import Sizes

Ints = NDArray[np.int64]
SCRATCH_ROWS = 4096
NOBODY = -77
"""What a writer leaves in its own memory once it has handed events over."""
LAYOUTS: Mapping[str, Callable[[Ints], Any]] = {
    "numbers": lambda n: {"x": n / 4},
    "others": lambda n: {"x": (n % 1000).astype(np.int32)},
    "more": lambda n: {"flag": n % 3 == 0, "x": n * 2},
    "texts": lambda n: {"s": pa.array([f"text {each}" for each in n.tolist()])},
}
"""What an event has beside its number and its time, given its number."""


@dataclass(frozen=True)
class Write:
    """A write of some events; `borrowed` if they lie in memory that the writer reuses."""

    rows: int
    layout: str
    borrowed: bool
    marked: bool
    seed: int


@dataclass(frozen=True)
class Read:
    """A read of about that many events."""

    most: int


@dataclass(frozen=True)
class Written:
    """A write as the model keeps it: the numbers of its events, their times, and their stamp."""

    first: int
    stop: int
    layout: str
    times: Ints
    stamp: Stamp


def columns_of(layout: str, first: int, times: Ints) -> dict[str, Any]:
    numbers = np.arange(first, first + times.size)
    return {"n": numbers, "t": times, **LAYOUTS[layout](numbers)}


def assert_same(block: Block, wanted: Mapping[str, Any]) -> None:
    assert list(block.columns) == list(wanted)
    for name, column in wanted.items():
        got = block.columns[name]
        if isinstance(column, np.ndarray):
            assert got.dtype == column.dtype
            assert got.tolist() == column.tolist()
        else:
            assert got.equals(column)


@dataclass
class Model:
    """A channel beside a list of everything written to it."""

    channel: Channel
    sizes: Sizes
    written: list[Written] = field(default_factory=list)
    rows: int = 0
    read: int = 0
    last: tuple[Packet, dict[str, Any]] | None = None
    kept: list[tuple[Block, dict[str, Any]]] = field(default_factory=list)
    markers: list[float] = field(default_factory=list)
    scratch: dict[str, Any] = field(default_factory=dict)

    def write(self, step: Write) -> None:
        newest = self.written[-1].stamp.watermark_us if self.written else 0
        draw = np.random.default_rng(step.seed)
        times = newest + draw.integers(0, 5, step.rows)
        number = float(len(self.written))
        watermark = int(times.max()) if step.rows else newest + 1
        stamp = Stamp(watermark, number, number if step.marked else None)
        columns = columns_of(step.layout, self.rows, times) if step.rows else {}
        given = self._lent(columns) if step.borrowed else columns
        self.channel.write(Block(given, step.rows), stamp, lasting=not step.borrowed)
        for memory in self.scratch.values():
            memory[:] = NOBODY
        self.written.append(Written(self.rows, self.rows + step.rows, step.layout, times, stamp))
        self.rows += step.rows

    def _lent(self, columns: Mapping[str, Any]) -> dict[str, Any]:
        """The same columns in memory that is reused for every write."""
        lent = {}
        for name, column in columns.items():
            lent[name] = column
            if isinstance(column, np.ndarray):
                memory = self.scratch.setdefault(f"{name} {column.dtype}", np.empty(SCRATCH_ROWS, column.dtype))
                lent[name] = memory[: column.size]
                lent[name][:] = column
        return lent

    def take(self, step: Read) -> Packet | None:
        """Read, and compare with the model."""
        if self.last is not None:
            assert_same(self.last[0].block, self.last[1])  # nothing was written over it until now
        before = self.read
        packet = self.channel.read(step.most)
        self.last = None
        if packet is None:
            assert before == self.rows
            return None
        self.read += packet.block.length
        if packet.block.length:
            wanted = self._wanted(before, self.read)
            assert_same(packet.block, wanted)
            self.last = packet, wanted
            self.kept.append((packet.owned, wanted))
            longest = max(each.stop - each.first for each in self.written)
            assert packet.block.length < step.most + longest
            assert packet.stamp.taken_s == self._write_of(before).stamp.taken_s
        self._check_stamp(packet.stamp)
        return packet

    def _write_of(self, number: int) -> Written:
        return next(each for each in self.written if each.first <= number < each.stop)

    def _wanted(self, start: int, stop: int) -> dict[str, Any]:
        """Events start .. stop - 1, which must have one layout."""
        parts = [each for each in self.written if each.times.size and each.first < stop and start < each.stop]
        (layout,) = {each.layout for each in parts}
        times = np.concatenate([each.times for each in parts])
        offset = start - parts[0].first
        return columns_of(layout, start, times[offset : offset + stop - start])

    def _check_stamp(self, stamp: Stamp) -> None:
        times = np.concatenate([each.times for each in self.written])
        assert (times[self.read :] >= stamp.watermark_us).all()  # nor can later ones be older: the writer promised it
        behind = [each.stamp for each in self.written if each.stop <= self.read]
        certain = [each.stamp for each in self.written if each.first < each.stop <= self.read]
        assert stamp.watermark_us <= max((each.watermark_us for each in behind), default=NEVER_US)
        assert self.channel.watermark_us >= max((each.watermark_us for each in certain), default=NEVER_US)
        if stamp.marker_s is not None:
            assert stamp.marker_s in [each.marker_s for each in behind]
            self.markers.append(stamp.marker_s)

    def check(self) -> None:
        """What holds after every step."""
        channel, pool = self.channel, self.channel.pool
        assert channel.pending == self.rows - self.read
        assert channel.full == (channel.pending >= self.sizes.capacity)
        assert channel.waiting or not channel.pending
        smallest = min(FEWEST_ROWS, self.sizes.block_rows)
        most = max(2, self.sizes.capacity // (smallest * self.sizes.chunk_blocks))
        assert 0 <= pool.active <= most
        assert pool.active + len(pool._free) <= most

    def finish(self) -> None:
        """Read all that is left; then no event may be missing, and only the writer may hold memory."""
        while self.take(Read(1000)) is not None:
            self.check()
        assert self.read == self.rows
        for block, wanted in self.kept:
            assert_same(block, wanted)
        assert self.channel.pool.active <= 1
        if self.written:
            assert self.channel.watermark_us == self.written[-1].stamp.watermark_us
        given = [each.stamp.marker_s for each in self.written if each.stamp.marker_s is not None]
        assert self.markers == sorted(set(self.markers))
        assert self.markers[:1] == given[:1]
