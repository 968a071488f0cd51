"""Wiring: from a program to nodes and the channels between them; steps that feeds have in common are shared."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from shoal.connectors.source import Source
from shoal.query.lane import Lane, Origin, Outlet
from shoal.query.program import Program
from shoal.query.steps import Step
from shoal.runtimes.local.channel import Channel
from shoal.runtimes.local.node import LaneNode, Node, OutletNode, SourceNode, StepNode


@dataclass(frozen=True)
class Sizes:
    """Events per block, and how many blocks a channel holds before its writer must wait."""

    block_rows: int = 16_384
    channel_blocks: int = 16

    @property
    def capacity(self) -> int:
        """Events a channel holds."""
        return self.block_rows * self.channel_blocks


@dataclass
class Wiring:
    """All nodes of a program."""

    program: Program
    sizes: Sizes
    nodes: list[Node] = field(default_factory=list)
    _steps: dict[tuple[Origin, tuple[str, ...]], Node] = field(default_factory=dict)

    def wire(self, sources: Mapping[str, Source], location: str) -> list[Node]:
        """Make the nodes, inputs before outputs."""
        for stream, input_ in self.program.inputs.items():
            columns = self.program.columns(stream)
            place = f"{location}/{stream}"
            node = SourceNode(input_, sources[stream], columns, place, self.sizes.block_rows)
            self._add((stream, ()), node)
        lanes = sorted(self.program.lanes, key=lambda lane: lane.depth)
        for lane in lanes:
            if lane.kernel is not None:
                feeds = [(feed, self._from(self._after(feed.origin, feed.steps))) for feed in lane.feeds]
                self._add((lane.number, ()), LaneNode(lane, feeds, self.program.inputs))
        for lane in lanes:
            self._add_outlets(lane)
        return self.nodes

    def _add(self, key: tuple[Origin, tuple[str, ...]], node: Node) -> None:
        self.nodes.append(node)
        self._steps[key] = node

    def _after(self, origin: Origin, steps: tuple[Step, ...]) -> Node:
        """The node behind some steps, made where it is not there yet."""
        key = (origin, tuple(step.text for step in steps))
        if key not in self._steps:
            before = self._after(origin, steps[:-1])
            self._add(key, StepNode(steps[-1], self._from(before)))
        return self._steps[key]

    def _from(self, node: Node) -> Channel:
        channel = Channel(self.sizes.capacity)
        node.outputs.append(channel)
        return channel

    def _add_outlets(self, lane: Lane) -> None:
        if lane.kernel is not None:
            before = [self._steps[lane.number, ()]]
        else:
            before = [self._after(feed.origin, feed.steps) for feed in lane.feeds]
        for node in before:
            for outlet in lane.outlets:
                self._add_outlet(node, outlet)

    def _add_outlet(self, node: Node, outlet: Outlet) -> None:
        self.nodes.append(OutletNode(outlet, self._from(node)))
