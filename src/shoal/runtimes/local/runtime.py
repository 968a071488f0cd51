"""The local runtime: the same graphs and kernels on the threads of this process, with results in milliseconds.

Nothing is kept for a restart: a run that is stopped takes no more events in, answers every open window and ends.
"""

import queue
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from shoal.connectors.sinks import Sink
from shoal.connectors.source import Source
from shoal.errors import ConfigError, GraphError
from shoal.model.binding import Binding
from shoal.model.graph import Graph
from shoal.model.messages import Command, CommandRefused, Drain, EpochCommitted, Event, Rebind, RunEnded
from shoal.model.snapshot import Snapshot
from shoal.policies.scheduling import SchedulingPolicy, StateBased, Threads
from shoal.query.fused import prepare
from shoal.query.program import compile_graph
from shoal.query.rehearsal import rehearse
from shoal.runtimes.local.bound import QUEUES, BoundCrew
from shoal.runtimes.local.crew import Crew
from shoal.runtimes.local.delivery import NOW_AND_THEN_S, Delivery
from shoal.runtimes.local.intake import SourceNode
from shoal.runtimes.local.memory import Keeper, Sizes
from shoal.runtimes.local.metrics import Metrics
from shoal.runtimes.local.moving import MovingLane
from shoal.runtimes.local.node import Node
from shoal.runtimes.local.scheduler import Scheduler
from shoal.runtimes.local.threads import ThreadPerNode
from shoal.runtimes.local.wiring import Wiring


@dataclass(frozen=True)
class LocalSetup:
    """Everything a local run needs beside its graph.

    With `queues` nodes are bound: to one queue, to one per processor node, or to one per worker. `chained` puts steps
    that follow each other into one node, and `fused` makes a compiled loop of those that see all events of a stream.
    `say` is told what keeps a run from starting at once.
    """

    sources: Mapping[str, Source]
    sink: Sink
    scheduling: SchedulingPolicy = field(default_factory=StateBased)
    sizes: Sizes = field(default_factory=Sizes)
    chained: bool = True
    queues: str | None = None
    processor_nodes: int = 1
    fused: bool = True
    say: Callable[[str], None] | None = None

    def __post_init__(self) -> None:
        """Refuse what does not exist."""
        if self.queues is not None and self.queues not in QUEUES:
            raise ConfigError(f"queues must be one of {', '.join(QUEUES)}; got {self.queues!r}")
        if self.processor_nodes < 1:
            raise ConfigError(f"number of processor nodes must be at least 1; got {self.processor_nodes}")


class LocalRuntime:
    """Runs a graph on worker threads."""

    def __init__(self, setup: LocalSetup) -> None:
        """Prepare a run; nothing starts yet."""
        self._setup = setup
        self._events: queue.Queue[Event] = queue.Queue()
        self._nodes: list[Node] = []
        self._crew: Crew
        self._metrics: Metrics
        self._delivery: Delivery
        self._binding: Binding
        self._epoch = 0
        self._counted = 0
        self._spent_s = (0.0, 0.0)
        self._moved_before = (0, 0)
        self._refused: dict[str, int] = {}
        self._reported_s = 0.0

    @property
    def topology(self) -> str:
        """Threads of this process."""
        return f"threads[{self._crew.threads}]"

    @property
    def consumed(self) -> int:
        """Events taken in."""
        return sum(node.consumed for node in self._sources())

    @property
    def nodes(self) -> list[Node]:
        """The operators as they are scheduled, inputs before outputs."""
        return list(self._nodes)

    @property
    def crew(self) -> Crew:
        """Who runs them."""
        return self._crew

    def metrics(self) -> list[dict[str, Any]]:
        """What every operator has done, under Flink's names."""
        return self._metrics.data()

    def start(self, graph: Graph, binding: Binding) -> None:
        """Begin; returns as soon as the workers run."""
        setup = self._setup
        for stream, source in setup.sources.items():
            if not hasattr(source, "cursor"):
                raise GraphError(
                    f"source of stream {stream!r} cannot be read without Spark; got {type(source).__name__}"
                )
        program = compile_graph(graph)
        rehearse(program)
        self._binding = binding
        self._location = tempfile.TemporaryDirectory(prefix="shoal-local-")
        self._keeper = Keeper()
        bound = None if setup.queues is None else binding
        wiring = Wiring(program, setup.sizes, self._keeper, setup.chained, bound, setup.fused)
        self._nodes = wiring.wire(setup.sources, self._location.name)
        prepare(wiring.chains, setup.say)
        self._crew = self._crew_of(binding.workers)
        self._metrics = Metrics(self._nodes, self._crew)
        self._delivery = Delivery(self._nodes, setup.sink)
        self._reported_s = time.time()
        threads = self._crew.start()
        threading.Thread(target=self._follow, args=(threads,), name="shoal-run", daemon=True).start()

    def _crew_of(self, workers: int) -> Crew:
        setup = self._setup
        if setup.queues is not None:
            per_node = -(-workers // setup.processor_nodes)
            return BoundCrew(self._nodes, setup.queues, [worker // per_node for worker in range(workers)])
        if isinstance(setup.scheduling, Threads):
            return ThreadPerNode(self._nodes)
        return Scheduler(self._nodes, setup.scheduling, workers)

    def events(self) -> Iterator[Event]:
        """What happens, as it happens; ends with `RunEnded`."""
        while True:
            event = self._events.get()
            yield event
            if isinstance(event, RunEnded):
                self._events.put(event)  # whoever asks again hears it again
                return

    def apply(self, command: Command) -> None:
        """Drain, or rebind where instances are bound; nothing else can be changed while a local run goes on."""
        if isinstance(command, Drain):
            self.stop()
        elif isinstance(command, Rebind):
            reason = self._rebind(command.binding)
            if reason:
                self._events.put(CommandRefused(command, reason))
        else:
            reason = f"the local runtime cannot {type(command).__name__} while it runs"
            self._events.put(CommandRefused(command, reason))

    def _rebind(self, wanted: Binding) -> str:
        """Have workers invite the instances they are to have; says why not if that cannot be."""
        if self._setup.queues is None:
            return "instances are bound to workers only with queues; set queues=worker-queue"
        if wanted.workers != self._binding.workers:
            return f"the local runtime cannot change its {self._binding.workers} workers while it runs"
        places = {i: (lane, n) for lane in self._parts() for n, i in enumerate(lane.lane.instances)}
        unknown = [instance for instance in wanted.worker_of if instance not in places]
        if unknown:
            return f"there is no instance {unknown[0]!r}"
        parts = {(part.lane.number, part.home): part for part in self._parts()}
        for instance, worker in wanted.worker_of.items():
            lane, number = places[instance]
            parts[lane.lane.number, worker].invite(number)
        return ""

    def _parts(self) -> list[MovingLane]:
        return [node for node in self._nodes if isinstance(node, MovingLane)]

    def _current(self) -> Binding:
        """Who owns what now."""
        found = {i: int(p.ownership.owner[n]) for p in self._parts() for n, i in enumerate(p.lane.instances)}
        return Binding.of({**self._binding.worker_of, **found}, self._binding.workers)

    def _moved(self) -> tuple[int, int]:
        """Instances that have moved so far, and the bytes of their state."""
        owners = {id(part.ownership): part.ownership for part in self._parts()}.values()
        return sum(sum(each.moves) for each in owners), sum(sum(each.moved_bytes) for each in owners)

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
                threads[0].join(self._delivery.interval_s)
                self._delivery.deliver()
                if time.time() - self._reported_s >= NOW_AND_THEN_S:
                    self._report()
            for thread in threads:
                thread.join()
            self._delivery.deliver()
            self._report()
            error = self._crew.error
        except Exception as failure:  # noqa: BLE001  (whatever it is, the session must hear of it)
            error = failure
            self.stop()
        self._keeper.close()
        self._location.cleanup()
        self._events.put(RunEnded(error))

    def _report(self) -> None:
        """Tell the session what has happened since the last time; one epoch each."""
        self._metrics.sample()
        consumed, delivery = self.consumed, self._delivery
        duration_s, self._reported_s = time.time() - self._reported_s, time.time()
        if consumed == self._counted and not delivery.results and not delivery.dead_letters:
            return
        spent_s, self._spent_s = self._spent_s, (sum(self._crew.busy_s), self._crew.deciding_s)
        moved, self._moved_before = self._moved_before, self._moved()
        self._events.put(
            EpochCommitted(
                epoch=self._epoch,
                rows=consumed - self._counted,
                results=delivery.results,
                dead_letters=delivery.dead_letters,
                moves=self._moved_before[0] - moved[0],
                state_bytes=sum(node.state_bytes for node in self._nodes),
                state_bytes_moved=self._moved_before[1] - moved[1],
                duration_s=duration_s,
                latency_s=max(delivery.latency.max_s, duration_s),
                compute_s=self._spent_s[0] - spent_s[0],
                migration_s=0.0,
                policy_s=self._spent_s[1] - spent_s[1],
                snapshot=Snapshot(self._epoch, self._current()),
                refusals=self._new_refusals(),
                latency=delivery.latency,
            )
        )
        self._counted = consumed
        self._epoch += 1
        delivery.reset()

    def _new_refusals(self) -> dict[str, int]:
        """Refusals since the last time."""
        total: dict[str, int] = defaultdict(int)
        for node in self._nodes:
            for reason, number in list(node.results.refused.items()):
                total[reason] += number
        before, self._refused = self._refused, dict(total)
        return {reason: number - before.get(reason, 0) for reason, number in total.items()}
