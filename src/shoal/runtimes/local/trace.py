"""Traces of turns: what every turn of a run took, gave and cost. A run that is not traced pays nothing for it."""

import time
from contextlib import ExitStack
from dataclasses import dataclass, field

from shoal.compiler.program import Program
from shoal.model.control.binding import Binding
from shoal.runtimes.local.dataflow.lane_node import LaneNode
from shoal.runtimes.local.dataflow.node import Node, OutletNode
from shoal.runtimes.local.runtime import LocalRuntime


@dataclass(frozen=True, slots=True)
class TracedTurn:
    """One turn of a node.

    `merged_bytes`: the state that the turn merged with new rows, which were there before it; 0 if it only collected
    rows. `loop_s` is the processor time of the worker since its turn before, None for the first turn of a run, `polls`
    how often it found no turn meanwhile, and `pause_s` the time that passed.
    """

    events: int
    results: int
    merged_bytes: int
    cpu_s: float
    wall_s: float
    loop_s: float | None
    polls: int
    pause_s: float

    @property
    def empty(self) -> bool:
        """Whether the turn neither took nor gave anything but a watermark."""
        return not self.events and not self.results and not self.merged_bytes


@dataclass
class _Loop:
    """When the worker's last turn ended, by its processor time, its decisions and the clock."""

    cpu_s: float | None = None
    decisions: int = 0
    ended_s: float = 0.0


@dataclass
class TurnTrace:
    """The turns of one node, in order."""

    node: Node
    turns: list[TracedTurn] = field(default_factory=list)


class TracedRuntime(LocalRuntime):
    """A local run on one worker that records every turn; `traces` has an entry per node."""

    traces: list[TurnTrace]

    def _wire(self, program: Program, binding: Binding, most: int, left_behind: ExitStack) -> None:
        super()._wire(program, binding, most, left_behind)
        self.traces = [TurnTrace(node) for node in self.nodes]
        loop = _Loop()
        for trace in self.traces:
            self._record(trace, loop)

    def _record(self, trace: TurnTrace, loop: _Loop) -> None:
        """Replace the turn of a node by one that records what the plain turn did."""
        node, plain = trace.node, trace.node.turn

        def turn(events: int) -> int:
            entered_s, decisions = time.thread_time(), self.pool.decisions
            pause_s = time.perf_counter() - loop.ended_s
            given, before, tables = _given(node), node.state_bytes, _tables(node)
            began_s, began_cpu_s = time.perf_counter(), time.thread_time()
            taken = plain(events)
            cpu_s, wall_s = time.thread_time() - began_cpu_s, time.perf_counter() - began_s
            merged = before if _tables(node) is not tables else 0
            loop_s = None if loop.cpu_s is None else entered_s - loop.cpu_s
            polls = decisions - loop.decisions - 1
            trace.turns.append(TracedTurn(taken, _given(node) - given, merged, cpu_s, wall_s, loop_s, polls, pause_s))
            loop.cpu_s, loop.decisions, loop.ended_s = time.thread_time(), decisions, time.perf_counter()
            return taken

        node.turn = turn  # type: ignore[method-assign]


def _given(node: Node) -> int:
    return node.emitted if isinstance(node, OutletNode) else node.produced


def _tables(node: Node) -> object:
    """The merged state of a lane; another object after every merge."""
    return node.tables if isinstance(node, LaneNode) else None
