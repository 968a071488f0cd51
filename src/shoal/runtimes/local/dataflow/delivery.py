"""Delivery: passes the results of nodes to the sink, and counts them for reports."""

import time
from collections import defaultdict, deque
from collections.abc import Sequence

import pyarrow as pa

from shoal.connectors.admission import DEAD_LETTERS
from shoal.connectors.sinks import MemorySink, Sink
from shoal.model.control.histogram import Histogram
from shoal.runtimes.local.dataflow.node import Node

MEMORY_SINK_S = 0.001
"""How often results are written to a sink in memory."""
REPORT_S = 0.05
"""How often results are written to other sinks, and how often the run reports."""


class Delivery:
    """Writes results to the sink and counts them; one thread uses it."""

    def __init__(self, nodes: Sequence[Node], sink: Sink) -> None:
        """Have all nodes append to shared deques: most have no results most of the time."""
        self._rows: deque[tuple[str, pa.RecordBatch, float]] = deque()
        self._dead: deque[pa.RecordBatch] = deque()
        for node in nodes:
            node.results.rows, node.results.dead = self._rows, self._dead
        self._sink = sink
        self._number = 0
        self.interval_s = MEMORY_SINK_S if isinstance(sink, MemorySink) else REPORT_S
        self.reset()

    def reset(self) -> None:
        """Reset the counters for the next report."""
        self.results = 0
        self.dead_letters = 0
        self.latency = Histogram()
        self._waited: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])

    @property
    def latency_s(self) -> dict[str, float]:
        """The mean latency of each table that has had rows."""
        return {table: waited_s / rows for table, (waited_s, rows) in self._waited.items()}

    def deliver(self) -> None:
        """Write the results emitted since the last call."""
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
