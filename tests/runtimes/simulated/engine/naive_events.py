"""A second implementation of the simulator's event model, in plain Python and without any cleverness.

Every rule is written as the documentation says it: queues are lists that are searched, rates of flows are computed
again for all flows whenever one begins or ends, and nothing is ever forgotten.
"""

from collections.abc import Callable
from itertools import count
from math import inf

import numpy as np
from tests.runtimes.simulated.engine.naive_moves import NaiveMoves
from tests.runtimes.simulated.engine.naive_parts import Cell, Step, Worker

from shoal.runtimes.simulated.engine.simulation import StepInput
from shoal.runtimes.simulated.engine.turn_time import ADDED, FACTOR, UNUSED_BITS
from shoal.runtimes.simulated.engine.world import Rules, Tasks
from shoal.runtimes.simulated.machine.machine import Machine

Read = Callable[[int, float], tuple[StepInput | None, float]]


class NaiveSimulation(NaiveMoves):
    """Tasks on a machine in simulated time, slowly."""

    def __init__(
        self, tasks: Tasks, machine: Machine, owner: list[int], cores: list[int], rules: Rules, ranks: list[float]
    ) -> None:
        super().__init__(tasks, machine, owner, cores, rules)
        self.ranks, self.sources = ranks, tasks.sources
        self.pushes = count()
        self.steps: list[Step] = []
        self.free_s: dict[int, float] = {}
        self.asked: list[tuple[int, int | None]] = []
        self.results: list[tuple[int, int, float]] = []
        self.left_s: list[float] = []
        self.remote_bytes = 0.0

    def advance(self, until_s: float, read: Read) -> None:
        self.go_on(until_s, lambda: self._serve_and_read(read))

    # sources

    def poll(self, source: int, at_s: float) -> None:
        if not self.tasks[source].polled:
            self.tasks[source].polled = True
            self.plan(at_s, lambda: self._poll(source))

    def _poll(self, source: int) -> None:
        task = self.tasks[source]
        task.polled = False
        if task.ended:
            return
        if self.units[task.unit].owner >= 0:
            task.due = True
            self._offer(source)
        elif self._has_room:
            self.asked.append((source, None))
        else:
            task.blocked = True

    @property
    def _has_room(self) -> bool:
        return sum(step.rows for step in self.steps if not step.is_done) < self.rules.most_rows

    def _serve_and_read(self, read: Read) -> None:
        self._serve()
        while self.asked:
            asked, self.asked = self.asked, []
            for source, worker in asked:
                self._read(source, worker, read)
            self._serve()

    def _read(self, source: int, worker: int | None, read: Read) -> None:
        step, again_s = read(source, self.now_s)
        task = self.tasks[source]
        if step is not None:
            self._feed(step)
            task.next = len(self.steps) - 1
        if worker is None:
            if step is not None:
                task.next += 1
                self._complete(len(self.steps) - 1, source, None)
        else:
            self.workers[worker].task = None
            if step is not None:
                self._begin(worker, source)
            else:
                task.state = "waiting"
                self._free(worker)
        if again_s == inf:
            task.ended = True
        else:
            self.poll(source, max(again_s, self.now_s))

    def _feed(self, step: StepInput) -> None:
        cells = {}
        for number in range(len(self.tasks)):
            active = step.work_s[number] > 0 or step.results[number] > 0
            if number == step.source or (active and number >= self.sources):
                once_s = 0.0 if step.once_s is None else float(np.float32(step.once_s[number]))
                varied = 1.0 if step.varied is None else float(np.float32(step.varied[number]))
                size = float(np.float32(step.bytes[number]))
                place = 0 if step.places is None else int(step.places[number])
                ends = step.ends is not None and bool(step.ends[number])
                cells[number] = Cell(float(step.work_s[number]), once_s, size, 0, varied, place, ends)
        for number, cell in cells.items():
            if number != step.source:
                cell.missing = sum(before in cells for before in self.tasks[number].inputs)
                cell.implied = cell.missing == 0
                cell.missing = max(1, cell.missing)
        self.steps.append(Step(step.arrival_s, step.rows, cells))

    # queues

    def _queue_of(self, worker: int) -> int:
        if self.rules.queues == "single-queue":
            return 0
        return self.workers[worker].node if self.rules.queues == "node-queue" else worker

    def _next_step(self, number: int) -> int | None:
        """The next step in which a task has something to do, ready or not."""
        task = self.tasks[number]
        for at in range(task.next, len(self.steps)):
            cell = self.steps[at].cells.get(number)
            if cell is not None and not cell.done:
                return at
        return None

    def _is_ready(self, number: int) -> bool:
        at = self._next_step(number)
        return at is not None and self.steps[at].cells[number].missing == 0

    def _offer(self, number: int) -> None:
        task, unit = self.tasks[number], self.units[self.tasks[number].unit]
        if task.state != "waiting" or unit.frozen_since_s is not None or unit.owner < 0:
            return
        if not self.workers[unit.owner].up or not (self._is_ready(number) or (number < self.sources and task.due)):
            return
        task.state = "queued"
        self.queue.append((*self._key(number), next(self.pushes), number))
        self.wakes.append(unit.owner)

    def _key(self, number: int) -> tuple[float, int]:
        task = self.tasks[number]
        if number < self.sources:
            return 1e12 + task.last_run_s, 0
        at = self._next_step(number)
        assert at is not None
        keys = {
            "event-time": self.steps[at].arrival_s,
            "first-come": self.now_s,
            "turns": task.last_run_s,
            "priority": -self.ranks[number],
        }
        place = self.steps[at].cells[number].place if self.rules.order == "event-time" else 0
        return keys[self.rules.order], place

    def _serve(self) -> None:
        while self.wakes:
            owner = self.wakes.pop(0)
            if self.workers[owner].up and self.workers[owner].task is None and not self.workers[owner].starting:
                self._start(owner)
            elif self.rules.queues != "worker-queue":
                host, node = self.workers[owner].host, self.workers[owner].node
                idle = [n for n, each in enumerate(self.workers) if each.is_idle and each.host == host]
                near = [n for n in idle if self.workers[n].node == node]
                if idle:
                    self._start((near or idle)[0])

    def _start(self, worker: int) -> None:
        """Let an idle worker take a task once it has woken up, or decided after a turn that does not just go on."""
        at, first = self.workers[worker], None
        for queue in self._queues_for(worker):
            first = min((entry for entry in self.queue if self._is_in(entry[-1], queue)), default=None)
            if first is not None:
                break
        if first is None:
            return
        number, was_idle = first[-1], at.free_s < self.now_s
        if not was_idle and at.last == (self.tasks[number].group, self._next_step(number)):
            start_s = 0.0
        else:
            start_s = self._drawn(self.machine.waits(self.machine.wake_ups if was_idle else self.machine.pauses), at)
        if start_s <= 0:
            self._take(worker)
            return
        at.starting, at.start = True, at.start + 1
        start = at.start
        self.plan(self.now_s + start_s, lambda: self._started(worker, start))

    def _started(self, worker: int, start: int) -> None:
        at = self.workers[worker]
        if at.starting and at.start == start:
            at.starting = False
            self._take(worker)

    def _take(self, worker: int) -> None:
        for queue in self._queues_for(worker):
            while entries := [entry for entry in self.queue if self._is_in(entry[-1], queue)]:
                entry = min(entries)
                self.queue.remove(entry)
                number, task = entry[-1], self.tasks[entry[-1]]
                task.state = "waiting"
                if self._is_ready(number):
                    self._begin(worker, number)
                    return
                if task.ended:
                    continue
                if self._has_room:
                    task.state, task.due = "running", False
                    self.workers[worker].task = number
                    self.asked.append((number, worker))
                    return
                task.blocked = True

    def _is_in(self, number: int, queue: int) -> bool:
        return self._queue_of(self.units[self.tasks[number].unit].owner) == queue

    def _queues_for(self, worker: int) -> list[int]:
        own = self._queue_of(worker)
        if self.rules.queues != "node-queue":
            return [own]
        nodes = [n for n, host in enumerate(self.machine.node_host) if host == self.workers[worker].host]
        at = nodes.index(own)
        return nodes[at:] + nodes[:at]

    # turns

    def _begin(self, worker: int, number: int) -> None:
        task, at = self.tasks[number], self.workers[worker]
        unit = self.units[task.unit]
        steps = self._steps_of_turn(number)
        cells = [self.steps[step].cells[number] for step in steps]
        remote = sum(self._remote(step, number, at) for step in steps)
        last = task.last_node
        if last is not None and last != at.node and self.machine.node_host[last] == at.host:
            remote += min(sum(cell.size for cell in cells), unit.state_bytes)
        self.remote_bytes += remote
        work_s = sum(cell.work_s for cell in cells) + max(cell.once_s for cell in cells)
        work_s += remote * self.machine.remote_byte_s + unit.extra_s
        unit.extra_s = 0.0
        busy = sum(self._is_active(each) for each in self.workers if each.host == at.host)
        first, turn_slowdown = self._first(number), self.machine.turn_slowdown or self.machine.slowdown
        if at.last != (task.group, first):
            at.made, at.part_s = [], 0.0
        short_s = min(work_s, max(0.0, self.machine.long_s - at.part_s))
        long_slowdown = self.machine.long_slowdown or self.machine.slowdown
        at.part_s += work_s
        slowed_s = (work_s - short_s) * long_slowdown[min(busy, len(long_slowdown) - 1)]
        work_s = slowed_s + short_s * self.machine.slowdown[min(busy, len(self.machine.slowdown) - 1)]
        if at.last != (task.group, first):
            varied = abs(next((cell.varied for cell in cells if cell.varied > 0), cells[0].varied))
            work_s += task.fixed_s * varied * turn_slowdown[min(busy, len(turn_slowdown) - 1)]
        at.last = (task.group, first)
        queue = self._queue_of(worker)
        free_s = self.free_s[queue] = max(self.free_s.get(queue, 0.0), self.now_s) + at.access_s
        took_s = work_s / self.machine.hosts[at.host].speed + free_s - self.now_s
        task.state, task.last_node = "running", at.node
        unit.at_work += 1
        at.task, at.steps, at.began_s, at.turn = number, steps, self.now_s, at.turn + 1
        turn = at.turn
        self.plan(self.now_s + took_s, lambda: self._finish(worker, turn))

    def _steps_of_turn(self, number: int) -> list[int]:
        steps = list[int]()
        for step in range(self.tasks[number].next, len(self.steps)):
            cell = self.steps[step].cells.get(number)
            if cell is None or cell.done:
                continue
            if cell.missing > 0 or len(steps) == self.rules.turn_steps:
                break
            steps.append(step)
            if cell.ends:
                break
        return steps

    def _drawn(self, values: np.ndarray[tuple[int, int], np.dtype[np.float64]], at: Worker) -> float:
        """A random value of a worker for so many other active ones."""
        busy = sum(self._is_active(each) for each in self.workers if each.host == at.host)
        row = values[min(busy, len(values) - 1)].tolist()
        at.draws = (at.draws * FACTOR + ADDED) % 2**31
        return float(row[(at.draws >> UNUSED_BITS) % len(row)])

    def _is_active(self, worker: Worker) -> bool:
        """Whether a worker is in a turn or about to be, and not only kept for a source that is being read."""
        return worker.starting or (worker.task is not None and bool(worker.steps))

    def _first(self, number: int) -> int:
        first = self._next_step(number)
        assert first is not None
        return first

    def _remote(self, step: int, number: int, at: Worker) -> float:
        cells, inputs = self.steps[step].cells, self.tasks[number].inputs
        ran_on = [cells[each].ran_on for each in inputs if each in cells]
        there = [self.workers[each] for each in ran_on if each is not None]
        away = sum(each.host == at.host and each.node != at.node for each in there)
        return cells[number].size * away / max(1, len(inputs))

    def _finish(self, worker: int, turn: int) -> None:
        at = self.workers[worker]
        if at.task is None or at.turn != turn:
            return
        number, task, steps = at.task, self.tasks[at.task], at.steps
        took_s = self.now_s - at.began_s
        at.worked_s += took_s
        task.busy_s += took_s
        task.last_run_s, task.next, task.state = self.now_s, steps[-1] + 1, "waiting"
        self.units[task.unit].at_work -= 1
        self._free(worker)
        oldest_s = min(self.steps[step].arrival_s for step in steps)
        for step in steps:
            at.made.append(len(self.results))
            self._complete(step, number, worker, oldest_s if self.rules.by_turn else None)
        if self.rules.by_turn:
            for place in at.made:
                self._leave_now(place)
        self._leave_if_free(task.unit)
        self._offer(number)

    def _leave_now(self, place: int) -> None:
        """Let a result leave later than it was made."""
        number, step, latency_s = self.results[place]
        self.results[place] = (number, step, latency_s + self.now_s - self.left_s[place])
        self.left_s[place] = self.now_s

    def _free(self, worker: int) -> None:
        self.workers[worker].task, self.workers[worker].steps = None, []
        self.workers[worker].free_s = self.now_s
        self.wakes.append(worker)

    def _complete(self, step: int, number: int, worker: int | None, since_s: float | None = None) -> None:
        cells = self.steps[step].cells
        cells[number].done, cells[number].ran_on = True, worker
        self.left_s.append(self.now_s)
        self.results.append((number, step, self.now_s - (self.steps[step].arrival_s if since_s is None else since_s)))
        for target in self.tasks[number].outputs:
            if target in cells:
                self._send(step, target, worker)
        if number < self.sources:
            for target in sorted(cells):
                if cells[target].implied:
                    self._arrived(step, target)
        if self.steps[step].is_done:
            for source in range(self.sources):
                self._unblock(source)

    def _unblock(self, source: int) -> None:
        task = self.tasks[source]
        if task.blocked and not task.ended and self._has_room:
            task.blocked = False
            if self.units[task.unit].owner >= 0:
                self._offer(source)
            else:
                self.poll(source, self.now_s)

    def _send(self, step: int, target: int, worker: int | None) -> None:
        owner = self.workers[self.units[self.tasks[target].unit].owner]
        if worker is None or self.workers[worker].host == owner.host:
            self._arrived(step, target)
        else:
            self._ship_input(step, target, self.workers[worker].host)

    def _ship_input(self, step: int, target: int, here: int) -> None:
        there = self.workers[self.units[self.tasks[target].unit].owner].host
        if here == there:
            self._arrived(step, target)
            return
        size = self.steps[step].cells[target].size / max(1, len(self.tasks[target].inputs))
        self.network.ship(here, there, size, lambda host: self._ship_input(step, target, host))

    def _arrived(self, step: int, target: int) -> None:
        cell = self.steps[step].cells[target]
        cell.missing -= 1
        if cell.missing == 0:
            self._offer(target)
