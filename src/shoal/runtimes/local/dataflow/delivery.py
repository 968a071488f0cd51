"""Delivery: passes the results of nodes to the sink, and counts them for reports."""

import time
from collections import defaultdict
from collections.abc import Sequence

import pyarrow as pa

from shoal.connectors.admission import DEAD_LETTERS
from shoal.connectors.refused_rows import refused_rows
from shoal.connectors.sinks import MemorySink, Sink
from shoal.model.control.histogram import Histogram
from shoal.model.control.messages import RefusedRows
from shoal.runtimes.local.dataflow.node import Node
from shoal.runtimes.local.dataflow.result_buffer import SINK_BUFFER_BYTES, ResultBuffer, Waiting

IDLE_S = 0.005
"""The longest wait for results that go to a sink in memory, which gets them at once."""
REPORT_S = 0.05
"""How often results are written to other sinks, and how often the run reports."""


class Delivery:
    """Writes results to the sink and counts them; one thread uses it."""

    def __init__(self, nodes: Sequence[Node], sink: Sink, buffer_bytes: int = SINK_BUFFER_BYTES) -> None:
        """Have all nodes put their results into one buffer: most have none most of the time."""
        self._buffer = ResultBuffer(buffer_bytes)
        for node in nodes:
            node.results.buffer = self._buffer
        self._sink = sink
        self._number = 0
        self._at_once = isinstance(sink, MemorySink)
        self.reset()

    def reset(self) -> None:
        """Reset the counters for the next report."""
        self.results = 0
        self.dead_letters = 0
        self.refused_rows: tuple[RefusedRows, ...] = ()
        self.latency = Histogram()
        self._waited: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])

    @property
    def latency_s(self) -> dict[str, float]:
        """The mean latency of each table that has had rows."""
        return {table: waited_s / rows for table, (waited_s, rows) in self._waited.items()}

    @property
    def wait_s(self) -> float:
        """How long to wait for the workers before the next call of `deliver`; not at all while the sink is behind."""
        return 0.0 if self._at_once or self._buffer.behind else REPORT_S

    def await_results(self) -> None:
        """Wait until there are results, but not for long, if the sink is to have them at once."""
        if self._at_once:
            self._buffer.arrived.wait(IDLE_S)

    @property
    def done(self) -> bool:
        """Whether the sink has everything that was emitted."""
        return self._buffer.empty

    def deliver(self) -> None:
        """Write the oldest results that wait; all of them unless there are very many."""
        taken = self._buffer.take()
        tables: dict[str, list[pa.RecordBatch]] = defaultdict(list)
        dead: list[pa.RecordBatch] = []
        for each in taken:
            (dead if each.table is None else tables[each.table]).append(each.rows)
        for table, batches in tables.items():
            self._sink.write(table, self._number, pa.Table.from_batches(batches))
        if dead:
            self._sink.write(DEAD_LETTERS, self._number, pa.Table.from_batches(dead))
        self._number += bool(taken)
        self._buffer.release(taken)
        self._count(taken)
        self.refused_rows += refused_rows(dead)

    def _count(self, written: Sequence[Waiting]) -> None:
        now_s = time.time()
        for each in written:
            rows, waited_s = each.rows.num_rows, now_s - each.taken_s
            if each.table is None:
                self.dead_letters += rows
                continue
            self.latency.record(waited_s, rows)
            self.results += rows
            self._waited[each.table][0] += waited_s * rows
            self._waited[each.table][1] += rows
