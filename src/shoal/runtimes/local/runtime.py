"""The local runtime: the same graphs and kernels on the threads of this process, with results in milliseconds.

It keeps no checkpoint: a run that is stopped reads no more events, emits the results of all open windows and ends.
"""

import gc
import tempfile
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from typing import Any

from shoal.compiler.codegen.fused import prepare
from shoal.compiler.program import Program, compile_graph
from shoal.compiler.warm_up import warm_up
from shoal.connectors.sinks import Sink
from shoal.connectors.sources.source import Source
from shoal.errors import BindingError, ConfigError, ShoalError
from shoal.mechanisms.catalog import SHEDDING, mechanism_named
from shoal.mechanisms.shedding.selection import selection_named
from shoal.model.control.binding import Binding
from shoal.model.control.histogram import merged
from shoal.model.control.messages import (
    Command,
    CommandRefused,
    Drain,
    Event,
    MoveLimit,
    Rebind,
    Repartition,
    ShedInput,
)
from shoal.model.control.shedding import StreamShedding
from shoal.model.control.topology import Topology
from shoal.model.query.graph import Graph
from shoal.policies.scheduling.catalog import SCHEDULING
from shoal.policies.scheduling.policy import SchedulingPolicy
from shoal.policies.scheduling.state_based import StateBased
from shoal.policies.scheduling.threads import Threads
from shoal.runtimes.clock import WallClock
from shoal.runtimes.event_queue import EventQueue
from shoal.runtimes.heap import kept_memory
from shoal.runtimes.local.dataflow.delivery import Delivery
from shoal.runtimes.local.dataflow.node import Node, OutletNode
from shoal.runtimes.local.dataflow.parking import Parking
from shoal.runtimes.local.dataflow.result_buffer import SINK_BUFFER_BYTES
from shoal.runtimes.local.dataflow.source_node import SourceNode
from shoal.runtimes.local.dataflow.wiring import Wiring
from shoal.runtimes.local.memory.blocks import ChunkAllocator, Sizes
from shoal.runtimes.local.metrics import Metrics
from shoal.runtimes.local.migration.divided_lanes import DividedLanes
from shoal.runtimes.local.migration.executor import MECHANISMS, Migration
from shoal.runtimes.local.migration.stop_the_world import BarrierShedding
from shoal.runtimes.local.report import Reports
from shoal.runtimes.local.scheduling.bound_pool import QUEUES, BoundPool
from shoal.runtimes.local.scheduling.cores import PINNINGS, Machine
from shoal.runtimes.local.scheduling.scheduler import Scheduler
from shoal.runtimes.local.scheduling.thread_per_node import ThreadPerNode
from shoal.runtimes.local.scheduling.worker_pool import WorkerPool
from shoal.runtimes.local.supervisor import Supervisor
from shoal.runtimes.measured.result_path import ResultTimes
from shoal.runtimes.protocol import Capabilities, Overhead, refuse_dataframes

CAPABILITIES = Capabilities(
    name="local",
    summary="threads of this process: results in milliseconds, nothing kept for a restart",
    starting="loading kernels ...",
    interrupted="every event read has been processed",
    binds="with a policy",
    default_policy="state-based",
    mechanisms=MECHANISMS,
    lacks={
        "checkpoint-assisted": "threads pass state by reference, so that a replica costs a copy and saves nothing",
    },
    shares_queues=True,
    operator_metrics=True,
)


@dataclass(frozen=True)
class LocalSetup:
    """Everything a local run needs beside its graph.

    With `queues` nodes are bound: to one queue, to one per processor node, or to one per worker. `chained` puts
    consecutive steps into one node, and `fused` compiles those that process all events of a stream into one loop.
    `mechanism` moves instances, unless a rebinding names another; None means the default. The other fields are those of
    `LocalSettings`.
    """

    sources: Mapping[str, Source]
    sink: Sink
    scheduling: SchedulingPolicy = field(default_factory=StateBased)
    sizes: Sizes = field(default_factory=Sizes)
    chained: bool = True
    queues: str | None = None
    processor_nodes: int = 0
    fused: bool = True
    mechanism: str | None = None
    most_workers: int = 0
    pinning: str = PINNINGS[0]
    parks: bool = False
    """Whether queries that fail are parked, and the others go on."""
    sink_buffer_bytes: int = SINK_BUFFER_BYTES
    say: Callable[[str], None] | None = None
    shedding: Mapping[str, StreamShedding] = field(default_factory=dict)
    """Streams of which rows may be shed."""
    selection: str = "greedy"
    bytes_per_s: float = 0.0

    def __post_init__(self) -> None:
        """Reject unknown names and negative numbers."""
        if self.queues is not None and self.queues not in QUEUES:
            raise ConfigError(f"queues must be one of {', '.join(QUEUES)}; got {self.queues!r}")
        mechanism_named(self.mechanism, MECHANISMS, "the local runtime")
        if self.pinning not in PINNINGS:
            raise ConfigError(f"pinning must be one of {', '.join(PINNINGS)}; got {self.pinning!r}")
        for name, least in (("processor_nodes", 0), ("most_workers", 0), ("sink_buffer_bytes", 1)):
            if getattr(self, name) < least:
                raise ConfigError(f"{name} must be at least {least}; got {getattr(self, name)}")


class LocalRuntime(WallClock):
    """Runs a graph on worker threads."""

    def __init__(self, setup: LocalSetup) -> None:
        """Prepare a run; nothing starts yet."""
        self._setup = setup
        self._events = EventQueue()
        self._nodes: list[Node] = []
        self._pool: WorkerPool
        self._metrics: Metrics
        self._machine = Machine.here()
        self._divided_lanes: DividedLanes | None = None
        self._migration: Migration | None = None

    @property
    def capabilities(self) -> Capabilities:
        """What this runtime can do, by its setup: with queues it binds instances, otherwise it schedules."""
        if self._setup.queues is not None:
            return replace(CAPABILITIES, binds="always", default_policy="round-robin")
        return replace(CAPABILITIES, binds="never", default_policy=self._scheduling, mechanisms=())

    @property
    def _scheduling(self) -> str:
        """The name of the scheduling policy, or of its class if it is not registered."""
        chosen = self._setup.scheduling
        return next((name for name, policy in SCHEDULING.items() if policy == chosen), type(chosen).__name__)

    @property
    def topology(self) -> Topology:
        """The workers by memory node; with a thread per operator, all are on one."""
        threads = self._pool.threads
        return Topology.of(1, threads) if isinstance(self._pool, ThreadPerNode) else self._topology_of(threads)

    @property
    def consumed(self) -> int:
        """Events read so far."""
        return sum(node.consumed for node in self._nodes if node.is_source)

    @property
    def nodes(self) -> list[Node]:
        """The operators as they are scheduled, inputs before outputs."""
        return list(self._nodes)

    @property
    def pool(self) -> WorkerPool:
        """The worker pool."""
        return self._pool

    def metrics(self) -> list[dict[str, Any]]:
        """The metrics of every operator, under Flink's names."""
        return self._metrics.data()

    def overhead(self) -> Overhead:
        """The time that workers spent on scheduling decisions, and the latency of markers."""
        transit = merged([node.transit for node in self._nodes if isinstance(node, OutletNode)])
        return Overhead(self._pool.decisions, self._pool.deciding_s, transit)

    def machine_report(self) -> None:
        """Not known: other programs use the machine, too."""

    def result_times(self) -> ResultTimes | None:
        """Not traced."""
        return None

    def start(self, graph: Graph, binding: Binding) -> None:
        """Start the run; returns when the workers run."""
        setup = self._setup
        refuse_dataframes(setup.sources)
        most, on_thread_start = self._most_workers(binding.workers), self._machine.pin(setup.pinning)
        program = compile_graph(graph)
        warm_up(program)
        left_behind = ExitStack()
        left_behind.enter_context(kept_memory())
        left_behind.callback(gc.unfreeze)
        gc.freeze()  # a full collection of what is there by now would stop all workers for tens of milliseconds
        try:
            self._wire(program, binding, most, left_behind)
            self._pool = self._pool_for(binding.workers, most)
            left_behind.callback(self._pool.close)
            self._pool.on_thread_start = on_thread_start
            self._supervisor_of(graph, binding, most).start(left_behind)
        except BaseException:
            left_behind.close()
            raise

    def _wire(self, program: Program, binding: Binding, most: int, left_behind: ExitStack) -> None:
        """Make the nodes; `left_behind` gets what has to be closed after the run."""
        setup = self._setup
        location = left_behind.enter_context(tempfile.TemporaryDirectory(prefix="shoal-local-"))
        allocator = left_behind.enter_context(closing(ChunkAllocator()))
        bound = None if setup.queues is None else binding
        self._parking = Parking(program, setup.parks, silence=self._silence)
        wiring = Wiring(
            program,
            setup.sizes,
            allocator,
            setup.chained,
            bound,
            setup.fused,
            parts=most,
            parking=self._parking,
            shedding=setup.shedding,
            helpers=self._helpers(binding.workers),
        )
        self._nodes = wiring.wire(setup.sources, location)
        for node in self._nodes:
            left_behind.callback(node.close)
        prepare(wiring.chains, setup.say)

    def _helpers(self, workers: int) -> int:
        """How many workers may help a source: all but its own, where any worker may run any node."""
        chosen = self._setup.queues is None and not isinstance(self._setup.scheduling, Threads)
        return workers - 1 if chosen else 0

    def _delivery_of(self) -> Delivery:
        return Delivery(self._nodes, self._setup.sink, self._setup.sink_buffer_bytes)

    def _supervisor_of(self, graph: Graph, binding: Binding, most: int) -> Supervisor:
        setup = self._setup
        self._metrics = Metrics(self._nodes, self._pool)
        delivery = self._delivery_of()
        if setup.queues is not None:
            self._divided_lanes = DividedLanes(self._nodes, binding, most, graph)
            self._migration = Migration(
                self._divided_lanes, self._pool, self._topology_of, setup.mechanism, self._shedding_of
            )
            if setup.mechanism == SHEDDING:
                self._divided_lanes.sample_keys()
        topology_of = None if isinstance(self._pool, ThreadPerNode) else self._topology_of
        reports = Reports(graph, self._nodes, self._pool, delivery, binding, self._divided_lanes, topology_of)
        return Supervisor(
            self._pool, delivery, reports, self._metrics, self._migration, self._parking, self._events, self.now_s
        )

    def _shedding_of(self, limit: MoveLimit) -> BarrierShedding:
        return BarrierShedding(limit, selection_named(self._setup.selection), self._setup.bytes_per_s)

    def _silence(self, parked: frozenset[str]) -> None:
        """Emit no more results of parked queries; called by the thread in which the newest of them failed."""
        for node in self._nodes:
            if isinstance(node, OutletNode):
                node.park(parked)

    def _most_workers(self, workers: int) -> int:
        """The most workers, for a run that starts with `workers`."""
        most = self._setup.most_workers
        if 0 < most < workers:
            raise ConfigError(f"most_workers must be at least the {workers} workers of the run; got {most}")
        return most or max(workers, self._machine.cores)

    def _topology_of(self, workers: int) -> Topology:
        nodes = self._setup.processor_nodes
        return Topology.of(min(nodes, workers), workers) if nodes else self._machine.topology(workers)

    def _pool_for(self, workers: int, most: int) -> WorkerPool:
        setup = self._setup
        if setup.queues is not None:
            return BoundPool(self._nodes, setup.queues, self._topology_of(workers).node_of, most)
        if isinstance(setup.scheduling, Threads):
            return ThreadPerNode(self._nodes)
        return Scheduler(self._nodes, setup.scheduling, workers, setup.sizes.target_ms / 1e3)

    def events(self) -> Iterable[Event]:
        """The events of the run; the last is `RunEnded`."""
        return self._events

    def apply(self, command: Command) -> None:
        """Drain, shed, or rebind and repartition if instances are bound; any other command is refused."""
        if isinstance(command, Drain):
            self.stop()
        elif isinstance(command, Rebind | Repartition):
            self._rebind(command)
        elif isinstance(command, ShedInput):
            for node in self._sources:
                node.sheds = command.active
        else:
            reason = f"the local runtime cannot {type(command).__name__} while it runs"
            self._events.put(CommandRefused(command, reason, at_s=self.now_s()))

    def _rebind(self, command: Rebind | Repartition) -> None:
        """Start to move, split or merge instances, or refuse the command with a reason."""
        try:
            if self._migration is None:
                raise BindingError("instances are bound to workers only with queues; set queues=worker-queue")
            self._migration.begin(command)
        except ShoalError as error:
            self._events.put(CommandRefused(command, str(error), at_s=self.now_s()))

    def stop(self) -> None:
        """Read no more events, emit the results of all open windows, and end."""
        for node in self._sources:
            node.stopping = True

    @property
    def _sources(self) -> list[SourceNode]:
        return [node for node in self._nodes if isinstance(node, SourceNode)]
