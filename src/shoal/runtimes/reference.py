"""The reference runtime: one epoch after another in the thread that follows the run, with all state in memory.

It is the simplest correct way to run a graph: other runtimes are compared with it, and queries are debugged on it,
since breakpoints in user functions work as usual. Each epoch sends all available input through the compiled program
once. Bindings are checked and counted, without effect. A run that is stopped emits every open window and ends.
"""

import contextlib
import tempfile
from collections.abc import Iterator, Mapping
from copy import deepcopy

import pyarrow as pa

from shoal.compiler.shedding.shed_rules import check_windows
from shoal.compiler.watermarks import TICK_S, Reading, advanced, moves_with_time
from shoal.connectors.sources.source import Offset, close_cursor
from shoal.errors import ConfigError, QueryError, ShoalError
from shoal.kernels.columns.table import Tables
from shoal.mechanisms.catalog import MECHANISMS, mechanism_named, refuse_limit
from shoal.model.control.binding import Binding
from shoal.model.control.messages import (
    CommandRefused,
    EpochCommitted,
    Event,
    MoveReport,
    MovesFinished,
    QueriesParked,
    Rebind,
    ShedInput,
)
from shoal.model.control.parked import parks
from shoal.model.control.snapshot import InstanceLoad
from shoal.model.control.topology import Topology
from shoal.model.query.graph import Graph, InstanceId
from shoal.runtimes.arrangement import Arrangement, state_after
from shoal.runtimes.clock import WallClock
from shoal.runtimes.epoch_report import committed, moved, one_node
from shoal.runtimes.followed import FollowedRun
from shoal.runtimes.interpreter import Interpreted
from shoal.runtimes.protocol import Capabilities, Launch, RuntimeKind, Unmeasured, refuse_dataframes
from shoal.runtimes.shedder import after_reading, switched

POLL_S = 0.01
"""The wait before sources without new input are polled again."""
ALONE = "there is one worker, and no state moves"
CAPABILITIES = Capabilities(
    name="reference",
    summary="a single-threaded interpreter to debug queries with; nothing kept for a restart",
    starting="compiling queries ...",
    interrupted="every event that was read has been processed",
    mechanisms=("all-at-once",),
    lacks={name: ALONE for name in MECHANISMS if name != "all-at-once"},
    changes_queries=True,
)


class ReferenceRuntime(WallClock, Unmeasured, FollowedRun):
    """Runs a graph in the thread that iterates over `events`."""

    capabilities = CAPABILITIES

    def __init__(self, launch: Launch) -> None:
        """Prepare a run; nothing starts yet."""
        super().__init__()
        self._sources, self._sink = launch.sources, launch.sink
        self._parks, self._shedding = parks(launch.on_query_error), launch.shedding
        self._marks: dict[str, int] = {}
        self._state: dict[int, Tables] = {}
        self._loads: dict[InstanceId, InstanceLoad] = {}
        self._epoch, self.consumed, self._ran_s = 0, 0, 0.0
        self._finished: list[tuple[str, list[MoveReport]]] = []

    def start(self, graph: Graph, binding: Binding) -> None:
        """Compile the graph and open the sources."""
        refuse_dataframes(self._sources)
        self._now = Arrangement(graph, binding)
        _ = self._now.program
        self._offsets: dict[str, Offset] = {stream: source.start() for stream, source in self._sources.items()}
        with contextlib.ExitStack() as undo:
            directory = undo.enter_context(tempfile.TemporaryDirectory(prefix="shoal-reference-"))
            self._cursors = {s: each.cursor(f"{directory}/{n}") for n, (s, each) in enumerate(self._sources.items())}
            for cursor in self._cursors.values():
                undo.callback(close_cursor, cursor)
            self._left_behind = undo.pop_all()
        self._run = self._epochs()

    def _close(self) -> None:
        self._left_behind.close()

    @property
    def topology(self) -> Topology:
        """One node."""
        return one_node(self._now.binding)

    def _epochs(self) -> Iterator[Event]:
        """All epochs, and a last one without input that closes all windows."""
        while not self._stopping.is_set() and not all(offset["ended"] for offset in self._offsets.values()):
            ends = {stream: self._cursors[stream].latest(start) for stream, start in self._offsets.items()}
            if ends == self._offsets and not self._tick_due():
                self._stopping.wait(POLL_S)
                continue
            yield from self._carried_out()
            yield from self._committed(ends)
            for rebind, moves in self._finished:
                yield MovesFinished(rebind, tuple(moves), at_s=self.now_s())
        yield from self._carried_out(refusal="the run has taken in all of its input and is ending")
        yield from self._committed(self._offsets, final=True)

    def _committed(self, ends: Mapping[str, Offset], *, final: bool = False) -> Iterator[Event]:
        """Run an epoch; if queries fail and are parked, run it again for the others, on the same input and state."""
        while True:
            # user aggregates may change the objects that are their state
            state = deepcopy(self._state) if self._parks else self._state
            try:
                done = self._advanced(ends, state, final=final)
            except QueryError as error:
                if not self._parks:
                    raise
                after = self._now.parking(error)
                self._state, self._now = state_after(self._now, after, self._state), after
                parked = QueriesParked(error.queries, error.reason, error.row, at_s=self.now_s())
            else:
                yield done
                return
            yield parked

    def _tick_due(self) -> bool:
        """Whether an epoch without rows is due: for a command, or because time alone may change something."""
        if self.now_s() < self._ran_s + TICK_S or not self._commands.empty():
            return not self._commands.empty()
        return moves_with_time(self._now.program, self._marks, holds_state=any(self._state.values()))

    def _carried_out(self, refusal: str = "") -> Iterator[CommandRefused]:
        """Apply the waiting commands; invalid and late ones are refused."""
        self._finished = []
        while not self._commands.empty():
            command = self._commands.get_nowait()
            try:
                if refusal:
                    raise ConfigError(refusal)
                if isinstance(command, Rebind):
                    mechanism_named(command.mechanism or "all-at-once", CAPABILITIES.mechanisms, "runtime reference")
                    refuse_limit(command.limit, "runtime reference")
                if isinstance(command, ShedInput):
                    self._shedding = switched(self._shedding, active=command.active)
                after = self._now.after(command, set(self._sources))
                check_windows(self._shedding, after.graph)
            except ShoalError as error:
                yield CommandRefused(command, str(error), at_s=self.now_s())
                continue
            if isinstance(command, Rebind):
                self._finished.append((command.id, moved(self._now.binding.diff(after.binding), self._loads)))
            if after.graph is not self._now.graph or after.partitioning is not self._now.partitioning:
                self._state = state_after(self._now, after, self._state)
            self._now = after

    def _advanced(self, ends: Mapping[str, Offset], state: dict[int, Tables], *, final: bool = False) -> EpochCommitted:
        """One epoch: read up to the given offsets, apply that to the state, write the results."""
        program, began_s = self._now.program, self.now_s()
        now_us = round(began_s * 1e6)
        epoch, readings = Interpreted(program, self._marks, now_us, shedding=self._shedding), list[Reading]()
        for stream, end in ends.items():
            readings += epoch.read(stream, self._sources[stream], self._cursors[stream], self._offsets[stream], end)
        if final:
            readings += [Reading(stream, flush=True) for stream in program.inputs]
        marks = advanced(program, self._marks, readings, now_us)
        loads = epoch.computed(state, marks)
        for table, batches in epoch.results.items():
            self._sink.write(table, self._epoch, pa.Table.from_batches(batches))
        self._loads = {instance: loads[instance] for instance in self._now.instances}
        self._state, self._offsets, self._marks = state, dict(ends), marks
        self._shedding = after_reading(self._shedding, readings)
        self.consumed += epoch.rows
        moves = [move for _, several in self._finished for move in several]
        times_s = began_s, self.now_s()
        done = committed(self._epoch, self._now, epoch, self._loads, marks, moves, times_s, self._shedding)
        self._epoch, self._ran_s = self._epoch + 1, done.at_s
        return done


def made(launch: Launch) -> ReferenceRuntime:
    """A reference runtime; it has no settings."""
    launch.refuse_checkpoint(CAPABILITIES.name)
    launch.refuse(CAPABILITIES.name, "conf", "local", "spark", "interval_s")
    return ReferenceRuntime(launch)


REFERENCE = RuntimeKind(CAPABILITIES, made)
