"""Stations: an instance at the place where it is processed, or at two places while it moves.

Rows and marks of one version after another come to it. A mark says that all rows of its version have come, and lets
the watermark advance. What waits for a station is processed in the order in which it has come.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from shoal.compiler.lane import Lane
from shoal.compiler.shedding.state_utility import fragments_of
from shoal.kernels.columns.block import Block
from shoal.kernels.kernel import NEVER_US, NO_RESULTS, Kernel, State
from shoal.model.query.graph import InstanceId
from shoal.runtimes.migration.departure import Departure, Listing
from shoal.runtimes.migration.key_sample import KeySample
from shoal.runtimes.simulated.delay.cost import Cost
from shoal.runtimes.simulated.network.calendar import Action
from shoal.runtimes.simulated.network.core_queues import CoreQueues

if TYPE_CHECKING:
    from shoal.runtimes.simulated.network.crossing import Crossing

FOREVER = 1 << 62
"""A version that never comes."""


class Handler(Protocol):
    """What processes rows and watermarks: a state at home, or a side of a migration."""

    def rows(self, port: int, block: Block) -> Block:
        """Take rows; returns the late ones."""

    def advance(self, watermark_us: int) -> Block:
        """Advance the watermark; returns results."""


@dataclass(frozen=True)
class Item:
    """Rows of a version for a port, or without rows its mark."""

    version: int
    port: int = 0
    block: Block | None = None


@dataclass(eq=False)
class Side:
    """A place where an instance is processed: from a version on, up to a version that may still change.

    `gate`: the last version that may be processed for now. `done`: the last version whose mark has been processed.
    """

    core: int
    handler: Handler | None
    first: int = 1
    last: int = FOREVER
    gate: int = FOREVER
    done: int = 0
    watermark_us: int = NEVER_US
    items: deque[Item] = field(default_factory=deque)

    def ready(self) -> Item | None:
        """The next item that may be processed; see `up_to`."""
        return None if self.handler is None else self.up_to(self.gate)

    def up_to(self, version: int) -> Item | None:
        """The first item of a version or one before it, which is removed.

        Items of later versions may be in front of it: those of one input wait for nothing that another one sends.
        """
        place = next((place for place, item in enumerate(self.items) if item.version <= version), None)
        if place is None:
            return None
        found = self.items[place]
        del self.items[place]
        return found


@dataclass
class StationLoad:
    """What a station has done since the last report."""

    events: int = 0
    cost_s: float = 0.0
    results: int = 0


@dataclass(frozen=True)
class Surroundings:
    """What a station needs of the network: cores, watermarks by version, and where results and marks go.

    `emit` gets results, and whether they waited for state; `forward` gets versions that are complete.
    """

    cores: CoreQueues
    watermark_us: Callable[[Lane, int], int]
    emit: "Callable[[Station, Side, Block, bool], None]"
    forward: "Callable[[Station, int], None]"
    refuse: "Callable[[Station, int, Block], None]"


class Station:
    """An instance with its sides; `senders` is the number of inputs whose marks it waits for."""

    def __init__(self, lane: Lane, number: int, core: int, senders: int, cost: Cost, around: Surroundings) -> None:
        """An empty state on a core."""
        if lane.kernel is None:
            raise TypeError("a lane without a kernel has no station")
        self.lane, self.number, self.cost, self._around = lane, number, cost, around
        self.kernel: Kernel = lane.kernel
        self.instance: InstanceId = lane.instances[number]
        self.home = Side(core, Departure(self.kernel, State()))
        self._sample = KeySample(self.kernel)
        self.sides = [self.home]
        self.crossing: Crossing | None = None
        self.work = StationLoad()
        self.received = self.processed = self.late_results = 0
        self.emission_delay_s = self.emission_delay_sum_s = 0.0
        self.forwarded = self.releasing = 0
        self.marked = 0
        self._senders, self._coming = senders, dict[int, int]()

    @property
    def state(self) -> State:
        """The state, while it is in one place; during a migration that of the source."""
        handler = self.home.handler
        if not isinstance(handler, Departure):
            raise TypeError("a station at home has its state")
        return handler.state

    @property
    def state_bytes(self) -> int:
        """The size of the state; during a migration, of what the source still has."""
        return sum(table.nbytes for table in self.state.tables.values())

    def listing(self) -> Listing:
        """Lists fragments with the utilities that queries define, or by what was learned of the input until now."""
        learned = self._sample.learned
        return lambda state: fragments_of(self.lane, state, learned)

    def take(self, side: Side, version: int, port: int, block: Block) -> None:
        """Rows have come to a side."""
        self.received += block.length
        side.items.append(Item(version, port, block))
        self.pump(side)

    def mark(self, version: int) -> None:
        """One of the senders has sent all of a version; once all have, the sides get its mark."""
        self._coming[version] = self._coming.get(version, self._senders) - 1
        while self._coming.get(self.marked + 1) == 0:
            self.marked += 1
            del self._coming[self.marked]
            for side in self.sides:
                if side.first <= self.marked <= side.last:
                    side.items.append(Item(self.marked))
                    self.pump(side)

    def restart(self, core: int, state: State) -> int:
        """Go on with what there is of the state on another core; returns how many rows are lost."""
        home = self.home
        rows = sum(item.block.length for item in home.items if item.block is not None)
        self.releasing = 0
        self.home = Side(core, Departure(self.kernel, state), done=home.done, watermark_us=home.watermark_us)
        self.home.items.extend(Item(version) for version in range(home.done + 1, self.marked + 1))
        self.sides = [self.home]
        self.pump(self.home)
        return rows

    def pump(self, side: Side) -> None:
        """Give everything that may be processed now to the core of a side."""
        while (item := side.ready()) is not None:
            self._around.cores.submit(side.core, self.lane.depth, lambda item=item: self._job(side, item))  # type: ignore[misc]

    def do(self, side: Side, job: Callable[[], tuple[int, Block]], *, late: bool = False) -> None:
        """Have the core of a side do something for this station: it returns its number of rows, and results."""

        def act() -> tuple[float, Action]:
            rows, results = job()
            return self._seconds(rows, results), lambda: self._emitted(side, results, late=late)

        self.releasing += 1
        self._around.cores.submit(side.core, self.lane.depth, act)

    def settle(self) -> None:
        """Forward the marks of all versions that nothing more can come of."""
        while self.forwarded < self.marked and self._complete(self.forwarded + 1):
            self.forwarded += 1
            self._around.forward(self, self.forwarded)

    def _complete(self, version: int) -> bool:
        if any(side.done < version for side in self.sides if side.first <= version <= side.last):
            return False
        return self.crossing is None or self.crossing.complete(self.watermark_us(version))

    def watermark_us(self, version: int) -> int:
        """The watermark of the lane after a version."""
        return self._around.watermark_us(self.lane, version)

    def _job(self, side: Side, item: Item) -> tuple[float, Action]:
        handler, rows = side.handler, 0
        if handler is None:
            raise TypeError("a side without a state processes nothing")
        if item.block is not None:
            rows = item.block.length
            if side is self.home:  # at both sides of a recreated state there are the same rows
                self._sample.take(item.port, item.block)
            late = handler.rows(item.port, item.block)
            if late.length:
                self._around.refuse(self, item.port, late)
            results = handler.advance(side.watermark_us) if self.kernel.on_arrival else NO_RESULTS
            self.processed += rows
        else:
            side.watermark_us = self.watermark_us(item.version)
            results = handler.advance(side.watermark_us)
        return self._seconds(rows, results), lambda: self._done(side, item, results)

    def _seconds(self, rows: int, results: Block) -> float:
        """The cost of some rows and results."""
        if not rows and not results.length:
            return 0.0
        seconds = float(self.cost.seconds(rows, results.length, 0))
        self.work.events += rows
        self.work.results += results.length
        self.work.cost_s += seconds
        return seconds

    def _emitted(self, side: Side, results: Block, *, late: bool) -> None:
        self.releasing = max(0, self.releasing - 1)  # a restart has none
        if results.length:
            self._around.emit(self, side, results, late)
        self.settle()

    def _done(self, side: Side, item: Item, results: Block) -> None:
        if item.block is None:
            side.done = item.version
        if results.length:
            self._around.emit(self, side, results, False)
        if self.crossing is not None:
            self.crossing.noticed()
        self.settle()
