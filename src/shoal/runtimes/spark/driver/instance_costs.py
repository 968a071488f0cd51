"""Instance costs: the time of workers, divided among their instances.

Workers measure lanes, and a few instances alone (`shoal.runtimes.spark.tasks.sample`). The driver remembers the
observed time per row of each instance, on any worker, and divides the time of every lane accordingly.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from shoal.compiler.lane import Lane
from shoal.compiler.program import Program
from shoal.kernels.columns.table import Ints
from shoal.model.control.snapshot import InstanceLoad
from shoal.model.query.graph import InstanceId
from shoal.runtimes.spark.tasks.reports import LaneReport, Report
from shoal.runtimes.spark.tasks.sample import ALONE_S

Floats = NDArray[np.float64]
LEAST_OF_SAMPLE = 0.1
"""The least share of a sample's time that is attributed to the instance."""
NEWEST = 0.5
"""Weight of the newest sample of an instance against all earlier ones."""


@dataclass
class Costs:
    """The observed time per row of each instance."""

    _row_s: dict[InstanceId, float] = field(default_factory=dict)

    def loads(self, compiled: Program, reports: Iterable[Report]) -> dict[InstanceId, InstanceLoad]:
        """The loads of all instances, from the reports of an epoch's workers."""
        found: dict[InstanceId, InstanceLoad] = {}
        for report in reports:
            lanes = report.lanes
            spent_s = sum(done.advancing_s + done.emitting_s for done in lanes.values())
            carried = sum(sum(done.carried_bytes) for done in lanes.values())
            carrying_s = max(0.0, report.cost_s - report.load_s - spent_s) / max(1, carried)
            for number, done in lanes.items():
                found |= self._of_lane(compiled.lanes[number], done, carrying_s)
        return found

    def forget(self, known: Iterable[InstanceId]) -> None:
        """Forget all but the given instances."""
        alive = set(known)
        self._row_s = {instance: row_s for instance, row_s in self._row_s.items() if instance in alive}

    def _of_lane(self, lane: Lane, done: LaneReport, byte_s: float) -> dict[InstanceId, InstanceLoad]:
        """Divide a lane's time; `byte_s` is the time per carried byte."""
        if not done.instances:
            return {}
        instances = [lane.instances[number] for number in done.instances]
        self._learn(lane, dict(zip(done.instances, done.rows, strict=True)), done.alone_s)
        rows, results, carried = (np.array(each, np.int64) for each in (done.rows, done.results, done.carried_bytes))
        weight = rows * self._row_times(instances, rows)
        cost_s = done.advancing_s * weight / max(weight.sum(), 1e-12)
        cost_s += done.emitting_s * results / max(1, int(results.sum())) + byte_s * carried
        columns = (done.events, np.round(cost_s, 9).tolist(), done.results, done.state_bytes)
        # An epoch processes all of its input, so the backlog is always 0.
        return {instance: InstanceLoad(*each) for instance, *each in zip(instances, *columns, strict=True)}

    def _learn(self, lane: Lane, rows_of: Mapping[int, int], alone_s: Mapping[int, float]) -> None:
        for number, spent_s in alone_s.items():
            instance = lane.instances[number]
            row_s = max(spent_s - ALONE_S, LEAST_OF_SAMPLE * spent_s) / max(1, rows_of.get(number, 0))
            self._row_s[instance] = NEWEST * row_s + (1 - NEWEST) * self._row_s.get(instance, row_s)

    def _row_times(self, instances: list[InstanceId], rows: Ints) -> Floats:
        """Time per row of each instance; that of an unsampled one is interpolated from instances of similar size."""
        row_s = np.array([self._row_s.get(instance, 0.0) for instance in instances])
        known = np.flatnonzero(row_s > 0)
        if not known.size:
            return np.ones(len(instances))
        order = known[np.argsort(rows[known], kind="stable")]
        guessed = np.interp(np.log1p(rows), np.log1p(rows[order]), np.log(row_s[order]))
        return np.where(row_s > 0, row_s, np.exp(guessed))
