"""Nodes: the operators of a program as they are scheduled, each run by one worker at a time."""

import time
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa

from shoal.compiler.codegen.fused import Chain
from shoal.compiler.codegen.loop_run import LASTING_ROWS
from shoal.compiler.lane import Outlet
from shoal.compiler.steps import Step
from shoal.kernels.columns.block import Block
from shoal.model.control.histogram import Histogram
from shoal.runtimes.local.dataflow.channel import Channel, Packet, Stamp
from shoal.runtimes.local.dataflow.parking import OnFailure
from shoal.runtimes.local.dataflow.result_buffer import ResultBuffer

EMPTY = Block({}, 0)


def _raise(_block: Block, error: Exception) -> None:
    raise error


@dataclass
class Results:
    """What a node emits beside its outputs: rows of result tables, and dead letters.

    `Delivery` replaces the buffer by its own, which all nodes share. Counts of refusals only grow.
    """

    buffer: ResultBuffer = field(default_factory=ResultBuffer)
    refused: dict[str, int] = field(default_factory=lambda: defaultdict(int))

    def emit(self, table: str, rows: pa.RecordBatch, taken_s: float) -> None:
        """Emit rows of a result table, with when their oldest event was due."""
        self.buffer.put(table, rows, taken_s)

    def reject(self, letters: pa.RecordBatch) -> None:
        """Emit dead letters."""
        self.buffer.put(None, letters, 0.0)


class Node(ABC):
    """Reads packets from its inputs and writes packets to its outputs.

    `home` is the worker it belongs to, if nodes are bound; `is_source` if it has no inputs. `stream` is the number of
    the stream whose events it processes; None downstream of operators with state.
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
        self.on_failure: OnFailure = _raise

    @property
    def pending(self) -> int:
        """Events that wait in the inputs."""
        pending = 0
        for channel in self.inputs:
            pending += channel.pending
        return pending

    @property
    def waiting(self) -> bool:
        """Whether anything waits in the inputs; asked at every decision, so it is a plain loop."""
        for channel in self.inputs:  # noqa: SIM110  (a generator takes three times as long)
            if channel.waiting:
                return True
        return False

    @property
    def ready(self) -> bool:
        """Whether there is input, and room in the outputs."""
        return self.waiting and not self.blocked

    @property
    def blocked(self) -> bool:
        """Whether an output is full, or the sink too far behind."""
        if self.results.buffer.full:
            return True
        for channel in self.outputs:  # noqa: SIM110
            if channel.full:
                return True
        return False

    @property
    def watermark_us(self) -> int:
        """The lowest watermark of the inputs that are awake."""
        awake = [channel.watermark_us for channel in self.inputs if not channel.asleep]
        return min(awake) if awake else min(channel.watermark_us for channel in self.inputs)

    @property
    def phase(self) -> int:
        """The phase of the stamps it writes, see `Stamp`: by default that of its first input."""
        return self.inputs[0].phase if self.inputs else 0

    @property
    def state_bytes(self) -> int:
        """Bytes of state."""
        return 0

    @abstractmethod
    def turn(self, events: int) -> int:
        """Process about `events` events; returns how many.

        Called by one worker at a time, when the node is `ready`. It must stop early if it is `blocked`, and must not
        wait.
        """

    def close(self) -> None:  # noqa: B027  (most nodes have nothing to close)
        """Release what the node has opened; called once, when no worker runs it any more."""

    def _send(self, block: Block, stamp: Stamp, *, lasting: bool = True) -> None:
        """Write to all outputs; `lasting` unless the events lie in memory that somebody will overwrite."""
        self.produced += block.length
        for channel in self.outputs:
            channel.write(block, stamp, lasting=lasting)

    def _take(self, number: int, taken: int, events: int) -> Packet | None:
        """The next packet of an input; None if enough was taken or an output is full."""
        return None if taken >= events or self.blocked else self.inputs[number].read(events - taken)


class Nothing:
    """A step that drops all rows: what remains of the steps of parked queries."""

    text = "nothing"

    def apply(self, _block: Block) -> Block:
        """No rows."""
        return EMPTY

    def reads(self) -> frozenset[str]:
        """No column."""
        return frozenset()


class StepNode(Node):
    """Consecutive operators without state."""

    def __init__(self, steps: Sequence[Step], source: Channel, home: int = 0) -> None:
        """Steps that read a channel."""
        super().__init__(" ".join(step.text.split(" ", 1)[0] for step in steps), [source], home)
        self.steps = tuple(steps)
        self._running: tuple[Step, ...] = self.steps

    def fuse(self, chain: Chain) -> None:
        """Run the compiled steps of a chain from now on; no other node may run that chain."""
        self._running = chain.steps

    def turn(self, events: int) -> int:
        """Apply the steps to the input."""
        taken = 0
        while (packet := self._take(0, taken, events)) is not None:
            taken += packet.block.length
            try:
                applied = self._applied(packet.block)
            except Exception as error:  # noqa: BLE001  (raised again unless the queries behind are parked)
                self.on_failure(packet.owned, error)
                self._running, applied = (Nothing(),), EMPTY
            self._send(applied, packet.stamp, lasting=packet.block.length >= LASTING_ROWS and not packet.shared)
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
        """An outlet that reads a channel."""
        super().__init__(f"sink {outlet.table}", [source], home)
        self.outlet = outlet
        self.emitted = 0
        self.transit = Histogram()

    def turn(self, events: int) -> int:
        """Turn results into rows; markers end here."""
        taken = 0
        while (packet := self._take(0, taken, events)) is not None:
            if packet.stamp.marker_s is not None:
                self.transit.record(time.time() - packet.stamp.marker_s)
            if packet.block.length:
                taken += packet.block.length
                self._emit(packet.owned, packet.stamp.taken_s)
        self.consumed += taken
        return taken

    def park(self, queries: frozenset[str]) -> None:
        """Emit no more results of some queries; any thread may call this."""
        names = tuple(None if name in queries else name for name in self.outlet.query_of)
        self.outlet = replace(self.outlet, query_of=names)

    def _emit(self, block: Block, taken_s: float) -> None:
        try:
            rows = self.outlet.rows(block)
        except Exception as error:  # noqa: BLE001  (raised again unless the queries are parked)
            self.on_failure(block, error)
            return
        if rows.num_rows:
            self.results.emit(self.outlet.table, rows, taken_s)
            self.emitted += rows.num_rows
