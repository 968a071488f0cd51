"""Moves of the naive simulation: units that change their worker, and hosts that go and return."""

from abc import abstractmethod
from functools import partial

from tests.runtimes.simulated.engine.naive_clock import NaiveClock
from tests.runtimes.simulated.engine.naive_parts import Unit, tasks_of, workers_of

from shoal.runtimes.simulated.engine.world import Rules, Tasks
from shoal.runtimes.simulated.machine.machine import Machine


class NaiveMoves(NaiveClock):
    """Units on workers; a subclass lets their tasks take turns."""

    def __init__(self, tasks: Tasks, machine: Machine, owner: list[int], cores: list[int], rules: Rules) -> None:
        super().__init__(machine)
        self.machine, self.rules = machine, rules
        self.tasks = tasks_of(tasks)
        self.units = [Unit(each) for each in owner]
        self.workers = workers_of(machine, rules, cores)
        self.queue: list[tuple[float, int, int, int]] = []
        self.wakes: list[int] = []
        self.hosts_down = [0] * len(machine.hosts)
        self.moves: list[tuple[int, int, int, float, float]] = []
        for number, begin_s, end_s in machine.link_outages:
            self.plan_outage(begin_s, end_s, partial(self.network.switch, number))
        for number, begin_s, end_s in machine.host_outages:
            self.plan_outage(begin_s, end_s, partial(self._switch_host, number))

    @abstractmethod
    def _offer(self, number: int) -> None:
        """Queue a task that can take a turn."""

    def move(self, number: int, worker: int) -> None:
        unit = self.units[number]
        is_there = unit.frozen_since_s is None and unit.owner == worker
        unit.target = None if is_there else worker
        self._leave_if_free(number)

    def _withdraw(self, number: int) -> None:
        for entry in [e for e in self.queue if self.tasks[e[-1]].unit == number]:
            self.queue.remove(entry)
            self.tasks[entry[-1]].state = "waiting"

    def _leave_if_free(self, number: int) -> None:
        unit = self.units[number]
        if unit.target is not None and not unit.at_work and unit.frozen_since_s is None:
            self._leave(number)

    def _leave(self, number: int) -> None:
        unit = self.units[number]
        assert unit.target is not None
        self._withdraw(number)
        unit.frozen_since_s, target = self.now_s, unit.target
        here, there = self.workers[unit.owner], self.workers[unit.target]
        if here.up and here.host != there.host:
            self.network.ship(here.host, there.host, unit.state_bytes, lambda _: self._settle(number, target))
            return
        copying_s = unit.state_bytes * self.rules.copy_byte_s if here.node != there.node else 0.0
        self.plan(self.now_s + self.rules.hand_over_s + copying_s, lambda: self._settle(number, target))

    def _settle(self, number: int, there: int) -> None:
        unit = self.units[number]
        assert unit.frozen_since_s is not None
        self.moves.append((number, unit.owner, there, unit.state_bytes, self.now_s - unit.frozen_since_s))
        unit.owner, unit.frozen_since_s = there, None
        unit.extra_s += self.rules.hand_over_s
        if unit.target not in (None, there):
            self._leave(number)
            return
        unit.target = None
        for task in range(len(self.tasks)):
            if self.tasks[task].unit == number:
                self._offer(task)

    # hosts

    def _switch_host(self, host: int, by: int) -> None:
        self.hosts_down[host] += by
        for number, worker in enumerate(self.workers):
            if worker.host == host:
                up = worker.in_use and not self.hosts_down[host]
                if up and not worker.up:
                    self._switch_on(number)
                elif worker.up and not up:
                    self._switch_off(number)

    def _switch_on(self, number: int) -> None:
        self.workers[number].up = True
        for task in range(len(self.tasks)):
            if self.units[self.tasks[task].unit].owner == number:
                self._offer(task)
        self.wakes.append(number)

    def _switch_off(self, number: int) -> None:
        worker = self.workers[number]
        worker.up, aborted = False, worker.task
        if aborted is not None:
            self.tasks[aborted].state = "waiting"
            self.units[self.tasks[aborted].unit].at_work -= 1
            worker.worked_s += max(0.0, self.now_s - worker.began_s)
        worker.task, worker.steps, worker.starting = None, [], False
        for unit in range(len(self.units)):
            if self.units[unit].owner == number:
                self._withdraw(unit)
                self._leave_if_free(unit)
        if aborted is not None:
            self._leave_if_free(self.tasks[aborted].unit)
            self._offer(aborted)
