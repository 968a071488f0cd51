"""Capacity: how many bytes of state reach another worker before a deadline."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from shoal.errors import MechanismError


@dataclass(frozen=True)
class TransferLink:
    """A link on the way of state, with what it carries beside state.

    State travels in segments of `segment_bytes`, each with `overhead_bytes` of headers and followed by a gap of
    `gap_s`. Without `segment_bytes`, it travels as one stream without headers.
    """

    bytes_per_s: float
    latency_s: float = 0.0
    segment_bytes: int | None = None
    overhead_bytes: int = 0
    gap_s: float = 0.0

    def __post_init__(self) -> None:
        """Reject a link that carries nothing, and negative costs."""
        if not 0 < self.bytes_per_s < math.inf:
            raise MechanismError(f"bytes_per_s of a link must be more than 0 and finite; got {self.bytes_per_s}")
        if self.segment_bytes is not None and self.segment_bytes < 1:
            raise MechanismError(f"segment_bytes of a link must be at least 1; got {self.segment_bytes}")
        for name in ("latency_s", "overhead_bytes", "gap_s"):
            if not 0 <= getattr(self, name) < math.inf:
                raise MechanismError(f"{name} of a link must be 0 or more and finite; got {getattr(self, name)}")

    def seconds(self, state_bytes: int) -> float:
        """How long the link is busy with some bytes of state; a segment that is begun counts as full."""
        if self.segment_bytes is None:
            return state_bytes / self.bytes_per_s
        segment_s = (self.segment_bytes + self.overhead_bytes) / self.bytes_per_s + self.gap_s
        return -(-state_bytes // self.segment_bytes) * segment_s


def transfer_s(state_bytes: int, path: Sequence[TransferLink], setup_s: float = 0.0) -> float:
    """How long it takes until the last byte of state has arrived at the end of a path.

    The first segment takes its time on every link, one after another; the others follow it closely, at the rate of
    the slowest link. Latencies add up.
    """
    _check(path, setup_s)
    if state_bytes <= 0:
        return setup_s
    first_s = [link.seconds(1) if link.segment_bytes else 0.0 for link in path]
    rest_s = max(link.seconds(state_bytes) - first for link, first in zip(path, first_s, strict=True))
    return setup_s + sum(link.latency_s for link in path) + sum(first_s) + rest_s


def capacity_bytes(path: Sequence[TransferLink], time_left_s: float, setup_s: float = 0.0) -> int:
    """The largest number of bytes that arrive within the time left; 0 if not a single one does.

    `setup_s`: time before the first byte can be sent. A capacity in segments is a multiple of them, so that every
    segment is full.

    >>> capacity_bytes([TransferLink(1000.0, latency_s=0.5)], time_left_s=2.0)
    1500
    >>> capacity_bytes([TransferLink(1000.0, segment_bytes=80, overhead_bytes=20)], time_left_s=1.05)
    800
    """
    _check(path, setup_s)
    if math.isnan(time_left_s) or time_left_s == math.inf:
        raise MechanismError(f"time left for a transfer must be finite; got {time_left_s}")
    low, high = 0, 2 + int(max(time_left_s, 0.0) * min(link.bytes_per_s for link in path))
    while high - low > 1:  # the time of a transfer never falls with its bytes
        middle = (low + high) // 2
        if transfer_s(middle, path, setup_s) <= time_left_s:
            low = middle
        else:
            high = middle
    return low


def _check(path: Sequence[TransferLink], setup_s: float) -> None:
    if not path:
        raise MechanismError("a transfer must have at least one link; got none")
    if not 0 <= setup_s < math.inf:
        raise MechanismError(f"setup_s of a transfer must be 0 or more and finite; got {setup_s}")
