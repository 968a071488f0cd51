"""A migration of real state over one link, in simulated time, with one mechanism.

Two workers and a link. Rows arrive at random times; real kernels process them. A migration begins at time 0 and moves
the state as the plan of the mechanism says. What is measured are the figures that the twin predicts: how long rows and
windows wait, what is sent, and what is lost if the link is cut.
"""

import math
from collections import defaultdict, deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from measures.migration.link_scenario import HORIZON_S, TICK_S, LinkScenario, Rows, watermark_us
from shoal.control.twin.journey import on_link_s
from shoal.control.twin.profile import Floats
from shoal.kernels.columns.block import Block
from shoal.kernels.columns.identity import ids_of
from shoal.kernels.kernel import Kernel, State
from shoal.mechanisms.catalog import MECHANISMS
from shoal.mechanisms.shedding.capacity import TransferLink
from shoal.mechanisms.transfer import Transfer
from shoal.model.control.binding import WorkerId
from shoal.model.control.costs import LinkCosts
from shoal.model.control.fragment import Ids, Ints
from shoal.model.query.graph import InstanceId
from shoal.runtimes.migration.relocation import Relocation, Shipment
from shoal.runtimes.migration.state_copy import StateCopy
from shoal.runtimes.migration.takeover import SilentTakeover

NOBODY: Ints = np.zeros(0, np.int64)


class Core:
    """Serves rows one after another."""

    def __init__(self, row_s: float) -> None:
        """Idle."""
        self.row_s, self.busy_s = row_s, -math.inf

    def serve(self, at_s: Floats) -> float:
        """Serve rows that come at these times; returns the time that they wait in sum."""
        if not at_s.size:
            return 0.0
        number = np.arange(at_s.size) * self.row_s
        begun = np.maximum(np.maximum.accumulate(at_s - number), self.busy_s) + number
        self.busy_s = float(begun[-1]) + self.row_s
        return float((begun - at_s).sum())


@dataclass
class LinkTrial:
    """One migration in simulated time; `due_at` are the results without a migration, by the time of their tick."""

    scenario: LinkScenario
    kernel: Kernel
    rows: Rows
    state: State
    link: TransferLink
    due_at: Mapping[float, list[int]] = field(default_factory=dict)
    relocation: Relocation | None = None
    now_s: float = 0.0
    waited_s: float = 0.0
    duplicates: int = 0
    end_s: float | None = None
    emitted: dict[int, list[float]] = field(default_factory=lambda: defaultdict(list))
    under_way: deque[tuple[float, float, Shipment]] = field(default_factory=deque)
    requests: deque[tuple[float, Ids]] = field(default_factory=deque)
    answers: deque[Shipment] = field(default_factory=deque)
    asked: set[int] = field(default_factory=set)
    free_s: float = 0.0
    sent: float = 0.0
    idle: bool = False

    def __post_init__(self) -> None:
        """Both cores are idle."""
        scenario = self.scenario
        self.source, self.target = (Core(load / scenario.rate) for load in scenario.loads)

    def begin(self, mechanism: str, replica: StateCopy | None) -> None:
        """Begin the migration."""
        kernel = self.kernel
        transfer = Transfer(
            InstanceId("op/0"),
            WorkerId(0),
            WorkerId(1),
            fragments=kernel.fragments(self.state),
            on_arrival=kernel.on_arrival,
            bounded=kernel.bounded,
            replicated=self.scenario.replicated,
        )
        plan = MECHANISMS[mechanism].plan([transfer], LinkCosts())
        self.relocation = Relocation(kernel, self.state, plan.batches, replica)

    def run(self) -> None:
        """Run until the migration is over and everything is processed."""
        cut_s = self.scenario.left_s
        ticks = [(number + 1) * TICK_S for number in range(round(HORIZON_S / TICK_S))]
        places = np.searchsorted(self.rows.at_s, [0.0, *ticks]).astype(np.int64)
        for number, tick_s in enumerate(ticks):
            if self.now_s < cut_s <= tick_s:
                self._until(cut_s)
                self._cut(cut_s)
            self._until(tick_s)
            self._tick(tick_s, np.arange(places[number], places[number + 1]))
            if self.relocation is not None and self.relocation.finished:
                self._rest(ticks[number + 1 :], places[number + 1 :])
                return

    def _rest(self, ticks: list[float], places: Ints) -> None:
        """After the migration: the target serves what comes; results wait for nothing but its backlog."""
        for number, tick_s in enumerate(ticks):
            mine = np.arange(places[number], places[number + 1])
            if self.lost:
                self._tick(tick_s, mine)
                continue
            self.waited_s += self.target.serve(self.rows.at_s[mine])  # results are those without a migration
            for each in self.due_at.get(tick_s, ()):
                self.emitted[each].append(max(tick_s, self.target.busy_s))

    def _held(self) -> int:
        moving = self.relocation
        return 0 if moving is None or moving.target is None or moving.finished else moving.target.held

    def _at(self, now_s: float) -> None:
        self.waited_s += self._held() * (now_s - self.now_s) if not self._both else 0.0
        self.now_s = now_s

    @property
    def _both(self) -> bool:
        moving = self.relocation
        return moving is not None and not moving.finished and isinstance(moving.target, SilentTakeover)

    def _tick(self, tick_s: float, places: Ints) -> None:
        self._at(tick_s)
        self.idle = False
        by_port = [places[self.rows.port[places] == port] for port in (0, 1)]
        served = [self._rows(port, chosen) for port, chosen in enumerate(by_port) if chosen.size]
        for core, counts in ((self.source, True), (self.target, not self._both)):
            mine = np.sort(np.concatenate([NOBODY, *(each[core is self.target] for each in served)]))
            waits_s = core.serve(self.rows.at_s[mine])
            self.waited_s += waits_s if counts else 0.0
        moving = self.relocation
        if moving is None:
            results = self.kernel.close_until(self.state, watermark_us(tick_s))
        else:
            results = moving.advance(watermark_us(tick_s))
            self._ask()
        self._emit(results)

    def _rows(self, port: int, places: Ints) -> tuple[Ints, Ints]:
        """Process rows of one port; returns those that the source serves, and those that the target does."""
        block, moving = self.rows.block(places), self.relocation
        if moving is None:
            self.kernel.process(self.state, block, port)
            return places, NOBODY
        if moving.finished:
            moving.rows(port, block)
            return NOBODY, places
        both, held = self._both, self._held()
        goes = np.zeros(places.size, bool)
        if moving.target is not None and not both:
            goes = moving.redirected(self.kernel.row_keys(port, block))
        moving.rows(port, block)
        waiting = self._held() - held
        if both:
            self.duplicates += places.size
            return places, NOBODY if waiting else places
        going = places[goes]
        if waiting:  # which ones wait is not known here; they are as old as the others
            self.waited_s += float((self.now_s - self.rows.at_s[going]).sum()) * waiting / going.size
        return places[~goes], going[: going.size - waiting]

    def _emit(self, results: Block) -> None:
        if not results.length:
            return
        names = [name for name in results.columns if name not in ("n", "m")]
        at_s = np.full(results.length, self.now_s)
        if self.relocation is not None:
            at_s = np.maximum(at_s, np.where(self._at_target(results), self.target.busy_s, self.source.busy_s))
        found = ids_of(0, [results.columns[name] for name in names], results.length)
        for each, when_s in zip(found.tolist(), at_s.tolist(), strict=True):
            self.emitted[each].append(when_s)

    def _at_target(self, results: Block) -> NDArray[np.bool_]:
        """Whether each result comes from the target, and waits for its backlog rather than that of the source."""
        moving = self.relocation
        if moving is None or self._both:
            return np.zeros(results.length, bool)
        if moving.stopped or moving.finished or moving.target is None or self.kernel.on_arrival:
            return np.full(results.length, moving.stopped or moving.finished)
        return moving.redirected(self.kernel.row_keys(0, results))

    # the link

    def _until(self, until_s: float) -> None:
        """Let shipments leave and arrive before a time."""
        while (event := min(self._events(), default=(until_s, 9)))[0] < until_s:
            self._at(max(self.now_s, event[0]))
            if event[1] == 0:
                self._arrive()
            elif event[1] == 1:
                self._asked()
            else:
                self._leave()

    def _events(self) -> Iterator[tuple[float, int]]:
        moving = self.relocation
        if moving is None or moving.finished:
            return
        if self.under_way:
            yield self.under_way[0][0], 0
        if self.requests:
            yield self.requests[0][0], 1
        if not self.idle:
            yield max(self.free_s, self.now_s), 2

    def _leave(self) -> None:
        if self.relocation is None:
            return
        shipment = self.answers.popleft() if self.answers else self.relocation.leave()
        if shipment is None:
            self.idle = True
            return
        self.free_s = self.now_s + on_link_s(self.link, shipment.nbytes)
        self.sent += shipment.nbytes
        self.under_way.append((self.free_s + self.link.latency_s, self.now_s, shipment))

    def _arrive(self) -> None:
        moving, held, both = self.relocation, self._held(), self._both
        _, _, shipment = self.under_way.popleft()
        if moving is None:
            return
        results = moving.arrive(shipment)
        released = held - self._held()
        if released > 0:
            waits_s = self.target.serve(np.full(released, self.now_s))
            self.waited_s += 0.0 if both else waits_s
        if moving.finished:
            self.end_s = self.now_s
        self._emit(results)
        self._ask()
        self.idle = False

    def _ask(self) -> None:
        moving = self.relocation
        if moving is None or moving.finished or moving.target is None or not moving.started:
            return
        new = np.array([key for key in moving.target.wanted.tolist() if key not in self.asked], np.uint64)
        if new.size:
            self.asked.update(new.tolist())
            self.requests.append((self.now_s + self.link.latency_s, new))

    def _asked(self) -> None:
        _, keys = self.requests.popleft()
        if self.relocation is not None and (answer := self.relocation.ask(keys)) is not None:
            self.answers.append(answer)
        self.idle = False

    def _cut(self, cut_s: float) -> None:
        """The source is gone: the target continues with what has arrived."""
        moving = self.relocation
        if moving is None or moving.finished:
            return
        self._at(cut_s)
        held, both, arrived = self._held(), self._both, list[tuple[Shipment, int]]()
        for at_s, left_s, shipment in self.under_way:
            on_way_s = max(at_s - self.link.latency_s - left_s, 1e-12)
            there, sent = (
                min(1.0, max(0.0, each / on_way_s)) for each in (cut_s - self.link.latency_s - left_s, cut_s - left_s)
            )
            self.sent -= shipment.nbytes * (1 - sent)
            arrived.append((shipment, math.floor(shipment.nbytes * there)))
        _, results = moving.interrupt([each for each in arrived if each[0].batch is not None])
        waits_s = self.target.serve(np.full(held, cut_s))
        self.waited_s += 0.0 if both else waits_s
        self.under_way.clear()
        self.end_s = cut_s
        self._emit(results)

    @property
    def lost(self) -> float:
        """The share of the utility that was lost."""
        return 0.0 if self.relocation is None else 1 - self.relocation.loss.utility_kept
