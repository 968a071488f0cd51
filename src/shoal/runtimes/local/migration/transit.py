"""Instances between two workers: incoming at the target, outgoing at the old owner (package docstring, steps 3-6)."""

import time
from dataclasses import dataclass, field

from shoal.kernels.columns.block import Block
from shoal.runtimes.local.dataflow.lane_state import LaneState


@dataclass
class IncomingInstance:
    """An instance whose old owner may still forward rows, by the inputs in `open`, later than `promised_us`.

    `held` are rows that came directly by such an input; `held_us` and `held_since_s` are this worker's watermark and
    the time when the first of them came. `source` is the old owner; None if the move needs no report.
    """

    state: LaneState
    promised_us: int
    open: set[int]
    held: dict[int, list[Block]] = field(default_factory=dict)
    held_us: dict[int, int] = field(default_factory=dict)
    held_since_s: dict[int, float] = field(default_factory=dict)
    source: int | None = None
    state_bytes: int = 0
    frozen_s: float = 0.0
    late_s: float = 0.0

    def hold(self, number: int, block: Block, watermark_us: int) -> None:
        """Buffer rows of an input that is not drained; `watermark_us` is that of this worker."""
        self.held.setdefault(number, []).append(block)
        if number not in self.held_us:
            self.held_us[number], self.held_since_s[number] = watermark_us, time.perf_counter()

    def settle(self, number: int) -> list[Block]:
        """Mark an input as drained; returns the rows buffered for it."""
        self.open.remove(number)
        self.held_us.pop(number, None)
        if number in self.held_since_s:
            self.late_s = max(self.late_s, time.perf_counter() - self.held_since_s.pop(number))
        return self.held.pop(number, [])

    def limit_us(self, watermark_us: int) -> int:
        """The watermark of this instance, where that of the worker is `watermark_us`."""
        return min([watermark_us, *self.held_us.values(), *([self.promised_us] if self.open else [])])


@dataclass
class OutgoingInstance:
    """An instance given to `target` by `version` of the ownership, with the last watermark promised since.

    `open` are the inputs by which its rows may still come here.
    """

    target: int
    version: int
    promised_us: int
    open: set[int]
