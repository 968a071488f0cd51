"""Nodes: the operators of a program as they are scheduled, each run by one worker at a time."""

import time
from abc import ABC, abstractmethod
from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from shoal.compiler.codegen.fused import Chain
from shoal.compiler.lane import Outlet
from shoal.compiler.steps import Step
from shoal.kernels.columns.block import Block
from shoal.model.control.histogram import Histogram
from shoal.runtimes.local.dataflow.channel import Channel, Packet, Stamp

EMPTY = Block({}, 0)


@dataclass
class Results:
    """Rows of result tables on their way to the sinks, with when their oldest event was due.

    Nodes add at one end, whoever hands them on takes from the other, for which it may have all nodes add to the same
    deque; refusals are only ever counted up.
    """

    rows: deque[tuple[str, pa.RecordBatch, float]] = field(default_factory=deque)
    dead: deque[pa.RecordBatch] = field(default_factory=deque)
    refused: dict[str, int] = field(default_factory=lambda: defaultdict(int))


class Node(ABC):
    """Something that takes packets from its inputs and puts packets into its outputs.

    `home` is the worker it belongs to where nodes are bound; `is_source` if it has no inputs. `stream` is the number of
    the stream that it has all events of; None behind operators with state.
    """

    is_source = False

    def __init__(self, name: str, inputs: Sequence[Channel] = (), home: int = 0) -> None:
        """A node without outputs yet."""
        self.name = name
        self.inputs = list(inputs)
        self.outputs: list[Channel] = []
        self.home = home
        self.stream: int | None = None
        self.results = Results()
        self.consumed = 0
        self.produced = 0

    @property
    def pending(self) -> int:
        """Events that wait at the inputs."""
        pending = 0
        for channel in self.inputs:
            pending += channel.pending
        return pending

    @property
    def waiting(self) -> bool:
        """Whether anything waits at the inputs; asked at every decision, so that a plain loop is worth it."""
        for channel in self.inputs:  # noqa: SIM110  (a generator takes three times as long)
            if channel.waiting:
                return True
        return False

    @property
    def ready(self) -> bool:
        """Whether there is something to do and room for what comes of it."""
        return self.waiting and not self.blocked

    @property
    def blocked(self) -> bool:
        """Whether a reader downstream is too far behind."""
        for channel in self.outputs:  # noqa: SIM110
            if channel.full:
                return True
        return False

    @property
    def watermark_us(self) -> int:
        """How far event time is closed at the inputs that are awake."""
        awake = [channel.watermark_us for channel in self.inputs if not channel.asleep]
        return min(awake) if awake else min(channel.watermark_us for channel in self.inputs)

    @property
    def phase(self) -> int:
        """The phase of what it writes, see `Stamp`: that of what it reads, unless it says otherwise."""
        return self.inputs[0].phase if self.inputs else 0

    @property
    def state_bytes(self) -> int:
        """Memory of what the node remembers."""
        return 0

    @abstractmethod
    def turn(self, events: int) -> int:
        """Take in about so many events, fewer if there are no more or an output is full; returns how many."""

    def _send(self, block: Block, stamp: Stamp) -> None:
        self.produced += block.length
        for channel in self.outputs:
            channel.write(block, stamp)

    def _take(self, number: int, taken: int, events: int) -> Packet | None:
        """The next packet of an input, unless enough was taken or an output is full."""
        return None if taken >= events or self.blocked else self.inputs[number].read(events - taken)


class StepNode(Node):
    """Operators without state, one behind another."""

    def __init__(self, steps: Sequence[Step], source: Channel, home: int = 0) -> None:
        """Steps behind a channel."""
        super().__init__(" ".join(step.text.split(" ", 1)[0] for step in steps), [source], home)
        self.steps = tuple(steps)
        self._running = self.steps

    def fuse(self, chain: Chain) -> None:
        """From now on run the steps as a chain has them; nobody else may run that chain."""
        self._running = chain.steps

    def turn(self, events: int) -> int:
        """Apply the steps to what waits."""
        taken = 0
        while (packet := self._take(0, taken, events)) is not None:
            taken += packet.block.length
            self._send(self._applied(packet.block), packet.stamp)
        self.consumed += taken
        return taken

    def _applied(self, block: Block) -> Block:
        for step in self._running:
            if not block.length:
                return EMPTY
            block = step.apply(block)
        return block if block.length else EMPTY


class OutletNode(Node):
    """Result rows of a query, or of several that share a table."""

    def __init__(self, outlet: Outlet, source: Channel, home: int = 0) -> None:
        """An outlet behind a channel."""
        super().__init__(f"sink {outlet.table}", [source], home)
        self.outlet = outlet
        self.answered = 0
        self.transit = Histogram()

    def turn(self, events: int) -> int:
        """Turn answers into rows; markers end here."""
        taken = 0
        while (packet := self._take(0, taken, events)) is not None:
            if packet.stamp.marker_s is not None:
                self.transit.record(time.time() - packet.stamp.marker_s)
            if packet.block.length:
                taken += packet.block.length
                self._answer(self.outlet.rows(packet.owned), packet.stamp.taken_s)
        self.consumed += taken
        return taken

    def _answer(self, rows: pa.RecordBatch, taken_s: float) -> None:
        if rows.num_rows:
            self.results.rows.append((self.outlet.table, rows, taken_s))
            self.answered += rows.num_rows
