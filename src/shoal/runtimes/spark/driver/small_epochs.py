"""Small epochs: the driver does the part of the workers itself.

An exchange and a second Python stage take Spark some 20 ms, however little there is to do. If the workers would be done
sooner than that, the driver collects what the reading tasks have sent and runs the same code for one worker after
another: the same state in the same segments, the same results, the same reports.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession

from shoal.compiler.program import Program
from shoal.runtimes.spark.driver.outcome import Outcome
from shoal.runtimes.spark.driver.position import Position
from shoal.runtimes.spark.state.checkpoint import EpochPlan
from shoal.runtimes.spark.tasks import wire
from shoal.runtimes.spark.tasks.task import worked

MOST_S = 0.03
"""The longest time of all workers together in the epoch before."""
MOST_SENT_BYTES = 2 << 20
"""The most bytes that reading tasks may send to workers."""
MOST_STATE_BYTES = 8 << 20
"""The most bytes of state."""


@dataclass(frozen=True)
class LocalRows:
    """Wire rows that the driver has; they become a DataFrame only if the workers need them."""

    rows: pa.Table
    sparkSession: SparkSession  # noqa: N815  (Spark's name)

    def toArrow(self) -> pa.Table:  # noqa: N802  (Spark's name)
        """The rows."""
        return self.rows

    def frame(self) -> DataFrame:
        """The rows as Spark has them."""
        return self.sparkSession.createDataFrame(self.rows, schema=wire.SCHEMA)


@dataclass
class SmallEpochs:
    """Decides by the epoch before whether one is small; the first epoch of a run is not.

    For sessions in which driver and workers share one machine. User code always runs in the workers, where a crash
    ends no more than a task; so do epochs in which state moves, whose cost is measured there.
    """

    spark: SparkSession
    _spent_s: float = float("inf")
    _sent_bytes: int = 0

    def expects(self, position: Position, *, has_code: bool) -> bool:
        """Whether the next epoch should be small."""
        moves = position.coming is not None or position.rebinding is not None
        if has_code or moves or position.postponed or position.dropped or position.heirs:
            return False
        small = self._spent_s <= MOST_S and self._sent_bytes <= MOST_SENT_BYTES
        return small and sum(position.segment_bytes.values()) <= MOST_STATE_BYTES

    def fits(self, rows: pa.Table) -> bool:
        """Whether what reading tasks have sent to workers is as little as expected; they may send results, too."""
        return int(rows.filter(pc.field("lane") >= 0).nbytes) <= 2 * MOST_SENT_BYTES

    def learn(self, outcome: Outcome) -> None:
        """Take note of an epoch."""
        self._spent_s = sum(report.cost_s for report in outcome.reports)
        lanes = [lane for report in outcome.reports for lane in report.lanes.values()]
        self._sent_bytes = sum(sum(lane.carried_bytes) for lane in lanes)


def finished(checkpoint: str, plan: EpochPlan, compiled: Program, rows: pa.Table, *, hot: bool) -> pa.Table:
    """What the workers of an epoch make of what the reading tasks have sent, round by round."""

    def of_round(depth: int) -> Iterator[pa.RecordBatch]:
        for worker in range(plan.workers):
            mine = rows.filter(pc.field("worker") == worker)
            yield worked(checkpoint, plan, depth, worker, mine.to_batches(), hot=hot)

    for depth in range(1, max(1, compiled.depth) + 1):
        rows = pa.Table.from_batches(list(of_round(depth)))
    return rows
