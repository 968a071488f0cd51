"""What an event core costs: one queueing model with SimPy, with plain Python, and compiled.

    python benchmarks/event_core.py [--seconds 10] [--repeat 5] [--quick]

The model is the workload of 300 queries. A step of input arrives 25 times per simulated second. It is 1,201 tasks: a
source, and behind it 300 chains of filter, window, aggregate and sink. Tasks of chain r cost 1 + 0.2 r units, and the
unit is chosen so that 24 workers are busy for 80 % of the time. Chains are bound to workers in turn. A worker runs one
task at a time, the oldest step first, then the lowest task number, and is never preempted.

The four versions take turns. Their finish times are compared before anything is printed, also for workers that are
overloaded, so that steps overtake each other. Times are seconds of the processor, so that other programs on the machine
matter less.
"""

import argparse
import heapq
import importlib.metadata
import platform
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import simpy
from event_core_compiled import finish_times
from table import markdown

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

    def source() -> Iterator[simpy.Event]:
        for step, arrival_s in enumerate(given.arrivals_s.tolist()):
            yield environment.timeout(arrival_s - environment.now)
            stores[workers[0]].put((step, 0))

    def worker(store: simpy.PriorityStore) -> Iterator[simpy.Event]:
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


VERSIONS: dict[str, Callable[[Model], np.ndarray]] = {
    "SimPy, a process per worker": with_processes,
    "SimPy, timeouts with callbacks": with_callbacks,
    "plain Python, `heapq`": with_heapq,
    "compiled by Numba": compiled,
}


def check(finished: dict[str, np.ndarray]) -> None:
    """Exit unless every version has finished every task at the same time."""
    name, expected = next(iter(finished.items()))
    if not (expected > 0).all():
        raise SystemExit(f"{name}: some tasks have not run")
    for other, times in finished.items():
        difference_s = float(np.abs(times - expected).max())
        if difference_s > TOLERANCE_S:
            raise SystemExit(f"finish times differ: {other} from {name} by {difference_s} s")


def measured(given: Model, repeat: int) -> tuple[dict[str, list[float]], np.ndarray]:
    """Processor seconds of every version by turn, and the finish times they agree on."""
    took_s: dict[str, list[float]] = {name: [] for name in VERSIONS}
    overloaded = model(1.0, OVERLOAD)
    check({name: version(overloaded) for name, version in VERSIONS.items()})
    finished: dict[str, np.ndarray] = {}
    for _ in range(repeat):
        for name, version in VERSIONS.items():
            began = time.process_time()
            finished[name] = version(given)
            took_s[name].append(time.process_time() - began)
        check(finished)
    return took_s, finished["compiled by Numba"]


def report(given: Model, took_s: dict[str, list[float]], finished: np.ndarray) -> None:
    """Print what was simulated, the table, and versions."""
    latency_s = finished[:, STAGES::STAGES] - given.arrivals_s[:, None]
    print(f"{len(given.arrivals_s)} steps of {TASKS} tasks on {WORKERS} workers: {given.executions:,} events")
    print(
        f"latency at the sinks: mean {latency_s.mean() * 1e3:.2f} ms, p99 {np.quantile(latency_s, 0.99) * 1e3:.2f} ms"
    )
    slowest = statistics.median(took_s["SimPy, a process per worker"])
    fastest_simpy = statistics.median(took_s["SimPy, timeouts with callbacks"])
    rows = []
    for name, found in took_s.items():
        median = statistics.median(found)
        rate = f"{given.executions / median:,.0f}"
        spread = f"{median:.3g} ({min(found):.3g}-{max(found):.3g})"
        rows.append([name, spread, rate, f"{slowest / median:.1f}", f"{fastest_simpy / median:.1f}"])
    print(markdown(["version", "seconds", "events/s", "x SimPy's processes", "x SimPy's callbacks"], rows))
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in ("simpy", "numba", "numpy"))
    print(f"Python {platform.python_version()}, {versions}")


def main() -> None:
    """Run all versions in turns and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=10.0, help="simulated seconds")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="half a simulated second, once")
    chosen = parser.parse_args()
    given = model(0.5 if chosen.quick else chosen.seconds)
    report(given, *measured(given, 1 if chosen.quick else chosen.repeat))


if __name__ == "__main__":
    main()
