"""A simulation: the arrays of the core with their owner, which feeds steps, reads results and grows what is full."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from shoal.runtimes.simulated.engine import arrays as a
from shoal.runtimes.simulated.engine import loop, memory
from shoal.runtimes.simulated.machine.machine import Machine

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
NO_LIMIT = 1 << 60
QUEUES = {"worker-queue": a.WORKER_QUEUE, "node-queue": a.NODE_QUEUE, "single-queue": a.SINGLE_QUEUE}
ORDERS = {"event-time": a.EVENT_TIME, "first-come": a.FIRST_COME, "turns": a.TURN_BY_TURN, "priority": a.PRIORITY}


@dataclass(frozen=True, eq=False)
class Tasks:
    """The tasks of a graph: sources first, in the order of streams; units that are bound come before those of sources.

    `edges` has a row (from, to) for every channel. `group`: tasks of one group in a row pay `fixed_s` once per step.
    """

    sources: int
    unit: Ints
    group: Ints
    fixed_s: Floats
    edges: Ints

    @property
    def number(self) -> int:
        """Number of tasks."""
        return len(self.unit)

    @property
    def units(self) -> int:
        """Number of units, with those of sources."""
        return int(self.unit.max()) + 1


@dataclass(frozen=True)
class Rules:
    """How workers share queues and order them, and what accesses, remote memory and moves cost."""

    queues: str = "worker-queue"
    order: str = "event-time"
    turn_steps: int = 1
    most_rows: int = NO_LIMIT
    hand_over_s: float = 1e-5
    copy_byte_s: float = 1e-10


@dataclass(frozen=True, eq=False)
class StepInput:
    """One arrival of events of a source, and what every task does with it; events and results are counts.

    `work_s`: the work of every task but for its fixed part; 0 for a task that has nothing to do.
    """

    source: int
    arrival_s: float
    rows: int
    work_s: Floats
    bytes: Floats
    events: Ints
    results: Ints


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
    ) -> None:
        """At a time, with some cores of a machine; `owner`: the core of every unit, -1 for a source outside of it."""
        self.tasks, self.machine, self.rules = tasks, machine, rules
        self._use_arrays(_world(tasks, machine, owner, cores, rules))
        self.world.core["now_s"] = at_s
        self._in_use = frozenset(cores)
        self._plan_outages(at_s)

    def _use_arrays(self, world: a.World) -> None:
        self.world = world
        self._addresses = memory.addresses(world)

    def _act(self, action: int, first: int = 0, second: int = 0, time_s: float = 0.0) -> int:
        return loop.act(self._addresses, action, first, second, time_s)

    def _plan_outages(self, at_s: float) -> None:
        """Put outages on the agenda; links and hosts that are down already stay so."""
        machine, world = self.machine, self.world
        for number, begin_s, end_s in machine.link_outages:
            world.links["down"][number] += begin_s < at_s < end_s
            self._plan(number, begin_s, end_s, at_s)
        for number, begin_s, end_s in machine.host_outages:
            if begin_s < at_s < end_s:
                world.hosts["down"][number] += 1
                for core in np.flatnonzero(machine.worker_host == number).tolist():
                    self._act(loop.SWITCH, core, 0)
            self._plan(-1 - number, begin_s, end_s, at_s)

    def _plan(self, what: int, begin_s: float, end_s: float, at_s: float) -> None:
        for time_s, down in ((begin_s, 1), (end_s, 0)):
            if at_s <= time_s < np.inf:
                self._act(loop.PLAN, what, down, time_s)

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
            why = self._act(loop.ADVANCE, time_s=until_s)
            if why == loop.REACHED:
                return
            if why == loop.FULL:
                self._grow()
                continue
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
        """Double every array that may be full."""
        world = self.world
        flows, size = world.flows, len(world.flows)
        more = _flows(size)
        more["free"][:-1] += size
        more["free"][-1] = world.core["free_flow"][0]
        world.core["free_flow"] = size
        hops = np.full((size, a.HOPS), a.NONE)
        self._use_arrays(
            world._replace(
                agenda_times=np.concatenate([world.agenda_times, np.zeros_like(world.agenda_times)]),
                agenda_rows=np.concatenate([world.agenda_rows, np.zeros_like(world.agenda_rows)]),
                flows=np.concatenate([flows, more]),
                hops=np.concatenate([world.hops, hops]),
                after=np.concatenate([world.after, hops]),
                before=np.concatenate([world.before, hops]),
                results=np.concatenate([world.results, np.zeros_like(world.results)]),
                moves=np.concatenate([world.moves, np.zeros_like(world.moves)]),
            )
        )

    def take_results(self) -> NDArray[np.void]:
        """The results since the last call: task, step, number and latency."""
        return self._taken("results")

    def take_moves(self) -> NDArray[np.void]:
        """The moves that ended since the last call."""
        return self._taken("moves")

    def _taken(self, name: str) -> NDArray[np.void]:
        number = int(self.world.core[name][0])
        found: NDArray[np.void] = getattr(self.world, name)[:number].copy()
        self.world.core[name] = 0
        return found

    def worked_s(self) -> Floats:
        """The time that every worker has worked so far, with the turn that it is in."""
        workers = self.world.workers
        running = workers["task"] >= 0
        working: Floats = workers["worked_s"] + np.where(running, self.now_s - workers["began_s"], 0.0)
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
        self._in_use = frozenset(cores)
        lost = self.lost()
        for worker in range(len(self.world.workers)):
            self._act(loop.SWITCH, worker, int(worker in self._in_use and worker not in lost))

    def cores(self) -> frozenset[int]:
        """The cores in use, those of lost hosts included."""
        return self._in_use

    def lost(self) -> frozenset[int]:
        """The cores of hosts that have failed."""
        down = self.world.hosts["down"][self.world.workers["host"]] > 0
        return frozenset(np.flatnonzero(down).tolist())

    @property
    def is_moving(self) -> bool:
        """Whether a unit is on its way, or about to leave."""
        return bool((self.world.units["target"] != a.NONE).any())

    @property
    def has_future(self) -> bool:
        """Whether any event is on the agenda."""
        return bool(self.world.core["agenda"][0])

    def set_ranks(self, ranks: Floats) -> None:
        """Set the priorities of tasks, for the order by priority."""
        self.world.tasks["rank"] = ranks


def _csr(first: Ints, second: Ints, number: int) -> tuple[Ints, Ints, Ints]:
    """Start and stop of the seconds of every first, and the seconds in that order."""
    order = np.argsort(first, kind="stable")
    stops = np.cumsum(np.bincount(first, minlength=number))
    return np.concatenate([[0], stops[:-1]]).astype(np.int64), stops.astype(np.int64), second[order]


def _flows(size: int) -> NDArray[np.void]:
    flows = np.zeros(size, a.FLOW_STATE)
    flows["free"] = np.arange(1, size + 1)
    flows["free"][-1] = a.NONE
    return flows


def _world(tasks: Tasks, machine: Machine, owner: Sequence[int], in_use: Sequence[int], rules: Rules) -> a.World:
    number, cores, workers = tasks.number, machine.workers, len(in_use)
    records = np.zeros(number, a.TASK)
    records["unit"], records["group"], records["fixed_s"] = tasks.unit, tasks.group, tasks.fixed_s
    records["source"] = np.where(np.arange(number) < tasks.sources, np.arange(number), a.NONE)
    records["out_start"], records["out_stop"], outputs = _csr(tasks.edges[:, 0], tasks.edges[:, 1], number)
    records["in_start"], records["in_stop"], inputs = _csr(tasks.edges[:, 1], tasks.edges[:, 0], number)
    records["last_node"] = records["child"] = records["sibling"] = a.NONE
    units = np.zeros(tasks.units, a.UNIT)
    units["start"], units["stop"], unit_tasks = _csr(tasks.unit, np.arange(number), tasks.units)
    units["owner"], units["target"] = np.asarray(owner), a.NONE
    sources = np.zeros(tasks.sources, a.SOURCE)
    sources["task"] = np.arange(tasks.sources)
    hops = np.full((1024, a.HOPS), a.NONE)
    design = QUEUES[rules.queues]
    nodes = machine.topology.nodes
    queues = {a.WORKER_QUEUE: cores, a.NODE_QUEUE: nodes, a.SINGLE_QUEUE: 1}[design]
    core = np.zeros(1, a.CORE)
    core["remote_byte_s"], core["hand_over_s"] = machine.remote_byte_s, rules.hand_over_s
    core["copy_byte_s"], core["most_rows"] = rules.copy_byte_s, rules.most_rows
    core["design"], core["order"], core["turn_steps"] = design, ORDERS[rules.order], rules.turn_steps
    core["idle"] = workers
    return a.World(
        core=core,
        tasks=records,
        units=units,
        unit_tasks=unit_tasks,
        workers=_workers(machine, in_use, design),
        hosts=_hosts(machine),
        node_host=machine.node_host.copy(),
        sources=sources,
        outputs=outputs,
        inputs=inputs,
        steps=np.zeros(64, a.STEP),
        cells=np.zeros((64, number), a.CELL),
        queues=_queues(queues),
        agenda_times=np.zeros(4 * number + 4 * cores + 4096),
        agenda_rows=np.zeros((4 * number + 4 * cores + 4096, 4), np.int64),
        links=_links(machine),
        dirty=np.zeros(max(1, len(machine.link_bytes_per_s)), np.int64),
        flows=_flows(1024),
        hops=hops,
        after=hops.copy(),
        before=hops.copy(),
        route_start=machine.routes.start.copy(),
        route_link=machine.routes.link.copy(),
        crowd=np.array(machine.slowdown),
        results=np.zeros(4 * number + 1024, a.RESULT),
        moves=np.zeros(1024, a.MOVE),
        turns=np.zeros(tasks.sources + 1, a.TURN),
        wakes=np.zeros(8 * number + 8 * cores + 64, np.int64),
    )


def _queues(number: int) -> NDArray[np.void]:
    records = np.zeros(number, a.QUEUE)
    records["root"] = a.NONE
    return records


def _workers(machine: Machine, in_use: Sequence[int], design: int) -> NDArray[np.void]:
    records = np.zeros(machine.workers, a.WORKER)
    records["host"], records["node"] = machine.worker_host, machine.worker_node
    records["task"], records["last_group"], records["last_step"] = a.NONE, a.NONE, a.NONE
    records["up"][list(in_use)] = 1
    sharing = {
        a.WORKER_QUEUE: np.ones(machine.workers, np.int64),
        a.NODE_QUEUE: np.bincount(machine.worker_node[list(in_use)], minlength=machine.topology.nodes)[
            machine.worker_node
        ],
        a.SINGLE_QUEUE: np.full(machine.workers, len(in_use)),
    }[design]
    records["access_s"] = machine.queue_costs(machine.workers)[np.maximum(sharing, 1) - 1]
    if design == a.SINGLE_QUEUE and len(np.unique(machine.worker_node[list(in_use)])) > 1:
        records["access_s"] += machine.remote_queue_s
    return records


def _hosts(machine: Machine) -> NDArray[np.void]:
    records = np.zeros(len(machine.hosts), a.HOST_STATE)
    records["speed"] = machine.host_speed
    if machine.routes.is_star:
        records["up_link"], records["down_link"] = machine.routes.uplink, machine.routes.downlink
    return records


def _links(machine: Machine) -> NDArray[np.void]:
    records = np.zeros(len(machine.link_bytes_per_s), a.LINK_STATE)
    records["bytes_per_s"], records["latency_s"] = machine.link_bytes_per_s, machine.link_latency_s
    records["segment"], records["overhead"], records["head"] = machine.link_segment, machine.link_overhead, a.NONE
    return records
