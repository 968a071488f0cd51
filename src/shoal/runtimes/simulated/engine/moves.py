"""Moves: units that change their worker with their state, and workers that go and return."""

from typing import Any

from shoal.kernels.compiled import compiled
from shoal.runtimes.simulated.engine import agenda, flows, memory, turns
from shoal.runtimes.simulated.engine.arrays import MOVED, NONE, RUNNING, STATE, WAITING


@compiled
def request(world: Any, unit: int, target: int) -> None:
    """Move a unit to another worker as soon as none of its tasks is at work; a newer target replaces an older one."""
    units = memory.units(world)
    if units[unit].frozen:
        units[unit].target = target
        return
    if units[unit].owner == target:
        units[unit].target = NONE
        return
    units[unit].target = target
    if not units[unit].at_work:
        leave(world, unit)


@compiled
def leave(world: Any, unit: int) -> None:
    """Freeze a unit and send its state; if its host is gone, the state is read elsewhere at the speed of a copy."""
    core, units, workers = memory.core(world)[0], memory.units(world), memory.workers(world)
    here, there = units[unit].owner, units[unit].target
    turns.withdraw(world, unit)
    units[unit].frozen, units[unit].frozen_s = 1, core.now_s
    size, copying_s = units[unit].state_bytes, 0.0
    if workers[here].host != workers[there].host and workers[here].up:
        flows.ship(world, workers[here].host, workers[there].host, size, STATE, unit, there)
        return
    if workers[here].node != workers[there].node:
        copying_s = size * core.copy_byte_s
    agenda.add(world, core.now_s + core.hand_over_s + copying_s, MOVED, unit, there)


@compiled
def leave_if_free(world: Any, unit: int) -> None:
    """Let a unit that has a target leave, unless one of its tasks is at work."""
    unit_ = memory.units(world)[unit]
    if unit_.target != NONE and not unit_.at_work and not unit_.frozen:
        leave(world, unit)


@compiled
def settle(world: Any, unit: int, there: int) -> None:
    """The state of a unit has arrived: its new worker owns it, unless it was sent elsewhere in the meantime."""
    core, units, moves = memory.core(world)[0], memory.units(world), memory.moves(world)
    place = core.moves
    moves[place].unit, moves[place].source, moves[place].target = unit, units[unit].owner, there
    moves[place].bytes = units[unit].state_bytes
    moves[place].frozen_s = core.now_s - units[unit].frozen_s
    core.moves += 1
    units[unit].owner, units[unit].frozen = there, 0
    units[unit].extra_s += core.hand_over_s
    if units[unit].target not in (NONE, there):
        leave(world, unit)
        return
    units[unit].target = NONE
    for place in range(units[unit].start, units[unit].stop):
        turns.offer(world, memory.unit_tasks(world)[place])


@compiled
def switch_worker(world: Any, worker: int, up: int) -> None:
    """Switch a worker on, or off: then its turn is given up, and what waits for it waits until it is moved."""
    core, tasks, units, workers = memory.core(world)[0], memory.tasks(world), memory.units(world), memory.workers(world)
    if workers[worker].up == up:
        return
    workers[worker].up = up
    if up:
        core.idle += 1
        for task in range(len(tasks)):
            if units[tasks[task].unit].owner == worker:
                turns.offer(world, task)
        memory.wakes(world)[core.wakes] = worker
        core.wakes += 1
        return
    task = workers[worker].task
    if task == NONE and not workers[worker].starting:
        core.idle -= 1
    elif task != NONE and tasks[task].status == RUNNING:
        tasks[task].status = WAITING
        units[tasks[task].unit].at_work -= 1
        workers[worker].worked_s += max(0.0, core.now_s - workers[worker].began_s)
        memory.hosts(world)[workers[worker].host].busy -= 1
        memory.hosts(world)[workers[worker].host].active -= 1
    workers[worker].task, workers[worker].version = NONE, workers[worker].version + 1
    memory.hosts(world)[workers[worker].host].active -= workers[worker].starting
    workers[worker].starting = 0
    for unit in range(len(units)):
        if units[unit].owner == worker:
            turns.withdraw(world, unit)
            leave_if_free(world, unit)
    if task != NONE:
        leave_if_free(world, tasks[task].unit)
        turns.offer(world, task)


@compiled
def switch_host(world: Any, host: int, down: int) -> None:
    """Switch all workers of a host off, or those in use on again when it has no more reason to be down."""
    hosts, workers = memory.hosts(world), memory.workers(world)
    hosts[host].down += 1 if down else -1
    for worker in range(hosts[host].first_worker, hosts[host].first_worker + hosts[host].workers):
        switch_worker(world, worker, 0 if hosts[host].down else workers[worker].in_use)
