"""Migrations of the state of one kernel, as each mechanism moves it: with random delays, but without time."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

from tests.conformance.kernel_case import KernelCase, processed
from tests.conformance.oracles import PORT, Event, Result

from shoal.kernels.kernel import FOREVER_US, State
from shoal.mechanisms.catalog import MECHANISMS
from shoal.mechanisms.transfer import Transfer
from shoal.model.control.binding import WorkerId
from shoal.model.control.costs import LinkCosts
from shoal.model.query.graph import InstanceId
from shoal.runtimes.migration.relocation import Relocation, Shipment
from shoal.runtimes.migration.state_copy import StateCopy

Blocks = Sequence[tuple[Sequence[Event], int]]
"""Blocks of events, each with the watermark after it."""


def undisturbed(case: KernelCase, blocks: Blocks, state: State | None = None) -> list[Result]:
    """The results of a state that never moves."""
    here = case.kernel.open() if state is None else state
    found: list[Result] = []
    for events, watermark_us in blocks:
        for port in range(case.ports):
            processed(case, here, [event for event in events if event[PORT] == port], port)
        found += case.results(case.kernel.close_until(here, watermark_us))
    return found + case.results(case.kernel.close_until(here, FOREVER_US))


def begun(case: KernelCase, mechanism: str, here: State, replica: StateCopy | None = None) -> Relocation:
    """The beginning of a migration; the target may have a replica from before."""
    kernel = case.kernel
    transfer = Transfer(
        InstanceId("op/0"),
        WorkerId(0),
        WorkerId(1),
        fragments=kernel.fragments(here),
        on_arrival=kernel.on_arrival,
        bounded=kernel.bounded,
        replicated=replica is not None,
    )
    plan = MECHANISMS[mechanism].plan([transfer], LinkCosts())
    return Relocation(kernel, here, plan.batches, replica)


def replicated_at(draw: random.Random, begins: int) -> int | None:
    """When a replica is made, if there is one: before or when a migration begins."""
    return draw.randint(0, begins) if draw.random() < 0.8 else None


@dataclass
class Migrated:
    """A state that moves while blocks arrive; shipments are under way for a random time.

    `left`: how many blocks are still to come before the migration begins. A replica of the state may have been made at
    some time before.
    """

    case: KernelCase
    mechanism: str
    draw: random.Random
    left: int
    under_way: list[Shipment] = field(default_factory=list)
    relocation: Relocation | None = None

    def results(self, blocks: Blocks) -> list[Result]:
        """All results, in the order in which they are emitted."""
        here = self.case.kernel.open()
        found: list[Result] = []
        replicated, replica = replicated_at(self.draw, self.left), None
        for number, (events, watermark_us) in enumerate(blocks):
            if number == replicated:
                replica = StateCopy.of(self.case.kernel, here)
            if number == self.left:
                self.relocation = begun(self.case, self.mechanism, here, replica)
            found += self._disturbed()
            found += self._block(here, events, watermark_us)
        while self.relocation is not None and not self.relocation.finished:
            found += self._disturbed(certainly=True)
            found += self._advanced(here, blocks[-1][1] if blocks else 0)
            if not self.under_way and not list(self.relocation.waiting()):
                found += self._advanced(here, FOREVER_US)
        return found + self._advanced(here, FOREVER_US)

    def _block(self, here: State, events: Sequence[Event], watermark_us: int) -> list[Result]:
        for port in range(self.case.ports):
            chosen = [event for event in events if event[PORT] == port]
            if self.relocation is None:
                processed(self.case, here, chosen, port)
            elif chosen:
                assert not self.relocation.rows(port, self.case.block(chosen)).length
        return self._advanced(here, watermark_us)

    def _advanced(self, here: State, watermark_us: int) -> list[Result]:
        if self.relocation is None:
            return self.case.results(self.case.kernel.close_until(here, watermark_us))
        return self.case.results(self.relocation.advance(watermark_us))

    def _disturbed(self, *, certainly: bool = False) -> list[Result]:
        """Let some shipments leave and some arrive; the target asks for what it wants."""
        found: list[Result] = []
        moving = self.relocation
        for _ in range(1 if certainly else self.draw.randint(0, 3)):
            if moving is None or moving.finished:
                return found
            if moving.target is not None and moving.started and self.draw.random() < 0.7:
                answer = moving.ask(moving.target.wanted)
                self.under_way += [] if answer is None else [answer]
            shipment = moving.leave() if certainly or self.draw.random() < 0.6 else None
            self.under_way += [] if shipment is None else [shipment]
            if self.under_way and (certainly or self.draw.random() < 0.6):
                found += self.case.results(moving.arrive(self.under_way.pop(0)))  # a link keeps its order
        return found
