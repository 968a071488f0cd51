"""A run of the workload `skew`: range joins, patterns and a costly function per cell, some of which are hot.

Results are compared with the oracle each time. What epochs took is kept: on Spark one by one, between threads, where
they are a twentieth of a second, by the second.
"""

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from measures.outcome import checked
from shoal.connectors.sinks import MemorySink
from shoal.connectors.sources.rate import Rate
from shoal.control.settings import ControlSettings
from shoal.errors import RunError
from shoal.experiments.experiment import TrialOutcome
from shoal.model.control.binding import Binding
from shoal.model.control.messages import EpochCommitted
from shoal.policies.binding.static import shuffled
from shoal.runtimes.local.settings import LocalSettings
from shoal.session.digest import differences, result_digest
from shoal.session.run import Run, start
from shoal.workloads.catalog import WORKLOADS
from shoal.workloads.workload import Amount

PER_S = 20_000
"""Reports per second of event time."""


@dataclass(frozen=True)
class SkewRun:
    """What is run; with `move_every_s` a random tenth of the instances is bound to random workers so often."""

    policy: str
    events: int
    on: str = "local"
    workers: int = 2
    rate: float | None = None
    settings: Mapping[str, str] = field(default_factory=dict)
    control: Mapping[str, str] = field(default_factory=dict)
    conf: Mapping[str, str] = field(default_factory=dict)
    mechanism: str | None = None
    epoch_rows: int = 20_000
    move_every_s: float = 0.0


@dataclass(frozen=True)
class EpochTaken:
    """What an epoch took: when it ended, its seconds, rows, moves, results and their mean latency."""

    at_s: float
    seconds: float
    rows: int
    moves: int
    results: int
    latency_s: float

    @classmethod
    def of(cls, done: EpochCommitted) -> "EpochTaken":
        """An epoch that has ended just now."""
        seen = done.latency
        latency_s = done.latency_s if seen is None else seen.sum_s / max(1, seen.total)
        return cls(time.time(), done.duration_s, done.rows, done.moves, done.results, latency_s)


def run_skew(asked: SkewRun) -> tuple[TrialOutcome, list[EpochTaken]]:
    """Run it in this process."""
    rate = None if asked.rate is None else Rate.of(str(asked.rate))
    ready = WORKLOADS["skew"].ready(0, Amount(asked.events, rate, asked.epoch_rows), asked.settings)
    spark: Any = None
    if asked.on == "spark":
        from shoal.runtimes.spark.cluster.session import spark_session

        spark = spark_session(asked.conf)
    epochs: list[EpochTaken] = []
    run = start(
        ready.job,
        on=asked.on,
        workers=asked.workers,
        policy=asked.policy,
        control=ControlSettings.of(asked.control),
        mechanism=asked.mechanism,
        local=LocalSettings.of(asked.conf) if asked.on == "local" else None,
        spark=spark,
    )
    ended = _moving(run, asked)
    tally = run.wait(lambda _, done: epochs.append(EpochTaken.of(done)))
    ended.set()
    if not isinstance(run.sink, MemorySink):
        raise RunError(f"results must be in memory to be compared; got {type(run.sink).__name__}")
    tables = {name: run.sink.table(name) for name in run.sink.names() if name != "dead_letters"}
    spent_s = tally.compute_s + tally.migration_s + tally.policy_s or 1.0
    metrics = {
        "events_per_s": tally.events / tally.elapsed_s,
        **{f"latency_ms.{name}": value for name, value in tally.latency_ms().items()},
        "moves": tally.moves,
        "moved_mb": tally.state_bytes_moved / 1e6,
        "migration_percent": 100 * tally.migration_s / spent_s,
        "policy_percent": 100 * tally.policy_s / spent_s,
    }
    wrong = differences(tables, ready.expected(run.consumed))
    series = {"latency_ms": by_second(epochs)}
    return checked(metrics, wrong, {"results": result_digest(tables)}, series), epochs


def _moving(run: Run, asked: SkewRun) -> threading.Event:
    """Begin to move instances at random; the event ends it."""
    ended = threading.Event()

    def move() -> None:
        number = 0
        while not ended.wait(asked.move_every_s):
            number += 1
            wanted = shuffled(run.job.graph, asked.workers, number)
            run.rebind(Binding(dict(list(wanted.worker_of.items())[number % 10 :: 10]), asked.workers))

    if asked.move_every_s:
        threading.Thread(target=move, daemon=True).start()
    return ended


def by_second(epochs: Sequence[EpochTaken]) -> list[list[float]]:
    """The mean latency in ms of the results of every second that has any."""
    seconds: dict[int, list[EpochTaken]] = {}
    for epoch in epochs:
        if epoch.results:
            seconds.setdefault(int(epoch.at_s - epochs[0].at_s), []).append(epoch)
    return [
        [float(second), 1000 * sum(e.latency_s * e.results for e in several) / sum(e.results for e in several)]
        for second, several in seconds.items()
    ]
