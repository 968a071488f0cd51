"""The compiled event core: a loop over arrays with a binary heap of its own."""

import numba
import numpy as np


@numba.njit(cache=True)
def before(key: float, value: int, other_key: float, other_value: int) -> bool:
    """Whether an entry comes before another: by key, then by value."""
    return key < other_key or (key == other_key and value < other_value)


@numba.njit(cache=True)
def push(keys: np.ndarray, values: np.ndarray, size: int, key: float, value: int) -> int:
    """Add an entry to a heap; return the new size."""
    at = size
    while at > 0:
        above = (at - 1) // 2
        if before(keys[above], values[above], key, value):
            break
        keys[at], values[at] = keys[above], values[above]
        at = above
    keys[at], values[at] = key, value
    return size + 1


@numba.njit(cache=True)
def drop_first(keys: np.ndarray, values: np.ndarray, size: int) -> int:
    """Remove the entry at the top, which the caller has read; return the new size."""
    size -= 1
    key, value = keys[size], values[size]
    at = 0
    while True:
        below = 2 * at + 1
        if below >= size:
            break
        if below + 1 < size and before(keys[below + 1], values[below + 1], keys[below], values[below]):
            below += 1
        if before(key, value, keys[below], values[below]):
            break
        keys[at], values[at] = keys[below], values[below]
        at = below
    keys[at], values[at] = key, value
    return size


@numba.njit(cache=True)
def finish_times(
    costs_s: np.ndarray,
    workers: np.ndarray,
    arrivals_s: np.ndarray,
    first: np.ndarray,
    stop: np.ndarray,
    stride: np.ndarray,
    n_workers: int,
) -> np.ndarray:
    """When every task of every step finishes; the tasks behind task t are range(first[t], stop[t], stride[t]).

    A task of a step is one number, step * tasks + task, which is also its priority.
    """
    steps, tasks = len(arrivals_s), len(costs_s)
    finished = np.zeros((steps, tasks))
    capacity = steps * np.bincount(workers).max()
    queue_keys, queue_values = np.empty((n_workers, capacity)), np.empty((n_workers, capacity), np.int64)
    queued = np.zeros(n_workers, np.int64)
    running = np.full(n_workers, -1)
    event_times, event_values = np.empty(n_workers + 1), np.empty(n_workers + 1, np.int64)
    ready = np.empty(tasks, np.int64)
    events, sequence, arrived = 0, 0, 0
    while events > 0 or arrived < steps:
        freed = -1
        if arrived < steps and (events == 0 or arrivals_s[arrived] <= event_times[0]):
            now_s = arrivals_s[arrived]
            ready[0], n_ready = arrived * tasks, 1
            arrived += 1
        else:
            now_s, freed = event_times[0], event_values[0] % n_workers
            events = drop_first(event_times, event_values, events)
            step, task = divmod(running[freed], tasks)
            finished[step, task] = now_s
            n_ready = 0
            for following in range(first[task], stop[task], stride[task]):
                ready[n_ready] = step * tasks + following
                n_ready += 1
        for each in ready[:n_ready]:
            worker = workers[each % tasks]
            queued[worker] = push(queue_keys[worker], queue_values[worker], queued[worker], float(each), each)
            if running[worker] < 0:
                running[worker] = queue_values[worker, 0]
                queued[worker] = drop_first(queue_keys[worker], queue_values[worker], queued[worker])
                sequence += n_workers
                end_s = now_s + costs_s[running[worker] % tasks]
                events = push(event_times, event_values, events, end_s, sequence + worker)
        if freed >= 0 and queued[freed] > 0:
            running[freed] = queue_values[freed, 0]
            queued[freed] = drop_first(queue_keys[freed], queue_values[freed], queued[freed])
            sequence += n_workers
            end_s = now_s + costs_s[running[freed] % tasks]
            events = push(event_times, event_values, events, end_s, sequence + freed)
        elif freed >= 0:
            running[freed] = -1
    return finished
