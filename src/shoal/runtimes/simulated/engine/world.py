"""The arrays of a simulation as it begins: tasks, units, workers, queues and links of a machine."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from shoal.runtimes.simulated.engine import arrays as a
from shoal.runtimes.simulated.engine.turn_time import BITS
from shoal.runtimes.simulated.machine.machine import Machine

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
NO_LIMIT = 1 << 60
JUST_LATER_S = 1e-12
"""What one place in the order of tasks counts for by event time."""
SEED_STRIDE, WORKER_STRIDE = 15_485_863, 104_729
"""Primes that keep the random numbers of workers and runs apart."""
QUEUES = {"worker-queue": a.WORKER_QUEUE, "node-queue": a.NODE_QUEUE, "single-queue": a.SINGLE_QUEUE}
ORDERS = {"event-time": a.EVENT_TIME, "first-come": a.FIRST_COME, "turns": a.TURN_BY_TURN, "priority": a.PRIORITY}


@dataclass(frozen=True, eq=False)
class Tasks:
    """The tasks of a graph: sources first, in the order of streams; units that are bound come before those of sources.

    `edges` has a row (from, to) for every channel. `group`: tasks of one group in a row pay `fixed_s` once per step.
    `order`: of tasks that are equally old by event time, those with the smallest come first.
    """

    sources: int
    unit: Ints
    group: Ints
    fixed_s: Floats
    edges: Ints
    order: Ints | None = None

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
    """How workers share queues and order them, and what accesses, remote memory and moves cost.

    `by_turn`: turns of one group and step that follow each other on a worker are one, as those of the instances of a
    lane are on the local runtime: results count from the oldest step of a task's turn, and leave when the last task is
    done. Otherwise each counts from its own step, and leaves with its task. `traced`: turns are recorded, see
    `Simulation.take_trace`. `seed`: of the waits of workers that are drawn.
    """

    queues: str = "worker-queue"
    order: str = "event-time"
    turn_steps: int = 1
    most_rows: int = NO_LIMIT
    hand_over_s: float = 1e-5
    copy_byte_s: float = 1e-10
    by_turn: bool = False
    traced: bool = False
    seed: int = 0


def _csr(first: Ints, second: Ints, number: int) -> tuple[Ints, Ints, Ints]:
    """Start and stop of the seconds of every first, and the seconds in that order."""
    order = np.argsort(first, kind="stable")
    stops = np.cumsum(np.bincount(first, minlength=number))
    return np.concatenate([[0], stops[:-1]]).astype(np.int64), stops.astype(np.int64), second[order]


def free_flows(size: int) -> NDArray[np.void]:
    """Places for flows, all of them free."""
    flows = np.zeros(size, a.FLOW_STATE)
    flows["free"] = np.arange(1, size + 1)
    flows["free"][-1] = a.NONE
    return flows


def first_world(
    tasks: Tasks, machine: Machine, owner: Sequence[int], in_use: Sequence[int], rules: Rules, room: int | None
) -> a.World:
    """The arrays; `room` is the first size of those that grow."""
    number, cores, workers = tasks.number, machine.workers, len(in_use)
    many, some, few = (4 * number + 4 * cores + 4096, 1024, 64) if room is None else (room, room, room)
    records = np.zeros(number, a.TASK)
    records["unit"], records["group"], records["fixed_s"] = tasks.unit, tasks.group, tasks.fixed_s
    records["later_s"] = 0.0 if tasks.order is None else JUST_LATER_S * tasks.order
    records["source"] = np.where(np.arange(number) < tasks.sources, np.arange(number), a.NONE)
    records["out_start"], records["out_stop"], outputs = _csr(tasks.edges[:, 0], tasks.edges[:, 1], number)
    records["in_start"], records["in_stop"], inputs = _csr(tasks.edges[:, 1], tasks.edges[:, 0], number)
    records["last_node"] = records["child"] = records["sibling"] = records["before"] = a.NONE
    units = np.zeros(tasks.units, a.UNIT)
    units["start"], units["stop"], unit_tasks = _csr(tasks.unit, np.arange(number), tasks.units)
    units["owner"], units["target"] = np.asarray(owner), a.NONE
    sources = np.zeros(tasks.sources, a.SOURCE)
    sources["task"] = np.arange(tasks.sources)
    design = QUEUES[rules.queues]
    nodes = machine.topology.nodes
    queues = {a.WORKER_QUEUE: cores, a.NODE_QUEUE: nodes, a.SINGLE_QUEUE: 1}[design]
    core = np.zeros(1, a.CORE)
    core["remote_byte_s"], core["hand_over_s"] = machine.remote_byte_s, rules.hand_over_s
    core["copy_byte_s"], core["most_rows"] = rules.copy_byte_s, rules.most_rows
    core["design"], core["order"], core["turn_steps"] = design, ORDERS[rules.order], rules.turn_steps
    core["idle"], core["by_turn"], core["traces"] = workers, rules.by_turn, rules.traced
    core["long_s"] = machine.long_s
    core["hops"] = 2 if machine.routes.is_star else max(1, int(np.diff(machine.routes.start).max(initial=0)))
    hops = np.full((some, int(core["hops"][0])), a.NONE)
    return a.World(
        core=core,
        tasks=records,
        units=units,
        unit_tasks=unit_tasks,
        workers=_workers(machine, in_use, design, rules.seed),
        hosts=_hosts(machine),
        node_host=machine.node_host.copy(),
        sources=sources,
        outputs=outputs,
        inputs=inputs,
        steps=np.zeros(few, a.STEP),
        cells=np.zeros((few, number), a.CELL),
        queues=_queues(queues),
        agenda_times=np.zeros(many),
        agenda_rows=np.zeros((many, 4), np.int64),
        links=_links(machine),
        dirty=np.zeros(max(1, len(machine.link_bytes_per_s)), np.int64),
        flows=free_flows(some),
        hops=hops,
        after=hops.copy(),
        before=hops.copy(),
        route_start=machine.routes.start.copy(),
        route_link=machine.routes.link.copy(),
        crowd=np.array(machine.slowdown),
        results=np.zeros(many, a.RESULT),
        moves=np.zeros(some, a.MOVE),
        turns=np.zeros(tasks.sources + 1, a.TURN),
        wakes=np.zeros(many, np.int64),
        turn_crowd=np.array(machine.turn_slowdown or machine.slowdown),
        wake_ups=machine.waits(machine.wake_ups).reshape(-1),
        trace=np.zeros(many if rules.traced else 1, a.TRACED),
        long_crowd=np.array(machine.long_slowdown or machine.slowdown),
        pauses=machine.waits(machine.pauses).reshape(-1),
    )


def _queues(number: int) -> NDArray[np.void]:
    records = np.zeros(number, a.QUEUE)
    records["root"] = a.NONE
    return records


def _workers(machine: Machine, in_use: Sequence[int], design: int, seed: int) -> NDArray[np.void]:
    records = np.zeros(machine.workers, a.WORKER)
    records["host"], records["node"] = machine.worker_host, machine.worker_node
    records["task"], records["last_group"], records["last_step"] = a.NONE, a.NONE, a.NONE
    records["up"][list(in_use)] = records["in_use"][list(in_use)] = 1
    records["access_s"] = access_seconds(machine, in_use, design)
    records["draws"] = (seed * SEED_STRIDE + np.arange(machine.workers) * WORKER_STRIDE + 1) & BITS
    return records


def access_seconds(machine: Machine, in_use: Sequence[int], design: int) -> Floats:
    """What an access to its queue takes every worker, by the number of workers in use that share it."""
    nodes = machine.worker_node[list(in_use)]
    if design == a.NODE_QUEUE:
        sharing = np.bincount(nodes, minlength=machine.topology.nodes)[machine.worker_node]
    else:
        sharing = np.full(machine.workers, len(in_use) if design == a.SINGLE_QUEUE else 1)
    access_s = machine.queue_costs(machine.workers)[np.maximum(sharing, 1) - 1]
    if design == a.SINGLE_QUEUE and len(np.unique(nodes)) > 1:
        access_s += machine.remote_queue_s
    return access_s


def _hosts(machine: Machine) -> NDArray[np.void]:
    records = np.zeros(len(machine.hosts), a.HOST_STATE)
    records["speed"] = machine.host_speed
    for kind, of in (("worker", machine.worker_host), ("node", machine.node_host)):
        number = np.bincount(of, minlength=len(records))
        records[f"first_{kind}"], records[f"{kind}s"] = np.cumsum(number) - number, number
    if machine.routes.is_star:
        records["up_link"], records["down_link"] = machine.routes.uplink, machine.routes.downlink
    return records


def _links(machine: Machine) -> NDArray[np.void]:
    records = np.zeros(len(machine.link_bytes_per_s), a.LINK_STATE)
    records["bytes_per_s"], records["latency_s"] = machine.link_bytes_per_s, machine.link_latency_s
    records["segment"], records["overhead"], records["head"] = machine.link_segment, machine.link_overhead, a.NONE
    return records
