"""What nodes of a simulated flow have received and processed so far, by the reports of its run."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping

import pyarrow as pa

from shoal.connectors.admission import DEAD_LETTERS
from shoal.connectors.sinks import MemorySink
from shoal.experiments.coordination.nodes.row_digest import RowDigest
from shoal.experiments.engines.row_types import plain_results
from shoal.language.python.flow import QUERY
from shoal.model.control.messages import EpochCommitted
from shoal.model.query.graph import InstanceId


class CountingSink(MemorySink):
    """Counts and digests results instead of keeping them."""

    def __init__(self) -> None:
        """No results."""
        super().__init__()
        self.rows: Counter[str] = Counter()
        self.digests: dict[str, RowDigest] = {}

    def write(self, table: str, epoch: int, rows: pa.Table) -> None:  # noqa: ARG002  (the protocol's)
        """Count the rows of a table."""
        self.rows[table] += rows.num_rows
        if table == DEAD_LETTERS:
            return
        kept = rows.drop_columns([QUERY]) if QUERY in rows.column_names else rows
        for batch in plain_results(kept).to_batches():
            self.digests.setdefault(table, RowDigest()).add(batch)


class NodeCounts:
    """Counts per node and instance. A row is received by a node when it has reached an operator with state there."""

    def __init__(
        self, first: Iterable[InstanceId], node_of: Callable[[int], int], sinks: Mapping[str, int], sink: CountingSink
    ) -> None:
        """Nothing received. `first`: instances that read streams; `sinks`: the nodes that tables go to."""
        self._first, self._node_of, self._sinks, self._sink = frozenset(first), node_of, sinks, sink
        self.received: Counter[int] = Counter()
        self.processed: Counter[InstanceId] = Counter()
        self._arrived: Counter[InstanceId] = Counter()
        self._written: Counter[str] = Counter()
        self.heard_s: dict[int, float] = {}
        self.changed_s = 0.0
        """When anything was read, received, processed or emitted last."""

    def take(self, event: EpochCommitted) -> None:
        """Count what an epoch has done."""
        changed = event.rows > 0
        for instance, load in event.snapshot.loads.items():
            self.processed[instance] += load.events
            arrived = self.processed[instance] + load.backlog
            new, self._arrived[instance] = arrived - self._arrived[instance], max(arrived, self._arrived[instance])
            changed |= load.events > 0 or new > 0
            if new > 0 and instance in self._first:
                self._hear(self._node_of(int(event.snapshot.binding.worker_of[instance])), new, event.at_s)
        for table, node in self._sinks.items():
            new = self._sink.rows[table] - self._written[table]
            if new:
                self._written[table] += new
                self._hear(node, new, event.at_s)
        changed |= event.results > 0
        if changed:
            self.changed_s = event.at_s

    def _hear(self, node: int, rows: int, at_s: float) -> None:
        self.received[node] += rows
        self.heard_s[node] = at_s
        self.changed_s = at_s
