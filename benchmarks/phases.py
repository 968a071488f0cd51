"""Where a micro-batch's time goes, from Spark's own progress reports."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from engine_shoal import Followed
from engine_spark import phase_s, trigger_s
from pyspark.sql import SparkSession
from spread import Spread

Phases = dict[str, float]


@dataclass(frozen=True)
class SparkStage:
    """A stage of a Spark job: when it was submitted and how long it took on the clock."""

    number: int
    submitted_s: float
    took_s: float


def stages(spark: SparkSession) -> list[SparkStage]:
    """The finished stages that Spark remembers, oldest first; its status store has no Python interface."""
    context = spark.sparkContext
    gateway = context._gateway  # noqa: SLF001
    quantiles = gateway.new_array(gateway.jvm.double, 0)
    listed = context._jsc.sc().statusStore().stageList(None, False, False, quantiles, None)  # noqa: SLF001
    found = []
    for i in range(listed.size()):
        stage = listed.apply(i)
        if stage.submissionTime().isDefined() and stage.completionTime().isDefined():
            begun, done = stage.submissionTime().get().getTime(), stage.completionTime().get().getTime()
            found.append(SparkStage(stage.stageId(), begun / 1000, (done - begun) / 1000))
    return sorted(found, key=lambda stage: stage.number)


def of_spark(report: Mapping[str, Any]) -> Phases:
    """The phases of any micro-batch."""
    found = {
        "find the input (latestOffset)": phase_s(report, "latestOffset"),
        "log the input (walCommit)": phase_s(report, "walCommit"),
        "plan (getBatch, queryPlanning)": phase_s(report, "getBatch") + phase_s(report, "queryPlanning"),
        "work (addBatch)": phase_s(report, "addBatch"),
        "log the end (commitOffsets)": phase_s(report, "commitOffsets"),
    }
    total = phase_s(report, "triggerExecution")
    return {**found, "between": total - sum(found.values()), "whole micro-batch": total}


def of_shoal(followed: Followed, known: Sequence[SparkStage]) -> list[Phases]:
    """The phases of every epoch of a run, with Shoal's part of the work in detail."""
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
        work = phases.pop("work (addBatch)")
        reading, stateful = (sum(mine[:-1]), mine[-1]) if mine else (0.0, 0.0)
        parts = {
            "work: epoch's plan": epoch.policy_s,
            "work: read and pre-aggregate (stage 1)": reading,
            "work: stateful stage (stage 2)": stateful,
            "work: job set-up, results, sinks, commit": epoch.duration_s - reading - stateful,
            "work: call into Python and back": work - epoch.policy_s - epoch.duration_s,
        }
        whole = phases.pop("whole micro-batch")
        found.append({**phases, **parts, "whole micro-batch": whole})
    return found


def medians_ms(epochs: Iterable[Phases]) -> dict[str, Any]:
    """Each phase's spread over epochs, in milliseconds."""
    rows = list(epochs)
    return {name: Spread.of(row[name] * 1000 for row in rows).data() for name in rows[0]} if rows else {}
