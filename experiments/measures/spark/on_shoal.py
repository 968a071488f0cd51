"""Shoal on Spark, through its public interface."""

import shutil
import tempfile
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import SparkSession

import shoal
from measures.spark.engine_run import EngineRun
from measures.spark.on_plain_spark import trigger_s
from shoal.experiments.machine import cpu_s
from shoal.model.control.messages import EpochCommitted


@dataclass
class Followed:
    """A finished run: the run, its epochs, and what Spark reported of its micro-batches."""

    run: shoal.Run
    cpu_s: float = 0.0
    epochs: list[EpochCommitted] = field(default_factory=list)
    reports: list[Any] = field(default_factory=list)

    def measured(self) -> EngineRun:
        """The time is from the first trigger to the last result, like plain Spark's."""
        tally = self.run.tally
        begun = tally.last_done_s - tally.elapsed_s
        if self.reports:
            begun = min(begun, trigger_s(self.reports[0]))
        sink = self.run.sink
        kept = {name: sink.table(name) for name in sink.names()} if isinstance(sink, shoal.MemorySink) else {}
        return EngineRun(
            rows=tally.events,
            elapsed_s=tally.last_done_s - begun,
            cpu_s=self.cpu_s,
            epochs_s=tuple(epoch.latency_s for epoch in self.epochs),
            tables=kept,
        )


def follow(spark: SparkSession, job: shoal.Job, workers: int) -> Followed:
    """Run a job to its end with results in memory and its state in a checkpoint that is removed afterwards."""
    directory = tempfile.mkdtemp(prefix="experiment-")
    try:
        run = shoal.start(job, spark=spark, workers=workers, checkpoint=directory, sink=shoal.MemorySink())
        followed = Followed(run)
        queries: list[Any] = []
        cpu_before_s = cpu_s()

        def watch(_: shoal.Run, epoch: EpochCommitted) -> None:
            if not queries:
                queries.extend(spark.streams.active)
            followed.epochs.append(epoch)

        run.wait(watch)
        followed.cpu_s = cpu_s() - cpu_before_s
        followed.reports = [report for query in queries for report in query.recentProgress]
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    return followed
