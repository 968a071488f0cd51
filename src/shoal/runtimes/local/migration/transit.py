"""Instances between two workers: incoming at the target, outgoing at the old owner (package docstring, steps 3-7)."""

import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from shoal.kernels.columns.block import Block
from shoal.model.control.messages import LostState
from shoal.runtimes.local.dataflow.lane_state import LaneState
from shoal.runtimes.local.migration.part_messages import HandOver, MissingState, StateArrival

TimedRows = tuple[int, Block]
"""Rows, and the watermark of the worker that got them."""


@dataclass
class MoveTimes:
    """What the report of a move will say: measured at the target, by the performance counter."""

    source: int | None = None
    left_s: float = 0.0
    state_bytes: int = 0
    lost: LostState | None = None
    frozen_s: float = 0.0
    late_s: float = 0.0
    late_results: int = 0
    emission_delay_s: float = 0.0
    emission_delay_sum_s: float = 0.0
    _held_since_s: dict[int, float] = field(default_factory=dict)
    _needed_since_s: float | None = None
    _behind_since_s: float | None = None

    def hold(self, number: int) -> None:
        """Rows of an input are held."""
        self._held_since_s.setdefault(number, time.perf_counter())

    def release(self, number: int) -> None:
        """Rows of an input are held no more."""
        if number in self._held_since_s:
            self.late_s = max(self.late_s, time.perf_counter() - self._held_since_s.pop(number))

    def need(self) -> None:
        """Missing state is needed."""
        self._needed_since_s = self._needed_since_s or time.perf_counter()

    def arrived(self, state_bytes: int, *, worked: bool = False) -> None:
        """The state is here; `worked`: the instance was processed before it came."""
        now_s = time.perf_counter()
        self.state_bytes += state_bytes
        self.frozen_s = self.frozen_s if worked else now_s - self.left_s
        if self._needed_since_s is not None:
            self.late_s = max(self.late_s, now_s - self._needed_since_s)

    def fall_behind(self, *, behind: bool) -> None:
        """Results may be due that cannot be emitted yet, or are not."""
        self._behind_since_s = (self._behind_since_s or time.perf_counter()) if behind else None

    def emit(self, results: int) -> None:
        """Results are emitted: they are late if the instance was behind."""
        if results and self._behind_since_s is not None:
            delay_s = time.perf_counter() - self._behind_since_s
            self.late_results += results
            self.emission_delay_s = max(self.emission_delay_s, delay_s)
            self.emission_delay_sum_s += results * delay_s

    def hand_over(self, instance: int, target: int) -> HandOver | None:
        """The finished move; None if it needs no report."""
        if self.source is None:
            return None
        return HandOver(
            instance,
            self.source,
            target,
            self.state_bytes,
            self.frozen_s,
            self.late_s,
            time.perf_counter(),
            self.late_results,
            self.emission_delay_s,
            self.emission_delay_sum_s,
            self.lost,
        )


@dataclass
class IncomingInstance:
    """An instance whose old owner may still forward rows, by the inputs in `open`, later than `promised_us`.

    `rows` wait, by input, until the watermark of the instance is the one at which they came: a row must find the same
    windows closed as without a move. Those that are on time need not wait, if the state is here. `held` are rows that
    came directly by an open input; they come after all that are forwarded. `missing` is set until the state is here,
    `fetches` when the instance needs it now.
    """

    state: LaneState
    promised_us: int
    open: set[int]
    missing: MissingState | None = None
    rows: dict[int, list[TimedRows]] = field(default_factory=lambda: defaultdict(list))
    held: dict[int, list[TimedRows]] = field(default_factory=lambda: defaultdict(list))
    fetches: bool = False
    report: MoveTimes = field(default_factory=MoveTimes)

    @property
    def complete(self) -> bool:
        """Whether its state is here and nothing waits: only its watermark may differ from that of the others."""
        return not (self.open or self.missing or self.waiting_rows)

    @property
    def from_barrier(self) -> bool:
        """Whether it came at a barrier: its state is here and no input is open, but rows may wait."""
        return self.report.source is None

    @property
    def waiting_rows(self) -> int:
        """How many rows wait."""
        queues = [*self.rows.values(), *self.held.values()]
        return sum(block.length for queue in queues for _, block in queue)

    def add(self, number: int, block: Block, watermark_us: int) -> None:
        """Add rows that no rows of the same input can precede; they own their memory."""
        _append(self.rows[number], watermark_us, block)
        self._row_came()

    def hold(self, number: int, block: Block, watermark_us: int) -> None:
        """Add rows of an input that is not drained; `watermark_us` is that of this worker."""
        _append(self.held[number], watermark_us, block)
        self.report.hold(number)
        self._row_came()

    def drain(self, number: int) -> None:
        """Mark an input as drained: the rows held for it are next."""
        self.open.remove(number)
        self.report.release(number)
        for watermark_us, block in self.held.pop(number, []):
            _append(self.rows[number], watermark_us, block)

    def complete_with(self, arrival: StateArrival) -> None:
        """Add the state that was missing."""
        worked = self.missing is not None and self.missing.limit_us > arrival.state.watermark_us
        self.state.complete(arrival.state)
        self.missing = None
        self.report.arrived(arrival.state_bytes, worked=worked)

    def limit_us(self, watermark_us: int) -> int:
        """The watermark that this instance may have now, where that of the worker is `watermark_us`."""
        limit_us = min(watermark_us, self.promised_us) if self.open else watermark_us
        for queue in (*self.rows.values(), *self.held.values()):
            if queue:
                limit_us = min(limit_us, queue[0][0])
        return limit_us if self.missing is None else min(limit_us, self.missing.limit_us)

    def advance(self, watermark_us: int, ports: Sequence[int]) -> tuple[list[Block], list[Block]]:
        """Process the rows and windows that can be, where the worker has a watermark; returns results and late rows."""
        results, late = list[Block](), list[Block]()
        ready = self._ready(ports)
        while True:
            late += [self.state.add(ports[number], block, shared=False) for number, block in ready]
            limit_us = self.limit_us(watermark_us)
            if self.missing is None or limit_us > self.state.watermark_us:
                results.append(self.state.advance(limit_us))
            ready = self._ready(ports)
            if not ready:
                break
        found = [each for each in results if each.length]
        self._observe(watermark_us, sum(each.length for each in found))
        return found, [each for each in late if each.length]

    def _row_came(self) -> None:
        if self.missing is not None and self.missing.rows_fetch:
            self._fetch()

    def _fetch(self) -> None:
        self.fetches = True
        self.report.need()

    def _ready(self, ports: Sequence[int]) -> list[tuple[int, Block]]:
        """Take the rows that need not wait: those that are on time, and those whose watermark has been reached.

        Rows that are on time at the watermark at which they came are in no window that has closed by then, so they may
        join the state at any watermark before. That makes one merge of what came in many blocks.
        """
        found, here_us = [], self.state.watermark_us
        for number, queue in self.rows.items():
            while queue and (queue[0][0] <= here_us or self._on_time(ports[number], *queue[0])):
                found.append((number, queue.pop(0)[1]))
        return found

    def _on_time(self, port: int, watermark_us: int, block: Block) -> bool:
        if self.missing is not None:
            return False
        return not block.length or int(self.state.kernel.row_times(port, block).min()) >= watermark_us

    def _observe(self, watermark_us: int, results: int) -> None:
        """Measure how late results are, and fetch state that they wait for."""
        self.report.emit(results)
        late = self.state.watermark_us < watermark_us and self.state.kernel.due(self.state.watermark_us, watermark_us)
        self.report.fall_behind(behind=late)
        missing = self.missing
        if missing is not None and missing.results_fetch and watermark_us > missing.limit_us:
            self._fetch()


def _append(queue: list[TimedRows], watermark_us: int, block: Block) -> None:
    """Append rows; those before them must not wait for a higher watermark, which would make these late."""
    for place in reversed(range(len(queue))):
        if queue[place][0] <= watermark_us:
            break
        queue[place] = (watermark_us, queue[place][1])
    queue.append((watermark_us, block))


@dataclass
class OutgoingInstance:
    """An instance given to `target` by `version` of the ownership, with the last watermark promised since.

    `open` are the inputs by which its rows may still come here.
    """

    target: int
    version: int
    promised_us: int
    open: set[int]
