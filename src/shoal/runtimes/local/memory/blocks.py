"""Memory of channels: chunks of blocks in one piece, made ahead of need and used again once they have been read.

A chunk is one allocation of several blocks; a block has room for so many events, each column in one aligned stretch.
The writer takes chunks, the reader gives them back; a background thread makes the next one before it is asked for.
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
"""Columns begin at multiples of a cache line."""
MEMORIES = ("block", "queue")
Layout = tuple[tuple[str, str], ...]
"""Columns of a block by name, with their NumPy types."""
Columns = Mapping[str, NDArray[np.generic]]


@dataclass(frozen=True)
class Sizes:
    """Events per block, blocks per chunk, and how many chunks a channel has at most before its writer must wait.

    These are the largest blocks: where few events come at a time, blocks are as much smaller and chunks as many more.

    With `queue` memory there are no blocks: every entry of a channel is an allocation of its own, of `entry_rows`.
    """

    block_rows: int = 131_072
    chunk_blocks: int = 4
    active_chunks: int = 2
    memory: str = "block"
    entry_rows: int = 256

    def __post_init__(self) -> None:
        """Refuse sizes that hold nothing."""
        for name in ("block_rows", "chunk_blocks", "active_chunks", "entry_rows"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} must be at least 1; got {getattr(self, name)}")
        if self.memory not in MEMORIES:
            raise ConfigError(f"memory must be {' or '.join(MEMORIES)}; got {self.memory!r}")

    @property
    def capacity(self) -> int:
        """Events a channel holds before its writer must wait."""
        return self.block_rows * self.chunk_blocks * self.active_chunks


def layout_of(block: Block) -> Layout | None:
    """How a block's columns lie in a chunk; None where one is a text or a list, which chunks do not hold."""
    layout = []
    for name, column in block.columns.items():
        if not isinstance(column, np.ndarray) or column.dtype == object or column.ndim != 1:
            return None
        layout.append((name, column.dtype.str))
    return tuple(layout)


class Chunk:
    """Blocks in one piece of memory; `read` counts the blocks that the reader is done with."""

    __slots__ = ("blocks", "layout", "read", "rows")

    def __init__(self, layout: Layout, block_rows: int, blocks: int) -> None:
        """Allocate, and touch every page so that the writer meets no page fault."""
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

    def __init__(self, sizes: Sizes, keeper: "Keeper") -> None:
        """No memory is taken before the layout is known."""
        self._sizes = sizes
        self._keeper = keeper
        self._free: deque[Chunk] = deque()
        self._chunks = 0
        self._dropped = 0
        self._taken = 0
        self._returned = 0
        self.made_in_haste = 0

    @property
    def active(self) -> int:
        """Chunks between writer and reader."""
        return self._taken - self._returned - self._dropped

    def take(self, layout: Layout, rows: int) -> Chunk | None:
        """A chunk to write, of blocks for so many events; None where the channel has as many as it may.

        Only the writer calls this.
        """
        most = max(2, self._sizes.capacity // (rows * self._sizes.chunk_blocks))
        if self.active >= most:
            return None
        chunk = self._pop(layout, rows)
        if chunk is None:
            self.made_in_haste += 1
            self._chunks += 1
            chunk = self.make(layout, rows)
        self._taken += 1
        if not self._free and self._chunks < most:
            self._chunks += 1
            self._keeper.ask(self, layout, rows)
        return chunk

    def drop(self) -> None:
        """The writer goes on with another layout; the chunk is not used again."""
        self._dropped += 1
        self._chunks -= 1

    def give_back(self, chunk: Chunk) -> None:
        """The reader is done with a chunk."""
        chunk.read = 0
        self._returned += 1
        self._free.append(chunk)

    def make(self, layout: Layout, rows: int) -> Chunk:
        """A new chunk."""
        return Chunk(layout, rows, self._sizes.chunk_blocks)

    def add(self, chunk: Chunk) -> None:
        """A chunk made ahead; the keeper's thread calls this."""
        self._free.append(chunk)

    def _pop(self, layout: Layout, rows: int) -> Chunk | None:
        while self._free:
            chunk = self._free.popleft()
            if chunk.layout == layout and chunk.rows >= rows:
                return chunk
            self._chunks -= 1
        return None


class Keeper:
    """The background thread that makes chunks before they are needed."""

    def __init__(self) -> None:
        """Start waiting for wishes."""
        self._wishes: queue.SimpleQueue[tuple[Pool, Layout, int] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._make, name="shoal-memory", daemon=True)
        self._thread.start()

    def ask(self, pool: Pool, layout: Layout, rows: int) -> None:
        """Have a chunk made for a pool."""
        self._wishes.put((pool, layout, rows))

    def close(self) -> None:
        """Stop once what was asked for has been made."""
        self._wishes.put(None)
        self._thread.join()

    def _make(self) -> None:
        while (wish := self._wishes.get()) is not None:
            pool, layout, rows = wish
            pool.add(pool.make(layout, rows))


def _aligned(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT
