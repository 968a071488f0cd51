"""The timeline of an epoch: when its stages begin and end, and when its results are there.

1. The driver's own time comes last, with the commit; Spark's time to log and plan comes before the epoch.
2. State that has a new worker is sent to it and loaded.
3. Reading tasks run in order, each on the slot that is free first.
4. What they send crosses the links. Then every worker has one task per depth of lanes, on its own executor, with
   another exchange in front of each.
5. In a small epoch there is no exchange: the driver does the work of one worker after another.
6. If an executor fails meanwhile, its tasks of this epoch and what they have sent are lost: they run again on the other
   slots as these become free, stage by stage. The loss is noticed at once.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from shoal.compiler.lane import Lane
from shoal.compiler.program import Program
from shoal.errors import RunError
from shoal.kernels.columns.effort import Effort
from shoal.runtimes.simulated.delay.cost import Cost
from shoal.runtimes.simulated.micro_batch.epoch_costs import EFFORT, LOAD_BYTE_S, EpochCosts
from shoal.runtimes.simulated.micro_batch.epoch_work import EpochWork
from shoal.runtimes.simulated.micro_batch.exchange import between_hosts, collected_s, exchanged_s
from shoal.runtimes.simulated.micro_batch.executor_slots import ExecutorSlots, ScheduledTasks

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Timeline:
    """The times of one epoch. Arrays have an entry for every worker."""

    begin_s: float
    moved_s: float
    read_s: float
    rounds_s: tuple[float, ...]
    commit_s: float
    busy_s: Floats
    loading_s: Floats
    reading_work_s: float
    lost: frozenset[int]
    """Executors that failed before the last stage ended, so that tasks ran again."""

    @property
    def duration_s(self) -> float:
        """From begin to commit."""
        return self.commit_s - self.begin_s


@dataclass(frozen=True, eq=False)
class Bound:
    """Where an epoch runs: the worker of every instance, the executor of every worker, and where state comes from.

    `source`: for every instance the executor on which its state was, or -1 if it need not move. An instance that stays
    on its executor under another worker is loaded, too. `held_bytes`: the size of its state before the epoch.
    """

    slots: ExecutorSlots
    worker: Ints
    home: Ints
    source: Ints
    held_bytes: Floats


@dataclass(frozen=True, eq=False)
class EpochPlayer:
    """Plays epochs of one program at given costs."""

    program: Program
    costs: EpochCosts

    @cached_property
    def _event_s(self) -> Floats:
        return self._by_instance("event_s")

    @cached_property
    def _result_s(self) -> Floats:
        return self._by_instance("result_s")

    @cached_property
    def _state_byte_s(self) -> Floats:
        return self._by_instance("state_byte_s")

    @cached_property
    def _pair_s(self) -> Floats:
        return self._by_instance("pair_s")

    @cached_property
    def _depth(self) -> Ints:
        return np.array([lane.depth for lane in self.program.lanes if lane.kernel for _ in lane.instances], np.int64)

    def _by_instance(self, name: str) -> Floats:
        lanes = [lane for lane in self.program.lanes if lane.kernel]
        return np.array([getattr(self.costs.lanes[lane.number], name) for lane in lanes for _ in lane.instances], float)

    def instance_s(self, work: EpochWork) -> Floats:
        """The time of every instance at speed 1, without what its worker and its lane take in any case."""
        found: Floats = (
            self._event_s * work.events
            + self._result_s * work.results
            + (self._state_byte_s + self._pair_s * work.events) * work.state_bytes
        )
        return found if work.effort is None else found + self._effort_s(work.effort)

    def _effort_s(self, effort: Effort) -> Floats:
        parts = [self._by_instance(name) * count for name, count in zip(EFFORT, effort.columns, strict=True)]
        found: Floats = np.sum(parts, axis=0)
        return found

    def played(self, work: EpochWork, bound: Bound, begin_s: float, *, small: bool = False) -> Timeline:
        """The timeline of an epoch that begins at a time; `small`: the driver does the work of the workers."""
        moved_s, loading_s = self._moved(bound, begin_s)
        stages = Stages(bound.slots, moved_s)
        reading = np.array([self._reading_s(each.stream, each.rows) for each in work.slices])
        stages.run(reading)
        read_s = stages.at_s
        if small:
            rounds, busy_s, commit_s = self._in_driver(work, bound, read_s)
        else:
            rounds, busy_s, commit_s = self._in_tasks(work, bound, stages, loading_s)
        return Timeline(
            begin_s,
            moved_s,
            read_s,
            rounds,
            commit_s,
            busy_s,
            loading_s,
            float(reading.sum()),
            frozenset(stages.slots.down - bound.slots.down),
        )

    def _in_tasks(
        self, work: EpochWork, bound: Bound, stages: "Stages", loading_s: Floats
    ) -> tuple[tuple[float, ...], Floats, float]:
        """The rounds of the workers: when they end, how long every worker is busy, and when the epoch is committed."""
        machine, workers, sent_from = bound.slots.machine, len(bound.home), stages.done[-1].executor
        rounds, busy_s, instance_s = [], np.zeros(workers), self.instance_s(work)
        for depth in self._depths:
            sent = self._first(work, bound, sent_from) if depth == 1 else self._onward(work, bound, depth)
            stages.at_s = exchanged_s(machine, sent, stages.at_s)
            spent_s = self._round_s(work, bound, depth, instance_s) + (loading_s if depth == 1 else 0.0)
            stages.run(spent_s, bound.home)
            busy_s += stages.done[-1].took_s
            rounds.append(stages.at_s)
        tasks = len(work.slices) + workers * len(rounds)
        driver_s = self.costs.driver_s(tasks, _written(work), bound.slots.number)
        return tuple(rounds), busy_s, stages.at_s + collected_s(machine, float(work.written_bytes)) + driver_s

    def _in_driver(self, work: EpochWork, bound: Bound, at_s: float) -> tuple[tuple[float, ...], Floats, float]:
        """The same if the driver does the work of one worker after another."""
        costs = self.costs.small
        if costs is None:
            raise ValueError("an epoch can only be small if it is known what small ones cost")
        rounds, busy_s, instance_s = [], np.zeros(len(bound.home)), self.instance_s(work)
        for depth in self._depths:
            spent_s = self._round_s(work, bound, depth, instance_s, costs.worker)
            spent_s = spent_s / bound.slots.machine.host_speed[bound.home]
            busy_s += spent_s
            at_s += float(spent_s.sum())
            rounds.append(at_s)
        return tuple(rounds), busy_s, at_s + costs.driver.fixed_s + costs.driver.result_s * _written(work)

    @property
    def _depths(self) -> range:
        """The rounds of an epoch."""
        return range(1, max(1, self.program.depth) + 1)

    def _moved(self, bound: Bound, begin_s: float) -> tuple[float, Floats]:
        """When all moved state has crossed the links, and how long every worker then loads it."""
        moving = np.flatnonzero(bound.source >= 0)
        machine, targets = bound.slots.machine, bound.home[bound.worker[moving]]
        sent = between_hosts(bound.source[moving], targets, bound.held_bytes[moving], len(machine.hosts))
        load = np.bincount(bound.worker[moving], bound.held_bytes[moving], minlength=len(bound.home))
        loading_s: Floats = np.asarray(load * LOAD_BYTE_S, np.float64)
        return exchanged_s(machine, sent, begin_s), loading_s

    def _reading_s(self, stream: str, rows: int) -> float:
        return float(self.costs.reading[stream].seconds(rows, 0, 0))

    def _first(self, work: EpochWork, bound: Bound, sent_from: Ints) -> Floats:
        """Bytes between executors behind the reading stage."""
        target, hosts = bound.home[bound.worker], len(bound.slots.machine.hosts)
        found = np.zeros((hosts, hosts))
        for each, source in zip(work.slices, sent_from.tolist(), strict=True):
            found[source] += np.bincount(target, each.sent_bytes, minlength=hosts)
        np.fill_diagonal(found, 0.0)
        return found

    def _onward(self, work: EpochWork, bound: Bound, depth: int) -> Floats:
        """Bytes between executors in front of a later round: executors send in proportion to their results."""
        home, hosts = bound.home[bound.worker], len(bound.slots.machine.hosts)
        before, here = self._depth < depth, self._depth == depth
        given = np.bincount(home[before], work.results[before], minlength=hosts)
        taken = np.bincount(home[here], work.onward_bytes[here], minlength=hosts)
        found: Floats = np.outer(given / max(1.0, float(given.sum())), taken).astype(np.float64)
        np.fill_diagonal(found, 0.0)
        return found

    def _round_s(
        self, work: EpochWork, bound: Bound, depth: int, instance_s: Floats, worker: Cost | None = None
    ) -> Floats:
        """The time of every worker in a round, at speed 1; that of a task if the cost of a worker is not given."""
        here, worker = self._depth == depth, worker or self.costs.worker
        lanes_s = sum(self.costs.lanes[lane.number].fixed_s for lane in self.program.lanes if self._runs(lane, depth))
        carried_s = work.carried_bytes[here] * worker.state_byte_s
        spent_s = np.bincount(bound.worker[here], instance_s[here] + carried_s, minlength=len(bound.home))
        found: Floats = (spent_s + worker.fixed_s + lanes_s).astype(np.float64)
        return found

    @staticmethod
    def _runs(lane: Lane, depth: int) -> bool:
        return lane.kernel is not None and lane.depth == depth


def _written(work: EpochWork) -> int:
    return sum(work.written.values())


class Stages:
    """One stage after another, some of which may lose an executor."""

    def __init__(self, slots: ExecutorSlots, at_s: float) -> None:
        """Begin at a time."""
        self.slots, self.at_s = slots, at_s
        self.done: list[ScheduledTasks] = []

    def run(self, work_s: Floats, home: Ints | None = None) -> None:
        """Run a stage, on given executors or on any, and then again what was lost meanwhile."""
        begin_s = self.at_s
        if home is not None and self.slots.down:
            home = self._moved_away(home)
        done = self.slots.scheduled(work_s, begin_s) if home is None else self.slots.pinned(work_s, home, begin_s)
        self.done.append(done)
        self.at_s = max(begin_s, done.last_s)
        while (failure := self._next_failure(begin_s)) is not None:
            self._lose(*failure)

    def _next_failure(self, begin_s: float) -> tuple[float, int] | None:
        """The first failure of an executor in the stage under way, if there is one."""
        left = [each for each in self.slots.machine.host_outages if each[0] not in self.slots.down]
        found = [(at_s, host) for host, at_s, _ in left if begin_s <= at_s < self.at_s]
        return min(found, default=None)

    def _lose(self, failed_s: float, executor: int) -> None:
        """Run all tasks of an executor again on the others."""
        self.slots = self.slots.without(executor)
        if not self.slots.executors:
            raise RunError("the simulated run cannot go on: every executor has failed within one epoch")
        again_s, running = failed_s, self.done[-1]
        for number, stage in enumerate(self.done):
            lost = np.flatnonzero(stage.executor == executor)
            if not len(lost):
                continue
            speed = self.slots.machine.host_speed[executor]
            again = self.slots.scheduled(stage.took_s[lost] * speed, again_s, running)
            self.done[number] = _replaced(stage, lost, again)
            again_s = again.last_s
        self.at_s = max(self.done[-1].last_s, again_s)

    def _moved_away(self, home: Ints) -> Ints:
        """Executors of workers, with others for those that have failed in an earlier stage."""
        left = np.array(self.slots.executors, np.int64)
        gone = np.flatnonzero(np.isin(home, list(self.slots.down)))
        found = home.copy()
        found[gone] = left[np.arange(len(gone)) % len(left)]
        return found


def _replaced(stage: ScheduledTasks, places: Ints, again: ScheduledTasks) -> ScheduledTasks:
    """A stage with some tasks run again."""
    executor, took_s, end_s = stage.executor.copy(), stage.took_s.copy(), stage.end_s.copy()
    executor[places], end_s[places] = again.executor, again.end_s
    took_s[places] = again.took_s
    return ScheduledTasks(executor, took_s, end_s)
