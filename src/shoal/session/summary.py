"""Summaries: the totals of a run, for people and programs."""

import os
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import psutil

from shoal.control.journal import Ended, Migrated
from shoal.model.control.histogram import Histogram, merged
from shoal.model.control.messages import EpochCommitted, QueriesParked, QueryLoss, RefusedRows, RunEnded
from shoal.model.control.shedding import ShedCount, StreamShedding, added
from shoal.model.control.topology import Topology

MEMORY_EVERY_S = 0.5
"""Period of memory measurements, each of which takes a few milliseconds."""


@dataclass
class Tally:
    """Totals of a run, updated after every epoch."""

    events: int = 0
    results: int = 0
    epochs: int = 0
    moves: int = 0
    dead_letters: int = 0
    state_bytes: int = 0
    state_bytes_moved: int = 0
    compute_s: float = 0.0
    migration_s: float = 0.0
    policy_s: float = 0.0
    peak_rss_mb: float = 0.0
    first_begun_s: float | None = None
    last_done_s: float = 0.0
    refusals: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    refused_rows: dict[tuple[str, str, str], RefusedRows] = field(default_factory=dict)
    """Dead letters by stream, reason and column, with the first of each as an example."""
    latency: Histogram = field(default_factory=Histogram)
    markers: Histogram | None = None
    shed: Mapping[str, ShedCount] = field(default_factory=dict)
    """Rows that were shed, by stream; they count as events."""
    shedding: Mapping[str, StreamShedding] = field(default_factory=dict)
    """Streams of which rows may be shed, and the event times in which they were, by earlier runs as well."""
    _measured_s: float = float("-inf")

    def add(self, event: EpochCommitted) -> None:
        """Add an epoch."""
        now_s = event.at_s
        self.events += event.rows
        self.results += event.results
        self.epochs += 1
        self.moves += event.moves
        self.dead_letters += event.dead_letters
        self.state_bytes = event.state_bytes
        self.state_bytes_moved += event.state_bytes_moved
        self.compute_s += event.compute_s
        self.migration_s += event.migration_s
        self.policy_s += event.policy_s
        self.markers = self.markers if event.markers is None else event.markers
        if event.latency is not None:
            self.latency = merged([self.latency, event.latency])
        elif event.results:
            self.latency.record(event.latency_s, event.results)
        self.first_begun_s = now_s - event.latency_s if self.first_begun_s is None else self.first_begun_s
        self.last_done_s = now_s
        if now_s - self._measured_s >= MEMORY_EVERY_S:
            self._measured_s = now_s
            self.measure_memory()
        self.shed = added(self.shed, list(event.shed.items()))
        self.shedding = event.shedding
        for reason, number in event.refusals.items():
            self.refusals[reason] += number
        for refused in event.refused_rows:
            kind = (refused.stream, refused.reason, refused.column)
            before = self.refused_rows.get(kind)
            total = refused if before is None else replace(before, rows=before.rows + refused.rows)
            self.refused_rows[kind] = total

    def measure_memory(self) -> None:
        """Measure the memory of this process and its children."""
        self.peak_rss_mb = max(self.peak_rss_mb, resident_mb())

    def ended(self, event: RunEnded) -> Ended:
        """The journal's entry of the end of the run."""
        error = "" if event.error is None else str(event.error).partition("\n")[0]
        at_s, cost_share = round(event.at_s, 3), self.cost_share()
        return Ended(at_s, self.epochs, self.events, self.moves, self.state_bytes_moved, cost_share, error)

    @property
    def elapsed_s(self) -> float:
        """Time from the first event read to the last result emitted."""
        return 0.0 if self.first_begun_s is None else self.last_done_s - self.first_begun_s

    @property
    def lacks_input(self) -> bool:
        """Whether input was shed in some range of event time, also by an earlier run of the checkpoint."""
        return any(each.ranges for each in self.shedding.values())

    @property
    def refused_share(self) -> float:
        """Dead letters per event read; may exceed 1, since a late row has one for every operator."""
        return self.dead_letters / max(1, self.events)

    def latency_ms(self) -> dict[str, float]:
        """Latency per result row, from the fixed input of an epoch to its results in the sinks."""
        return self.latency.summary_ms()

    def cost_share(self) -> dict[str, float]:
        """The shares of compute, migration and policy in the measured time."""
        costs = {"compute": self.compute_s, "migration": self.migration_s, "policy": self.policy_s}
        total = sum(costs.values()) or 1.0
        return {name: round(cost / total, 6) for name, cost in costs.items()}


@dataclass(frozen=True)
class Summary:
    """A finished run, exactly as `--json` prints it."""

    workload: str
    runtime: str
    policy: str
    mechanism: str
    workers: int
    topology: Topology
    seed: int
    start_up_s: float
    tally: Tally
    result_digest: str
    oracle: str = "not checked"
    sink: str = "memory:"
    """Where the results are; `memory:` if they ended with the run."""
    parked: Sequence[QueriesParked] = ()
    simulated_time: bool = False
    """Whether times and rates are of a simulated clock; the time to start up is not known then."""
    machine: Mapping[str, Any] | None = None
    """How hosts and links of a simulated machine were used."""
    shed: Mapping[str, Any] | None = None
    """What was shed, if input may be shed: see `ShedReport.data`."""
    migrations: Sequence[Migrated] = ()
    deviation: float | None = None
    """The share of results that differ from those of the oracle; None if it was not asked."""

    @property
    def lost(self) -> tuple[QueryLoss, ...]:
        """What queries have lost with state that moved."""
        return tuple(loss for each in self.migrations for loss in each.lost)

    def data(self) -> dict[str, Any]:
        """The summary as plain data."""
        tally = self.tally
        elapsed = tally.elapsed_s
        return {
            "workload": self.workload,
            "runtime": self.runtime,
            "simulated_time": self.simulated_time,
            "policy": self.policy,
            "mechanism": self.mechanism,
            "workers": self.workers,
            "topology": described(self.topology),
            "seed": self.seed,
            "events": tally.events,
            "results": tally.results,
            "elapsed_s": round(elapsed, 3),
            "events_per_s": round(tally.events / elapsed, 1) if elapsed else 0.0,
            "start_up_s": None if self.simulated_time else round(self.start_up_s, 3),
            "latency_ms": tally.latency_ms(),
            "marker_latency_ms": None if tally.markers is None else tally.markers.summary_ms(),
            "epochs": tally.epochs,
            "moves": tally.moves,
            "state_bytes_moved": tally.state_bytes_moved,
            "migrations": [migration_data(each) for each in self.migrations],
            "cost_share": tally.cost_share(),
            "result_digest": self.result_digest,
            "oracle": self.oracle,
            "deviation": self.deviation,
            "sink": self.sink,
            "dead_letters": tally.dead_letters,
            "refused_rows": [asdict(kind) for kind in sorted(tally.refused_rows.values(), key=lambda kind: -kind.rows)],
            "peak_rss_mb": round(tally.peak_rss_mb, 1),
            "parked": [{"queries": list(each.queries), "reason": each.reason, "row": each.row} for each in self.parked],
            **({} if self.machine is None else {"machine": dict(self.machine)}),
            **({} if self.shed is None else {"shed": dict(self.shed)}),
        }


def migration_data(entry: Migrated) -> dict[str, Any]:
    """A migration as plain data: its metrics, null for what was not measured, and what each query has lost."""
    data = asdict(entry)
    metrics, lost = data.pop("metrics"), data.pop("lost")
    return {**data, **{name: _rounded(value) for name, value in metrics.items()}, "lost": lost}


def _rounded(value: float | None) -> float | None:
    return round(value, 6) if isinstance(value, float) else value


def described(topology: Topology) -> str:
    """A topology in a few words.

    >>> described(Topology.of(nodes=2, workers=4))
    '4 workers on 2 nodes'
    """
    workers, nodes = topology.workers, topology.nodes
    return f"{workers} worker{'s' * (workers > 1)} on {nodes} node{'s' * (nodes > 1)}"


def resident_mb() -> float:
    """Memory of this process and its children: the JVM and the Python workers."""
    processes: Sequence[psutil.Process] = [psutil.Process(os.getpid())]
    processes = [*processes, *processes[0].children(recursive=True)]
    total = 0
    for process in processes:
        try:
            total += process.memory_info().rss
        except psutil.NoSuchProcess:
            continue
    return total / 1e6
