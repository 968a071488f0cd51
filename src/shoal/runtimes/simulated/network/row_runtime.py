"""The simulated runtime row by row: every instance processes its rows where and when they have reached it."""

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from shoal.connectors.sinks import Sink
from shoal.connectors.sources.source import Source
from shoal.errors import BindingError, ConfigError, RunError
from shoal.mechanisms.catalog import check_limit, mechanism_with
from shoal.model.control.binding import Binding, WorkerId
from shoal.model.control.costs import LinkCosts
from shoal.model.control.messages import Command, Event, MoveReport, MovesFinished, Rebind
from shoal.model.control.shedding import NO_SHEDDING, StreamShedding
from shoal.model.query.graph import Graph
from shoal.policies.catalog import QUEUED, SPATIAL_POLICIES
from shoal.policies.partitioning.replication import REPLICATED
from shoal.runtimes.arrangement import Arrangement
from shoal.runtimes.protocol import refuse_dataframes
from shoal.runtimes.simulated.commanded import CAPABILITIES, ENDING, MECHANISM, CommandedRun
from shoal.runtimes.simulated.input.task_plan import TaskPlan
from shoal.runtimes.simulated.network.convoy import Convoy
from shoal.runtimes.simulated.network.crossing import Crossing, Outside
from shoal.runtimes.simulated.network.lost_hosts import LostHosts, queries_of
from shoal.runtimes.simulated.network.move_limits import capacities
from shoal.runtimes.simulated.network.network import OUTSIDE, Network, bandwidth
from shoal.runtimes.simulated.network.replicas import NO_HOST, Replicas
from shoal.runtimes.simulated.network.row_input import RowInput
from shoal.runtimes.simulated.network.row_report import RowReports
from shoal.runtimes.simulated.network.station import Station
from shoal.runtimes.simulated.network.transfers import Capacities, transfers_of
from shoal.runtimes.simulated.network.wires import Wires
from shoal.runtimes.simulated.settings import SimulatedSettings
from shoal.runtimes.simulated.workers import Workers

SUPERSEDED = "a newer rebinding superseded it"
REFUSED = {
    "mode": "real",
    "delivery_s": 0.0,
    "contention": "none",
    "scheduling": "",
    "serving": "",
    "arrival": "spread",
    "buffer_rows": 0,
    "work_factor": 1.0,
    "trace_results": False,
}
"""Settings that have no meaning row by row, with the only value that is taken."""
RESCUE = "rescue"
"""The id of moves by the runtime itself."""
STUCK_EPOCHS = 100
"""Epochs without anything planned after which a run that is not done cannot go on."""


def check_settings(settings: SimulatedSettings, policy: str | None) -> None:
    """Reject what is not simulated row by row."""
    for name, value in REFUSED.items():
        if getattr(settings, name) != value:
            raise ConfigError(f"detail=rows has no {name}; got {name}={getattr(settings, name)}, leave it out")
    if policy in QUEUED:
        raise ConfigError(f"with detail=rows every instance belongs to a worker; got policy {policy}")
    if policy in SPATIAL_POLICIES and policy != REPLICATED:
        raise ConfigError(
            f"with detail=rows and with mechanisms other than {MECHANISM} partitions stay as they are, which policy "
            f"{policy} changes; choose detail=steps or another policy"
        )
    for host in settings.machine.hosts:
        if host.battery_j != math.inf:
            raise ConfigError(f"detail=rows has no batteries; got one on host {host.name!r}")


@dataclass
class RowRebinding:
    """A rebinding in progress: its crossings, each with the workers that it leaves and goes to."""

    id: str
    crossings: list[tuple[Crossing, WorkerId, WorkerId]] = field(default_factory=list)

    @property
    def finished(self) -> bool:
        """Whether every instance has arrived, and results that waited for it are emitted."""
        return all(crossing.relocation.finished and not crossing.station.releasing for crossing, _, _ in self.crossings)

    def reports(self) -> tuple[MoveReport, ...]:
        """What became of the moves."""
        return tuple(self._report(*each) for each in self.crossings)

    @staticmethod
    def _report(crossing: Crossing, source: WorkerId, target: WorkerId) -> MoveReport:
        station = crossing.station
        return MoveReport(
            station.instance,
            source,
            target,
            crossing.relocation.sent,
            frozen_s=crossing.frozen_s,
            late_s=station.emission_delay_s,
            seconds=crossing.finished_s - crossing.begun_s,
            late_results=station.late_results,
            emission_delay_s=station.emission_delay_s,
            lost=crossing.relocation.loss.lost_state(station.kernel, queries_of(station.lane)),
            emission_delay_sum_s=station.emission_delay_sum_s,
            active_s=crossing.started_s - crossing.begun_s,
            note=crossing.note,
        )


class RowRuntime(CommandedRun):
    """Runs a graph in the thread that iterates over `events`."""

    capabilities = replace(CAPABILITIES, changes_queries=False, shares_queues=False)
    where = "the simulated runtime"

    def __init__(
        self,
        sources: Mapping[str, Source],
        sink: Sink,
        settings: SimulatedSettings,
        *,
        mechanism: str = MECHANISM,
        most_workers: int = 0,
        shedding: Mapping[str, StreamShedding] = NO_SHEDDING,
    ) -> None:
        """Prepare a run; `mechanism` is that of rebindings which name none."""
        super().__init__(sources, sink, settings, most_workers=most_workers, shedding=shedding)
        self._mechanism = mechanism
        self._rebinding: RowRebinding | None = None
        self._next: tuple[Rebind, Arrangement] | None = None
        self._stuck = 0

    def start(self, graph: Graph, binding: Binding) -> None:
        """Compile the graph, open the sources and lay out the machine."""
        refuse_dataframes(self._sources)
        settings = self.settings = self.settings.for_workers(max(binding.workers, self._most_workers))
        self._workers = Workers.first(settings.machine, binding.workers)
        self._now = Arrangement(graph, binding)
        program = self._now.program
        self._plan = TaskPlan(program)
        core_of = {each: self._workers.cores[worker] for each, worker in binding.worker_of.items()}
        outside = settings.source == "outside"
        owners = self._plan.owners(binding, outside=outside)
        readers = {stream: owners[unit] for stream, unit in zip(self._plan.streams, self._plan.unit, strict=False)}
        source_cores = {s: self._workers.cores[worker] if worker >= 0 else OUTSIDE for s, worker in readers.items()}
        source_cores |= self._placed_sources(settings, readers)
        results_at = settings.places("results_at")
        self._network = Network(program, settings.machine, settings.delays(program), core_of, source_cores, results_at)
        self._input: RowInput = RowInput(
            self._sources, self.now_s, block_rows=settings.block_rows, step_s=settings.step_s
        )
        self._input.shed(self._shedding)
        state_machine, wires = settings.state_machine, self._network.wires
        self._convoy = Convoy(
            Wires(state_machine, self._network.calendar) if settings.state_topology else wires,
            settings.machine.worker_host.tolist(),
            lambda: self._network.newest_us,
            bandwidth(state_machine),
        )
        self._reports = RowReports(self._network, self._plan)
        for source in range(len(self._plan.streams)):
            self._poll(source, 0.0)
        names = [host.name for host in settings.machine.hosts]
        standby = names.index(settings.standby) if settings.standby else NO_HOST
        self._replicas = Replicas(self._network, standby, settings.replication_s)
        self._lost_hosts = LostHosts(self._network, self._convoy, self._replicas, lambda: self._workers, self._is_over)
        self._run = self._epochs()

    @staticmethod
    def _placed_sources(settings: SimulatedSettings, streams: Collection[str]) -> dict[str, int]:
        """The cores of the hosts that read streams: the first of each."""
        found, host_of = settings.places("sources_at"), settings.machine.worker_host.tolist()
        if unknown := [stream for stream in found if stream not in streams]:
            raise ConfigError(f"sources_at must be of {', '.join(streams)}; got {unknown[0]}")
        return {stream: host_of.index(host) for stream, host in found.items()}

    def now_s(self) -> float:
        """The simulated time."""
        return self._network.now_s

    def _close(self) -> None:
        self._input.close()

    def _poll(self, source: int, at_s: float) -> None:
        """Ask a source for its next step at a time."""
        self._network.calendar.add(at_s, lambda: self._read(source))

    def _read(self, source: int) -> None:
        counts, again_s = self._input.read(self._plan, source, self._now)
        stream = self._plan.streams[source]
        steps, self._input.steps = self._input.steps, []
        for step in steps:
            self._network.issue(stream, step)
        if counts is not None:
            self.consumed += counts.rows
        if again_s < math.inf:
            self._poll(source, again_s)

    def _epochs(self) -> Iterator[Event]:
        """All epochs, until every event has been processed."""
        while not self._is_done():
            yield from self._carried_out(refusal=ENDING if self._input.ended else "")
            self._input.stopping = self._stopping.is_set()
            if self._input.stopping and not self._input.ended:
                self._poll(0, self.now_s())
            self._convoy.kick()
            until_s = self.now_s() + self.settings.epoch_s
            self._replicas.plan(until_s)
            self._network.calendar.run(until_s)
            yield self._committed()
            yield from self._notice_lost(self._network.cores.lost)
            yield from self._notice_losses()
            yield from self._moved()
            self._check_progress()
        yield from self._carried_out(refusal=ENDING)

    def _is_over(self) -> bool:
        """Whether every event has been processed."""
        return self._input.ended and self._network.done

    def _is_done(self) -> bool:
        return self._is_over() and self._rebinding is None and self._next is None

    def _committed(self) -> Event:
        """Write the results of the epoch, and report it."""
        written = self._input.taken()
        emitted, results, refused = self._network.taken()
        for table, batches in results.items():
            written.results.setdefault(table, []).extend(batches)
        for reason, number in refused.items():
            written.refusals[reason] = written.refusals.get(reason, 0) + number
        lost_rows = self._lost_hosts.taken_rows()
        if lost_rows:
            written.refusals["lost with a host"] = lost_rows
        self._write(written.results, self._reports.epoch)
        report = self._reports.next(self._now, self._workers, written, self._input.marks, emitted)
        return replace(report, state_bytes_ahead=self._replicas.taken())

    def _notice_losses(self) -> Iterator[Event]:
        """Report instances that went on without their state, or with an older one."""
        losses = self._lost_hosts.taken_reports()
        if losses:
            self._reports.moved(losses)
            yield MovesFinished(RESCUE, losses, at_s=self.now_s())

    def _check_progress(self) -> None:
        """Raise if nothing can happen any more and the run is not done."""
        goes_on = self._is_done() or not self._network.calendar.empty
        self._stuck = 0 if goes_on else self._stuck + 1
        if self._stuck >= STUCK_EPOCHS:
            raise RunError("the simulated run cannot go on: instances wait for hosts or links that do not return")

    def _moved(self) -> Iterator[Event]:
        """Report a rebinding that is complete, and begin the one that waits."""
        if self._rebinding is not None and self._rebinding.finished:
            reports, id_ = self._rebinding.reports(), self._rebinding.id
            self._rebinding = None
            self._convoy.crossings = []
            self._reports.moved(reports)
            yield MovesFinished(id_, reports, at_s=self.now_s())
        if self._rebinding is None and self._next is not None:
            (command, after), self._next = self._next, None
            self._begin(command, after)

    def _changed(self, command: Command) -> Iterator[Event]:
        raise BindingError(f"with detail=rows, queries and partitioning stay as they are; got {type(command).__name__}")

    def _rearrange(self, after: Arrangement) -> None:  # noqa: ARG002
        raise BindingError("with detail=rows, queries and partitioning stay as they are")

    def _rebind(self, command: Rebind, after: Arrangement) -> Iterator[Event]:
        """Begin to move instances, once those that move have arrived."""
        self._workers.of_number(after.binding.workers)  # raises at once if there are too few
        if self._next is not None:
            superseded, wanted = self._next
            aborted = (
                MoveReport(move.instance, move.source, move.target, aborted=SUPERSEDED)
                for move in self._now.binding.diff(wanted.binding)
            )
            yield MovesFinished(superseded.id, tuple(aborted), at_s=self.now_s())
        self._next = command, after
        if self._rebinding is None:
            yield from self._moved()

    def _begin(self, command: Rebind, after: Arrangement) -> None:
        workers = self._workers.of_number(after.binding.workers)
        stations = {station.instance: station for station in self._network.stations.values()}
        moves = [
            move
            for move in self._now.binding.diff(after.binding)
            if stations[move.instance].home.core != workers.cores[move.target]
        ]
        found = ((each, self._replicas.at(stations[each.instance], workers.cores[each.target])) for each in moves)
        replicas = {move.instance: replica for move, replica in found if replica is not None}
        limits = self._capacities(command, [(stations[m.instance], workers.cores[m.target]) for m in moves])
        transfers = transfers_of(moves, stations, after.program, workers.topology, replicas, limits)
        mechanism = mechanism_with(command.mechanism or self._mechanism, self.settings.selection)
        plan = mechanism.plan(transfers, LinkCosts())
        self._workers, self._now = workers, after
        self._rebinding = rebinding = RowRebinding(command.id)
        convoy = self._convoy
        outside = Outside(lambda: self._network.issued, self.now_s, convoy.kick, convoy.ask, convoy.complete)
        for move, transfer in zip(moves, transfers, strict=True):
            station: Station = stations[move.instance]
            station.late_results, station.emission_delay_s, station.emission_delay_sum_s = 0, 0.0, 0.0
            mine = [batch for batch in plan.batches if transfer in batch.transfers]
            crossing = Crossing(station, workers.cores[move.target], mine, outside, replicas.get(move.instance))
            self._convoy.crossings.append(crossing)
            rebinding.crossings.append((crossing, move.source, move.target))
        if command.limit is not None and command.limit.deadline_s is not None and command.limit.ends:
            at_s = max(self.now_s(), command.limit.deadline_s)
            self._network.calendar.add(at_s, lambda: self._convoy.end() if self._rebinding is rebinding else None)
        self._convoy.kick()

    def _capacities(self, command: Rebind, moving: Sequence[tuple[Station, int]]) -> Capacities:
        """What the links of some stations to the cores that they go to can carry in time."""
        machine = self.settings.state_machine
        host_of = machine.worker_host.tolist()
        pairs = {station.instance: (host_of[station.home.core], host_of[core]) for station, core in moving}
        known = self._workers.known
        found = capacities(machine, known, list(pairs.values()), command.limit, self.now_s())
        return {instance: found[pair] for instance, pair in pairs.items() if pair in found}

    def _check_limit(self, command: Rebind) -> None:
        """Reject a rebinding that would drop state without choosing it."""
        check_limit(command.limit, command.mechanism or self._mechanism)
