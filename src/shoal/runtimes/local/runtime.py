"""The local runtime: the same graphs and kernels on the threads of this process, with results in milliseconds.

Nothing is kept for a restart: a run that is stopped takes no more events in, answers every open window and ends.
"""

import queue
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from shoal.connectors.admission import DEAD_LETTERS
from shoal.connectors.sinks import Sink
from shoal.connectors.source import Source
from shoal.errors import GraphError
from shoal.model.binding import Binding
from shoal.model.graph import Graph
from shoal.model.messages import Command, CommandRefused, Drain, EpochCommitted, Event, RunEnded
from shoal.model.snapshot import Snapshot
from shoal.policies.scheduling import SchedulingPolicy, StateBased, Threads
from shoal.query.program import compile_graph
from shoal.query.rehearsal import rehearse
from shoal.runtimes.local.node import Node, SourceNode
from shoal.runtimes.local.scheduler import Scheduler
from shoal.runtimes.local.threads import ThreadPerNode
from shoal.runtimes.local.wiring import Sizes, Wiring

FLUSH_S = 0.05
"""How often results are handed to the sinks."""


@dataclass(frozen=True)
class LocalSetup:
    """Everything a local run needs beside its graph."""

    sources: Mapping[str, Source]
    sink: Sink
    scheduling: SchedulingPolicy = field(default_factory=StateBased)
    sizes: Sizes = field(default_factory=Sizes)


class LocalRuntime:
    """Runs a graph on worker threads."""

    def __init__(self, setup: LocalSetup) -> None:
        """Prepare a run; nothing starts yet."""
        self._setup = setup
        self._events: queue.Queue[Event] = queue.Queue()
        self._nodes: list[Node] = []
        self._scheduler: Scheduler | ThreadPerNode
        self._binding: Binding
        self._epoch = 0
        self._counted = 0
        self._spent_s = (0.0, 0.0)
        self._refused: dict[str, int] = {}
        self._flushed_s = 0.0

    @property
    def topology(self) -> str:
        """Threads of this process."""
        return f"threads[{self._scheduler.workers}]"

    @property
    def consumed(self) -> int:
        """Events taken in."""
        return sum(node.consumed for node in self._sources())

    def start(self, graph: Graph, binding: Binding) -> None:
        """Begin; returns as soon as the workers run."""
        for stream, source in self._setup.sources.items():
            if not hasattr(source, "cursor"):
                raise GraphError(
                    f"source of stream {stream!r} cannot be read without Spark; got {type(source).__name__}"
                )
        program = compile_graph(graph)
        rehearse(program)
        self._binding = binding
        self._location = tempfile.TemporaryDirectory(prefix="shoal-local-")
        self._nodes = Wiring(program, self._setup.sizes).wire(self._setup.sources, self._location.name)
        self._flushed_s = time.time()
        policy = self._setup.scheduling
        alone = isinstance(policy, Threads)
        self._scheduler = ThreadPerNode(self._nodes) if alone else Scheduler(self._nodes, policy, binding.workers)
        threads = self._scheduler.start()
        threading.Thread(target=self._follow, args=(threads,), name="shoal-run", daemon=True).start()

    def events(self) -> Iterator[Event]:
        """What happens, as it happens; ends with `RunEnded`."""
        while True:
            event = self._events.get()
            yield event
            if isinstance(event, RunEnded):
                self._events.put(event)  # whoever asks again hears it again
                return

    def apply(self, command: Command) -> None:
        """Drain; nothing else can be changed while a local run goes on."""
        if isinstance(command, Drain):
            self.stop()
        else:
            reason = f"the local runtime cannot {type(command).__name__} while it runs"
            self._events.put(CommandRefused(command, reason))

    def stop(self) -> None:
        """Take no more events in, answer every open window, and end."""
        for node in self._sources():
            node.stopping = True

    def _sources(self) -> list[SourceNode]:
        return [node for node in self._nodes if isinstance(node, SourceNode)]

    def _follow(self, threads: list[threading.Thread]) -> None:
        """Hand results on until all workers are done."""
        error: Exception | None = None
        try:
            while any(thread.is_alive() for thread in threads):
                threads[0].join(FLUSH_S)
                self._flush()
            for thread in threads:
                thread.join()
            self._flush()
            error = self._scheduler.error
        except Exception as failure:  # noqa: BLE001  (whatever it is, the session must hear of it)
            error = failure
            self.stop()
        self._location.cleanup()
        self._events.put(RunEnded(error))

    def _flush(self) -> None:
        """Write what has been answered since the last time; one epoch each."""
        tables: dict[str, list[pa.RecordBatch]] = defaultdict(list)
        dead: list[pa.RecordBatch] = []
        oldest, results = self._flushed_s, 0
        self._flushed_s = time.time()
        for node in self._nodes:
            while node.results.rows:
                table, batch, taken_s = node.results.rows.popleft()
                tables[table].append(batch)
                oldest, results = min(oldest, taken_s) if results else taken_s, results + batch.num_rows
            while node.results.dead:
                dead.append(node.results.dead.popleft())
        consumed = self.consumed
        if consumed == self._counted and not results and not dead:
            return
        for table, batches in tables.items():
            self._setup.sink.write(table, self._epoch, pa.Table.from_batches(batches))
        if dead:
            self._setup.sink.write(DEAD_LETTERS, self._epoch, pa.Table.from_batches(dead))
        latency_s = time.time() - oldest
        letters_written = sum(batch.num_rows for batch in dead)
        self._events.put(self._committed(consumed - self._counted, results, letters_written, latency_s))
        self._counted = consumed
        self._epoch += 1

    def _committed(self, rows: int, results: int, dead_letters: int, latency_s: float) -> EpochCommitted:
        before, self._spent_s = self._spent_s, (self._scheduler.busy_s(), self._scheduler.deciding_s)
        return EpochCommitted(
            epoch=self._epoch,
            rows=rows,
            results=results,
            dead_letters=dead_letters,
            moves=0,
            state_bytes=0,
            state_bytes_moved=0,
            duration_s=FLUSH_S,
            latency_s=latency_s,
            compute_s=self._spent_s[0] - before[0],
            migration_s=0.0,
            policy_s=self._spent_s[1] - before[1],
            snapshot=Snapshot(self._epoch, self._binding),
            refusals=self._new_refusals(),
        )

    def _new_refusals(self) -> dict[str, int]:
        """Refusals since the last time."""
        total: dict[str, int] = defaultdict(int)
        for node in self._nodes:
            for reason, number in list(node.results.refused.items()):
                total[reason] += number
        before, self._refused = self._refused, dict(total)
        return {reason: number - before.get(reason, 0) for reason, number in total.items()}
