"""Splits: the node upstream of an input of a divided lane that sends rows to the owner of their instance."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from shoal.kernels.columns.block import Block
from shoal.kernels.columns.table import INSTANCE
from shoal.kernels.compiled import compiled
from shoal.runtimes.local.dataflow.channel import Channel, Packet, Stamp
from shoal.runtimes.local.dataflow.node import EMPTY, Node
from shoal.runtimes.local.migration.ownership import Owners, Ownership

Ints = NDArray[np.int64]


class MovingSplit(Node):
    """Sends the rows of each instance to its owner, and acknowledges new versions of the ownership.

    `sent` counts the rows of every instance.
    """

    def __init__(self, ownership: Ownership, source: Channel, home: int = 0, keys: Sequence[str] = ()) -> None:
        """Read a channel, whose rows have these key columns; output w is that of worker w."""
        super().__init__("split", [source], home)
        self.ownership = ownership
        self.sent = np.zeros(ownership.owner.size, np.int64)
        self._observed = ownership.now.versions
        self._keys = tuple(keys)
        self._starts = np.zeros(ownership.workers + 1, np.int64)
        divide(self.sent[:0], ownership.owner, self.sent, self.sent[:0], self._starts)  # loads the compiled code

    @property
    def waiting(self) -> bool:
        """Whether rows wait, or a worker has given an instance away or woken up."""
        return super().waiting or self._observed != self.ownership.now.versions

    def turn(self, events: int) -> int:
        """Divide the rows that wait."""
        taken, before_us = 0, self.inputs[0].watermark_us
        while (packet := self._take(0, taken, events)) is not None:
            owners = self.ownership.now
            self._acknowledge(owners, before_us)  # a part that wakes up gets the watermark before its first rows
            self._divide(packet, owners)
            taken, before_us = taken + packet.block.length, self.inputs[0].watermark_us
        self._acknowledge(self.ownership.now, before_us)
        self.consumed += taken
        return taken

    def _divide(self, packet: Packet, owners: Owners) -> None:
        block = packet.block
        if owners.division is not None and block.length:
            keys = [block.columns[name] for name in self._keys]
            numbers = owners.division.assigned(block.columns[INSTANCE], keys)
            block = Block({**block.columns, INSTANCE: numbers}, block.length)
        self.produced += block.length
        rows = np.empty(block.length, np.int64)
        self._starts[:] = 0
        if block.length:
            divide(block.columns[INSTANCE], owners.owner, self.sent, rows, self._starts)
        for worker, (start, stop) in enumerate(pairwise(self._starts.tolist())):
            if start < stop:
                part = block if stop - start == block.length else block.take(rows[start:stop])
                taken = stop - start < block.length
                self.outputs[worker].write(part, packet.stamp, lasting=taken or not packet.shared)
            elif not owners.asleep[worker]:
                self.outputs[worker].write(EMPTY, packet.stamp)

    def _acknowledge(self, owners: Owners, watermark_us: int) -> None:
        """Write new versions to their workers: all rows that follow are sent by owners at least as new."""
        if owners.versions == self._observed:
            return
        for worker, version in enumerate(owners.versions):
            if version != self._observed[worker]:
                stamp = Stamp(watermark_us, 0.0, None, version, self.phase, idle=self.inputs[0].idle)
                self.outputs[worker].write(EMPTY, stamp)
        self._observed = owners.versions


@compiled
def divide(instances: Ints, owner: Ints, sent: Ints, rows: Ints, starts: Ints) -> None:
    """Order the indices of rows by the owners of their instances, and count rows per instance.

    Those of worker w are `rows[starts[w]:starts[w + 1]]`; `starts` must be all 0 before.
    """
    owners = np.empty(instances.size, np.int32)
    for i in range(instances.size):
        owners[i] = owner[instances[i]]
        sent[instances[i]] += 1
        starts[owners[i] + 1] += 1
    for worker in range(starts.size - 1):
        starts[worker + 1] += starts[worker]
    ends = starts.copy()
    for i in range(instances.size):
        rows[ends[owners[i]]] = i
        ends[owners[i]] += 1
