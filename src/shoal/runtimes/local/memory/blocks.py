"""Memory of channels: chunks of blocks, allocated ahead of need and reused once they have been read.

A chunk is one allocation of several blocks; a block stores each column contiguously and aligned. The writer takes
chunks, the reader gives them back, and a background thread allocates the next one in advance.
"""

import queue
import threading
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from shoal.errors import ConfigError
from shoal.kernels.columns.block import Block

ALIGNMENT = 64
"""Columns start at multiples of a cache line, in bytes."""
MEMORIES = ("block", "queue")
Layout = tuple[tuple[str, str], ...]
"""Columns of a block by name, with their NumPy types."""
Columns = Mapping[str, NDArray[np.generic]]


@dataclass(frozen=True)
class Sizes:
    """Events per block, blocks per chunk, and the most chunks that a channel has before its writer must wait.

    These are the largest blocks: if few events are written at a time, blocks are smaller, and there are more chunks.

    With `queue` memory there are no blocks: every entry of a channel is a separate allocation of `entry_rows`.
    `target_ms` is the latency by which sources with a rate size their blocks, see `memory/block_size.py`.
    """

    block_rows: int = 131_072
    chunk_blocks: int = 4
    active_chunks: int = 2
    memory: str = "block"
    entry_rows: int = 256
    target_ms: float = 2.0

    def __post_init__(self) -> None:
        """Reject sizes below 1."""
        for name in ("block_rows", "chunk_blocks", "active_chunks", "entry_rows"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} must be at least 1; got {getattr(self, name)}")
        if not 0 < self.target_ms < float("inf"):
            raise ConfigError(f"target_ms must be above 0; got {self.target_ms}")
        if self.memory not in MEMORIES:
            raise ConfigError(f"memory must be {' or '.join(MEMORIES)}; got {self.memory!r}")

    @property
    def capacity(self) -> int:
        """Events a channel holds before its writer must wait."""
        return self.block_rows * self.chunk_blocks * self.active_chunks


def layout_of(block: Block) -> Layout | None:
    """The layout of a block in a chunk; None if a column has texts or lists, which chunks do not hold."""
    layout = []
    for name, column in block.columns.items():
        if not isinstance(column, np.ndarray) or column.dtype == object or column.ndim != 1:
            return None
        layout.append((name, column.dtype.str))
    return tuple(layout)


class Chunk:
    """Blocks in one allocation; `read` counts the blocks that the reader has finished."""

    __slots__ = ("blocks", "layout", "read", "rows")

    def __init__(self, layout: Layout, block_rows: int, blocks: int) -> None:
        """Allocate, and touch every page so that the writer has no page faults."""
        sizes = [_aligned(np.dtype(type_).itemsize * block_rows) for _, type_ in layout]
        whole = np.empty(sum(sizes) * blocks + ALIGNMENT, np.uint8)
        whole[:] = 0
        start = -whole.ctypes.data % ALIGNMENT
        self.layout = layout
        self.rows = block_rows
        self.read = 0
        self.blocks: list[Columns] = []
        for _ in range(blocks):
            columns = {}
            for (name, type_), size in zip(layout, sizes, strict=True):
                columns[name] = whole[start : start + size].view(type_)[:block_rows]
                start += size
            self.blocks.append(columns)


class Pool:
    """The chunks of one channel."""

    def __init__(self, sizes: Sizes, allocator: "ChunkAllocator") -> None:
        """No memory is allocated before the layout is known."""
        self._sizes = sizes
        self._allocator = allocator
        self._free: deque[Chunk] = deque()
        self._chunks = 0
        self._dropped = 0
        self._taken = 0
        self._returned = 0
        self.made_on_demand = 0

    @property
    def active(self) -> int:
        """Chunks between writer and reader."""
        return self._taken - self._returned - self._dropped

    def take(self, layout: Layout, rows: int) -> Chunk | None:
        """A chunk to write, with blocks of at least `rows` events; None if the channel has as many as allowed.

        Only the writer calls this.
        """
        most = max(2, self._sizes.capacity // (rows * self._sizes.chunk_blocks))
        if self.active >= most:
            return None
        chunk = self._pop(layout, rows)
        if chunk is None:
            self.made_on_demand += 1
            self._chunks += 1
            chunk = self.make(layout, rows)
        self._taken += 1
        if not self._free and self._chunks < most:
            self._chunks += 1
            self._allocator.ask(self, layout, rows)
        return chunk

    def drop(self) -> None:
        """Discard the chunk being written, because the layout has changed."""
        self._dropped += 1
        self._chunks -= 1

    def give_back(self, chunk: Chunk) -> None:
        """Return a chunk that has been read; the reader calls this."""
        chunk.read = 0
        self._returned += 1
        self._free.append(chunk)

    def make(self, layout: Layout, rows: int) -> Chunk:
        """A new chunk."""
        return Chunk(layout, rows, self._sizes.chunk_blocks)

    def add(self, chunk: Chunk) -> None:
        """Add a chunk made in advance; the thread of the allocator calls this."""
        self._free.append(chunk)

    def _pop(self, layout: Layout, rows: int) -> Chunk | None:
        while self._free:
            chunk = self._free.popleft()
            if chunk.layout == layout and chunk.rows >= rows:
                return chunk
            self._chunks -= 1
        return None


class ChunkAllocator:
    """The background thread that allocates chunks in advance."""

    def __init__(self) -> None:
        """Start the thread."""
        self._requests: queue.SimpleQueue[tuple[Pool, Layout, int] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._make, name="shoal-memory", daemon=True)
        self._thread.start()

    def ask(self, pool: Pool, layout: Layout, rows: int) -> None:
        """Request a chunk for a pool."""
        self._requests.put((pool, layout, rows))

    def close(self) -> None:
        """Stop after all requested chunks have been made."""
        self._requests.put(None)
        self._thread.join()

    def _make(self) -> None:
        while (request := self._requests.get()) is not None:
            pool, layout, rows = request
            pool.add(pool.make(layout, rows))


def _aligned(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT
