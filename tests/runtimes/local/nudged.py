"""Runs on threads, disturbed by their own events: a source that acts whenever it is polled."""

import random
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import ANY

from tests.naive import interpret
from tests.runtimes.local.controlled import Row, Rows, plain, sources_of
from tests.runtimes.local.row_source import RowSource
from tests.runtimes.local.scribbling import scribbled
from tests.test_random_graphs import canonical

from shoal.connectors.sinks import MemorySink
from shoal.connectors.sources.source import Offset
from shoal.model.control.messages import CommandRefused, EpochCommitted, Event, RunEnded
from shoal.model.query.graph import Graph
from shoal.policies.binding.static import shuffled
from shoal.runtimes.local.memory.blocks import Sizes
from shoal.runtimes.local.runtime import LocalRuntime, LocalSetup

Nudge = Callable[["Nudged"], None]


@dataclass(frozen=True)
class NudgingSource(RowSource):
    """Rows of a stream, with an action per poll."""

    nudge: Callable[[], None] = lambda: None

    def latest(self, start: Offset) -> Offset:
        self.nudge()
        return super().latest(start)


@dataclass
class Nudged:
    """One run, with all its events."""

    graph: Graph
    rows: Rows
    workers: int
    nudge: Nudge
    seed: int = 0
    options: dict[str, Any] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)
    sink: MemorySink = field(default_factory=MemorySink)
    runtime: LocalRuntime = field(init=False)
    draw: random.Random = field(init=False)
    _nudging: threading.Lock = field(default_factory=threading.Lock, init=False)

    def run(self) -> "Nudged":
        """Run to the end, with threads that switch as often as they can."""
        self.draw = random.Random(self.seed)
        sources = {
            stream: NudgingSource(source.rows, source.schema, self.draw.randint(1, 30), self._nudge)
            for stream, source in sources_of(self.graph, self.rows).items()
        }
        options = {"queues": "worker-queue", "sizes": Sizes(self.draw.randint(1, 20), 2, 2), "fused": False}
        self.runtime = LocalRuntime(LocalSetup(sources, self.sink, **{**options, **self.options}))
        with impatience(), scribbled():
            self.runtime.start(self.graph, shuffled(self.graph, self.workers, self.seed))
            self.events = list(self.runtime.events())
        return self

    def _nudge(self) -> None:
        """Several threads poll sources; one at a time acts, so that draws and commands are in one order."""
        with self._nudging:
            self.nudge(self)

    @property
    def reports(self) -> list[EpochCommitted]:
        return [event for event in self.events if isinstance(event, EpochCommitted)]

    @property
    def refused(self) -> list[str]:
        return [event.reason for event in self.events if isinstance(event, CommandRefused)]

    def results(self) -> dict[str, list[Row]]:
        return {name: plain(self.sink.table(name).to_pylist()) for name in self.sink.names()}

    def assert_right(self) -> None:
        """It ended without an error, and the results are those of a row-at-a-time interpreter."""
        assert self.events[-1] == RunEnded(None, at_s=ANY), self.events[-1]
        wanted = {table: canonical(each) for table, each in interpret(self.graph, self.rows).items() if each}
        assert {table: canonical(each) for table, each in self.results().items() if each} == wanted


@contextmanager
def impatience() -> Iterator[None]:
    """Threads that take turns as often as they can."""
    interval_s = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        yield
    finally:
        sys.setswitchinterval(interval_s)
