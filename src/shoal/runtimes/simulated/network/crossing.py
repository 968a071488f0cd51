"""Crossings: an instance on its way to another core, as the plan of a mechanism says, in simulated time.

A batch that redirects or duplicates events does so from the next version on that is issued. Its state leaves when the
source has processed everything before that version, and nothing after it. The target takes state in when it has come
as far in the stream as the source was. So every event is processed once, on top of the state that it belongs to.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from shoal.kernels.columns.block import Block
from shoal.kernels.kernel import NO_RESULTS
from shoal.mechanisms.plan import Batch, Queue, StepKind
from shoal.model.control.fragment import NEVER_NEEDED_US, Fragments, Ids
from shoal.runtimes.migration.departure import Departure
from shoal.runtimes.migration.relocation import Relocation, Shipment
from shoal.runtimes.migration.state_copy import StateCopy
from shoal.runtimes.migration.takeover import NO_KEYS
from shoal.runtimes.simulated.network.station import FOREVER, Item, Side, Station

POSITIONED = frozenset({StepKind.REDIRECT, StepKind.DUPLICATE})
"""Steps that change where events go, from a version on."""


def stops_together(batch: Batch) -> bool:
    """Whether a batch stops several instances at once, none of which resumes before all have arrived."""
    return len(batch.transfers) > 1 and batch.moves and StepKind.PAUSE in batch.kinds


@dataclass(frozen=True)
class Change:
    """From a version on, events of some keys, or of all, go to the target; to both if they are duplicated."""

    version: int
    keys: Ids | None
    both: bool = False


@dataclass(eq=False)
class Voyage:
    """A shipment under way: the version up to which the source had come, and when its state is needed first."""

    shipment: Shipment
    position: int
    needed_us: int
    is_there: bool = False


@dataclass(frozen=True)
class Outside:
    """What a crossing needs of the network.

    `issued` says which version was issued last. `kick` asks for the next shipment, `ask` sends a request for keys to
    the source. `complete` says whether a batch has arrived with all of its transfers, which resume together.
    """

    issued: Callable[[], int]
    now_s: Callable[[], float]
    kick: Callable[[], None]
    ask: "Callable[[Crossing, Ids], None]"
    complete: Callable[[Batch], bool]


class Crossing:
    """The two sides of a station that moves, and the shipments between them."""

    def __init__(
        self,
        station: Station,
        core: int,
        batches: Sequence[Batch],
        outside: Outside,
        replica: StateCopy | None = None,
    ) -> None:
        """Nothing has moved yet; `replica`: an older copy of the state at the target."""
        self.station, self._outside = station, outside
        self.relocation = Relocation(station.kernel, station.state, batches, replica, station.listing())
        self.note = next((batch.note for batch in batches if batch.note), "")
        self.source, self.target = station.home, Side(core, None, first=FOREVER)
        self.begun_s = outside.now_s()
        self.stopped_s = self.started_s = self.finished_s = float("nan")
        self._under_way: list[Voyage] = []
        self.completed: Batch | None = None
        self._arrived: list[Voyage] = []
        self._changes: list[Change] = []
        self._position: int | None = None
        self._asked = NO_KEYS
        station.crossing = self
        station.sides = [self.source, self.target]

    @property
    def frozen_s(self) -> float:
        """The time between the last turn at the source and the first at the target."""
        return 0.0 if math.isnan(self.stopped_s) else max(0.0, self.started_s - self.stopped_s)

    def belongs_to(self, batch: Batch) -> bool:
        """Whether a batch moves it."""
        return any(transfer.instance == self.station.instance for transfer in batch.transfers)

    # events

    def addressed(self, version: int, port: int, block: Block) -> list[tuple[Side, Block]]:
        """The sides that rows of a version go to."""
        going, both = np.zeros(block.length, bool), False
        keys = self.station.kernel.row_keys(port, block)
        for change in self._changes:
            if change.version <= version:
                both = change.both
                going |= np.isin(keys, change.keys) if change.keys is not None else True
        if both:
            return [(self.source, block), (self.target, block)]
        parts = [(self.source, block.where(~going)), (self.target, block.where(going))]
        return [(side, rows) for side, rows in parts if rows.length]

    @property
    def _duplicates(self) -> bool:
        return bool(self._changes) and self._changes[-1].both

    # the source

    def next_queue(self) -> tuple[Queue, int] | None:
        """The queue and the deadline of the next shipment; None if nothing can leave now."""
        return next(self.relocation.waiting(), None)

    def in_position(self) -> bool:
        """Whether the source is where the next batch leaves it; otherwise that place is fixed, and waited for."""
        batch = self.relocation.next_batch
        if batch is None:
            return False
        takes_over = self._duplicates and StepKind.DUPLICATE not in batch.kinds  # it is fixed on arrival
        if takes_over or not POSITIONED.intersection(batch.kinds):
            return True
        if self._position is None:
            self._fix(batch)
        return self._position is not None and self.source.done >= self._position - 1

    def _fix(self, batch: Batch) -> None:
        """Change where events go from the next version on; the source stops there until the state has left."""
        self._position = version = self._outside.issued() + 1
        both, keys = StepKind.DUPLICATE in batch.kinds, self.relocation.keys_of(batch)
        self._changes.append(Change(version, keys, both))
        self.source.gate = version - 1
        self.target.first = min(self.target.first, version)
        if keys is None and not both:
            self.source.last = version - 1

    def leave(self) -> Shipment | None:
        """Take the steps of the source for the next batch."""
        before_us = _first_needed(self.relocation.source.fragments)
        shipment = self.relocation.leave()
        if shipment is None:
            return None
        needed_us = _first_needed(shipment.piece.fragments) if shipment.piece is not None else before_us
        imports = shipment.batch is not None and StepKind.IMPORT in shipment.batch.kinds
        self._under_way.append(Voyage(shipment, self.source.done, needed_us if imports else NEVER_NEEDED_US))
        self._position = None
        if self.target.handler is None and self.relocation.target is not None:
            self.target.handler = self.relocation.target
            self.target.done, self.target.watermark_us = self.source.done, self.source.watermark_us
        if self.source.last < FOREVER and math.isnan(self.stopped_s):
            self.stopped_s = self._outside.now_s()
        self.source.gate = self.source.last
        self.station.pump(self.source)
        self.station.pump(self.target)
        return shipment

    # the target

    def arrive(self, shipment: Shipment) -> None:
        """A shipment has reached the target; it is taken in when the target has come far enough."""
        if self.station.crossing is not self:  # an interruption has taken it in
            return
        voyage = next((each for each in self._under_way if each.shipment is shipment), None)
        voyage = voyage or Voyage(shipment, 0, NEVER_NEEDED_US)
        voyage.is_there = True
        if shipment.batch is not None and shipment.batch.moves and self._duplicates:
            voyage.position = self._outside.issued()
            self.source.last = self.source.gate = voyage.position
            self._changes.append(Change(voyage.position + 1, None))
        self._arrived.append(voyage)
        if shipment.batch is not None and shipment.batch.moves:
            self.completed = shipment.batch
        self.noticed()

    def noticed(self) -> None:
        """Something has been processed: what waited for that may go on."""
        if any(change.both for change in self._changes):  # the target does not get ahead of the source, which emits
            self.target.gate = self.source.done
            self.station.pump(self.target)
        while self._arrived and self._can_take(self._arrived[0]):
            voyage = self._arrived.pop(0)
            self.station.do(self.target, lambda voyage=voyage: self._taken(voyage), late=True)  # type: ignore[misc]
        self._fetch()
        self._outside.kick()

    def _can_take(self, voyage: Voyage) -> bool:
        """Whether a shipment can be taken in; the core of the target first does what the target has got before it."""
        batch = voyage.shipment.batch
        if batch is not None and stops_together(batch) and not self._outside.complete(batch):
            return False
        return self.source.done >= voyage.position

    def _taken(self, voyage: Voyage) -> tuple[int, Block]:
        """Take the steps of the target; returns the rows that waited for it, and their results."""
        relocation = self.relocation
        if self.station.crossing is not self:  # an interruption has taken it in
            return 0, NO_RESULTS
        held = self._held
        results = relocation.arrive(voyage.shipment)
        if voyage in self._under_way:
            self._under_way.remove(voyage)
        if relocation.started and math.isnan(self.started_s):
            self.started_s = self._outside.now_s()
        released = held if relocation.finished else max(0, held - self._held)
        if relocation.finished:
            self._finish()
        self._fetch()
        self._outside.kick()
        return released, results

    @property
    def _held(self) -> int:
        return 0 if self.relocation.target is None else self.relocation.target.held

    def _finish(self) -> None:
        """The target goes on alone."""
        station = self.station
        self.finished_s = self._outside.now_s()
        self.target.handler, self.target.gate = Departure(station.kernel, self.relocation.state), FOREVER
        station.home, station.sides, station.crossing = self.target, [self.target], None
        station.pump(self.target)

    def _fetch(self) -> None:
        """Ask the source for keys that rows have begun to wait for."""
        target = self.relocation.target
        if target is None or not self.relocation.started or not self.relocation.fetches:
            return
        wanted = target.wanted
        new = wanted[~np.isin(wanted, self._asked)]
        if new.size:
            self._asked = np.union1d(self._asked, new)
            self._outside.ask(self, new)

    def interrupt(self, passed: Callable[[Shipment], float]) -> int:
        """The source is gone for good, and so are rows that it has not processed; returns how many.

        `passed`: the share of a shipment that has passed the links. The target takes what has arrived and goes on.
        """
        relocation, source, target = self.relocation, self.source, self.target
        started = target.handler is not None
        if self._duplicates:
            self._catch_up()
        sizes = [(each.shipment, 1.0 if each.is_there else passed(each.shipment)) for each in self._under_way]
        _, results = relocation.interrupt([(each, int(each.nbytes * share)) for each, share in sizes])
        if not started:
            target.done, target.watermark_us = source.done, source.watermark_us
        missed = range(target.done + 1, min(target.first, self.station.marked + 1))
        target.items.extendleft(Item(version) for version in reversed(missed))
        target.first = min(target.first, target.done + 1)
        if math.isnan(self.started_s):
            self.started_s = self._outside.now_s()
        if math.isnan(self.stopped_s):
            self.stopped_s = self._outside.now_s()
        self._finish()
        self.station.do(target, lambda: (0, results), late=True)
        return sum(item.block.length for item in source.items if item.block is not None)

    def _catch_up(self) -> None:
        """Let a target that has received duplicates process, silently, what its source has emitted results of."""
        target, receiver = self.target, self.relocation.target
        while receiver is not None and (item := target.up_to(self.source.done)) is not None:
            if item.block is not None:
                receiver.rows(item.port, item.block)
            else:
                target.done, target.watermark_us = item.version, self.station.watermark_us(item.version)
                receiver.advance(target.watermark_us)

    # both

    def complete(self, watermark_us: int) -> bool:
        """Whether no more results can come up to a watermark: no row waits, no missing state is needed by then."""
        if self._duplicates:
            return True
        needed_us = min((voyage.needed_us for voyage in self._under_way), default=NEVER_NEEDED_US)
        if self.relocation.stopped:
            needed_us = min(needed_us, _first_needed(self.relocation.source.fragments))
        return not self._held and watermark_us < needed_us


def _first_needed(fragments: Fragments) -> int:
    return int(fragments.needed_us.min(initial=NEVER_NEEDED_US))
