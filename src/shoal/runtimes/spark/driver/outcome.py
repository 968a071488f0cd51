"""Outcomes: what the workers of an epoch returned to the driver."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from shoal.compiler.program import Program
from shoal.compiler.spatial.lane_arrivals import merged_arrivals, spatial_operator
from shoal.model.control.messages import LostState
from shoal.model.control.snapshot import Arrivals
from shoal.model.query.graph import InstanceId
from shoal.runtimes.spark.state.checkpoint import EpochPlan
from shoal.runtimes.spark.tasks import wire
from shoal.runtimes.spark.tasks.reports import REPORTS, Header, Report, received


@dataclass(frozen=True)
class Outcome:
    """Result rows by table, refused rows, and a report of every worker and round."""

    results: Mapping[str, pa.Table]
    dead: pa.Table | None
    reports: list[Report]

    @classmethod
    def of(cls, rows: pa.Table) -> "Outcome":
        """Take wire rows apart."""
        results: dict[str, list[pa.RecordBatch]] = defaultdict(list)
        dead: list[pa.RecordBatch] = []
        reports: list[Report] = []
        for lane, payload in zip(rows.column("lane").to_pylist(), rows.column("payload"), strict=True):
            content = payload.as_buffer()
            if lane == wire.REPORT:
                reports.append(received(REPORTS, content.to_pybytes(), "a worker"))
                continue
            batch = wire.unpack(content)
            if lane == wire.DEAD:
                dead.append(batch)
            else:
                results[wire.table_of(batch)].append(batch.replace_schema_metadata(None))
        tables = {table: pa.Table.from_batches(batches) for table, batches in results.items()}
        return cls(tables, pa.Table.from_batches(dead) if dead else None, reports)

    @property
    def headers(self) -> tuple[Header, ...]:
        """The headers of the reading tasks."""
        return next((report.headers for report in self.reports if report.headers), ())

    @property
    def lost(self) -> Mapping[InstanceId, LostState]:
        """The state that moves have discarded."""
        return {instance: lost for report in self.reports for instance, lost in report.lost.items()}

    @property
    def counted(self) -> dict[str, int]:
        """Rows read, emitted and refused."""
        return {
            "rows": sum(header.rows for header in self.headers),
            "results": sum(table.num_rows for table in self.results.values()),
            "dead_letters": self.dead.num_rows if self.dead is not None else 0,
        }

    @property
    def refusals(self) -> dict[str, int]:
        """Refused rows per reason."""
        refusals: dict[str, int] = defaultdict(int)
        refused = [header.refused for header in self.headers] + [report.refused for report in self.reports]
        for each in refused:
            for reason, number in each.items():
                refusals[reason] += number
        return dict(refusals)

    def arrivals(self, compiled: Program) -> Arrivals:
        """What came to the tiles of spatial operators, on all workers."""
        lanes = ((compiled.lanes[number], done) for report in self.reports for number, done in report.lanes.items())
        return merged_arrivals(
            {spatial_operator(lane): tuple(came.arrivals() for came in done.arrivals)}
            for lane, done in lanes
            if done.arrivals
        )

    @property
    def compute_s(self) -> float:
        """Time of all reading tasks and workers, loading of state excluded."""
        reading_s = sum(header.cost_s for header in self.headers)
        return reading_s + sum(report.cost_s - report.load_s for report in self.reports)

    @property
    def executors(self) -> dict[int, str]:
        """The executor of each worker; that of its longest round if there were several."""
        rounds = sorted(self.reports, key=lambda report: report.cost_s)
        return {report.worker: report.executor for report in rounds}

    def busy_s(self, workers: int) -> tuple[float, ...]:
        """The time that each worker worked."""
        spent_s = [0.0] * workers
        for report in self.reports:
            spent_s[report.worker] += report.cost_s
        return tuple(spent_s)

    def fixed_us(self, plan: EpochPlan) -> int:
        """When the epoch's input was fixed; its newest events may be as young as that."""
        planned = [header.slice.planned_us for header in self.headers]
        return min([plan.now_us, *(at_us for at_us in planned if at_us is not None)])
