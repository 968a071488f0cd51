"""Programs: graphs compiled to lanes; the same graph always gives the same program."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from shoal.compiler.codegen.fused import Chain
from shoal.compiler.codegen.fused_feeds import fused_feeds
from shoal.compiler.division import with_divisions
from shoal.compiler.family import families
from shoal.compiler.having import with_conditions
from shoal.compiler.lane import Feed, Lane, Origin
from shoal.compiler.section import sections, sinks
from shoal.compiler.shedding.state_utility import with_utilities
from shoal.connectors.sources.source import Wanted
from shoal.kernels.columns.block import arrow_schema
from shoal.model.control.partitioning import DECLARED, Partitioning
from shoal.model.query.graph import Graph, InstanceId
from shoal.model.query.schema import Schema


@dataclass(frozen=True)
class Input:
    """What a program needs to know of a stream."""

    stream: str
    schema: Schema
    time: str
    lateness_us: int
    max_ahead_us: int | None
    idle_us: int | None = None


@dataclass(frozen=True)
class Program:
    """All lanes of a graph."""

    graph: Graph
    inputs: Mapping[str, Input]
    lanes: tuple[Lane, ...]

    @cached_property
    def instances(self) -> tuple[InstanceId, ...]:
        """Stateful instances, lane by lane: the order in which bindings are written down."""
        return tuple(instance for lane in self.lanes if lane.kernel for instance in lane.instances)

    @cached_property
    def first_instances(self) -> Mapping[int, int]:
        """Index of each lane's first instance in that order."""
        starts, at = {}, 0
        for lane in self.lanes:
            starts[lane.number] = at
            at += len(lane.instances) if lane.kernel else 0
        return starts

    @cached_property
    def depth(self) -> int:
        """The largest number of lanes with state in a row."""
        return max((lane.depth for lane in self.lanes), default=0)

    @cached_property
    def feeds(self) -> Mapping[Origin, tuple[tuple[Lane, Feed], ...]]:
        """The feeds that read each stream and lane."""
        ways: dict[Origin, list[tuple[Lane, Feed]]] = defaultdict(list)
        for lane in self.lanes:
            for feed in lane.feeds:
                ways[feed.origin].append((lane, feed))
        return {origin: tuple(each) for origin, each in ways.items()}

    @cached_property
    def fused_feeds(self) -> Mapping[str, Mapping[tuple[str, ...], Chain]]:
        """The feeds of each stream whose steps can be compiled as one; whoever applies them prepares them."""
        return {stream: fused_feeds(self, stream) for stream in self.inputs}

    def lanes_of(self, stream: str) -> tuple[Lane, ...]:
        """The lanes that read a stream."""
        return tuple({lane.number: lane for lane, _ in self.feeds.get(stream, ())}.values())

    def columns(self, stream: str) -> tuple[str, ...]:
        """The columns of a stream that some lane reads, event time included, in schema order."""
        wanted = {self.inputs[stream].time}.union(*(lane.reads() for lane in self.lanes_of(stream)))
        return tuple(name for name in self.inputs[stream].schema.names if name in wanted)

    def wanted(self, stream: str) -> Wanted:
        """What to ask the source of a stream for."""
        return self._wanted[stream]

    @cached_property
    def _wanted(self) -> Mapping[str, Wanted]:
        streams = self.inputs.items()
        return {stream: Wanted.of(arrow_schema(each.schema), self.columns(stream)) for stream, each in streams}


def compile_graph(graph: Graph, partitioning: Partitioning = DECLARED) -> Program:
    """Compile a graph, with the instances of a partitioning."""
    lanes = with_divisions(with_conditions(families(sections(graph), sinks(graph))), partitioning)
    lanes = with_utilities(lanes, graph)
    inputs = {stream: _input(operator.parameters) for stream, operator in graph.streams.items()}
    return Program(graph, inputs, lanes)


def _input(parameters: Mapping[str, object]) -> Input:
    ahead, idle, time = parameters["max_ahead_us"], parameters.get("idle_us"), str(parameters["time"])
    return Input(
        str(parameters["stream"]),
        Schema.of(parameters["schema"]).required({time}),  # type: ignore[arg-type]
        time,
        int(str(parameters["lateness_us"])),
        None if ahead is None else int(str(ahead)),
        None if idle is None else int(str(idle)),
    )


def program_instances(graph: Graph, partitioning: Partitioning = DECLARED) -> tuple[InstanceId, ...]:
    """A graph's stateful instances in the order in which bindings are written down.

    Declared instances without slots keep their positions.
    """
    return compile_graph(graph, partitioning).instances
