"""Reports of a run row by row: what its stations and results did since the last one."""

from collections.abc import Mapping, Sequence

import numpy as np

from shoal.connectors.admission import DEAD_LETTERS
from shoal.model.control.binding import Binding
from shoal.model.control.load_columns import LoadColumns
from shoal.model.control.messages import EpochCommitted, MoveReport
from shoal.model.control.snapshot import Snapshot
from shoal.runtimes.arrangement import Arrangement
from shoal.runtimes.simulated.input.task_plan import TaskPlan
from shoal.runtimes.simulated.input.timed import Written
from shoal.runtimes.simulated.network.network import Emitted, Network
from shoal.runtimes.simulated.network.station import StationLoad
from shoal.runtimes.simulated.workers import Workers


class RowReports:
    """Makes one report after another."""

    def __init__(self, network: Network, plan: TaskPlan) -> None:
        """Nothing to report yet."""
        self._network, self._plan = network, plan
        self._stations = {station.instance: station for station in network.stations.values()}
        self.epoch, self.at_s = 0, 0.0
        self._worked_s = list(network.cores.worked_s)
        self._moves: list[MoveReport] = []

    def moved(self, reports: Sequence[MoveReport]) -> None:
        """Count moves in the next report."""
        self._moves += reports

    def next(
        self, now: Arrangement, workers: Workers, written: Written, marks: Mapping[str, int], emitted: Emitted
    ) -> EpochCommitted:
        """The report since the last one."""
        network, at_s = self._network, self._network.now_s
        worked_s = [after - before for after, before in zip(network.cores.worked_s, self._worked_s, strict=True)]
        stations = [self._stations[instance] for instance in self._plan.instances]
        work = [station.work for station in stations]
        sizes = np.array([station.state_bytes for station in stations], np.int64)
        loads = LoadColumns(
            self._plan.instances,
            np.array([each.events for each in work], np.int64),
            np.array([each.cost_s for each in work]),
            np.array([each.results for each in work], np.int64),
            sizes,
            np.array([station.received - station.processed for station in stations], np.int64),
        )
        homes = {
            i: max(0, int(workers.number_of[s.home.core])) for i, s in zip(self._plan.instances, stations, strict=True)
        }
        snapshot = Snapshot(
            self.epoch,
            Binding.of(homes, len(workers.cores)),
            loads,
            dict(marks),
            at_s - self.at_s,
            {table: total / number for table, (total, number) in emitted.tables.items() if number},
            tuple(worked_s[core] for core in workers.cores),
            workers.topology,
            now.graph,
            now.partitioning,
            arrivals=network.taken_arrivals(),
        )
        moves, self._moves = self._moves, []
        report = EpochCommitted(
            epoch=self.epoch,
            rows=written.rows,
            results=emitted.results + _direct(written, emitted),
            dead_letters=sum(batch.num_rows for batch in written.results.get(DEAD_LETTERS, ())),
            moves=len(moves),
            state_bytes=int(sizes.sum()),
            state_bytes_moved=sum(move.state_bytes for move in moves),
            duration_s=at_s - self.at_s,
            latency_s=max(emitted.latency.max_s, at_s - self.at_s),
            compute_s=sum(worked_s),
            migration_s=0.0,  # no core works for a move, see `frozen_s` of the moves
            policy_s=0.0,
            snapshot=snapshot,
            refusals=dict(written.refusals),
            refused_rows=written.refused_rows,
            shed=written.shed,
            shedding=written.shedding,
            latency=emitted.latency,
            at_s=at_s,
        )
        for station in stations:
            station.work = StationLoad()
        self.epoch, self.at_s, self._worked_s = self.epoch + 1, at_s, list(network.cores.worked_s)
        return report


def _direct(written: Written, emitted: Emitted) -> int:
    """Results of queries without state."""
    rows = sum(b.num_rows for table, batches in written.results.items() if table != DEAD_LETTERS for b in batches)
    return max(0, rows - emitted.results)
