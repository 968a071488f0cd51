"""Queues of ready tasks: pairing heaps inside the tasks, since a task waits in one queue at most.

The task with the smallest key comes first; of equal keys, the one with the smallest place; of equal places, the one
that was added first. `before` is the task above the first of its children, and the one to the left of the others, so
that any task can be removed.
"""

from typing import Any

from shoal.kernels.compiled import compiled
from shoal.runtimes.simulated.engine import memory
from shoal.runtimes.simulated.engine.arrays import NODE_QUEUE, NONE, SINGLE_QUEUE


@compiled
def queue_of(world: Any, worker: int) -> int:
    """The queue that a worker serves first."""
    design = memory.core(world)[0].design
    if design == SINGLE_QUEUE:
        return 0
    return memory.workers(world)[worker].node if design == NODE_QUEUE else worker


@compiled
def _comes_first(tasks: Any, one: int, other: int) -> bool:
    if tasks[one].key != tasks[other].key:
        return bool(tasks[one].key < tasks[other].key)
    if tasks[one].place != tasks[other].place:
        return bool(tasks[one].place < tasks[other].place)
    return bool(tasks[one].number < tasks[other].number)


@compiled
def _joined(tasks: Any, one: int, other: int) -> int:
    """Two heaps as one; returns its root."""
    if one == NONE:
        return other
    if other == NONE:
        return one
    if _comes_first(tasks, other, one):
        one, other = other, one
    next_ = tasks[one].child
    tasks[other].sibling, tasks[other].before = next_, one
    if next_ != NONE:
        tasks[next_].before = other
    tasks[one].child = other
    return one


@compiled
def push(world: Any, queue: int, task: int, key: float, place: int) -> None:
    """Add a task to a queue, behind those with the same key and place."""
    core = memory.core(world)[0]
    put(world, queue, task, key, place, core.queue_number)
    core.queue_number += 1


@compiled
def put(world: Any, queue: int, task: int, key: float, place: int, number: int) -> None:
    """Add a task to a queue, among those with the same key and place by its number."""
    tasks = memory.tasks(world)
    tasks[task].key, tasks[task].place, tasks[task].number = key, place, number
    tasks[task].child = tasks[task].sibling = tasks[task].before = NONE
    queues = memory.queues(world)
    queues[queue].root = _joined(tasks, queues[queue].root, task)


@compiled
def pop(world: Any, queue: int) -> int:
    """Remove the first task of a queue; -1 if it is empty."""
    first = memory.queues(world)[queue].root
    if first != NONE:
        memory.queues(world)[queue].root = _below(memory.tasks(world), first)
    return first


@compiled
def remove(world: Any, queue: int, task: int) -> None:
    """Remove a task from the queue that it is in."""
    tasks, queues = memory.tasks(world), memory.queues(world)
    if queues[queue].root == task:
        pop(world, queue)
        return
    before, next_ = tasks[task].before, tasks[task].sibling
    if tasks[before].child == task:
        tasks[before].child = next_
    else:
        tasks[before].sibling = next_
    if next_ != NONE:
        tasks[next_].before = before
    queues[queue].root = _joined(tasks, queues[queue].root, _below(tasks, task))


@compiled
def _below(tasks: Any, task: int) -> int:
    """All tasks below one as one heap; returns its root."""
    pairs, one = NONE, tasks[task].child
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
    tasks[task].child = NONE
    if root != NONE:
        tasks[root].before = NONE
    return root
