"""Pieces: state on its way from one worker to another."""

from dataclasses import dataclass, field

import numpy as np

from shoal.kernels.columns.block import Block
from shoal.kernels.columns.table import Tables
from shoal.kernels.kernel import Kernel, State
from shoal.model.control.fragment import Fragments, Ids


@dataclass(frozen=True, eq=False)
class Piece:
    """Fragments that have been taken out of a state, with the watermark that it had then."""

    fragments: Fragments
    tables: Tables
    watermark_us: int

    @property
    def nbytes(self) -> int:
        """The bytes of its fragments."""
        return self.fragments.total_bytes

    @property
    def rows(self) -> int:
        """The rows of its tables."""
        return sum(len(table) for table in self.tables.values())

    def first(self, kernel: Kernel, most_bytes: int) -> "Piece":
        """The fragments that fit into a number of bytes, in their order: what has arrived when a link is cut."""
        arrived = self.fragments.where(np.cumsum(self.fragments.state_bytes) <= most_bytes)
        whole = State(dict(self.tables), self.watermark_us)
        return Piece(arrived, kernel.extract(whole, arrived.ids), self.watermark_us)


@dataclass
class HeldRows:
    """Rows that wait, by input and in the order in which they came, each with the hash of its key."""

    kernel: Kernel
    waiting: list[tuple[int, Block, Ids]] = field(default_factory=list)

    def add(self, port: int, block: Block) -> None:
        """Let rows wait."""
        if block.length:
            self.waiting.append((port, block, self.kernel.row_keys(port, block)))

    @property
    def number(self) -> int:
        """How many rows wait."""
        return sum(block.length for _, block, _ in self.waiting)

    @property
    def keys(self) -> Ids:
        """The keys of all rows that wait, each once."""
        return (
            np.unique(np.concatenate([keys for *_, keys in self.waiting])) if self.waiting else np.zeros(0, np.uint64)
        )

    def taken(self, keys: Ids | None) -> list[tuple[int, Block]]:
        """Remove and return the rows of some keys, or all rows, in the order in which they came."""
        found, left = list[tuple[int, Block]](), list[tuple[int, Block, Ids]]()
        for port, block, own in self.waiting:
            wanted = np.ones(own.size, bool) if keys is None else np.isin(own, keys)
            if wanted.any():
                found.append((port, block.where(wanted)))
            if not wanted.all():
                left.append((port, block.where(~wanted), own[~wanted]))
        self.waiting = left
        return found
