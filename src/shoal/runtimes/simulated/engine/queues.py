"""Queues of ready tasks: pairing heaps inside the tasks, since a task waits in one queue at most.

The task with the smallest key comes first; of equal keys, the one that was added first.
"""

from typing import Any

from shoal.kernels.compiled import compiled
from shoal.runtimes.simulated.engine import memory
from shoal.runtimes.simulated.engine.arrays import NONE


@compiled
def _joined(tasks: Any, one: int, other: int) -> int:
    """Two heaps as one; returns its root."""
    if one == NONE:
        return other
    if other == NONE:
        return one
    if tasks[other].key < tasks[one].key or (
        tasks[other].key == tasks[one].key and tasks[other].number < tasks[one].number
    ):
        one, other = other, one
    tasks[other].sibling = tasks[one].child
    tasks[one].child = other
    return one


@compiled
def push(world: Any, queue: int, task: int, key: float) -> None:
    """Add a task to a queue."""
    tasks, core = memory.tasks(world), memory.core(world)[0]
    tasks[task].key = key
    tasks[task].number = core.queue_number
    core.queue_number += 1
    tasks[task].child = NONE
    tasks[task].sibling = NONE
    queues = memory.queues(world)
    queues[queue].root = _joined(tasks, queues[queue].root, task)


@compiled
def pop(world: Any, queue: int) -> int:
    """Remove the first task of a queue; -1 if it is empty."""
    tasks = memory.tasks(world)
    first = memory.queues(world)[queue].root
    if first == NONE:
        return NONE
    pairs, one = NONE, tasks[first].child
    while one != NONE:  # join the children two by two, as a list in reverse
        other = tasks[one].sibling
        rest = NONE if other == NONE else tasks[other].sibling
        tasks[one].sibling = NONE
        if other != NONE:
            tasks[other].sibling = NONE
        joined = _joined(tasks, one, other)
        tasks[joined].sibling = pairs
        pairs, one = joined, rest
    root = NONE
    while pairs != NONE:
        rest = tasks[pairs].sibling
        tasks[pairs].sibling = NONE
        root = _joined(tasks, root, pairs)
        pairs = rest
    memory.queues(world)[queue].root = root
    tasks[first].child = NONE
    return first
