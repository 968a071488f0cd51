"""Turns: how a task becomes ready, waits in a queue, runs on a worker, and hands on what it has done."""

import math
from typing import Any

from shoal.kernels.compiled import compiled
from shoal.runtimes.simulated.engine import agenda, flows, memory, queues, turn_time
from shoal.runtimes.simulated.engine.arrays import (
    DONE,
    EVENT_TIME,
    FINISH,
    FIRST_COME,
    INPUT,
    NODE_QUEUE,
    NONE,
    POLL,
    PRIORITY,
    QUEUED,
    RUNNING,
    START,
    TURN_BY_TURN,
    WAITING,
    WORKER_QUEUE,
)

SOURCES_LAST = 1e12
"""Added to the keys of sources, so that they come after all other tasks."""


@compiled
def skip(world: Any, task: int) -> None:
    """Go past the steps in which a task has nothing to do."""
    core, cells = memory.core(world)[0], memory.cells(world)
    step = memory.tasks(world)[task].next
    while step < core.fed and cells[step - core.base, task].missing < 0:
        step += 1
    memory.tasks(world)[task].next = step


@compiled
def offer(world: Any, task: int) -> None:
    """Put a task into the queue of its unit's worker if it is ready."""
    core, tasks, units = memory.core(world)[0], memory.tasks(world), memory.units(world)
    unit = tasks[task].unit
    owner, place = units[unit].owner, 0
    if tasks[task].status != WAITING or units[unit].frozen or owner < 0 or not memory.workers(world)[owner].up:
        return
    if tasks[task].source >= 0:
        if not memory.sources(world)[tasks[task].source].due and not has_step(world, task):
            return
        key = SOURCES_LAST + tasks[task].last_run_s
    else:
        skip(world, task)
        step = tasks[task].next
        if step >= core.fed or memory.cells(world)[step - core.base, task].missing != 0:
            return
        if core.order == EVENT_TIME:
            key = memory.steps(world)[step - core.base].arrival_s + tasks[task].later_s
            place = memory.cells(world)[step - core.base, task].place
        elif core.order == FIRST_COME:
            key = core.now_s
        elif core.order == TURN_BY_TURN:
            key = tasks[task].last_run_s
        else:
            key = -tasks[task].rank
    tasks[task].status = QUEUED
    queues.push(world, queues.queue_of(world, owner), task, key, place)
    memory.wakes(world)[core.wakes] = owner
    core.wakes += 1


@compiled
def has_step(world: Any, task: int) -> bool:
    """Whether a source has a step that was read, and whose turn was given up with a worker."""
    core = memory.core(world)[0]
    skip(world, task)
    step = memory.tasks(world)[task].next
    return step < core.fed and memory.cells(world)[step - core.base, task].missing == 0


@compiled
def withdraw(world: Any, unit: int) -> None:
    """Take the tasks of a unit out of the queue of its worker."""
    units, tasks = memory.units(world), memory.tasks(world)
    for place in range(units[unit].start, units[unit].stop):
        task = memory.unit_tasks(world)[place]
        if tasks[task].status == QUEUED:
            queues.remove(world, queues.queue_of(world, units[unit].owner), task)
            tasks[task].status = WAITING


@compiled
def reorder(world: Any) -> None:
    """Order the tasks that wait by their present priorities; of equal ones, those that came first stay first."""
    core, tasks, units = memory.core(world)[0], memory.tasks(world), memory.units(world)
    for task in range(len(tasks)):
        if core.order == PRIORITY and tasks[task].status == QUEUED and tasks[task].source < 0:
            queue, number = queues.queue_of(world, units[tasks[task].unit].owner), tasks[task].number
            queues.remove(world, queue, task)
            queues.put(world, queue, task, -tasks[task].rank, 0, number)


@compiled
def serve(world: Any) -> None:
    """Give work to idle workers, in the order in which it came for them."""
    core, workers = memory.core(world)[0], memory.workers(world)
    place = 0
    while place < core.wakes:
        owner = memory.wakes(world)[place]
        place += 1
        if workers[owner].up and workers[owner].task == NONE and not workers[owner].starting:
            _start(world, owner)
        elif core.idle and core.design != WORKER_QUEUE:
            helper = _idle(world, owner)
            if helper != NONE:
                _start(world, helper)
    core.wakes = 0


@compiled
def _start(world: Any, worker: int) -> None:
    """Let an idle worker take a task, if there is one, when it has woken up or decided."""
    core, first = memory.core(world)[0], _first(world, worker)
    if first == NONE:
        return
    skip(world, first)
    start_s = turn_time.start_s(world, worker, first)
    if start_s <= 0:
        _take(world, worker)
        return
    memory.workers(world)[worker].starting = 1
    memory.hosts(world)[memory.workers(world)[worker].host].active += 1
    core.idle -= 1
    agenda.add(world, core.now_s + start_s, START, worker, memory.workers(world)[worker].version)


@compiled
def started(world: Any, worker: int) -> None:
    """Let a worker that was starting take a task; it is idle again if there is none any more."""
    memory.workers(world)[worker].starting = 0
    memory.hosts(world)[memory.workers(world)[worker].host].active -= 1
    memory.core(world)[0].idle += 1
    _take(world, worker)


@compiled
def _first(world: Any, worker: int) -> int:
    """The task that an idle worker would look at first; -1 if none waits."""
    host, own = memory.hosts(world)[memory.workers(world)[worker].host], queues.queue_of(world, worker)
    most = host.nodes if memory.core(world)[0].design == NODE_QUEUE else 1
    for turn in range(most):
        queue = own if turn == 0 else host.first_node + (own - host.first_node + turn) % host.nodes
        if memory.queues(world)[queue].root != NONE:
            return int(memory.queues(world)[queue].root)
    return NONE


@compiled
def _idle(world: Any, owner: int) -> int:
    """An idle worker of the same memory node, else of another one of the same host; -1 if there is none."""
    workers, other = memory.workers(world), NONE
    host = memory.hosts(world)[workers[owner].host]
    for worker in range(host.first_worker, host.first_worker + host.workers):
        if workers[worker].task == NONE and workers[worker].up and not workers[worker].starting:
            if workers[worker].node == workers[owner].node:
                return worker
            if other == NONE:
                other = worker
    return other


@compiled
def _take(world: Any, worker: int) -> None:
    """Give an idle worker the first task of its queue; with a queue per memory node, else of the host's others."""
    core, tasks, sources = memory.core(world)[0], memory.tasks(world), memory.sources(world)
    host, own = memory.hosts(world)[memory.workers(world)[worker].host], queues.queue_of(world, worker)
    turn, most = 0, host.nodes if core.design == NODE_QUEUE else 1
    while turn < most:
        queue = own if turn == 0 else host.first_node + (own - host.first_node + turn) % host.nodes
        task = queues.pop(world, queue)
        if task == NONE:
            turn += 1
            continue
        source = tasks[task].source
        tasks[task].status = WAITING
        if source < 0 or has_step(world, task):
            begin(world, worker, task)
            return
        if not sources[source].ended:
            if core.in_flight < core.most_rows:
                _reserve(world, worker, task)
                return
            sources[source].blocked = 1


@compiled
def _reserve(world: Any, worker: int, task: int) -> None:
    """Keep a worker for a source until the next step of that has been read."""
    core = memory.core(world)[0]
    memory.tasks(world)[task].status = RUNNING
    memory.sources(world)[memory.tasks(world)[task].source].due = 0
    memory.workers(world)[worker].task = task
    core.idle -= 1
    memory.turns(world)[core.turns].task, memory.turns(world)[core.turns].worker = task, worker
    core.turns += 1


@compiled
def begin(world: Any, worker: int, task: int) -> None:
    """Start the turn of a task: as many steps as are ready, up to the limit of a turn or one that ends it."""
    core, tasks, units, cells = memory.core(world)[0], memory.tasks(world), memory.units(world), memory.cells(world)
    workers, hosts = memory.workers(world), memory.hosts(world)
    unit, node, host = tasks[task].unit, workers[worker].node, workers[worker].host
    first = tasks[task].next
    end, taken, work_s, once_s, size, remote, varied = first, 0, 0.0, 0.0, 0.0, 0.0, 0.0
    while end < core.fed and taken < core.turn_steps:
        row = end - core.base
        missing = cells[row, task].missing
        if missing > 0:
            break
        if missing == 0:
            work_s += cells[row, task].work_s
            once_s = max(once_s, cells[row, task].once_s)
            varied = turn_time.varied_by(varied, cells[row, task].varied)
            size += cells[row, task].bytes
            remote += turn_time.remote_bytes(world, row, task, node)
            taken += core.turn_steps if cells[row, task].ends else 1
        end += 1
    last, node_host = tasks[task].last_node, memory.node_host(world)
    if last >= 0 and last != node and node_host[last] == node_host[node]:  # between hosts the state was sent
        remote += min(size, units[unit].state_bytes)
    core.remote_bytes += remote
    work_s += once_s + remote * core.remote_byte_s + units[unit].extra_s
    workers[worker].moving_s = units[unit].extra_s / hosts[host].speed
    units[unit].extra_s = 0.0
    turn_time.begin_part(world, worker, task)
    took_s = turn_time.slowed_s(world, worker, task, work_s, abs(varied)) / hosts[host].speed
    took_s += turn_time.access_s(world, worker)
    if core.traces and varied >= 0.0:  # no results come by a turn that brings only a watermark
        turn_time.trace(world, worker, task, work_s / hosts[host].speed, took_s)
    tasks[task].status, tasks[task].end, tasks[task].last_node = RUNNING, end, node
    units[unit].at_work += 1
    if workers[worker].task == NONE:
        core.idle -= 1
    hosts[host].busy += 1
    hosts[host].active += 1
    workers[worker].task, workers[worker].last_group, workers[worker].last_step = task, tasks[task].group, first
    workers[worker].began_s = core.now_s
    agenda.add(world, core.now_s + took_s, FINISH, worker, workers[worker].version)


@compiled
def release(world: Any, worker: int) -> None:
    """Make a worker idle, and let it look for work."""
    core = memory.core(world)[0]
    memory.workers(world)[worker].task, memory.workers(world)[worker].free_s = NONE, core.now_s
    if memory.workers(world)[worker].up:
        core.idle += 1
        memory.wakes(world)[core.wakes] = worker
        core.wakes += 1


@compiled
def close(world: Any, worker: int) -> int:
    """End the turn of a worker and hand on what its task has done; returns the task."""
    core, tasks, workers = memory.core(world)[0], memory.tasks(world), memory.workers(world)
    task = workers[worker].task
    took_s = core.now_s - workers[worker].began_s
    workers[worker].worked_s += took_s
    core.moving_s += min(took_s, workers[worker].moving_s)
    tasks[task].busy_s += took_s
    tasks[task].last_run_s = core.now_s
    memory.hosts(world)[workers[worker].host].busy -= 1
    memory.hosts(world)[workers[worker].host].active -= 1
    first, end = tasks[task].next, tasks[task].end
    tasks[task].next, tasks[task].status = end, WAITING
    memory.units(world)[tasks[task].unit].at_work -= 1
    release(world, worker)
    oldest_s = _oldest_s(world, task, first, end)
    for step in range(first, end):
        complete(world, step, task, worker, oldest_s)
    if core.by_turn:
        _leave_together(world, worker)
    return task


@compiled
def _oldest_s(world: Any, task: int, first: int, end: int) -> float:
    """The earliest arrival among the steps of a turn."""
    core, cells, steps, oldest_s = memory.core(world)[0], memory.cells(world), memory.steps(world), math.inf
    for row in range(first - core.base, end - core.base):
        if cells[row, task].missing == 0:
            oldest_s = min(oldest_s, steps[row].arrival_s)
    return oldest_s


@compiled
def complete(world: Any, step: int, task: int, worker: int, oldest_s: float) -> None:
    """Mark a task of a step as done, and hand its output on; `oldest_s`: the first arrival of the steps of its turn."""
    core, tasks, cells, steps = memory.core(world)[0], memory.tasks(world), memory.cells(world), memory.steps(world)
    row = step - core.base
    if cells[row, task].missing != 0:
        return
    cells[row, task].missing, cells[row, task].ran_on = DONE, worker
    tasks[task].processed += cells[row, task].events
    tasks[task].occasions += cells[row, task].occasions
    if cells[row, task].results > 0:
        tasks[task].results += cells[row, task].results
        _record(world, row, task, worker, oldest_s if core.by_turn else steps[row].arrival_s)
    for place in range(tasks[task].out_start, tasks[task].out_stop):
        target = memory.outputs(world)[place]
        if cells[row, target].missing > 0:
            _send(world, row, target, worker)
    if tasks[task].source >= 0:
        for target in range(len(tasks)):
            if cells[row, target].implied and cells[row, target].missing > 0:
                arrived(world, row, target)
    steps[row].left -= 1
    if steps[row].left == 0:
        core.in_flight -= steps[row].rows
        core.live -= 1
        _unblock(world)


@compiled
def _record(world: Any, row: int, task: int, worker: int, since_s: float) -> None:
    """Write down how long results took."""
    core, results = memory.core(world)[0], memory.results(world)
    place = core.results
    results[place].task, results[place].step, results[place].worker = task, row + core.base, worker
    results[place].results = memory.cells(world)[row, task].results
    results[place].others = 0 if worker < 0 else memory.hosts(world)[memory.workers(world)[worker].host].busy
    results[place].at_s, results[place].latency_s = core.now_s, core.now_s - since_s
    core.results += 1


@compiled
def _leave_together(world: Any, worker: int) -> None:
    """Let the results of the tasks before this one leave now, too, if they were of its group and step."""
    core, results = memory.core(world)[0], memory.results(world)
    for place in range(memory.workers(world)[worker].first_result, core.results):
        if results[place].worker == worker:
            results[place].latency_s += core.now_s - results[place].at_s
            results[place].at_s = core.now_s


@compiled
def _unblock(world: Any) -> None:
    """Offer sources that waited for room."""
    core, sources = memory.core(world)[0], memory.sources(world)
    for source in range(len(sources)):
        if sources[source].blocked and not sources[source].ended and core.in_flight < core.most_rows:
            sources[source].blocked = 0
            task = sources[source].task
            if memory.units(world)[memory.tasks(world)[task].unit].owner >= 0:
                offer(world, task)
            elif not sources[source].polled:  # outside of the machine
                sources[source].polled = 1
                agenda.add(world, core.now_s, POLL, source, 0)


@compiled
def _send(world: Any, row: int, target: int, worker: int) -> None:
    """Send output to a task: at once on the same host, else over the network."""
    tasks, workers = memory.tasks(world), memory.workers(world)
    owner = memory.units(world)[tasks[target].unit].owner
    if worker < 0 or owner < 0 or workers[worker].host == workers[owner].host:
        arrived(world, row, target)
        return
    size = memory.cells(world)[row, target].bytes / max(1, tasks[target].in_stop - tasks[target].in_start)
    flows.ship(world, workers[worker].host, workers[owner].host, size, INPUT, row + memory.core(world)[0].base, target)


@compiled
def arrived(world: Any, row: int, task: int) -> None:
    """Count an input of a task in a step as present; offer the task if it was the last."""
    cells, tasks = memory.cells(world), memory.tasks(world)
    cells[row, task].missing -= 1
    if cells[row, task].missing == 0:
        tasks[task].received += cells[row, task].events
        offer(world, task)
