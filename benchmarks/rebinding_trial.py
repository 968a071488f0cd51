"""One trial of `rebinding.py`: a run of the workload `skew`, its latency over time, and a digest of its results."""

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from shoal.connectors.sinks import MemorySink
from shoal.connectors.sources.rate import Rate
from shoal.control.settings import ControlSettings
from shoal.model.control.binding import Binding
from shoal.model.control.messages import EpochCommitted
from shoal.policies.binding.static import shuffled
from shoal.runtimes.local.settings import LocalSettings
from shoal.session.digest import differences, result_digest
from shoal.session.run import Run, start
from shoal.workloads.catalog import WORKLOADS
from shoal.workloads.workload import Amount


@dataclass(frozen=True)
class Trial:
    """One run and its label."""

    label: str
    policy: str
    events: int
    on: str = "local"
    workers: int = 2
    rate: float | None = None
    settings: dict[str, str] = field(default_factory=dict)
    control: dict[str, str] = field(default_factory=dict)
    conf: dict[str, str] = field(default_factory=dict)
    mechanism: str | None = None
    epoch_rows: int = 20_000
    move_every_s: float = 0.0
    check: bool = False


def run_trial(trial: Trial) -> dict[str, Any]:
    """Run the trial in this process."""
    if trial.on == "spark-sql":
        return run_peer(trial)
    rate = None if trial.rate is None else Rate.of(str(trial.rate))
    ready = WORKLOADS["skew"].ready(0, Amount(trial.events, rate, trial.epoch_rows), trial.settings)
    spark = None
    if trial.on == "spark":
        from shoal.runtimes.spark.cluster.session import spark_session

        spark = spark_session(trial.conf)
    epochs: list[dict[str, float]] = []
    run = start(
        ready.job,
        on=trial.on,
        workers=trial.workers,
        policy=trial.policy,
        control=ControlSettings.of(trial.control),
        mechanism=trial.mechanism,
        local=LocalSettings.of(trial.conf) if trial.on == "local" else None,
        spark=spark,
    )
    mover = _Mover(run, trial)
    tally = run.wait(lambda _, done: epochs.append(_epoch(done)))
    mover.stop()
    assert isinstance(run.sink, MemorySink)
    tables = {name: run.sink.table(name) for name in run.sink.names() if name != "dead_letters"}
    wrong = differences(tables, ready.expected(run.consumed)) if trial.check else []
    return {
        "events": tally.events,
        "elapsed_s": tally.elapsed_s,
        "latency_ms": tally.latency_ms(),
        "moves": tally.moves,
        "state_bytes_moved": tally.state_bytes_moved,
        "compute_s": tally.compute_s,
        "migration_s": tally.migration_s,
        "policy_s": tally.policy_s,
        "digest": result_digest(tables),
        "checked": trial.check,
        "wrong": wrong,
        "epochs": epochs if trial.on == "spark" else by_second(epochs),
    }


def run_peer(trial: Trial) -> dict[str, Any]:
    """Spark's own: as many partitions as there would be workers, rows by the hash of their keys."""
    from shoal.experiments.engines import spark_sql
    from shoal.experiments.workload_trial import WorkloadTrial as Peer

    ready = WORKLOADS["skew"].ready(0, Amount(trial.events, None, trial.epoch_rows), trial.settings)
    peer = Peer("skew", "spark-sql", trial.events, workers=trial.workers, settings=trial.settings)
    reports: list[dict[str, Any]] = []
    elapsed_s, tables = spark_sql.run(peer, ready, reports.append)
    whole = [each for each in reports if each["numInputRows"] >= trial.epoch_rows]  # the last ones only close windows
    spent_s = [each["durationMs"]["triggerExecution"] / 1000 for each in whole]
    epochs = [{"s": each_s, "rows": trial.epoch_rows, "moves": 0} for each_s in spent_s]
    ordered = sorted(1000 * each_s for each_s in spent_s)
    return {
        "events": trial.events,
        "elapsed_s": elapsed_s,
        "latency_ms": {"mean": sum(ordered) / len(ordered), "p99": ordered[-1], "max": ordered[-1]},
        **dict.fromkeys(("moves", "state_bytes_moved", "migration_s", "policy_s"), 0),
        "compute_s": elapsed_s,
        "digest": "",  # its columns have other types; its results are compared with the oracle's each time
        "checked": True,
        "wrong": differences(tables, ready.expected(trial.events)),
        "epochs": epochs,
    }


class _Mover:
    """Binds a random tenth of the instances to random workers, at a fixed interval."""

    def __init__(self, run: Run, trial: Trial) -> None:
        self._ended = threading.Event()
        if trial.move_every_s:
            threading.Thread(target=self._move, args=(run, trial), daemon=True).start()

    def _move(self, run: Run, trial: Trial) -> None:
        number = 0
        while not self._ended.wait(trial.move_every_s):
            number += 1
            wanted = shuffled(run.job.graph, trial.workers, number)
            chosen = dict(list(wanted.worker_of.items())[number % 10 :: 10])
            run.rebind(Binding(chosen, trial.workers))

    def stop(self) -> None:
        self._ended.set()


def _epoch(done: EpochCommitted) -> dict[str, float]:
    return {
        "at_s": round(time.time(), 3),
        "s": round(done.duration_s, 4),
        "rows": done.rows,
        "moves": done.moves,
        "latency_s": round(_latency_s(done), 5),
        "results": done.results,
    }


def _latency_s(done: EpochCommitted) -> float:
    seen = done.latency
    return done.latency_s if seen is None else seen.sum_s / max(1, seen.total)


def by_second(epochs: Sequence[dict[str, float]]) -> list[dict[str, float]]:
    """Epochs of a twentieth of a second, merged: rows, moves, results and their mean latency."""
    seconds: dict[int, list[dict[str, float]]] = {}
    for epoch in epochs:
        seconds.setdefault(int(epoch["at_s"] - epochs[0]["at_s"]), []).append(epoch)
    found = []
    for second, several in seconds.items():
        results = sum(epoch["results"] for epoch in several)
        waited_s = sum(epoch["latency_s"] * epoch["results"] for epoch in several)
        rows, moves = (sum(epoch[name] for epoch in several) for name in ("rows", "moves"))
        latency_s = round(waited_s / results, 5) if results else 0.0
        found.append({"at_s": second, "rows": rows, "moves": moves, "results": results, "latency_s": latency_s})
    return found
