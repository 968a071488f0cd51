"""Trials of `migration.py`: queries of the study on lazy migration (002, paper VI) that move to another host.

Two hosts of a star. A host has one core that finishes what it has begun, operators further downstream first. An event
takes 10 us per operator, a projection 1 us. A segment has 536 bytes and 54 of overhead. The 50 us between two frames
are overhead, too: so many bytes as the link carries in that time. Events come from outside, at no cost; the link
carries state, and rows between operators while these are on different hosts.

A join stores 10,000 rows of 100 bytes, 10 of every key. Its other input has one row of one key at a time, so each finds
10 of them. Aggregates count and sum by key, over 100 windows that are open at any time. The study keeps a count and a
sum for every window; `assign` makes Shoal do the same.
"""

import tempfile
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from shoal.connectors.sinks import MemorySink
from shoal.connectors.sources.generator import Generator
from shoal.language.python.flow import Flow
from shoal.language.python.stream import Stream
from shoal.model.control.binding import Binding
from shoal.model.control.messages import EpochCommitted, MoveReport
from shoal.model.query.aggregate import count, sum_
from shoal.model.query.expression import col
from shoal.model.query.functions import call
from shoal.model.query.graph import Query
from shoal.model.query.window import hop, tumbling
from shoal.runtimes.simulated.machine.quantity import bandwidth
from shoal.session.digest import result_digest
from shoal.session.job import Job
from shoal.session.run import Run, start

MECHANISMS = ("all-at-once", "rhino", "megaphone", "meces", "lazy-latency")
"""The mechanisms that the study compares."""
NOTHING = ""
"""Instead of a mechanism: nothing moves."""
STORED, PER_KEY = 10_000, 10
KEYS = STORED // PER_KEY
GROUPS, EXTENTS = 250, 100
SEGMENT_BYTES, OVERHEAD_BYTES, GAP_S = 536, 54, 50e-6
WEIGHTS = "join=10us,aggregate=0.1us,select=1us,source=0us,filter=0us,assign=0us,group=0us,sink=0us"
ORIGIN_US = 1_000_000_000_000_000
BEGIN_S = 2.05
"""When instances begin to move: the state is there, and a window has just closed."""
EPOCH_S = 0.05
PADDING = 9

STREAM = Stream(
    "events",
    {"at": "timestamp not null", "kind": "int64 not null", "key": "int64 not null", "value": "int64 not null"},
    time="at",
)
STORE, PROBE, COUNTED, TICK = range(4)
"""Kinds of events: to be stored by a join, to be joined with those, to be aggregated, only for the watermark."""


@dataclass(frozen=True)
class RecordedEvents:
    """Events in the order of their times."""

    at_us: np.ndarray[Any, np.dtype[np.int64]]
    kind: np.ndarray[Any, np.dtype[np.int64]]
    key: np.ndarray[Any, np.dtype[np.int64]]

    def batch(self, start: int, stop: int) -> pa.RecordBatch:
        """Events number start .. stop - 1."""
        at = pa.array(ORIGIN_US + self.at_us[start:stop], pa.timestamp("us", tz="UTC"))
        columns = {"at": at, "kind": self.kind[start:stop], "key": self.key[start:stop]}
        return pa.RecordBatch.from_pydict({**columns, "value": np.arange(start, stop)})

    def index_at(self, seconds: float) -> int:
        """The number of events before a time."""
        return int(np.searchsorted(self.at_us, round(seconds * 1e6)))

    def seconds_at(self, index: int) -> float:
        """The time of an event."""
        return float(self.at_us[min(index, self.at_us.size - 1)] / 1e6)


@dataclass(frozen=True)
class Trial:
    """A query and its network; what moves are all operators with state.

    `slide_ms`: of the aggregate's windows. `touched`: the share of the join's keys that rows look for. `rate`: rows per
    second while they move; `updates`: the share of them that an aggregate alone counts, the others only advance the
    watermark. `seconds`: how long events come after the beginning of the migration. `panes`: aggregates keep panes,
    which is Shoal's own way, instead of a sum per window.
    """

    query: str
    slide_ms: int = 1000
    touched: float = 1.0
    rate: float = 50.0
    seconds: float = 20.0
    bandwidth: str = "1Mbit"
    latency: str = "1ms"
    panes: bool = False
    updates: float = 1.0

    @property
    def topology(self) -> str:
        """The machine file."""
        per_s = bandwidth(self.bandwidth, "bandwidth")
        overhead = OVERHEAD_BYTES + round(GAP_S * per_s)
        segments = f"segment_bytes: {SEGMENT_BYTES}, overhead_bytes: {overhead}"
        star = f"star: {{bandwidth: {self.bandwidth}, latency: {self.latency}, {segments}}}"
        return f"hosts:\n- {{name: host, count: 2, cores: 1}}\n{star}\n"

    def queries(self) -> list[Query]:
        """The queries, with an output for every operator with state."""
        if self.query == "aggregate":
            return [self._totals(STREAM.filter(col("kind") == COUNTED).select("at", "key", "value")).sink("totals")]
        padding = {f"p{number}": col("value") + number for number in range(PADDING)}
        stored = STREAM.filter(col("kind") == STORE).select("at", "key", **padding)
        probes = STREAM.filter(col("kind") == PROBE).select("at", "key", probe=col("value"))
        joined = stored.join(probes, on="key", within_s=(0, 10_000))
        found = [joined.sink("joined")]
        if self.query == "join-aggregate":
            whole = sum((col(name) for name in padding), col("probe") + call("as_int64", "at"))
            rows = joined.select("at_right", key=col("key") % GROUPS, value=whole)
            found.append(self._totals(rows).sink("totals"))
        return found

    def _totals(self, rows: Flow) -> Flow:
        slide_s = self.slide_ms / 1000
        window = hop(EXTENTS * slide_s, slide_s)
        if self.panes:
            return rows.key_by("key").window(window).aggregate(n=count(), total=sum_("value"))
        extents = rows.assign(window).key_by("key").window(tumbling(slide_s))
        return extents.aggregate(n=count(), total=sum_("value"))

    def _kinds(self, draw: np.random.Generator, counted: int, number: int) -> np.ndarray[Any, np.dtype[np.int64]]:
        return np.where(draw.random(number) < self.updates, counted, TICK)

    def events(self) -> RecordedEvents:
        """Events that fill the state within a second, then one at a time."""
        draw = np.random.default_rng(0)
        most = max(1, round(KEYS * self.touched))
        filled = [(STORE, np.arange(STORED) % KEYS)] if "join" in self.query else []
        if "aggregate" in self.query:
            filled.append((PROBE if "join" in self.query else COUNTED, np.arange(GROUPS)))
        kinds = [np.full(keys.size, kind) for kind, keys in filled]
        number = round(self.rate * (BEGIN_S - 1 + self.seconds))
        counted = PROBE if "join" in self.query else COUNTED
        later = draw.integers(0, most if "join" in self.query else GROUPS, number)
        at = [450_000 * place + np.arange(keys.size) * (450_000 // keys.size) for place, (_, keys) in enumerate(filled)]
        order = np.argsort(np.concatenate(at), kind="stable")
        early = tuple(np.concatenate(each)[order] for each in (at, kinds, [keys for _, keys in filled]))
        late = (
            1_000_000 + (np.arange(number) / self.rate * 1e6).astype(np.int64),
            self._kinds(draw, counted, number),
            later,
        )
        return RecordedEvents(*(np.concatenate(pair) for pair in zip(early, late, strict=True)))


class CountedSink(MemorySink):
    """Also tells how many rows a table got in an epoch."""

    def rows(self, table: str, epoch: int) -> int:
        """The rows of one epoch."""
        return self._parts[table][epoch].num_rows if epoch in self._parts[table] else 0


@dataclass
class Outcome:
    """What a migration did: its moves, and of every table the latencies of its results, by epoch.

    `latency`: the time of each epoch, its results and the sum of their latencies.
    """

    moves: tuple[MoveReport, ...] = ()
    latency: dict[str, list[tuple[float, int, float]]] = field(default_factory=dict)
    digest: str = ""

    def delay_s(self, table: str) -> float:
        """The sum of the latencies of all results of a table."""
        return sum(total for _, _, total in self.latency.get(table, ()))

    def move(self, operator: str) -> MoveReport:
        """The move of an operator, by its kind."""
        return next(each for each in self.moves if operator in str(each.instance))


@cache
def outcome(trial: Trial, mechanism: str) -> Outcome:
    """Run a trial with a mechanism, or without a migration."""
    sink, found = CountedSink(), Outcome()
    source = Generator(trial.events(), trial.events().at_us.size, "event-time")
    job = Job.of("migration", trial.queries(), {"events": source})

    def act(run: Run, event: EpochCommitted) -> None:
        if mechanism and event.at_s >= BEGIN_S and not begun:
            begun.append(run.rebind(Binding.of(dict.fromkeys(run.instances, 1), 2)))
        for table, mean_s in event.snapshot.latency_s.items():
            rows = sink.rows(table, event.epoch)
            found.latency.setdefault(table, []).append((event.at_s, rows, mean_s * rows))

    begun = list[str]()
    with tempfile.TemporaryDirectory(prefix="shoal-migration-") as directory:
        machine = Path(directory) / "machine.yaml"
        machine.write_text(trial.topology, encoding="utf-8")
        conf = {
            "topology": str(machine),
            "detail": "rows",
            "delay": "uniform",
            "weights": WEIGHTS,
            "source": "outside",
            "step_s": "0.002",
            "epoch_s": str(EPOCH_S),
        }
        run = start(
            job, on="simulated", workers=1, sink=sink, policy="round-robin", mechanism=mechanism or None, conf=conf
        )
        run.wait(act)
    found.moves = tuple(move for event in run.finished for move in event.moves)
    found.digest = result_digest({name: sink.table(name) for name in sink.names()})
    return found
