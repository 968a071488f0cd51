"""Where a micro-batch's time goes, from Spark's own progress reports."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from pyspark.sql import SparkSession

from measures.spark.on_plain_spark import phase_s, trigger_s
from measures.spark.on_shoal import Followed

Phases = dict[str, float]
WHOLE = "whole"


@dataclass(frozen=True)
class SparkStage:
    """A stage of a Spark job: when it was submitted and how long it took on the clock."""

    number: int
    submitted_s: float
    took_s: float


def stages(spark: SparkSession) -> list[SparkStage]:
    """The finished stages that Spark remembers, oldest first; its status store has no Python interface."""
    context = spark.sparkContext
    gateway: Any = context._gateway  # noqa: SLF001
    quantiles = gateway.new_array(gateway.jvm.double, 0)
    java: Any = context._jsc  # noqa: SLF001
    listed = java.sc().statusStore().stageList(None, False, False, quantiles, None)
    found = []
    for i in range(listed.size()):
        stage = listed.apply(i)
        if stage.submissionTime().isDefined() and stage.completionTime().isDefined():
            begun, done = stage.submissionTime().get().getTime(), stage.completionTime().get().getTime()
            found.append(SparkStage(stage.stageId(), begun / 1000, (done - begun) / 1000))
    return sorted(found, key=lambda stage: stage.number)


def of_spark(report: Mapping[str, Any]) -> Phases:
    """The seconds of the phases of any micro-batch, by Spark's names but for planning, which is two of them."""
    found = {name: phase_s(report, name) for name in ("latestOffset", "walCommit")}
    found["planning"] = phase_s(report, "getBatch") + phase_s(report, "queryPlanning")
    found |= {name: phase_s(report, name) for name in ("addBatch", "commitOffsets")}
    total = phase_s(report, "triggerExecution")
    return {**found, "between": total - sum(found.values()), WHOLE: total}


def of_shoal(followed: Followed, known: Sequence[SparkStage]) -> list[Phases]:
    """The phases of every epoch of a run; instead of `addBatch` the parts that Shoal's work consists of."""
    found = []
    batches = {report["batchId"]: report for report in followed.reports}
    for epoch in followed.epochs:
        report = batches.get(epoch.epoch)
        if report is None:
            continue
        begun, took = trigger_s(report), phase_s(report, "triggerExecution")
        # Spark records trigger times in whole milliseconds.
        mine = [stage.took_s for stage in known if begun - 0.001 <= stage.submitted_s <= begun + took]
        phases = of_spark(report)
        work = phases.pop("addBatch")
        reading, stateful = (sum(mine[:-1]), mine[-1]) if mine else (0.0, 0.0)
        found.append(
            {
                **phases,
                "epoch_plan": epoch.policy_s,
                "reading_stage": reading,
                "stateful_stage": stateful,
                "results_and_commit": epoch.duration_s - reading - stateful,
                "calls_into_python": work - epoch.policy_s - epoch.duration_s,
            }
        )
    return found


def metrics(epochs: Iterable[Phases]) -> dict[str, float]:
    """The median of each phase over epochs in milliseconds, and the smallest and largest time of a whole epoch."""
    rows = list(epochs)
    whole_ms = [row[WHOLE] * 1000 for row in rows]
    phases = {f"phase_ms.{name}": median(row[name] * 1000 for row in rows) for name in rows[0] if name != WHOLE}
    return {"epoch_ms": median(whole_ms), "epoch_ms.min": min(whole_ms), "epoch_ms.max": max(whole_ms), **phases}
