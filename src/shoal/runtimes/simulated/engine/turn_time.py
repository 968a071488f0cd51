"""Turn times: how long a turn takes beside other busy workers, and until a worker begins it; and what is recorded."""

from typing import Any

from shoal.kernels.compiled import compiled
from shoal.runtimes.simulated.engine import memory, queues

FACTOR, ADDED, BITS = 1_103_515_245, 12_345, (1 << 31) - 1
"""Of the random numbers of a worker: each is a linear function of the one before, of which the upper bits are used."""
UNUSED_BITS = 8


@compiled
def trace(world: Any, worker: int, task: int, work_s: float, took_s: float) -> None:
    """Record a turn that begins now; `work_s` is without its fixed part."""
    core, began_s = memory.core(world)[0], memory.core(world)[0].now_s
    turn = memory.trace(world)[core.trace]
    turn.task, turn.worker, turn.step = task, worker, memory.tasks(world)[task].next
    turn.begins = pays_fixed(world, worker, task)
    turn.began_s, turn.ended_s = began_s, began_s + took_s
    turn.work_s = work_s
    if turn.begins:
        speed = memory.hosts(world)[memory.workers(world)[worker].host].speed
        turn.work_s += memory.tasks(world)[task].fixed_s / speed
    core.trace += 1


@compiled
def pays_fixed(world: Any, worker: int, task: int) -> bool:
    """Whether a turn pays its fixed part: the worker's turn before was not of the same group and step."""
    before, own = memory.workers(world)[worker], memory.tasks(world)[task]
    return before.last_group != own.group or before.last_step != own.next


@compiled
def begin_part(world: Any, worker: int, task: int) -> None:
    """Count work and results from zero if the worker's turn before was not of the same group and step."""
    if pays_fixed(world, worker, task):
        own = memory.workers(world)[worker]
        own.first_result, own.part_s = memory.core(world)[0].results, 0.0


@compiled
def varied_by(before: float, here: float) -> float:
    """How the fixed part of a turn varies with one more step: as the first step with more than a watermark."""
    return here if before == 0.0 or (before < 0.0 and here > 0.0) else before


@compiled
def slowed_s(world: Any, worker: int, task: int, work_s: float, varied: float) -> float:
    """What work takes beside other active workers, with the fixed part of the turn unless the turn before paid it.

    What the worker's turns of that group and step have worked before counts for whether they are long.
    """
    tasks, workers = memory.tasks(world), memory.workers(world)
    crowd, turn_crowd = memory.crowd(world), memory.turn_crowd(world)
    busy = memory.hosts(world)[workers[worker].host].active
    short_s = min(work_s, max(0.0, memory.core(world)[0].long_s - workers[worker].part_s))
    workers[worker].part_s += work_s
    long_crowd = memory.long_crowd(world)
    work_s = (
        short_s * crowd[min(busy, len(crowd) - 1)] + (work_s - short_s) * long_crowd[min(busy, len(long_crowd) - 1)]
    )
    if pays_fixed(world, worker, task):
        work_s += tasks[task].fixed_s * varied * turn_crowd[min(busy, len(turn_crowd) - 1)]
    return work_s


@compiled
def start_s(world: Any, worker: int, task: int) -> float:
    """How long a worker without a task takes until it begins this one.

    One that was idle has to wake up. One that has just ended a turn decides on the next, unless that only goes on.
    """
    own = memory.workers(world)[worker]
    if own.free_s < memory.core(world)[0].now_s:
        return _drawn(world, memory.wake_ups(world), worker)
    return _drawn(world, memory.pauses(world), worker) if pays_fixed(world, worker, task) else 0.0


@compiled
def _drawn(world: Any, values: Any, worker: int) -> float:
    """One of the random values for so many other active workers."""
    own = memory.workers(world)[worker]
    levels = len(memory.turn_crowd(world))
    width = len(values) // levels
    own.draws = (own.draws * FACTOR + ADDED) & BITS
    busy = memory.hosts(world)[own.host].active
    return values[min(busy, levels - 1) * width + (own.draws >> UNUSED_BITS) % width]


@compiled
def access_s(world: Any, worker: int) -> float:
    """The time that the access to a queue takes, which is counted, until workers before it are done with theirs."""
    queue, now_s = memory.queues(world)[queues.queue_of(world, worker)], memory.core(world)[0].now_s
    queue.free_s = max(queue.free_s, now_s) + memory.workers(world)[worker].access_s
    memory.core(world)[0].access_s += queue.free_s - now_s
    return queue.free_s - now_s


@compiled
def remote_bytes(world: Any, row: int, task: int, node: int) -> float:
    """Bytes of a task's input that lie in another memory node of the same host."""
    tasks, workers, cells = memory.tasks(world), memory.workers(world), memory.cells(world)
    start, stop = tasks[task].in_start, tasks[task].in_stop
    if start == stop:
        return 0.0
    away = 0
    for place in range(start, stop):
        ran_on = cells[row, memory.inputs(world)[place]].ran_on
        if ran_on >= 0 and workers[ran_on].node != node and workers[ran_on].host == memory.node_host(world)[node]:
            away += 1
    return cells[row, task].bytes * away / (stop - start)
