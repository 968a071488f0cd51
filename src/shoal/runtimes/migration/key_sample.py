"""Key samples: what a kernel can learn from its input while it runs, from all rows of some keys."""

import numpy as np
from numpy.typing import NDArray

from shoal.kernels.columns.block import Block
from shoal.kernels.kernel import Kernel, concat_blocks
from shoal.kernels.worth import NOTHING_LEARNED, Learned
from shoal.model.control.fragment import Ids

MOST_ROWS = 1 << 14
"""Rows of a sample at which it is learned from."""
SPREAD = np.uint64(0x9E3779B97F4A7C15)
SHIFT = np.uint64(40)


class KeySample:
    """All rows of one key in `every`, until they are enough to learn from; equal input gives equal samples.

    1. Rows are collected until there are `MOST_ROWS`. Then the kernel learns from them, and the sample begins again.
    2. If the kernel has learned nothing, since the sample covers too short a time, half of the keys are left out and
       the rows of the others stay. So a sample covers as long a time as the kernel needs, in bounded memory.

    `rows`: how many there are now, fewer than `most_rows` after every block.
    """

    def __init__(self, kernel: Kernel, most_rows: int = MOST_ROWS) -> None:
        """Nothing is known; all keys are sampled."""
        self._kernel, self._most_rows = kernel, most_rows
        self._known = NOTHING_LEARNED
        self._blocks: list[tuple[int, Block]] = []
        self.rows = 0
        self.every = 1

    def take(self, port: int, block: Block) -> None:
        """Take rows of an input, in the order in which they are processed; a block that is kept is a copy."""
        if not self._kernel.learns or not block.length:
            return
        rows = np.flatnonzero(self._sampled(self._kernel.row_keys(port, block)))
        if rows.size:
            self._blocks.append((port, block.take(rows)))
            self.rows += int(rows.size)
        if self.rows >= self._most_rows:
            self._digest()

    @property
    def learned(self) -> Learned:
        """What is known by now, from all samples."""
        found = self._known
        for port in sorted({port for port, _ in self._blocks}):
            found = self._kernel.learn(found, port, concat_blocks([each for at, each in self._blocks if at == port]))
        return found

    def _digest(self) -> None:
        found = self.learned
        if sum(found.reached) > sum(self._known.reached):
            self._known, self._blocks, self.rows = found, [], 0
            return
        while self.rows >= self._most_rows and self.every < self._most_rows:
            self.every *= 2
            kept = ((port, each.where(self._sampled(self._kernel.row_keys(port, each)))) for port, each in self._blocks)
            self._blocks = [(port, each) for port, each in kept if each.length]
            self.rows = sum(each.length for _, each in self._blocks)
        if self.rows >= self._most_rows:  # one key has them all: there is no shorter sample of it
            self._blocks, self.rows = [], 0

    def _sampled(self, keys: Ids) -> NDArray[np.bool_]:
        if self.every == 1:
            return np.ones(keys.size, bool)
        found: NDArray[np.bool_] = (keys * SPREAD >> SHIFT) % np.uint64(self.every) == 0
        return found
