"""Reports of simulated time: what workers, instances and results did since the last report."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from shoal.connectors.admission import DEAD_LETTERS
from shoal.model.control.binding import Binding
from shoal.model.control.histogram import Histogram
from shoal.model.control.load_columns import LoadColumns
from shoal.model.control.messages import EpochCommitted
from shoal.model.control.snapshot import Snapshot
from shoal.model.control.topology import Topology
from shoal.runtimes.arrangement import Arrangement
from shoal.runtimes.simulated.delivery import Delivery
from shoal.runtimes.simulated.engine.arrays import RESULT
from shoal.runtimes.simulated.engine.simulation import Simulation
from shoal.runtimes.simulated.input.task_plan import TaskPlan
from shoal.runtimes.simulated.input.timed import Written
from shoal.runtimes.simulated.workers import Workers

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
DIRECT = Delivery()


@dataclass(frozen=True, eq=False)
class Totals:
    """Counters of a simulation at one time."""

    at_s: float
    worked_s: Floats
    processed: NDArray[np.int64]
    results: NDArray[np.int64]
    busy_s: Floats
    moving_s: float

    @classmethod
    def of(cls, simulation: Simulation, at_s: float) -> "Totals":
        """The counters, as of a time."""
        tasks = simulation.world.tasks
        return cls(
            at_s,
            simulation.worked_s(),
            tasks["processed"].copy(),
            tasks["results"].copy(),
            tasks["busy_s"].copy(),
            float(simulation.world.core["moving_s"][0]),
        )


class SimulatedReports:
    """Makes one report after another."""

    def __init__(self, delivery: Delivery = DIRECT) -> None:
        """Nothing to report yet."""
        self._epoch, self._delivery = 0, delivery
        self.written = np.zeros(0, RESULT)
        """The results of the last report, with the latency that they had for the sink."""
        self.due_s: Floats = np.zeros(0)
        """When the oldest event of each of them was due."""

    def follow(self, plan: TaskPlan, simulation: Simulation) -> None:
        """Count what a simulation does from now on."""
        self._plan, self._simulation = plan, simulation
        self._before = Totals.of(simulation, simulation.now_s)
        self._owners: Ints = np.zeros(0, np.int64)
        self._binding: Binding | None = None
        self._topology: tuple[Workers, Mapping[str, int], Topology] | None = None
        self.moves = simulation.take_moves()

    def _bound(self, workers: Workers) -> Binding:
        """The binding in force; an instance on a core without a number counts as on worker 0."""
        instances = self._plan.instances
        owners = np.maximum(workers.number_of[self._simulation.owners()[: len(instances)]], 0)
        known = self._binding
        if known is None or known.workers != len(workers.cores) or not np.array_equal(owners, self._owners):
            pairs = zip(instances, owners.tolist(), strict=True)
            known = Binding.of(dict(pairs), len(workers.cores))
        self._owners, self._binding = owners, known
        return known

    def _known_topology(self, workers: Workers, battery_j: Floats | None) -> Topology:
        """The topology as policies see it now; the one before if nothing has changed."""
        plan, cores = self._plan, self._simulation.owners()
        readers = cores[plan.unit[: len(plan.streams)]].tolist()
        host_of = workers.machine.worker_host
        source_of = {
            stream: int(host_of[core]) for stream, core in zip(plan.streams, readers, strict=True) if core >= 0
        }
        known = self._topology
        if battery_j is None and known is not None and known[0] is workers and known[1] == source_of:
            return known[2]
        topology = workers.topology_with(source_of, battery_j)
        self._topology = workers, source_of, topology
        return topology

    @property
    def epoch(self) -> int:
        """The number of the next report."""
        return self._epoch

    @property
    def at_s(self) -> float:
        """The time of the last report."""
        return self._before.at_s

    def next(
        self,
        now: Arrangement,
        workers: Workers,
        written: Written,
        marks: Mapping[str, int],
        state_bytes: Floats,
        *,
        battery_j: Floats | None = None,
        is_last: bool = False,
    ) -> EpochCommitted:
        """The report since the last one; the last of a run ends with the last turn, so that rates are right.

        `battery_j`: what is left in the batteries of hosts; None if there are none.
        """
        simulation, plan = self._simulation, self._plan
        before = self._before
        after = Totals.of(simulation, _last_turn_s(simulation, before.at_s) if is_last else simulation.now_s)
        period_s = after.at_s - before.at_s
        results, moves = _written_results(plan, simulation.take_results()), simulation.take_moves()
        self.written, self.due_s = results, results["at_s"] - results["latency_s"]
        results["latency_s"] = self._delivery.latencies(results, _parts(plan, simulation), self._epoch)
        latency = _histogram(results)
        worked_s = after.worked_s - before.worked_s
        tasks = simulation.world.tasks
        places = plan.instance_tasks
        loads = LoadColumns(
            plan.instances,
            (after.processed - before.processed)[places],
            (after.busy_s - before.busy_s)[places],
            (after.results - before.results)[places],
            state_bytes.astype(np.int64),
            (tasks["received"] - tasks["processed"])[places],
        )
        moving_s = after.moving_s - before.moving_s
        snapshot = Snapshot(
            self._epoch,
            self._bound(workers),
            loads,
            dict(marks),
            period_s,
            _means(plan, results),
            tuple(worked_s[list(workers.cores)].tolist()),
            self._known_topology(workers, battery_j),
            now.graph,
            now.partitioning,
            written.arrivals,
        )
        report = EpochCommitted(
            epoch=self._epoch,
            rows=written.rows,
            results=int(results["results"].sum()),
            dead_letters=sum(batch.num_rows for batch in written.results.get(DEAD_LETTERS, ())),
            moves=len(moves),
            state_bytes=int(state_bytes.sum()),
            state_bytes_moved=int(moves["bytes"].sum()),
            duration_s=period_s,
            latency_s=max(latency.max_s, period_s),
            compute_s=max(0.0, float(worked_s.sum()) - moving_s),
            migration_s=moving_s,
            policy_s=0.0,
            snapshot=snapshot,
            refusals=dict(written.refusals),
            refused_rows=written.refused_rows,
            shed=written.shed,
            shedding=written.shedding,
            latency=latency,
            at_s=after.at_s,
        )
        self._before, self._epoch = after, self._epoch + 1
        self.moves = moves
        return report


def _last_turn_s(simulation: Simulation, after_s: float) -> float:
    """When the last turn ended; now, if there was none after a time."""
    last_s = float(simulation.world.tasks["last_run_s"].max(initial=0.0))
    return last_s if last_s > after_s else simulation.now_s


def _written_results(plan: TaskPlan, results: NDArray[np.void]) -> NDArray[np.void]:
    """Results that go to sinks, once for each; those of tasks that only feed others are none of the run."""
    sinks = plan.sinks[results["task"]]
    kept: NDArray[np.void] = results[sinks > 0]
    kept["results"] *= sinks[sinks > 0]
    return kept


def _parts(plan: TaskPlan, simulation: Simulation) -> Ints:
    """The part of a lane that each task belongs to: those of one lane and one worker are together."""
    owners = simulation.owners()[plan.unit]
    return plan.group * (int(owners.max()) + 2) + owners + 1


def _histogram(results: NDArray[np.void]) -> Histogram:
    """The latency of every result."""
    histogram = Histogram()
    histogram.record_all(results["latency_s"], results["results"])
    return histogram


def _means(plan: TaskPlan, results: NDArray[np.void]) -> dict[str, float]:
    """The mean latency of every query that had results, or of the table if several queries share its instances."""
    sums = np.bincount(results["task"], weights=results["latency_s"] * results["results"], minlength=plan.number)
    numbers = np.bincount(results["task"], weights=results["results"], minlength=plan.number)
    by_name: dict[str, list[float]] = {}
    written = np.flatnonzero(numbers)
    for task, of_task, number in zip(written.tolist(), sums[written].tolist(), numbers[written].tolist(), strict=True):
        for name in plan.written_by.get(task, ()):
            total = by_name.setdefault(name, [0.0, 0.0])
            total[0] += of_task
            total[1] += number
    return {name: total / number for name, (total, number) in by_name.items()}
