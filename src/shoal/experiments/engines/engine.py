"""Engines: how a trial is run, on Shoal's runtimes and on peers; all results are compared with the oracle."""

import time
from collections.abc import Callable, Mapping

import pyarrow as pa

from shoal.connectors.sinks import MemorySink
from shoal.connectors.sources.rate import rate_of
from shoal.errors import ConfigError
from shoal.experiments.engines import flink, spark_sql
from shoal.experiments.machine import cpu_s
from shoal.experiments.processor_use import watched_others
from shoal.experiments.workload_trial import WorkloadOutcome, WorkloadTrial
from shoal.model.control.histogram import Histogram
from shoal.model.control.messages import EpochCommitted
from shoal.session.digest import differences, result_digest
from shoal.session.run import Run, start
from shoal.session.summary import resident_mb
from shoal.session.timer import calling_after
from shoal.workloads.catalog import workload
from shoal.workloads.workload import Amount, Ready

TIMELINE_S = 0.5


def ready(trial: WorkloadTrial) -> Ready:
    """The trial's workload, set up."""
    chosen = workload(trial.workload)
    rate = None if trial.rate is None else rate_of(trial.rate)
    events = trial.events
    if events is None and trial.seconds is None:
        events = chosen.events
    return chosen.ready(trial.seed, Amount(events, rate, chosen.rows_per_epoch), trial.settings)


def on_shoal_local(trial: WorkloadTrial) -> WorkloadOutcome:
    """The embedded runtime."""
    return _on_shoal(trial, "local")


def on_shoal_spark(trial: WorkloadTrial) -> WorkloadOutcome:
    """Shoal on an embedded Spark."""
    if trial.local:
        raise ConfigError("settings of the local runtime have no effect on Spark; leave shoal-spark out")
    return _on_shoal(trial, "spark")


def _on_shoal(trial: WorkloadTrial, runtime: str) -> WorkloadOutcome:
    made = ready(trial)
    run = start(made.job, on=runtime, workers=trial.workers, conf=trial.local)
    before_s, others_share, watcher = cpu_s(), watched_others(), _Timeline(run.runtime.now_s())
    with calling_after(trial.seconds, run.drain):
        run.wait(watcher)
    used_s, others = cpu_s() - before_s, others_share()
    results = _results(run)
    wrong = differences(results, made.expected(run.consumed)) if trial.check else []
    spent = run.runtime.overhead()
    return WorkloadOutcome(
        events=run.tally.events,
        elapsed_s=run.tally.elapsed_s,
        oracle=_verdict(trial, wrong),
        digest=result_digest(results),
        cpu_s=used_s,
        others_share=others,
        latency_ms=run.tally.latency_ms(),
        marker_ms=None if spent is None else spent.transit.summary_ms(),
        decision_us=None if spent is None else spent.deciding_s / max(1, spent.decisions) * 1e6,
        start_up_s=run.start_up_s,
        peak_rss_mb=run.tally.peak_rss_mb,
        timeline=watcher.points,
    )


class _Timeline:
    """Records throughput and marker latency, twice a second."""

    def __init__(self, begun_s: float) -> None:
        self.points: list[list[float]] = []
        self._events = 0
        self._begun_s = self._reported_s = begun_s
        self._observed = (0, 0.0)

    def __call__(self, run: Run, event: EpochCommitted) -> None:
        self._events += event.rows
        now_s = event.at_s
        if now_s - self._reported_s < TIMELINE_S:
            return
        markers = _markers(run)
        arrived, waited_s = markers.total - self._observed[0], markers.sum_s - self._observed[1]
        latency_ms = waited_s / arrived * 1000 if arrived else 0.0
        self.points.append([now_s - self._begun_s, self._events / (now_s - self._reported_s), latency_ms])
        self._events, self._reported_s, self._observed = 0, now_s, (markers.total, markers.sum_s)


def _markers(run: Run) -> Histogram:
    spent = run.runtime.overhead()
    return Histogram() if spent is None else spent.transit


def on_duckdb(trial: WorkloadTrial) -> WorkloadOutcome:
    """DuckDB, all events in one batch: the oracle itself, which also has to build the events."""
    if trial.rate or trial.seconds or trial.local:
        raise ConfigError("DuckDB runs one batch; leave duckdb out of trials with a rate, seconds or settings")
    made = ready(trial)
    events = trial.events or workload(trial.workload).events
    before_s, began = cpu_s(), time.perf_counter()
    tables = made.expected(events)
    elapsed_s = time.perf_counter() - began
    return WorkloadOutcome(
        events=events,
        elapsed_s=elapsed_s,
        oracle=_verdict(trial, [] if tables else ["no results"]),
        cpu_s=cpu_s() - before_s,
        peak_rss_mb=resident_mb(),
    )


def _peer(
    run: Callable[[WorkloadTrial, Ready], tuple[float, Mapping[str, pa.Table]]],
) -> Callable[[WorkloadTrial], WorkloadOutcome]:
    """A peer that reads the same events from files; it gives its time and its results."""

    def on_peer(trial: WorkloadTrial) -> WorkloadOutcome:
        if trial.rate or trial.seconds or trial.local:
            raise ConfigError(f"{trial.engine} reads files as fast as it can; leave it out of trials with a rate")
        made = ready(trial)
        events = trial.events or workload(trial.workload).events
        elapsed_s, tables = run(trial, made)
        wrong = differences(tables, made.expected(events)) if trial.check else []
        return WorkloadOutcome(
            events=events, elapsed_s=elapsed_s, oracle=_verdict(trial, wrong), peak_rss_mb=resident_mb()
        )

    return on_peer


def _verdict(trial: WorkloadTrial, wrong: list[str]) -> str:
    return ("different" if wrong else "equal") if trial.check else "not checked"


def _results(run: Run) -> dict[str, pa.Table]:
    sink = run.sink
    if not isinstance(sink, MemorySink):
        raise ConfigError("trials keep their results in memory")
    return {name: sink.table(name) for name in sink.names() if name != "dead_letters"}


ENGINES: Mapping[str, Callable[[WorkloadTrial], WorkloadOutcome]] = {
    "shoal-local": on_shoal_local,
    "shoal-spark": on_shoal_spark,
    "duckdb": on_duckdb,
    "spark-sql": _peer(spark_sql.run),
    "flink": _peer(flink.run),
}
