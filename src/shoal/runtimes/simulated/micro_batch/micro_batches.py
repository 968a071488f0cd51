"""The simulated Spark: the same graphs, kernels and policies on executors that are described, in simulated time.

Rows are processed when an epoch is planned; its timeline says when that would have been done. So results never depend
on the cluster. Epochs follow each other as Spark's micro-batches do: the next one takes all rows that came meanwhile,
up to the limit of its sources, and nothing is under way in between. Commands are carried out there.
"""

from collections.abc import Iterator, Mapping
from dataclasses import fields, replace

import numpy as np

from shoal.connectors.sinks import Sink
from shoal.connectors.sources.source import Source
from shoal.errors import ConfigError, QueryError, RunError
from shoal.model.control.binding import Binding, Move
from shoal.model.control.messages import Event, MovesFinished, QueriesParked, Rebind
from shoal.model.control.shedding import NO_SHEDDING, StreamShedding
from shoal.model.query.graph import Graph, InstanceId
from shoal.policies.catalog import QUEUED
from shoal.runtimes.arrangement import Arrangement
from shoal.runtimes.measured.profile_file import read_profile
from shoal.runtimes.protocol import refuse_dataframes
from shoal.runtimes.simulated.commanded import ENDING, CommandedRun
from shoal.runtimes.simulated.micro_batch.epoch_costs import EpochCosts, has_epochs, profiled_costs, usual_costs
from shoal.runtimes.simulated.micro_batch.epoch_events import PlayedEpoch
from shoal.runtimes.simulated.micro_batch.epoch_work import EpochWork
from shoal.runtimes.simulated.micro_batch.executor_slots import ExecutorSlots
from shoal.runtimes.simulated.micro_batch.sliced_input import POLL_S, SlicedInput
from shoal.runtimes.simulated.micro_batch.small_epochs import SmallEpochs, has_small_epochs
from shoal.runtimes.simulated.micro_batch.timeline import Bound, EpochPlayer
from shoal.runtimes.simulated.settings import SimulatedSettings
from shoal.runtimes.simulated.workers import Workers

TAKEN = ("topology", "delay", "trace", "weights", "work_factor", "seed", "measure_policy", "mode")
"""The settings that a simulated Spark has; it refuses the others."""
BEFORE = 0.5
"""The share of the time between two epochs that passes when the input of the second is already fixed."""


def check_settings(settings: SimulatedSettings, policy: str | None) -> None:
    """Reject what Spark has no counterpart for."""
    if settings.mode != "real":
        raise ConfigError(f"a simulated Spark processes real rows; got mode={settings.mode}")
    for each in fields(settings):
        value = getattr(settings, each.name)
        if each.name not in TAKEN and value != each.default:
            raise ConfigError(f"a simulated Spark has no {each.name}; got {each.name}={value}, leave it out")
    if policy in QUEUED:
        raise ConfigError(f"workers of Spark share no queues; got policy {policy}")
    for host in settings.machine.hosts:
        if host.battery_j != float("inf"):
            raise ConfigError(f"executors of a simulated Spark have no batteries; got one on host {host.name!r}")


class MicroBatchRuntime(CommandedRun):
    """Runs a graph in micro-batches, in the thread that iterates over `events`."""

    capabilities = replace(CommandedRun.capabilities, shares_queues=False, stops_to_divide=False)
    where = "a simulated Spark"

    def __init__(
        self,
        sources: Mapping[str, Source],
        sink: Sink,
        settings: SimulatedSettings,
        *,
        parks: bool = False,
        most_workers: int = 0,
        interval_s: float = 0.0,
        shedding: Mapping[str, StreamShedding] = NO_SHEDDING,
    ) -> None:
        """Prepare a run; `interval_s` is the least time between the beginnings of two epochs."""
        super().__init__(sources, sink, settings, parks=parks, most_workers=most_workers, shedding=shedding)
        self._interval_s = interval_s
        self._time_s, self._epoch = 0.0, 0
        self._held: dict[InstanceId, tuple[int, int, float]] = {}
        self._moves: list[tuple[str, list[Move]]] = []
        self._small = SmallEpochs()

    def start(self, graph: Graph, binding: Binding) -> None:
        """Compile the graph and open the sources."""
        refuse_dataframes(self._sources)
        self._workers = Workers.first(self.settings.machine, binding.workers)
        self._now = Arrangement(graph, binding)
        self._rearrange(self._now)
        self._sliced = SlicedInput(self._sources, self.now_s, parks=self._parks)
        self._sliced.shed(self._shedding)
        self._input = self._sliced
        self._run = self._epochs()

    def now_s(self) -> float:
        """The simulated time."""
        return self._time_s

    def _close(self) -> None:
        self._input.close()

    def _epochs(self) -> Iterator[Event]:
        """All epochs, and a last one without input that closes all windows."""
        while not self._input.ended:
            slots = self._slots()
            yield from self._notice_lost(self._lost_cores(slots))
            yield from self._carried_out()
            self._input.stopping = self._stopping.is_set()
            try:
                work, again_s = self._sliced.epoch(self._now, slots.number)
            except QueryError as error:
                if not self._parks:
                    raise
                self._rearrange(self._now.parking(error))
                yield QueriesParked(error.queries, error.reason, error.row, at_s=self.now_s())
                continue
            if work is None:
                self._time_s = max(again_s, self._time_s + POLL_S)
            else:
                yield from self._played(work, slots)
        yield from self._carried_out(refusal=ENDING)

    def _slots(self) -> ExecutorSlots:
        """The slots that are there now, or as soon as there are any."""
        machine = self.settings.machine
        slots = ExecutorSlots.at(machine, self._time_s)
        if not slots.executors:
            self._time_s = min(end_s for _, begin_s, end_s in machine.host_outages if begin_s <= self._time_s < end_s)
            if self._time_s == float("inf"):
                raise RunError("the simulated run cannot go on: every executor has failed and none returns")
            return self._slots()
        return slots

    def _lost_cores(self, slots: ExecutorSlots) -> frozenset[int]:
        hosts = self.settings.machine.worker_host
        return frozenset(np.flatnonzero(np.isin(hosts, list(slots.down))).tolist())

    def _played(self, work: EpochWork, slots: ExecutorSlots) -> Iterator[Event]:
        """Let the time of an epoch pass, write its results and report it."""
        fixed_s, between_s = self._time_s, self._costs.between_s
        bound = self._bound(slots)
        small = self._costs.small
        is_small = small is not None and self._small.includes(work, bound, small, moves=bool(self._moves))
        times = self._player.played(work, bound, fixed_s + BEFORE * between_s, small=is_small)
        self._small.learn(work, times)
        played = PlayedEpoch(self._epoch, fixed_s, work, bound, times, self._player.instance_s(work))
        self._time_s = times.commit_s
        written = self._input.taken()
        self._write(written.results, self._epoch)
        self.consumed += written.rows
        moves, self._moves = self._moves, []
        snapshot = played.snapshot(self._now, self._workers, self._input.marks, written.arrivals)
        yield played.committed(snapshot, written, sum(len(made) for _, made in moves))
        for id_, made in moves:
            yield MovesFinished(id_, played.reports(self._now, made), at_s=self.now_s())
        self._hold(work, bound)
        self._epoch += 1
        self._time_s = max(times.commit_s + (1 - BEFORE) * between_s, fixed_s + self._interval_s)

    def _bound(self, slots: ExecutorSlots) -> Bound:
        """Where the next epoch runs, and which state has to move for it."""
        instances, worker_of = self._now.program.instances, self._now.binding.worker_of
        worker = np.array([int(worker_of[instance]) for instance in instances], np.int64)
        home = slots.homes(self._workers.cores)
        source, held = np.full(len(instances), -1, np.int64), np.zeros(len(instances))
        for place, instance in enumerate(instances):
            target = int(worker[place])
            before, executor, held[place] = self._held.get(instance, (target, int(home[target]), 0.0))
            if held[place] and (before, executor) != (target, home[target]):
                source[place] = _source(slots, executor, int(home[target]))
        return Bound(slots, worker, home, source, held)

    def _hold(self, work: EpochWork, bound: Bound) -> None:
        """Remember where the state of every instance is after an epoch."""
        executors = bound.home[bound.worker].tolist()
        values = zip(bound.worker.tolist(), executors, work.state_bytes.tolist(), strict=True)
        self._held = dict(zip(self._now.program.instances, values, strict=True))

    def _rebind(self, command: Rebind, after: Arrangement) -> Iterator[Event]:
        """Move instances before the next epoch."""
        self._workers = self._workers.of_number(after.binding.workers)
        self._moves.append((command.id, list(self._now.binding.diff(after.binding))))
        self._now = after
        yield from ()

    def _rearrange(self, after: Arrangement) -> None:
        """Change queries or partitioning; nothing is under way."""
        costs, before = self._epoch_costs(after), self._now
        if after.graph is not before.graph or after.partitioning is not before.partitioning:
            self._input.arranged(before, after)
        self._now, self._costs = after, costs
        self._player = EpochPlayer(after.program, costs)

    def _epoch_costs(self, now: Arrangement) -> EpochCosts:
        """The costs of a profile that was taken on Spark, or the usual ones around those of the delay model."""
        settings = self.settings
        profile = read_profile(settings.trace) if settings.trace else None
        if settings.delay == "traced" and profile is not None and has_epochs(profile):
            costs = profiled_costs(now.program, profile)
            if not has_small_epochs(settings.machine, now.program):
                costs = replace(costs, small=None)
        else:
            costs = usual_costs(now.program, settings.delays(now.program))
        return costs.scaled(settings.work_factor)


def _source(slots: ExecutorSlots, executor: int, target: int) -> int:
    """The executor that sends state: the one that has it, or another if it is down, since the checkpoint is shared."""
    if executor in slots.executors:
        return executor
    others = [each for each in slots.executors if each != target]
    return others[target % len(others)] if others else target
