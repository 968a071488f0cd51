"""Splits: in front of every input of a divided lane, the node that sends rows to who owns their instance."""

import numpy as np
from numpy.typing import NDArray

from shoal.kernels.compiled import compiled
from shoal.kernels.table import INSTANCE
from shoal.runtimes.local.channel import Channel, Packet, Stamp
from shoal.runtimes.local.node import EMPTY, Node
from shoal.runtimes.local.ownership import Ownership

Ints = NDArray[np.int64]


class MovingSplit(Node):
    """Sends the rows of each instance to the worker that owns it, and tells workers when it has seen them give away.

    `sent` counts the rows of every instance.
    """

    def __init__(self, ownership: Ownership, source: Channel, home: int = 0) -> None:
        """Behind a channel; output w is that of worker w."""
        super().__init__("split", [source], home)
        self.ownership = ownership
        self.sent = np.zeros(ownership.owner.size, np.int64)
        self._seen = list(ownership.versions)
        self._counts = np.zeros(ownership.workers, np.int64)
        divide(self.sent[:0], ownership.owner, self.sent, np.empty((1, 0), np.int64), self._counts)  # loads its code

    @property
    def waiting(self) -> bool:
        """Whether rows have come, or a worker has given an instance away or woken up."""
        return super().waiting or self._seen != self.ownership.versions

    def turn(self, events: int) -> int:
        """Divide what waits."""
        taken = 0
        while (packet := self._take(0, taken, events)) is not None:
            self._divide(packet)
            taken += packet.block.length
        self._acknowledge()
        self.consumed += taken
        return taken

    def _divide(self, packet: Packet) -> None:
        block = packet.block
        self.produced += block.length
        rows = np.empty((len(self.outputs), block.length), np.int64)
        self._counts[:] = 0
        if block.length:
            divide(block.columns[INSTANCE], self.ownership.owner, self.sent, rows, self._counts)
        for worker, number in enumerate(self._counts.tolist()):
            if number:
                part = block if number == block.length else block.take(rows[worker, :number])
                self.outputs[worker].write(part, packet.stamp)
            elif not self.ownership.asleep[worker]:
                self.outputs[worker].write(EMPTY, packet.stamp)

    def _acknowledge(self) -> None:
        """Versions are read before rows are divided again: what follows goes by a map at least as new."""
        versions = list(self.ownership.versions)
        for worker, version in enumerate(versions):
            if version != self._seen[worker]:
                stamp = Stamp(self.inputs[0].watermark_us, 0.0, None, version, self.phase)
                self.outputs[worker].write(EMPTY, stamp)
        self._seen = versions


@compiled
def divide(instances: Ints, owner: Ints, sent: Ints, rows: Ints, counts: Ints) -> None:
    """Put the places of rows under the owners of their instances, in order, and count rows per instance.

    An owner may be written meanwhile; each row goes by what it is when the row is looked at.
    """
    for i in range(instances.size):
        worker = owner[instances[i]]
        sent[instances[i]] += 1
        rows[worker, counts[worker]] = i
        counts[worker] += 1
