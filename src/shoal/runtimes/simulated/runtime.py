"""The simulated runtime: the same graphs, kernels and policies on a machine that is described, in simulated time.

Rows are processed when they are read; the core decides when that work would have been done. So results never depend on
the machine, and everything that takes time does. Time begins at 0 and passes in the thread that follows the run.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from shoal.connectors.sources.generator import Generator
from shoal.errors import QueryError, RunError
from shoal.model.control.binding import Binding
from shoal.model.control.messages import (
    Command,
    EpochCommitted,
    Event,
    QueriesParked,
    Rebind,
)
from shoal.model.query.graph import Graph
from shoal.policies.catalog import QUEUED
from shoal.policies.scheduling.catalog import SCHEDULING
from shoal.policies.scheduling.serving import RESULTS_FIRST
from shoal.runtimes.arrangement import Arrangement
from shoal.runtimes.protocol import refuse_dataframes
from shoal.runtimes.simulated.commanded import ENDING, CommandedRun
from shoal.runtimes.simulated.cut_tasks import CutTasks, only_cuts
from shoal.runtimes.simulated.engine.simulation import Simulation, StepInput
from shoal.runtimes.simulated.expectations import Expectations
from shoal.runtimes.simulated.input.real import RealInput
from shoal.runtimes.simulated.input.statistical import StatisticalInput
from shoal.runtimes.simulated.input.task_plan import TaskPlan
from shoal.runtimes.simulated.input.timed import TimedInput
from shoal.runtimes.simulated.machine_use import MachineUse
from shoal.runtimes.simulated.ranks import Ranks
from shoal.runtimes.simulated.rebinding import Rebinding
from shoal.runtimes.simulated.report import SimulatedReports
from shoal.runtimes.simulated.task_costs import TaskCosts
from shoal.runtimes.simulated.workers import Workers

STUCK_EPOCHS = 100
"""Epochs without any event on the agenda after which a run that is not done cannot go on."""
RESCUE = "rescue"
"""The id of rebindings by the runtime itself."""
AFTER_S = 1e-9
"""The time from a step that arrives as a whole to the end of an epoch."""


class SimulatedRuntime(CommandedRun):
    """Runs a graph in the thread that iterates over `events`."""

    _simulation: Simulation | None = None
    _rebinding: Rebinding | None = None
    _failed: QueryError | None = None
    _draining = False
    _stuck = 0

    def start(self, graph: Graph, binding: Binding) -> None:
        """Compile the graph, open the sources and lay out the machine."""
        refuse_dataframes(self._sources)
        settings = self.settings = self.settings.for_workers(max(binding.workers, self._most_workers))
        self._workers = Workers.first(settings.machine, binding.workers, shared=settings.queues in QUEUED)
        self._now = Arrangement(graph, binding)
        _ = self._now.program
        self._input: TimedInput = self._opened()
        self._input.aligned = settings.alignment == "event-time"
        self._input.shed(self._shedding)
        self._reports = SimulatedReports(settings.delivery(limited=self._limited))
        self._use = MachineUse(settings.machine)
        try:
            self._lay_out(0.0)
        except BaseException:
            self._input.close()
            raise
        self._run = self._epochs()

    @property
    def _limited(self) -> bool:
        """Whether some source is read as fast as it can be."""
        return any(not isinstance(each, Generator) or each.rate is None for each in self._sources.values())

    def _opened(self) -> TimedInput:
        """The input of the mode."""
        settings = self.settings
        if settings.mode == "real":
            return RealInput(
                self._sources, self.now_s, block_rows=settings.block_rows, step_s=settings.step_s, parks=self._parks
            )
        return StatisticalInput(
            self._sources,
            self.now_s,
            step_s=settings.step_s,
            sample_rows=settings.sample_rows,
            delays=settings.delays,
            profiled=bool(settings.trace),
        )

    def _lay_out(self, at_s: float) -> None:
        """Make tasks and workers for the arrangement, at a time at which nothing is under way."""
        self._plan_tasks()
        settings, limited = self.settings, self._limited
        outside = settings.source == "outside"
        owners = self._plan.owners(self._now.binding, outside=outside)
        cores = [self._workers.cores[owner] if owner >= 0 else owner for owner in owners]
        rules = settings.rules(limited=limited)
        machine = settings.machine_at(limited=limited)
        simulation = Simulation(
            self._costs.tasks(), machine, cores, self._workers.cores, rules, at_s, failed=self._use.failed
        )
        for source in range(len(self._plan.streams)):
            simulation.poll(source, at_s)
        self._simulation = simulation
        self._state_bytes = np.zeros(len(self._plan.instances))
        self._follow()

    def _plan_tasks(self) -> None:
        """Plan the tasks of the arrangement, and what they cost."""
        settings, program = self.settings, self._now.program
        self._plan = TaskPlan(program, feeds_apart=settings.imitates_local)
        self._input.planned(self._plan)
        delays = settings.delays(program, limited=self._limited)
        workers = self._now.binding.workers
        self._costs = TaskCosts(self._plan, delays, settings.seed, settings.work_factor, workers)

    def _follow(self) -> None:
        """Report what the simulation does from now on, and rank its tasks if its queues go by priority."""
        self._reports.follow(self._plan, self._simulated)
        self._use.follow(self._simulated)
        rules = self.settings.rules(limited=self._limited)
        policy = SCHEDULING[self.settings.scheduling] if rules.order == "priority" else None
        self._ranks = None if policy is None else Ranks(policy, self._plan)
        self._expectations = Expectations(self._plan) if self.settings.serving == RESULTS_FIRST else None

    def now_s(self) -> float:
        """The simulated time."""
        return 0.0 if self._simulation is None else self._simulation.now_s

    def _end_s(self) -> float:
        return self._reports.at_s

    def _close(self) -> None:
        self._input.close()

    def _epochs(self) -> Iterator[Event]:
        """All epochs, until every event has been processed."""
        while not self._is_done():
            yield from self._carried_out()
            yield from self._rescued()
            self._input.stopping = self._stopping.is_set()
            if self._input.stopping and not self._input.ended:
                self._poll_all()
            self._advance(self._epoch_end_s())
            yield from self._took()
        yield from self._carried_out(refusal=ENDING)

    def _epoch_end_s(self) -> float:
        """When the epoch that begins now ends: just after a step that arrives as a whole at that time, if there is one.

        So what policies take for pending are the events of a step, not those that a step before it has left.
        """
        epoch_s = self.settings.epoch_s
        if self.settings.arrival != "step":
            return self.now_s() + epoch_s
        return (round(self.now_s() / epoch_s) + 1) * epoch_s + AFTER_S

    def _is_done(self) -> bool:
        return self._input.ended and not self._simulated.live and self._rebinding is None

    def _poll_all(self) -> None:
        """Ask all sources once more, so that the first of them closes all windows."""
        for source in range(len(self._plan.streams)):
            self._simulated.poll(source, self.now_s())

    def _advance(self, until_s: float) -> None:
        """Go on to a time; hosts whose batteries become empty on the way fail."""
        while self.now_s() < until_s:
            next_s = self._use.checked_at_s(until_s, self.settings.epoch_s / 100)
            self._simulated.advance(next_s, self._read)
            self._use.count()
            for host in self._use.emptied():
                self._simulated.fail(host)

    def _read(self, source: int, now_s: float) -> tuple[StepInput | None, float]:
        """The next step of a source; nothing while the run waits for a change, or for a query to be parked."""
        if self._draining or self._failed is not None:
            return None, now_s + self.settings.epoch_s
        try:
            counts, again_s = self._input.read(self._plan, source, self._now)
        except QueryError as error:
            if not self._parks:
                raise
            self._failed = error
            return None, now_s + self.settings.epoch_s
        if counts is None:
            return None, again_s
        if self.settings.arrival == "step":
            counts = replace(counts, due_s=now_s)
        self._state_bytes = counts.state_bytes
        self._simulated.set_state(counts.state_bytes)
        self.consumed += counts.rows
        step = self._costs.step(counts)
        if self._expectations is not None:
            step = self._expectations.served(step, self._simulated.world.tasks, counts, len(self._workers.cores))
        return step, again_s

    def _took(self) -> Iterator[Event]:
        """The events of the epoch that has just passed."""
        yield self._committed()
        yield from self._notice_lost(self._simulated.lost())
        rebinding = self._rebinding
        if rebinding is not None:
            rebinding.took(self._plan, self._reports.moves)
            finished = rebinding.finished(self.now_s())
            if finished is not None:
                self._rebinding = None
                self._simulated.use(self._workers.cores)
                yield finished
        if self._failed is not None:
            error, self._failed = self._failed, None
            yield from self._arranged(lambda now: now.parking(error))
            yield QueriesParked(error.queries, error.reason, error.row, at_s=self.now_s())
        if self._ranks is not None:
            self._simulated.set_ranks(self._ranks.of(self._simulated))
        self._check_progress()

    def _committed(self) -> EpochCommitted:
        """Write the results of the epoch, and report it."""
        written = self._input.taken()
        self._write(written.results, self._reports.epoch)
        return self._reports.next(
            self._now,
            self._workers,
            written,
            self._input.marks,
            self._state_bytes,
            battery_j=self._use.left_j(),
            is_last=self._is_done(),
        )

    def _check_progress(self) -> None:
        """Raise if nothing can happen any more and the run is not done."""
        goes_on = self._is_done() or self._simulated.has_future(polls=not self._draining)
        self._stuck = 0 if goes_on else self._stuck + 1
        if self._stuck >= STUCK_EPOCHS:
            raise RunError("the simulated run cannot go on: instances wait for workers or links that do not return")

    def _rebind(self, command: Rebind, after: Arrangement) -> Iterator[Event]:
        """Begin to move instances."""
        simulation = self._simulated
        workers = self._workers.of_number(after.binding.workers)
        if self._rebinding is not None:
            yield self._rebinding.superseded(self._plan, simulation, self.now_s())
        self._now, self._workers = after, workers
        simulation.use([*simulation.cores(), *workers.cores])
        self._rebinding = Rebinding.begun(command.id, self._plan, simulation, after.binding, workers)
        owners = self._plan.owners(after.binding, outside=self.settings.source == "outside")
        for unit in range(len(self._plan.instances), len(owners)):
            if owners[unit] >= 0:
                simulation.move(unit, workers.cores[owners[unit]])

    def _rescued(self) -> Iterator[Event]:
        """Bind everything to cores that work, if workers are lost and no command has done so.

        A controller does not if it was told that all workers are lost, or if others were lost before its command came.
        """
        workers, machine = self._workers, self.settings.machine
        number = min(len(workers.cores), machine.workers - len(workers.lost))
        if number and workers.lost.intersection(workers.cores):
            worker_of = {each: worker % number for each, worker in self._now.binding.worker_of.items()}
            command = Rebind(Binding.of(worker_of, number), id=RESCUE)
            yield from self._rebind(command, self._now.after(command, set(self._sources)))

    def _changed(self, command: Command) -> Iterator[Event]:
        if only_cuts(command) and self._rebinding is None and isinstance(self._input, RealInput):
            self._divide(self._now.after(command, set(self._sources)), self._input)
            return iter(())
        return self._arranged(lambda now: now.after(command, set(self._sources)))

    def _divide(self, after: Arrangement, input_: RealInput) -> None:
        """Cut rectangles at once: what was read before stays with the instances that it was read for.

        The new ones begin at the workers of those, and go to their own with their state.
        """
        before, simulation, heirs = self._plan, self._simulated, self._now.partitioning.heirs
        heirs_of = heirs(after.partitioning, after.graph)
        input_.arranged(self._now, after)
        self._now = after
        self._plan_tasks()
        cut = CutTasks(before, self._plan, heirs_of)
        owners = cut.owners(simulation.owners()).tolist()
        simulation.renumber(self._costs.tasks(), owners, cut.task_of, cut.unit_of)
        self._state_bytes = input_.state_bytes(self._plan)
        simulation.set_state(self._state_bytes)
        for unit, instance in enumerate(self._plan.instances):
            worker = after.binding.worker_of.get(instance)  # None of one that is declared and has no keys
            if worker is not None and owners[unit] != self._workers.cores[worker]:
                simulation.move(unit, self._workers.cores[worker])
        self._follow()

    def _arranged(self, made: Callable[[Arrangement], Arrangement]) -> Iterator[Event]:
        """Make another arrangement once everything that was read has been processed and every move made.

        Epochs go on until then, so that instances of hosts that fail meanwhile can be bound elsewhere.
        """
        made(self._now)  # raises at once if it is impossible
        self._draining = True
        try:
            while self._simulated.live or self._simulated.is_moving or self._rebinding is not None:
                yield from self._carried_out(only_rebindings=True)
                yield from self._rescued()
                self._advance(self._epoch_end_s())
                yield from self._took()
        finally:
            self._draining = False
        self._rearrange(made(self._now))

    def _rearrange(self, after: Arrangement) -> None:
        if after.graph is not self._now.graph or after.partitioning is not self._now.partitioning:
            self._input.arranged(self._now, after)
        self._now = after
        self._lay_out(self.now_s())

    def machine_report(self) -> dict[str, Any]:
        """How hosts and links were used so far."""
        return self._use.report()

    @property
    def _simulated(self) -> Simulation:
        """The simulation of a run that has started."""
        if self._simulation is None:
            raise RunError("a simulated run must be started before it is followed")
        return self._simulation
