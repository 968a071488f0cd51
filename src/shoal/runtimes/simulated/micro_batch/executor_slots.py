"""Executor slots: which executors are there, which worker runs where, and when tasks end on their slots."""

import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from shoal.runtimes.simulated.machine.machine import Machine

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class ScheduledTasks:
    """Tasks of a stage: the executor of each, its time on the slot, and when it ends."""

    executor: Ints
    took_s: Floats
    end_s: Floats

    @property
    def last_s(self) -> float:
        """When the last task ends."""
        return float(self.end_s.max(initial=-math.inf))


@dataclass(frozen=True)
class ExecutorSlots:
    """The slots of a machine, less those of executors that are down."""

    machine: Machine
    down: frozenset[int] = frozenset()

    @classmethod
    def at(cls, machine: Machine, at_s: float) -> "ExecutorSlots":
        """The slots that are there at a time."""
        return cls(machine, frozenset(host for host, begin, end in machine.host_outages if begin <= at_s < end))

    @cached_property
    def executors(self) -> tuple[int, ...]:
        """The executors that are there."""
        return tuple(host for host in range(len(self.machine.hosts)) if host not in self.down)

    @property
    def number(self) -> int:
        """The number of slots."""
        return sum(self.machine.hosts[host].cores for host in self.executors)

    def without(self, executor: int) -> "ExecutorSlots":
        """The slots when one more executor is down."""
        return ExecutorSlots(self.machine, self.down | {executor})

    def homes(self, cores: Sequence[int]) -> Ints:
        """The executor of every worker, by its core; one that is down is replaced by that with the fewest workers."""
        wanted = self.machine.worker_host[list(cores)]
        number = {host: int((wanted == host).sum()) for host in self.executors}
        found = wanted.copy()
        for worker in np.flatnonzero(np.isin(wanted, list(self.down))):
            found[worker] = min(number, key=lambda host: (number[host] / self.machine.hosts[host].cores, host))
            number[int(found[worker])] += 1
        return found

    def scheduled(self, work_s: Floats, begin_s: float, running: ScheduledTasks | None = None) -> ScheduledTasks:
        """Tasks in order, each on the slot that is free first; free slots are taken from executor to executor.

        `running`: tasks of which the last ones of every executor still have their slots.
        """
        free = [
            (max(begin_s, until_s), slot, host)
            for host in self.executors
            for slot, until_s in enumerate(self._busy_until_s(host, running))
        ]
        heapq.heapify(free)
        executor, end_s = np.zeros(len(work_s), np.int64), np.zeros(len(work_s))
        for task, work in enumerate(work_s.tolist()):
            at_s, slot, host = free[0]
            executor[task], end_s[task] = host, at_s + work / self.machine.hosts[host].speed
            heapq.heapreplace(free, (end_s[task], slot, host))
        return self._slowed(executor, work_s, end_s, begin_s)

    def _busy_until_s(self, host: int, running: ScheduledTasks | None) -> list[float]:
        """When every slot of an executor has ended the tasks that run."""
        cores = self.machine.hosts[host].cores
        ends = [] if running is None else np.sort(running.end_s[running.executor == host])[-cores:].tolist()
        return [*ends, *[-math.inf] * (cores - len(ends))]

    def pinned(self, work_s: Floats, executor: Ints, begin_s: float) -> ScheduledTasks:
        """Tasks on given executors, each on the slot of it that is free first."""
        end_s = np.zeros(len(work_s))
        for host in np.unique(executor).tolist():
            free = [begin_s] * self.machine.hosts[host].cores
            for task in np.flatnonzero(executor == host):
                end_s[task] = free[0] + work_s[task] / self.machine.hosts[host].speed
                heapq.heapreplace(free, float(end_s[task]))
        return self._slowed(executor, work_s, end_s, begin_s)

    def _slowed(self, executor: Ints, work_s: Floats, end_s: Floats, begin_s: float) -> ScheduledTasks:
        """The tasks with the factors of the machine for executors on which several slots are busy."""
        hosts = self.machine.hosts
        tasks = np.bincount(executor, minlength=len(hosts))
        most = max((host.cores for host in hosts), default=1)
        factors = self.machine.slowdowns(most)
        factor = np.array([factors[min(n, host.cores) - 1] if n else 1.0 for n, host in zip(tasks, hosts, strict=True)])
        took_s = work_s / self.machine.host_speed[executor] * factor[executor]
        return ScheduledTasks(executor, took_s, begin_s + (end_s - begin_s) * factor[executor])
