"""Wiring: from a program to nodes and the channels between them; feeds share the steps they have in common.

Consecutive steps become one node if they are chained, and one compiled loop if they are fused. If instances are bound
to workers, a lane becomes a node per worker, and the nodes downstream up to the next lane belong to the same worker.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from shoal.compiler.codegen.fused import Chain, Types, fused, types_after
from shoal.compiler.lane import Feed, Lane, Origin
from shoal.compiler.program import Program
from shoal.compiler.shedding.whole_windows import whole_windows
from shoal.compiler.steps import Step
from shoal.connectors.sources.source import Source
from shoal.kernels.columns.block import Block
from shoal.kernels.columns.table import INSTANCE
from shoal.model.control.binding import Binding
from shoal.model.control.shedding import StreamShedding
from shoal.model.query.schema import TIME
from shoal.runtimes.local.dataflow.channel import Channel
from shoal.runtimes.local.dataflow.lane_node import LaneNode
from shoal.runtimes.local.dataflow.node import Node, OutletNode, StepNode
from shoal.runtimes.local.dataflow.parking import LaneGuard, Parking
from shoal.runtimes.local.dataflow.sleep import Sleep
from shoal.runtimes.local.dataflow.source_node import SourceNode
from shoal.runtimes.local.dataflow.split import MovingSplit
from shoal.runtimes.local.memory.blocks import ChunkAllocator, Pool, Sizes
from shoal.runtimes.local.migration.key_slots import Slots
from shoal.runtimes.local.migration.moving_lane import MovingLane
from shoal.runtimes.local.migration.ownership import Ownership
from shoal.runtimes.local.migration.stop_the_world import PausedLane

Path = tuple[Origin, tuple[str, ...]]
"""Where rows come from and the texts of the steps they have passed."""


@dataclass
class Wiring:
    """All nodes of a program; with a binding, split by worker."""

    program: Program
    sizes: Sizes
    allocator: ChunkAllocator
    chained: bool = True
    binding: Binding | None = None
    fused: bool = True
    part: type[MovingLane] = PausedLane
    """The class of the parts of a divided lane."""
    parts: int = 0
    """The largest number of workers, if more than the binding has."""
    parking: Parking | None = None
    """What becomes of queries that fail; without it, any failure is raised as it is."""
    shedding: Mapping[str, StreamShedding] = field(default_factory=dict)
    """Streams of which rows may be shed."""
    helpers: int = 0
    """How many workers may help a source to make events."""
    nodes: list[Node] = field(default_factory=list)
    chains: list[Chain] = field(default_factory=list)
    """Chains of steps that must be compiled before the run starts."""
    _at: dict[Path, list[Node]] = field(default_factory=dict)
    _readers: Counter[Path] = field(default_factory=Counter)
    _of_streams: list[tuple[StepNode, Types]] = field(default_factory=list)
    _columns_read: dict[Node, list[frozenset[str] | None]] = field(default_factory=dict)

    def wire(self, sources: Mapping[str, Source], location: str) -> list[Node]:
        """Make all nodes, inputs before outputs."""
        self._count_readers()
        workers = 1 if self.binding is None else self.binding.workers
        for number, (stream, input_) in enumerate(self.program.inputs.items()):
            columns = self.program.columns(stream)
            directory = f"{location}/{stream}"
            home, shedding = number % workers, self.shedding.get(stream)
            rows, target_s = self.sizes.block_rows, self.sizes.target_ms / 1e3
            source, helpers = sources[stream], self.helpers
            node = SourceNode(input_, source, columns, directory, rows, home, shedding, target_s, helpers)
            node.stream = number
            self.nodes += node.helpers
            self._add((stream, ()), node)
        lanes = sorted(self.program.lanes, key=lambda lane: lane.depth)
        for lane in lanes:
            if lane.kernel is not None:
                self._add_lane(lane)
        for lane in lanes:
            self._add_outlets(lane)
        self._link()
        if any(each.rule is not None and each.rule.span_us for each in self.shedding.values()):
            self._leave_out_parts()
        if self.fused and self.chained:
            self._fuse()
        return self.nodes

    def _leave_out_parts(self) -> None:
        """Let lanes emit no windows that lack rows; the ranges in which rows are shed are those of the sources."""
        sources = [node for node in self.nodes if isinstance(node, SourceNode)]
        for node in self.nodes:
            if isinstance(node, LaneNode):
                node.whole = partial(self._whole, node.lane, sources)

    def _whole(self, lane: Lane, sources: Sequence[SourceNode], results: Block) -> Block:
        shedders = [node.shedder for node in sources if node.shedder is not None]
        return whole_windows(self.program, lane, results, {each.stream: each.shedding for each in shedders})

    def _fuse(self) -> None:
        """Compile steps that process all events of a stream; results of lanes are too few to be worth it."""
        for node, types in self._of_streams:
            columns = self._columns_read.get(node, [])
            wanted = None if None in columns else frozenset().union(*(each for each in columns if each is not None))
            chain = fused(node.steps, types, wanted)
            if chain is not None:
                node.fuse(chain)
                self.chains.append(chain)

    def _count_readers(self) -> None:
        """Count the readers after every step; a node must end where there is not exactly one."""
        visited: set[Path] = set()
        for lane in self.program.lanes:
            for feed in lane.feeds:
                texts = tuple(step.text for step in feed.steps)
                self._readers[feed.origin, texts] += 2  # a lane reads here, so that the steps end here
                for length in range(len(texts), 0, -1):
                    path = (feed.origin, texts[:length])
                    if path not in visited:
                        visited.add(path)
                        self._readers[feed.origin, texts[: length - 1]] += 1

    def _add(self, path: Path, node: Node) -> None:
        self.nodes.append(node)
        self._at.setdefault(path, []).append(node)

    def _after(self, origin: Origin, steps: tuple[Step, ...]) -> list[Node]:
        """The nodes that apply some steps, made if needed; one per node of the origin."""
        texts = tuple(step.text for step in steps)
        path = (origin, texts)
        if path not in self._at:
            start = len(steps) - 1
            while self.chained and start and self._readers[origin, texts[:start]] == 1:
                start -= 1
            for before in self._after(origin, steps[:start]):
                node = StepNode(steps[start:], self._from(before), before.home)
                node.stream = before.stream
                if self.parking is not None:
                    node.on_failure = self.parking.of_steps(origin, texts[:start], node.steps)
                self._add(path, node)
                if isinstance(origin, str) and (types := self._types(origin, steps[:start])) is not None:
                    self._of_streams.append((node, types))
        return self._at[path]

    def _types(self, stream: str, steps: tuple[Step, ...]) -> Types | None:
        """The columns of a stream after some steps."""
        schema = self.program.inputs[stream].schema
        return types_after(steps, {name: schema.type_of(name) for name in self.program.columns(stream)})

    def _from(self, node: Node, wanted: frozenset[str] | None = None, *, to_sink: bool = False) -> Channel:
        channel = Channel(self.sizes, Pool(self.sizes, self.allocator), wanted, to_sink=to_sink)
        channel.phase = node.phase
        node.outputs.append(channel)
        self._columns_read.setdefault(node, []).append(wanted)
        return channel

    def _add_lane(self, lane: Lane) -> None:
        if self.binding is not None:
            self._add_parts(lane, self.binding)
            return
        feeds = [
            (feed, self._from(before, _wanted(lane, feed)))
            for feed in lane.feeds
            for before in self._after(feed.origin, feed.steps)
        ]
        self._add((lane.number, ()), LaneNode(lane, feeds, self.program.inputs, guard=LaneGuard(lane, self.parking)))

    def _add_parts(self, lane: Lane, binding: Binding) -> None:
        """Add a part for every possible worker, also for those without instances."""
        workers = max(self.parts, binding.workers)
        slots = Slots.of(lane)
        owner = np.zeros(slots.declared.size, np.int64)
        owner[: len(lane.instances)] = [binding.worker_of[instance] for instance in lane.instances]
        ownership = Ownership(owner, workers, slots)
        parts: list[list[tuple[Feed, Channel]]] = [[] for _ in range(ownership.workers)]
        for feed in lane.feeds:
            for before in self._after(feed.origin, feed.steps):
                keys = lane.kernel.keys(feed.port) if lane.kernel is not None else ()
                split = MovingSplit(ownership, self._from(before, _wanted(lane, feed)), before.home, keys)
                split.stream = before.stream
                self.nodes.append(split)
                for feeds in parts:
                    feeds.append((feed, self._from(split)))
        guard = LaneGuard(lane, self.parking)
        for worker, feeds in enumerate(parts):
            self._add((lane.number, ()), self.part(lane, feeds, self.program.inputs, ownership, worker, guard))

    def _link(self) -> None:
        """Tell parts of lanes what is downstream of them."""
        reader = {id(channel): node for node in self.nodes for channel in node.inputs}

        def downstream(node: Node) -> Iterator[tuple[Channel, Sleep | None]]:
            for channel in node.outputs:
                next_ = reader[id(channel)]
                if isinstance(next_, MovingLane):
                    yield channel, next_.sleep
                elif further := list(downstream(next_)):
                    yield channel, None
                    yield from further

        for node in self.nodes:
            if isinstance(node, MovingLane):
                node.sleep.downstream = list(downstream(node))

    def _add_outlets(self, lane: Lane) -> None:
        if lane.kernel is not None:
            before = self._at[lane.number, ()]
        else:
            before = [node for feed in lane.feeds for node in self._after(feed.origin, feed.steps)]
        for node in before:
            for outlet in lane.outlets:
                made = OutletNode(outlet, self._from(node, to_sink=True), node.home)
                if self.parking is not None:
                    made.on_failure = self.parking.of_outlet(outlet)
                self.nodes.append(made)


def _wanted(lane: Lane, feed: Feed) -> frozenset[str] | None:
    """The columns of a feed that a lane reads."""
    return None if lane.kernel is None else lane.kernel.reads(feed.port) | {INSTANCE, TIME}
