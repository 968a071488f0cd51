"""Bindings that follow the load, against those that do not: latency and throughput under a hotspot that moves.

Between threads the policies of the studies are asked every second, and their proposals are always enacted.
"""

from collections.abc import Sequence
from dataclasses import replace
from statistics import median
from typing import Any

from measures.control.skew_run import PER_S, EpochTaken, SkewRun, run_skew
from measures.outcome import checked
from shoal.experiments.experiment import TrialOutcome
from shoal.session.digest import differences
from shoal.workloads.catalog import WORKLOADS
from shoal.workloads.workload import Amount

LOCAL = {"block_rows": "8192"}
STUDIES = {"trigger": "periodic:1", "decision": "always", "window_s": "0.5", "rest_s": "0.5"}
OURS = {"window_s": "0.5", "rest_s": "0.5"}
EVEN = {"hot": "16", "heat": "0.25", "skew": "0", "move_s": "0"}
"""No cell is hotter than another, so that the benefit of moves does not hide their cost."""
WARMING = 2
"""Epochs in which Spark still compiles."""
NEXT = 2
"""An epoch is compared with this many after it: the same hot cells, the same binding, nothing that moves."""
LATE = 1.2
"""An epoch that takes more than this many times as long counts as delayed."""


def capacity(events: int = 1_500_000) -> TrialOutcome:
    """What two threads do with `guarded` as fast as they can, while hot cells move about every ten seconds."""
    return run_skew(SkewRun("guarded", events, settings={"move_s": "35"}, control=OURS, conf=LOCAL))[0]


def threads(
    policy: str, rate: float, seconds: int = 24, hot_for_s: float = 10.0, profile: str = "", queues: str = ""
) -> TrialOutcome:
    """Two threads at a rate; the hot cells are others after so many seconds."""
    settings = {"move_s": f"{hot_for_s * rate / PER_S:.3f}", **({"profile": profile} if profile else {})}
    conf = {**LOCAL, **({"queues": queues} if queues else {})}
    control = OURS if policy == "guarded" or profile else STUDIES
    return run_skew(SkewRun(policy, int(rate * seconds), "local", 2, rate, settings, control, conf))[0]


def random_moves(mechanism: str, rate: float, every_s: float = 0.0, seconds: int = 24) -> TrialOutcome:
    """Two threads and an even load, of which a random tenth of the instances moves so often; 0: never."""
    asked = SkewRun("round-robin", int(rate * seconds), rate=rate, settings=EVEN, conf=LOCAL, move_every_s=every_s)
    return run_skew(replace(asked, mechanism=mechanism) if every_s else asked)[0]


def slots(
    policy: str, engine: str = "shoal-spark", queries: str = "", rows_per_epoch: int = 40_000, epochs: int = 24
) -> TrialOutcome:
    """Four slots on Spark, as fast as possible; the hot cells are others after eight epochs."""
    settings = {"move_s": f"{8 * rows_per_epoch / PER_S:g}", **({"queries": queries} if queries else {})}
    conf = {"spark.master": "local[4,4]"}
    events = rows_per_epoch * epochs
    asked = SkewRun(policy, events, "spark", 4, None, settings, conf=conf, epoch_rows=rows_per_epoch)
    if engine == "spark-sql":
        return _plain_spark(asked)
    found, taken = run_skew(asked)
    measured = [epoch for epoch in taken[WARMING:] if epoch.rows]
    return replace(found, metrics={**found.metrics, **of_epochs(measured)}) if found.metrics else found


def of_epochs(epochs: Sequence[EpochTaken]) -> dict[str, float]:
    """How long epochs took, and how much longer those were in which instances moved, or did not."""
    found = {
        "epoch_ms": 1000 * median(epoch.seconds for epoch in epochs),
        "epochs_with_moves": float(sum(bool(epoch.moves) for epoch in epochs)),
    }
    for name, moved in (("moving", True), ("others", False)):
        if ratios := compared(epochs, moved=moved):
            found[f"{name}.times_the_next"] = median(ratios)
            found[f"{name}.late_percent"] = 100 * sum(ratio > LATE for ratio in ratios) / len(ratios)
    return found


def compared(epochs: Sequence[EpochTaken], *, moved: bool) -> list[float]:
    """How much longer epochs took than the median of those right behind, where nothing moves in these."""
    ratios = []
    for index, epoch in enumerate(epochs):
        behind = epochs[index + 1 : index + 1 + NEXT]
        if bool(epoch.moves) == moved and len(behind) == NEXT and not any(one.moves for one in behind):
            ratios.append(epoch.seconds / median(one.seconds for one in behind))
    return ratios


def _plain_spark(asked: SkewRun) -> TrialOutcome:
    """Spark's own join: as many partitions as there would be workers, rows by the hash of their keys."""
    from shoal.experiments.engines import spark_sql
    from shoal.experiments.workload_trial import WorkloadTrial

    ready = WORKLOADS["skew"].ready(0, Amount(asked.events, None, asked.epoch_rows), asked.settings)
    trial = WorkloadTrial("skew", "spark-sql", asked.events, workers=asked.workers, settings=asked.settings)
    reports: list[dict[str, Any]] = []
    elapsed_s, tables = spark_sql.run(trial, ready, reports.append)
    whole = [each for each in reports if each["numInputRows"] >= asked.epoch_rows]  # the last ones only close windows
    took_ms = [each["durationMs"]["triggerExecution"] for each in whole]
    metrics = {
        "events_per_s": asked.events / elapsed_s,
        "latency_ms.mean": sum(took_ms) / len(took_ms),
        "latency_ms.max": max(took_ms),
        "epoch_ms": median(took_ms[WARMING:] or took_ms),
        "moves": 0,
    }
    return checked(metrics, differences(tables, ready.expected(asked.events)))
