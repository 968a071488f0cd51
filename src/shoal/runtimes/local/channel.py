"""Channels: what flows from one operator to the next, in order, from one writer to one reader.

Each number here has one writer: the producer counts what it has written, the consumer what it has read, so that
both may look at the other's without a lock.
"""

from collections import deque
from dataclasses import dataclass, field

from shoal.kernels.block import Block
from shoal.kernels.kernel import NEVER_US


@dataclass(frozen=True)
class Packet:
    """A block, how far event time is closed behind it, and when its oldest event was taken in."""

    block: Block
    watermark_us: int
    taken_s: float


@dataclass
class Channel:
    """A bounded queue of packets; a full one holds its writer back, never its reader."""

    capacity: int
    watermark_us: int = NEVER_US
    _packets: deque[Packet] = field(default_factory=deque)
    _written: int = 0
    _read: int = 0

    @property
    def pending(self) -> int:
        """Events that wait to be read."""
        return self._written - self._read

    @property
    def waiting(self) -> bool:
        """Whether there is anything to read, be it only how far event time is closed."""
        return bool(self._packets)

    @property
    def full(self) -> bool:
        """Whether the writer should wait."""
        return self.pending >= self.capacity

    @property
    def oldest_s(self) -> float | None:
        """When the oldest event that waits was taken in."""
        try:
            return self._packets[0].taken_s
        except IndexError:
            return None

    def write(self, packet: Packet) -> None:
        """Add a packet; only the one writer calls this."""
        self._written += packet.block.length
        self._packets.append(packet)

    def read(self) -> Packet | None:
        """Take the oldest packet; only the one reader calls this."""
        if not self._packets:
            return None
        packet = self._packets.popleft()
        self._read += packet.block.length
        self.watermark_us = max(self.watermark_us, packet.watermark_us)
        return packet
