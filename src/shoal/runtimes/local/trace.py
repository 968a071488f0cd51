"""Traces of turns: what every turn of a run took, gave and cost. A run that is not traced pays nothing for it.

Garbage is not collected meanwhile: traces are many objects, which every full collection would look at for milliseconds.
"""

import gc
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np

from shoal.compiler.program import Program
from shoal.model.control.binding import Binding
from shoal.runtimes.local.dataflow.lane_node import LaneNode
from shoal.runtimes.local.dataflow.lane_state import StateMerge
from shoal.runtimes.local.dataflow.node import Node, OutletNode
from shoal.runtimes.local.runtime import LocalRuntime, LocalSetup
from shoal.runtimes.local.scheduling.bound_pool import BoundPool
from shoal.runtimes.local.scheduling.worker_pool import WorkerPool


@dataclass(frozen=True, slots=True)
class TracedTurn:
    """One turn of a node.

    `merged_rows`, `merged_events`, `merged_bytes`, `pairs`: the new rows that the turn merged with state, the events
    behind them, the bytes of that state, and the pairs of rows of one instance, new or not; 0 if it only collected
    rows. `others`: the workers that were in a turn when `worker` began this one, at `began_s`. `loop_s` is the
    processor time of the worker since its turn before, `polls` how often it found no turn meanwhile, and `pause_s` the
    time that passed. `loop_s` is None for the first turn of a run, and with several workers.
    """

    events: int
    results: int
    merged_bytes: int
    cpu_s: float
    wall_s: float
    loop_s: float | None
    polls: int
    pause_s: float
    merged_rows: int = 0
    merged_events: int = 0
    pairs: float = 0.0
    others: int = 0
    worker: int = 0
    began_s: float = 0.0

    @property
    def empty(self) -> bool:
        """Whether the turn neither took nor gave anything but a watermark."""
        return not (self.events or self.results or self.merged_bytes or self.merged_rows)


@dataclass
class _Loop:
    """When the worker's last turn ended, by its processor time, its decisions and the clock."""

    cpu_s: float | None = None
    decisions: int = 0
    ended_s: float = 0.0


class _Recorded(NamedTuple):
    """What a turn leaves behind while a run goes on: as little work as possible, since it delays all threads."""

    events: int
    results: int
    kept_bytes: int
    merge: StateMerge | None
    cpu_s: float
    wall_s: float
    loop_s: float | None
    polls: int
    pause_s: float
    busy: tuple[int | None, ...]
    began_s: float

    def turn(self, place: int) -> TracedTurn:
        """The turn, of the node at a place."""
        merge = self.merge
        return TracedTurn(
            events=self.events,
            results=self.results,
            merged_bytes=0 if merge is None else self.kept_bytes,
            cpu_s=self.cpu_s,
            wall_s=self.wall_s,
            loop_s=self.loop_s,
            polls=self.polls,
            pause_s=self.pause_s,
            merged_rows=0 if merge is None else merge.rows,
            merged_events=0 if merge is None else merge.events,
            pairs=0.0 if merge is None else float(np.square(merge.fresh + merge.kept, dtype=float).sum()),
            others=sum(each is not None for each in self.busy) - 1,
            worker=self.busy.index(place),
            began_s=self.began_s,
        )


@dataclass
class TurnTrace:
    """The turns of one node, in order; `place` is its number. Read `turns` when the run has ended."""

    node: Node
    place: int
    recorded: list[_Recorded] = field(default_factory=list)

    @cached_property
    def turns(self) -> list[TracedTurn]:
        """All turns."""
        return [each.turn(self.place) for each in self.recorded]


class TracedRuntime(LocalRuntime):
    """A local run that records every turn; `traces` has an entry per node.

    With `one_thread`, one thread does the work of all workers, so that lanes are divided as among these and nobody
    waits for anybody.
    """

    traces: list[TurnTrace]

    def __init__(self, setup: LocalSetup, *, one_thread: bool = False) -> None:
        """Prepare a run; nothing starts yet."""
        super().__init__(setup)
        self._one_thread = one_thread

    def _pool_for(self, workers: int, most: int) -> WorkerPool:
        return BoundPool(self._nodes, "single-queue", (0,), 1) if self._one_thread else super()._pool_for(workers, most)

    def _wire(self, program: Program, binding: Binding, most: int, left_behind: ExitStack) -> None:
        super()._wire(program, binding, most, left_behind)
        self.traces = [TurnTrace(node, place) for place, node in enumerate(self.nodes)]
        if gc.isenabled():
            gc.disable()
            left_behind.callback(gc.enable)
        alone = self._one_thread or binding.workers == 1
        loop = _Loop() if alone else None
        for trace in self.traces:
            self._record(trace, loop)

    def _helpers(self, workers: int) -> int:  # noqa: ARG002
        """None: a turn of a source has to be the work on its events."""
        return 0

    def _record(self, trace: TurnTrace, loop: _Loop | None) -> None:
        """Replace the turn of a node by one that records what the plain turn did."""
        node, plain = trace.node, trace.node.turn
        is_lane, recorded = isinstance(node, LaneNode), trace.recorded

        def turn(events: int) -> int:
            entered_s = 0.0 if loop is None else time.thread_time()
            decisions = 0 if loop is None else self.pool.decisions
            pause_s = 0.0 if loop is None else time.perf_counter() - loop.ended_s
            kept_bytes, merge = (_table_bytes(node), _merge(node)) if is_lane else (0, None)
            given, busy = _given(node), tuple(self.pool.current_node)
            began_s, began_cpu_s = time.perf_counter(), time.thread_time()
            taken = plain(events)
            cpu_s, wall_s = time.thread_time() - began_cpu_s, time.perf_counter() - began_s
            merged = None if not is_lane or (last := _merge(node)) is merge else last
            loop_s = None if loop is None or loop.cpu_s is None else entered_s - loop.cpu_s
            polls = 0 if loop is None else decisions - loop.decisions - 1
            gave = _given(node) - given
            recorded.append(
                _Recorded(taken, gave, kept_bytes, merged, cpu_s, wall_s, loop_s, polls, pause_s, busy, began_s)
            )
            if loop is not None:
                loop.cpu_s, loop.decisions, loop.ended_s = time.thread_time(), decisions, time.perf_counter()
            return taken

        node.turn = turn  # type: ignore[method-assign]


def _given(node: Node) -> int:
    return node.emitted if isinstance(node, OutletNode) else node.produced


def _merge(node: Node) -> StateMerge | None:
    """The last merge of a lane."""
    return node.merge if isinstance(node, LaneNode) else None


def _table_bytes(node: Node) -> int:
    """Bytes of the merged state of a lane."""
    return sum(table.nbytes for table in node.tables.values()) if isinstance(node, LaneNode) else 0
