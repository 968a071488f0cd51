"""Delivery: from the nodes' results to the sinks, at once where sinks are cheap, with the books a session asks for."""

import time
from collections import defaultdict, deque
from collections.abc import Sequence

import pyarrow as pa

from shoal.connectors.admission import DEAD_LETTERS
from shoal.connectors.sinks import MemorySink, Sink
from shoal.model.control.histogram import Histogram
from shoal.runtimes.local.dataflow.node import Node

AT_ONCE_S = 0.001
"""How often results are handed to sinks in memory."""
NOW_AND_THEN_S = 0.05
"""How often to others, and how often the session hears how far the run is."""


class Delivery:
    """Hands results on and counts them; one thread uses it."""

    def __init__(self, nodes: Sequence[Node], sink: Sink) -> None:
        """Nothing delivered yet; all nodes put their results into one place, since most have none most of the time."""
        self._rows: deque[tuple[str, pa.RecordBatch, float]] = deque()
        self._dead: deque[pa.RecordBatch] = deque()
        for node in nodes:
            node.results.rows, node.results.dead = self._rows, self._dead
        self._sink = sink
        self._number = 0
        self.interval_s = AT_ONCE_S if isinstance(sink, MemorySink) else NOW_AND_THEN_S
        self.reset()

    def reset(self) -> None:
        """Count from nothing again, for the next report."""
        self.results = 0
        self.dead_letters = 0
        self.latency = Histogram()
        self._waited: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])

    @property
    def latency_s(self) -> dict[str, float]:
        """The mean latency of each table that has had rows."""
        return {table: waited_s / rows for table, (waited_s, rows) in self._waited.items()}

    def deliver(self) -> None:
        """Write what has been answered since the last time."""
        tables: dict[str, list[pa.RecordBatch]] = defaultdict(list)
        dead: list[pa.RecordBatch] = []
        waited: list[tuple[str, float, int]] = []
        while self._rows:
            table, batch, taken_s = self._rows.popleft()
            tables[table].append(batch)
            waited.append((table, taken_s, batch.num_rows))
        while self._dead:
            dead.append(self._dead.popleft())
        for table, batches in tables.items():
            self._sink.write(table, self._number, pa.Table.from_batches(batches))
        if dead:
            self._sink.write(DEAD_LETTERS, self._number, pa.Table.from_batches(dead))
        self._number += bool(tables or dead)
        now_s = time.time()
        for table, taken_s, rows in waited:
            self.latency.record(now_s - taken_s, rows)
            self.results += rows
            self._waited[table][0] += (now_s - taken_s) * rows
            self._waited[table][1] += rows
        self.dead_letters += sum(batch.num_rows for batch in dead)
