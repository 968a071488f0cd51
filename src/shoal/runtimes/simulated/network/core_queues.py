"""Queues of cores: each core does one job at a time to its end, those of operators further downstream first."""

import heapq
from collections.abc import Callable
from itertools import count

from shoal.runtimes.simulated.machine.machine import Machine
from shoal.runtimes.simulated.network.calendar import Action, Calendar

Job = Callable[[], tuple[float, Action]]
"""Does some work; returns the seconds that it takes at speed 1, and what happens when they are over."""


class CoreQueues:
    """All cores of a machine, each with the jobs that wait for it."""

    def __init__(self, machine: Machine, calendar: Calendar) -> None:
        """All cores are idle; outages of hosts are planned."""
        self._calendar = calendar
        self._speed = machine.host_speed[machine.worker_host].tolist()
        self._waiting: list[list[tuple[int, int, Job]]] = [[] for _ in self._speed]
        self._busy, self._down = [False] * len(self._speed), [0] * len(self._speed)
        self.worked_s = [0.0] * len(self._speed)
        self._order = count()
        for host, begin_s, end_s in machine.host_outages:
            for core in (core for core, its in enumerate(machine.worker_host.tolist()) if its == host):
                calendar.add(begin_s, lambda core=core: self._switch(core, 1))  # type: ignore[misc]
                calendar.add(end_s, lambda core=core: self._switch(core, -1))  # type: ignore[misc]

    def submit(self, core: int, depth: int, job: Job) -> None:
        """Give a core a job; jobs of the same depth are done in the order in which they come."""
        heapq.heappush(self._waiting[core], (-depth, next(self._order), job))
        self._next(core)

    @property
    def idle(self) -> bool:
        """Whether no job is done and none waits for a core that works."""
        waiting = any(jobs and not down for jobs, down in zip(self._waiting, self._down, strict=True))
        return not waiting and not any(self._busy)

    @property
    def lost(self) -> frozenset[int]:
        """The cores of hosts that are down."""
        return frozenset(core for core, down in enumerate(self._down) if down)

    def lose(self, core: int) -> None:
        """A core is gone for good, and the jobs that wait for it with it."""
        self._waiting[core].clear()
        self._switch(core, 1)

    def _switch(self, core: int, down: int) -> None:
        self._down[core] += down
        self._next(core)

    def _next(self, core: int) -> None:
        if self._busy[core] or self._down[core] or not self._waiting[core]:
            return
        _, _, job = heapq.heappop(self._waiting[core])
        work_s, done = job()
        took_s = work_s / self._speed[core]
        self._busy[core] = True
        self.worked_s[core] += took_s

        def end() -> None:
            self._busy[core] = False
            done()
            self._next(core)

        self._calendar.add(self._calendar.now_s + took_s, end)
