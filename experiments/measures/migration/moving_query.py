"""Queries of the study on lazy migration (002, paper VI) that move to another host.

Two hosts of a star. A host has one core that finishes what it has begun, operators further downstream first. An event
takes 10 us per operator, a projection 1 us. A segment has 536 bytes and 54 of overhead. The 50 us between two frames
are overhead, too: so many bytes as the link carries in that time. Events come from outside, at no cost; the link
carries state, and rows between operators while these are on different hosts.

A join stores 10,000 rows of 100 bytes, 10 of every key. Its other input has one row of one key at a time, so each finds
10 of them. Aggregates count and sum by key, over 100 windows that are open at any time. The study keeps a count and a
sum for every window; `assign` makes Shoal do the same.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from shoal.language.python.flow import Flow
from shoal.language.python.stream import Stream
from shoal.model.query.aggregate import count, sum_
from shoal.model.query.expression import col
from shoal.model.query.functions import call
from shoal.model.query.graph import Query
from shoal.model.query.window import hop, tumbling

STORED, PER_KEY = 10_000, 10
GROUPS, EXTENTS = 250, 100
SEGMENT_BYTES, OVERHEAD_BYTES, GAP_S = 536, 54, 50e-6
WEIGHTS = "join=10us,aggregate=0.1us,select=1us,source=0us,filter=0us,assign=0us,group=0us,sink=0us"
ORIGIN_US = 1_000_000_000_000_000
BEGIN_S = 2.05
"""When instances begin to move: the state is there, and a window has just closed."""
EPOCH_S = 0.05
PADDING = 9
Ints = NDArray[np.int64]

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

    at_us: Ints
    kind: Ints
    key: Ints

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
class MovingQuery:
    """A query and its network; what moves are all operators with state.

    `slide_ms`: of the aggregate's windows. `touched`: the share of the join's keys that rows look for. `rate`: rows per
    second; `updates`: the share of them that an aggregate alone counts, the others only advance the watermark.
    `begin_s`: when the migration begins, `seconds`: how long events come after that. `quiet_s`: how long no row looks
    for stored ones then. `kbits`: the bandwidth, per second. `panes`: aggregates keep panes, which is Shoal's own way,
    instead of a sum per window. `recorded`: the aggregate does not read the join but, when they are due, the rows that
    the join gives without a migration, so that its windows close by the clock. `gone_s`: after so many seconds the old
    host is disconnected for good. `history_s`: how long the join keeps rows that have looked for others, by which it
    knows which are wanted.
    """

    query: str
    slide_ms: int = 1000
    touched: float = 1.0
    rate: float = 50.0
    seconds: float = 20.0
    kbits: int = 1000
    latency: str = "1ms"
    panes: bool = False
    updates: float = 1.0
    stored: int = STORED
    groups: int = GROUPS
    begin_s: float = BEGIN_S
    quiet_s: float = 0.0
    recorded: bool = False
    gone_s: float = math.inf
    history_s: float = 0.0

    @property
    def topology(self) -> str:
        """The machine file."""
        overhead = OVERHEAD_BYTES + round(GAP_S * self.kbits * 125)
        segments = f"segment_bytes: {SEGMENT_BYTES}, overhead_bytes: {overhead}"
        star = f"star: {{bandwidth: {self.kbits}kbit, latency: {self.latency}, {segments}}}"
        outage = f"outages:\n- {{host: old, at: {self.begin_s + self.gone_s} s}}\n" if self.gone_s < math.inf else ""
        return f"hosts:\n- {{name: old, cores: 1}}\n- {{name: new, cores: 1}}\n{star}\n{outage}"

    def queries(self) -> list[Query]:
        """The queries, with an output for every operator with state."""
        counted = STREAM.filter(col("kind") == COUNTED).select("at", "key", "value")
        if self.query == "aggregate":
            return [self._totals(counted).sink("totals")]
        padding = {f"p{number}": col("value") + number for number in range(PADDING)}
        stored = STREAM.filter(col("kind") == STORE).select("at", "key", **padding)
        probes = STREAM.filter(col("kind") == PROBE).select("at", "key", probe=col("value"))
        joined = stored.join(probes, on="key", within_s=(-self.history_s, 10_000))
        found = [joined.sink("joined")]
        if self.query == "join-aggregate":
            whole = sum((col(name) for name in padding), col("probe") + call("as_int64", "at"))
            rows = joined.select("at_right", key=col("key") % self.groups, value=whole)
            found.append(self._totals(counted if self.recorded else rows).sink("totals"))
        return found

    def _totals(self, rows: Flow) -> Flow:
        slide_s = self.slide_ms / 1000
        window = hop(EXTENTS * slide_s, slide_s)
        if self.panes:
            return rows.key_by("key").window(window).aggregate(n=count(), total=sum_("value"))
        extents = rows.assign(window).key_by("key").window(tumbling(slide_s))
        return extents.aggregate(n=count(), total=sum_("value"))

    def events(self) -> RecordedEvents:
        """Events that fill the state within a second, then one at a time."""
        parts = [*self._filling(), self._later()]
        at_us, kind, key = (np.concatenate(each) for each in zip(*parts, strict=True))
        if self.recorded:
            times = np.where(kind == PROBE, PER_KEY, 0)
            results = [np.repeat(each, times) for each in (at_us, kind, key)]
            at_us = np.concatenate([at_us, results[0]])
            kind = np.concatenate([kind, np.full(results[1].size, COUNTED)])
            key = np.concatenate([key, results[2] % self.groups])
        order = np.argsort(at_us, kind="stable")
        return RecordedEvents(at_us[order], kind[order], key[order])

    def _filling(self) -> Iterator[tuple[Ints, Ints, Ints]]:
        keys = self.stored // PER_KEY
        filled = [(STORE, np.arange(self.stored) % keys)] if "join" in self.query else []
        if "aggregate" in self.query:
            filled.append((PROBE if "join" in self.query else COUNTED, np.arange(self.groups)))
        for place, (kind, of_rows) in enumerate(filled):
            at_us = 450_000 * place + np.arange(of_rows.size) * (450_000 // of_rows.size)
            yield at_us, np.full(of_rows.size, kind), of_rows

    def _later(self) -> tuple[Ints, Ints, Ints]:
        draw = np.random.default_rng(0)
        number = round(self.rate * (self.begin_s - 1 + self.seconds))
        at_us = 1_000_000 + (np.arange(number) / self.rate * 1e6).astype(np.int64)
        joins = "join" in self.query
        most = max(1, round(self.stored // PER_KEY * self.touched)) if joins else self.groups
        key, begin_us = draw.integers(0, most, number), round(self.begin_s * 1e6)
        if self.history_s:  # every key has been looked for before rows begin to move
            key = np.where(at_us < begin_us, np.arange(number) % most, key)
        kind = np.where(draw.random(number) < self.updates, PROBE if joins else COUNTED, TICK)
        kind[(at_us >= begin_us) & (at_us < begin_us + round(self.quiet_s * 1e6))] = TICK
        return at_us, kind, key


JOIN = MovingQuery("join", seconds=11)
"""A join alone."""
BOTH = MovingQuery("join-aggregate", slide_ms=2800, touched=0.02, begin_s=2.85, quiet_s=2.2, seconds=22.2)
"""A join and an aggregate behind it: 10,000 results of the join while they move, the first after 2.2 s."""


def windows(slide_ms: int) -> MovingQuery:
    """An aggregate alone, of which few keys change while it moves."""
    return MovingQuery("aggregate", slide_ms=slide_ms, seconds=10, updates=0.002)


def slides(slide_ms: int) -> MovingQuery:
    """A join that looks for rows at once, and an aggregate whose windows close by the clock."""
    return MovingQuery("join-aggregate", slide_ms=slide_ms, touched=0.02, recorded=True)


def disconnected(touched: float) -> MovingQuery:
    """A join that has half of the time it needs: the old host goes after 30 s."""
    times = {"begin_s": 41.0, "gone_s": 30.0, "seconds": 40.0, "history_s": 60.0}
    return MovingQuery("join", touched=touched, kbits=150, rate=10, **times)  # type: ignore[arg-type]


def tenth(trial: MovingQuery) -> MovingQuery:
    """A tenth of the rows and keys at a tenth of the rate and of the bandwidth: the same times, sooner computed."""
    smaller = {"stored": trial.stored // 10, "groups": trial.groups // 10, "kbits": trial.kbits // 10}
    return replace(trial, rate=trial.rate / 10, **smaller)  # type: ignore[arg-type]
