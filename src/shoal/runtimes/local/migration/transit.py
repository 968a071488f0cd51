"""Guests and those who leave: instances between two workers, as each of the two sees them."""

import time
from dataclasses import dataclass, field

from shoal.kernels.columns.block import Block
from shoal.runtimes.local.dataflow.lane_state import LaneState


@dataclass
class Guest:
    """An instance whose old owner may still pass rows on: by which inputs, and up to which mark there are none.

    `held` are rows that came by the new way of such inputs, with how far this worker was when the first did, and when
    that was. `source` is the worker it came from, None where nobody has to hear that it is settled here.
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

    def hold(self, number: int, block: Block, mark_us: int) -> None:
        """Keep rows of an input until nothing can come by the old way; this worker is as far as a mark."""
        self.held.setdefault(number, []).append(block)
        if number not in self.held_us:
            self.held_us[number], self.held_since_s[number] = mark_us, time.perf_counter()

    def settle(self, number: int) -> list[Block]:
        """Nothing comes by the old way of an input any more; what was held of it."""
        self.open.remove(number)
        self.held_us.pop(number, None)
        if number in self.held_since_s:
            self.late_s = max(self.late_s, time.perf_counter() - self.held_since_s.pop(number))
        return self.held.pop(number, [])

    def limit_us(self, mark_us: int) -> int:
        """How far its windows may be closed, where those of others are closed up to a mark."""
        return min([mark_us, *self.held_us.values(), *([self.promised_us] if self.open else [])])


@dataclass
class Leaving:
    """An instance that was given away: to whom, by which change of owners, and what was promised since.

    `open` are the inputs by which rows of it may still come here.
    """

    target: int
    version: int
    promised_us: int
    open: set[int]
