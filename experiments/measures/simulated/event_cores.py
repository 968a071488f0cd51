"""One queueing model with SimPy, with plain Python, and compiled: all give the time at which every task finishes.

The model is the workload of 300 queries. A step of input arrives 25 times per simulated second. It is 1,201 tasks: a
source, and behind it 300 chains of filter, window, aggregate and sink. Tasks of chain r cost 1 + 0.2 r units, and the
unit is chosen so that 24 workers are busy for a share of the time. Chains are bound to workers in turn. A worker runs
one task at a time, the oldest step first, then the lowest task number, and is never preempted.
"""

import heapq
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any

import numpy as np
import simpy

from measures.simulated.compiled_core import finish_times

STEPS_PER_S = 25
CHAINS = 300
STAGES = 4
TASKS = 1 + CHAINS * STAGES
WORKERS = 24
LOAD = 0.8
OVERLOAD = 1.3
TOLERANCE_S = 1e-9


@dataclass(frozen=True)
class Model:
    """The cost and the worker of every task, and the times at which steps arrive."""

    costs_s: np.ndarray
    workers: np.ndarray
    arrivals_s: np.ndarray

    @property
    def executions(self) -> int:
        """Tasks of all steps: the events that are counted."""
        return len(self.costs_s) * len(self.arrivals_s)


def model(seconds: float, load: float = LOAD) -> Model:
    """The workload for some simulated seconds, and how busy workers are on average."""
    chain = np.repeat(np.arange(CHAINS), STAGES)
    units = np.concatenate(([1.0], 1.0 + 0.2 * chain))
    unit_s = load * WORKERS / STEPS_PER_S / units.sum()
    workers = np.concatenate(([0], chain % WORKERS))
    return Model(units * unit_s, workers, np.arange(round(seconds * STEPS_PER_S)) / STEPS_PER_S)


def successors() -> list[range]:
    """For every task those that wait for it: all filters for the source, nothing for a sink."""
    behind = [range(1, TASKS, STAGES)]
    behind += [range(task + 1, task + 1 + (task % STAGES != 0)) for task in range(1, TASKS)]
    return behind


def with_processes(given: Model) -> np.ndarray:
    """SimPy as its documentation shows it: a process per worker, and a priority store in front of each."""
    environment = simpy.Environment()
    stores = [simpy.PriorityStore(environment) for _ in range(WORKERS)]
    costs_s, workers, behind = given.costs_s.tolist(), given.workers.tolist(), successors()
    finished = np.zeros((len(given.arrivals_s), TASKS))

    def source() -> Generator[simpy.Event, Any, None]:
        for step, arrival_s in enumerate(given.arrivals_s.tolist()):
            yield environment.timeout(arrival_s - environment.now)
            stores[workers[0]].put((step, 0))

    def worker(store: simpy.PriorityStore) -> Generator[simpy.Event, Any, None]:
        while True:
            step, task = yield store.get()
            yield environment.timeout(costs_s[task])
            finished[step, task] = environment.now
            for following in behind[task]:
                stores[workers[following]].put((step, following))

    environment.process(source())
    for store in stores:
        environment.process(worker(store))
    environment.run()
    return finished


def with_callbacks(given: Model) -> np.ndarray:
    """SimPy with as little of it as possible: timeouts with a callback, and queues of our own."""
    environment = simpy.Environment()
    costs_s, workers, behind = given.costs_s.tolist(), given.workers.tolist(), successors()
    queues: list[list[int]] = [[] for _ in range(WORKERS)]
    idle = [True] * WORKERS
    finished = np.zeros((len(given.arrivals_s), TASKS))

    def begin(key: int) -> None:
        timeout = simpy.Timeout(environment, costs_s[key % TASKS], key)
        timeout.callbacks.append(end)

    def offer(key: int) -> None:
        worker = workers[key % TASKS]
        if idle[worker]:
            idle[worker] = False
            begin(key)
        else:
            heapq.heappush(queues[worker], key)

    def end(event: Any) -> None:
        step, task = divmod(event.value, TASKS)
        finished[step, task] = environment.now
        for following in behind[task]:
            offer(step * TASKS + following)
        worker = workers[task]
        if queues[worker]:
            begin(heapq.heappop(queues[worker]))
        else:
            idle[worker] = True

    def arrive(event: Any) -> None:
        offer(event.value)

    for step, arrival_s in enumerate(given.arrivals_s.tolist()):
        simpy.Timeout(environment, arrival_s, step * TASKS).callbacks.append(arrive)
    environment.run()
    return finished


def with_heapq(given: Model) -> np.ndarray:
    """A loop of our own over a heap of (time, sequence number, task of a step)."""
    costs_s, workers, behind = given.costs_s.tolist(), given.workers.tolist(), successors()
    queues: list[list[int]] = [[] for _ in range(WORKERS)]
    idle = [True] * WORKERS
    finished = np.zeros((len(given.arrivals_s), TASKS))
    arrivals = [(arrival_s, step, -1 - step) for step, arrival_s in enumerate(given.arrivals_s.tolist())]
    events, sequence = arrivals, len(arrivals)
    push, pop = heapq.heappush, heapq.heappop
    while events:
        now_s, _, key = pop(events)
        if key < 0:
            ready: range | tuple[int] = ((-1 - key) * TASKS,)
        else:
            step, task = divmod(key, TASKS)
            finished[step, task] = now_s
            following = behind[task]
            ready = range(step * TASKS + following.start, step * TASKS + following.stop, following.step)
        for each in ready:
            worker = workers[each % TASKS]
            if idle[worker]:
                idle[worker] = False
                sequence += 1
                push(events, (now_s + costs_s[each % TASKS], sequence, each))
            else:
                push(queues[worker], each)
        if key >= 0:
            worker = workers[key % TASKS]
            if queues[worker]:
                sequence += 1
                each = pop(queues[worker])
                push(events, (now_s + costs_s[each % TASKS], sequence, each))
            else:
                idle[worker] = True
    return finished


def compiled(given: Model) -> np.ndarray:
    """The same loop over arrays, compiled by Numba."""
    behind = successors()
    start = np.array([each.start for each in behind])
    stop = np.array([each.stop for each in behind])
    stride = np.array([each.step for each in behind])
    return finish_times(given.costs_s, given.workers, given.arrivals_s, start, stop, stride, WORKERS)


CORES: dict[str, Callable[[Model], np.ndarray]] = {
    "simpy-processes": with_processes,
    "simpy-callbacks": with_callbacks,
    "python-heapq": with_heapq,
    "compiled": compiled,
}
