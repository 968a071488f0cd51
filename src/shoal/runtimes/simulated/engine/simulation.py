"""A simulation: the arrays of the core with their owner, which feeds steps, reads results and grows what is full."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shoal.runtimes.simulated.engine import arrays as a
from shoal.runtimes.simulated.engine import loop, memory
from shoal.runtimes.simulated.engine.renumbering import renumbered
from shoal.runtimes.simulated.engine.world import (
    NO_LIMIT,
    ORDERS,
    QUEUES,
    Rules,
    Tasks,
    access_seconds,
    first_world,
    free_flows,
)
from shoal.runtimes.simulated.machine.machine import Machine

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
__all__ = ["NO_LIMIT", "ORDERS", "QUEUES", "Rules", "Simulation", "StepInput", "Tasks"]


GROWN = {
    a.AGENDA: ("agenda_times", "agenda_rows"),
    a.FLOWS: ("flows", "hops", "after", "before"),
    a.WAKES: ("wakes",),
    a.RESULTS: ("results",),
    a.MOVES: ("moves",),
    a.TRACE: ("trace",),
}
"""The arrays that grow together."""


@dataclass(frozen=True, eq=False)
class StepInput:
    """One arrival of events of a source, and what every task does with it; events and results are counts.

    `work_s`: the work of every task but for its fixed part; 0 for a task that has nothing to do. `once_s`: what a turn
    pays once, however many steps it takes: the largest of theirs. `varied`: factors of the fixed part of a turn that
    begins with this step, 1 on average; negative ones are of steps that bring only a watermark, and count if all do.
    `occasions`: counted with what is processed. `places`: of tasks that are equally old in a queue by event time, those
    with the smallest come first. `ends`: whether a turn goes no further.
    """

    source: int
    arrival_s: float
    rows: int
    work_s: Floats
    bytes: Floats
    events: Ints
    results: Ints
    once_s: Floats | None = None
    varied: Floats | None = None
    occasions: Ints | None = None
    places: Ints | None = None
    ends: NDArray[np.bool_] | None = None


class Simulation:
    """Tasks on a machine in simulated time."""

    def __init__(
        self,
        tasks: Tasks,
        machine: Machine,
        owner: Sequence[int],
        cores: Sequence[int],
        rules: Rules,
        at_s: float = 0.0,
        *,
        failed: Iterable[int] = (),
        room: int | None = None,
    ) -> None:
        """At a time, with some cores of a machine; `owner`: the core of every unit, -1 for a source outside of it.

        `failed`: hosts that are down for good. `room`: the first size of arrays that grow, by default one with which
        most never have to.
        """
        self.tasks, self.machine, self.rules = tasks, machine, rules
        self._use_arrays(first_world(tasks, machine, owner, cores, rules, room))
        self.world.core["now_s"] = at_s
        self._plan_outages(at_s)
        for host in failed:
            self.fail(host)

    def renumber(self, tasks: Tasks, owner: Sequence[int], task_of: Ints, unit_of: Ints) -> None:
        """Go on with more tasks and units; those that were there have new numbers, and what they have to do.

        `owner`: the core of every unit; those of old units stay as they are.
        """
        cores = sorted(self.cores())
        new = first_world(tasks, self.machine, owner, cores, self.rules, None)
        world, ready = renumbered(self.world, new, tasks.edges, task_of, unit_of)
        self.tasks = tasks
        self._use_arrays(world)
        for row, task in ready.tolist():
            self._act(loop.PRESENT, row, task)

    def _use_arrays(self, world: a.World) -> None:
        self.world = world
        self._addresses = memory.addresses(world)

    def _act(self, action: int, first: int = 0, second: int = 0, time_s: float = 0.0) -> int:
        while True:
            why = loop.act(self._addresses, action, first, second, time_s)
            if why != loop.FULL:
                return why
            self._grow()

    def _plan_outages(self, at_s: float) -> None:
        """Put outages on the agenda; links and hosts that are down already, or from now on, are so at once."""
        for number, begin_s, end_s in self.machine.link_outages:
            if begin_s <= at_s < end_s:
                self.world.links["down"][number] += 1
            self._plan(number, begin_s, end_s, at_s)
        for number, begin_s, end_s in self.machine.host_outages:
            if begin_s <= at_s < end_s:
                self.fail(number)
            self._plan(-1 - number, begin_s, end_s, at_s)

    def _plan(self, what: int, begin_s: float, end_s: float, at_s: float) -> None:
        for time_s, down in ((begin_s, 1), (end_s, 0)):
            if at_s < time_s < np.inf:
                self._act(loop.PLAN, what, down, time_s)

    def fail(self, host: int) -> None:
        """Let a host fail now; unless it is down for the time of an outage, it does not return."""
        self._act(loop.FAIL, host, 1)

    @property
    def now_s(self) -> float:
        """The simulated time."""
        return float(self.world.core["now_s"][0])

    @property
    def live(self) -> int:
        """Steps that are not done."""
        return int(self.world.core["live"][0])

    def advance(self, until_s: float, read: Callable[[int, float], tuple[StepInput | None, float]]) -> None:
        """Process everything up to a time; `read` gives the next step of a source, and when to poll it again.

        A source is polled never again if that time is infinite.
        """
        while True:
            if self._act(loop.ADVANCE, time_s=until_s) == loop.REACHED:
                return
            core, asked = self.world.core[0], self.world.turns[: int(self.world.core["turns"][0])].copy()
            core["turns"] = 0
            for task, worker in asked.tolist():
                self._read(task, worker, read)

    def _read(self, task: int, worker: int, read: Callable[[int, float], tuple[StepInput | None, float]]) -> None:
        source = int(self.world.tasks["source"][task])
        step, again_s = read(source, self.now_s)
        if step is None:
            self._act(loop.GIVE_BACK, task, worker)
        else:
            self._feed(step)
            self._act(loop.START_READ, task, worker)
        if again_s == np.inf:
            self.world.sources["ended"][source] = 1
        else:
            self._act(loop.NEXT_POLL, source, time_s=max(again_s, self.now_s))

    def poll(self, source: int, at_s: float) -> None:
        """Poll a source at a time."""
        self._act(loop.NEXT_POLL, source, time_s=at_s)

    def _feed(self, step: StepInput) -> None:
        core = self.world.core[0]
        if core["fed"] - core["base"] >= len(self.world.steps):
            self._make_room()
        row, cells = int(core["fed"] - core["base"]), self.world.cells
        cells["work_s"][row], cells["bytes"][row] = step.work_s, step.bytes
        cells["events"][row], cells["results"][row] = step.events, step.results
        cells["once_s"][row] = 0.0 if step.once_s is None else step.once_s
        cells["varied"][row] = 1.0 if step.varied is None else step.varied
        cells["occasions"][row] = 0 if step.occasions is None else step.occasions
        cells["place"][row] = 0 if step.places is None else step.places
        cells["ends"][row] = 0 if step.ends is None else step.ends
        self.world.steps["arrival_s"][row], self.world.steps["rows"][row] = step.arrival_s, step.rows
        self._act(loop.FEED, step.source)

    def _make_room(self) -> None:
        """Forget the oldest steps if they are done; otherwise make room for twice as many."""
        core, steps, cells = self.world.core[0], self.world.steps, self.world.cells
        used = int(core["fed"] - core["base"])
        open_ = np.flatnonzero(steps["left"][:used] > 0)
        done = int(open_[0]) if len(open_) else used
        if done < used // 2 or not done:
            self._use_arrays(
                self.world._replace(
                    steps=np.concatenate([steps, np.zeros_like(steps)]),
                    cells=np.concatenate([cells, np.zeros_like(cells)]),
                )
            )
            return
        steps[: used - done] = steps[done:used].copy()
        cells[: used - done] = cells[done:used].copy()
        core["base"] += done
        waiting = self.world.tasks["next"] < core["base"]
        self.world.tasks["next"][waiting] = core["base"]

    def _grow(self) -> None:
        """Double the array that is full."""
        names = GROWN[int(self.world.core["full"][0])]
        if "flows" in names:
            self._grow_flows()
        else:
            self._use_arrays(self.world._replace(**{name: _doubled(getattr(self.world, name)) for name in names}))

    def _grow_flows(self) -> None:
        world, size = self.world, len(self.world.flows)
        more = free_flows(size)
        more["free"][:-1] += size
        more["free"][-1] = world.core["free_flow"][0]
        world.core["free_flow"] = size
        none = np.full_like(world.hops, a.NONE)
        hops = {name: np.concatenate([getattr(world, name), none]) for name in ("hops", "after", "before")}
        self._use_arrays(world._replace(flows=np.concatenate([world.flows, more]), **hops))

    def take_results(self) -> NDArray[np.void]:
        """The results since the last call: task, step, number and latency; without those that are still to leave.

        These are of turns that a worker is going on with, see `Rules.by_turn`.
        """
        found, workers, core = self._taken("results"), self.world.workers, self.world.core
        if not core["by_turn"][0]:
            return found
        worker = found["worker"]
        goes_on = (worker >= 0) & (workers["task"][worker] >= 0)
        kept = goes_on & (np.arange(len(found)) >= workers["first_result"][worker])
        held = found[kept]
        self.world.results[: len(held)], core["results"], workers["first_result"] = held, len(held), 0
        return found[~kept]

    def take_moves(self) -> NDArray[np.void]:
        """The moves that ended since the last call."""
        return self._taken("moves")

    def take_trace(self) -> NDArray[np.void]:
        """The turns that have begun since the last call, if the rules say that they are traced."""
        return self._taken("trace")

    def _taken(self, name: str) -> NDArray[np.void]:
        number = int(self.world.core[name][0])
        found: NDArray[np.void] = getattr(self.world, name)[:number].copy()
        self.world.core[name] = 0
        return found

    def worked_s(self) -> Floats:
        """The time that every worker has worked so far, with the turn that it is in."""
        workers = self.world.workers
        running = workers["task"] >= 0
        working: Floats = workers["worked_s"] + np.where(running, np.maximum(self.now_s - workers["began_s"], 0), 0)
        return working

    def owners(self) -> Ints:
        """The worker of every unit."""
        owners: Ints = self.world.units["owner"].copy()
        return owners

    def set_state(self, state_bytes: Floats) -> None:
        """Set the size of the state of the first units."""
        self.world.units["state_bytes"][: len(state_bytes)] = state_bytes

    def move(self, unit: int, worker: int) -> None:
        """Begin to move a unit to another worker."""
        self._act(loop.MOVE, unit, worker)

    def use(self, cores: Sequence[int]) -> None:
        """Switch these cores on, as far as their hosts are there, and all others off."""
        workers, used = self.world.workers, sorted(set(cores))
        workers["in_use"] = 0
        workers["in_use"][used] = 1
        workers["access_s"] = access_seconds(self.machine, used, int(self.world.core["design"][0]))
        up = (workers["in_use"] > 0) & (self.world.hosts["down"][workers["host"]] == 0)
        for worker in np.flatnonzero(up != workers["up"]).tolist():
            self._act(loop.SWITCH, worker, int(up[worker]))

    def cores(self) -> frozenset[int]:
        """The cores in use, those of lost hosts included."""
        return frozenset(np.flatnonzero(self.world.workers["in_use"]).tolist())

    def lost(self) -> frozenset[int]:
        """The cores of hosts that have failed."""
        down = self.world.hosts["down"][self.world.workers["host"]] > 0
        return frozenset(np.flatnonzero(down).tolist())

    @property
    def is_moving(self) -> bool:
        """Whether a unit is on its way, or about to leave."""
        return bool((self.world.units["target"] != a.NONE).any())

    def on_way(self) -> NDArray[np.bool_]:
        """Whether every unit is on its way to another worker; it may be sent back."""
        frozen: NDArray[np.bool_] = self.world.units["frozen"] > 0
        return frozen

    def has_future(self, *, polls: bool = True) -> bool:
        """Whether any event is on the agenda; `polls`: those of sources count."""
        kinds = self.world.agenda_rows[: int(self.world.core["agenda"][0]), 1]
        return bool((kinds != a.POLL).any() or (polls and len(kinds)))

    def set_ranks(self, ranks: Floats) -> None:
        """Set the priorities of tasks, for the order by priority; larger is more urgent."""
        self.world.tasks["rank"] = ranks
        self._act(loop.REORDER)

    def carried(self) -> Floats:
        """The bytes that every link has carried so far, headers included."""
        world, flows = self.world, self.world.flows
        carried: Floats = world.links["carried"].copy()
        under_way = np.flatnonzero(flows["size"] > 0)
        open_ = flows[under_way]
        passed_s = np.where(open_["since_s"] < 0, 0.0, self.now_s - open_["since_s"])
        sent = open_["size"] - np.maximum(0.0, open_["left"] - passed_s * open_["rate"])
        hops = world.hops[under_way]
        np.add.at(carried, hops[hops >= 0], np.broadcast_to(sent[:, None], hops.shape)[hops >= 0])
        return carried


def _doubled(array: NDArray[Any]) -> NDArray[Any]:
    return np.concatenate([array, np.zeros_like(array)])
