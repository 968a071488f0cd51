"""The loop: takes events from the agenda until a time, until a source has to be read, or until an array is full."""

from typing import Any

from shoal.kernels.compiled import compiled
from shoal.runtimes.simulated.engine import agenda, flows, memory, moves, turns
from shoal.runtimes.simulated.engine.arrays import (
    AGENDA,
    ARRIVE,
    FINISH,
    FLOW,
    FLOWS,
    HOST,
    INACTIVE,
    INPUT,
    LINK,
    MOVED,
    MOVES,
    NONE,
    POLL,
    RESULTS,
    RUNNING,
    START,
    STATE,
    TRACE,
    WAITING,
    WAKES,
)

REACHED, READ, FULL = range(3)
"""Why the loop returned: the time is reached, a source has to be read, an array has to grow."""
ADVANCE, FEED, START_READ, GIVE_BACK, NEXT_POLL, MOVE, SWITCH, PLAN, FAIL, REORDER, PRESENT = range(11)
"""What the core can be asked to do."""


@compiled
def act(world: Any, action: int, first: int, second: int, time_s: float) -> int:
    """Do one thing with the world at these addresses; the only function that is called from outside.

    If it returns `FULL`, nothing was done but for a part of `ADVANCE`, and it has to be called again.
    """
    if action == ADVANCE:
        return _advance(world, time_s)
    if _is_full(world, len(memory.tasks(world)) + 2):
        return FULL
    if action == FEED:
        _feed(world, first)
    elif action == START_READ:
        _start_read(world, first, second)
    elif action == GIVE_BACK:
        _give_back(world, first, second)
    elif action == NEXT_POLL:
        _next_poll(world, first, time_s)
    elif action == MOVE:
        moves.request(world, first, second)
    elif action == SWITCH:
        moves.switch_worker(world, first, second)
    elif action == FAIL:
        moves.switch_host(world, first, second)
    elif action == REORDER:
        turns.reorder(world)
    elif action == PRESENT:
        turns.arrived(world, first, second)
    else:
        agenda.add(world, time_s, HOST if first < 0 else LINK, -1 - first if first < 0 else first, second)
    return REACHED


@compiled
def _advance(world: Any, until_s: float) -> int:
    """Process all events up to a time."""
    core, times, rows = memory.core(world)[0], memory.agenda_times(world), memory.agenda_rows(world)
    while True:
        if core.wakes:
            turns.serve(world)
        if core.dirty:
            flows.settle(world)
        if core.turns:
            return READ
        if not core.agenda or times[0] > until_s:
            core.now_s = until_s
            return REACHED
        if _is_full(world, _most_added(world, rows[0, 1], rows[0, 2])):
            return FULL
        core.now_s = times[0]
        kind, first, second = rows[0, 1], rows[0, 2], rows[0, 3]
        agenda.remove_first(world)
        _handle(world, kind, first, second)


@compiled
def _handle(world: Any, kind: int, first: int, second: int) -> None:
    core = memory.core(world)[0]
    if kind == FINISH:
        if memory.workers(world)[first].version == second:
            _finish(world, first)
    elif kind == START:
        if memory.workers(world)[first].version == second:
            turns.started(world, first)
    elif kind == POLL:
        _poll(world, first)
    elif kind == FLOW:
        if memory.flows(world)[first].version == second:
            flows.end(world, first)
            agenda.add(world, core.now_s + memory.flows(world)[first].latency_s, ARRIVE, first, 0)
    elif kind == ARRIVE:
        _arrive(world, first)
    elif kind == MOVED:
        moves.settle(world, first, second)
    elif kind == LINK:
        flows.switch(world, first, second)
    else:
        moves.switch_host(world, first, second)


@compiled
def _most_added(world: Any, kind: int, worker: int) -> int:
    """How many flows or events an event may add: one per task, or all outputs of all steps of a turn that ends."""
    most = len(memory.tasks(world)) + 2
    if kind == FINISH and len(memory.links(world)) and memory.workers(world)[worker].task != NONE:
        task = memory.tasks(world)[memory.workers(world)[worker].task]
        most += max(0, task.end - task.next) * (task.out_stop - task.out_start)
    return most


@compiled
def _is_full(world: Any, most: int) -> bool:
    """Whether the next event might not find room for what it adds, at most so many flows or events; notes where."""
    core, tasks, workers = memory.core(world)[0], len(memory.tasks(world)), len(memory.workers(world))
    if core.agenda + 2 * (core.flows + most) + workers > len(memory.agenda_times(world)):
        core.full = AGENDA
    elif len(memory.links(world)) and core.flows + most > len(memory.flows(world)):
        core.full = FLOWS
    elif core.wakes + tasks + workers + 2 > len(memory.wakes(world)):
        core.full = WAKES
    elif core.results + core.turn_steps + 1 > len(memory.results(world)):
        core.full = RESULTS
    elif core.moves + 1 > len(memory.moves(world)):
        core.full = MOVES
    elif core.traces and core.trace + workers + 1 > len(memory.trace(world)):
        core.full = TRACE
    else:
        return False
    return True


@compiled
def _finish(world: Any, worker: int) -> None:
    """End a turn; then its unit may have to leave, or its task has more to do."""
    task = turns.close(world, worker)
    unit = memory.tasks(world)[task].unit
    moves.leave_if_free(world, unit)
    turns.offer(world, task)


@compiled
def _poll(world: Any, source: int) -> None:
    """The time of a source's next poll has come."""
    core, sources = memory.core(world)[0], memory.sources(world)
    sources[source].polled = 0
    task = sources[source].task
    if sources[source].ended:
        return
    if memory.units(world)[memory.tasks(world)[task].unit].owner >= 0:
        sources[source].due = 1
        turns.offer(world, task)
    elif core.in_flight >= core.most_rows:
        sources[source].blocked = 1
    else:
        memory.tasks(world)[task].status = RUNNING
        memory.turns(world)[core.turns].task, memory.turns(world)[core.turns].worker = task, NONE
        core.turns += 1


@compiled
def _arrive(world: Any, flow: int) -> None:
    """Bytes have arrived at a host; if the unit they are for is elsewhere by now, they go on."""
    core, tasks, workers = memory.core(world)[0], memory.tasks(world), memory.workers(world)
    what, first, second = (
        memory.flows(world)[flow].what,
        memory.flows(world)[flow].first,
        memory.flows(world)[flow].second,
    )
    host = memory.flows(world)[flow].target
    flows.forget(world, flow)
    if what == STATE:
        moves.settle(world, first, second)
        return
    owner, row = memory.units(world)[tasks[second].unit].owner, first - core.base
    if workers[owner].host == host:
        turns.arrived(world, row, second)
    else:
        size = memory.cells(world)[row, second].bytes / max(1, tasks[second].in_stop - tasks[second].in_start)
        flows.ship(world, host, workers[owner].host, size, INPUT, first, second)


@compiled
def _feed(world: Any, source: int) -> None:
    """Open the newest step, whose cells are filled: count the inputs that each of its tasks waits for.

    A task without an input in this step waits for the source.
    """
    core, tasks, cells = memory.core(world)[0], memory.tasks(world), memory.cells(world)
    row, origin = core.fed - core.base, memory.sources(world)[source].task
    for task in range(len(tasks)):
        cell = cells[row, task]
        active = cell.work_s > 0 or cell.results > 0
        cell.missing = 0 if task == origin else 1 if active and tasks[task].source < 0 else INACTIVE
        cell.implied, cell.ran_on = 0, NONE
    active_tasks = 0
    for task in range(len(tasks)):
        cell = cells[row, task]
        if cell.missing == INACTIVE:
            continue
        active_tasks += 1
        if task == origin:
            continue
        missing = 0
        for place in range(tasks[task].in_start, tasks[task].in_stop):
            missing += cells[row, memory.inputs(world)[place]].missing != INACTIVE
        cell.implied = missing == 0
        cell.missing = max(1, missing)
    memory.steps(world)[row].left, memory.steps(world)[row].source = active_tasks, source
    core.in_flight += memory.steps(world)[row].rows
    core.live += 1
    core.fed += 1


@compiled
def _start_read(world: Any, task: int, worker: int) -> None:
    """Let a source work on the step that was just read; without a worker the step is there at once."""
    core, tasks = memory.core(world)[0], memory.tasks(world)
    step = core.fed - 1
    tasks[task].next = step
    if worker >= 0:
        core.idle += 1  # the worker was reserved
        memory.workers(world)[worker].task = NONE
        turns.begin(world, worker, task)
        return
    tasks[task].next, tasks[task].status = step + 1, WAITING
    turns.complete(world, step, task, NONE, memory.steps(world)[step - core.base].arrival_s)


@compiled
def _give_back(world: Any, task: int, worker: int) -> None:
    """A source had nothing to read: its worker is free again."""
    memory.tasks(world)[task].status = WAITING
    if worker >= 0:
        turns.release(world, worker)


@compiled
def _next_poll(world: Any, source: int, time_s: float) -> None:
    """Poll a source again at a time."""
    if not memory.sources(world)[source].polled:
        memory.sources(world)[source].polled = 1
        agenda.add(world, time_s, POLL, source, 0)
