"""Runs a compiled program in this process as several workers would, with any binding and partitioning.

The interpreter does the work. Here, every message and all state go through Arrow, each worker advances only the
instances bound to it, and binding, partitioning and graph may change between two epochs.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from shoal.compiler.lane import Lane
from shoal.compiler.program import Program
from shoal.compiler.router import Parcel, Router
from shoal.compiler.watermarks import NOW
from shoal.connectors.admission import DEAD_LETTERS
from shoal.kernels.columns.block import Block, arrow_schema
from shoal.kernels.columns.parts import split_tables, table_from_arrow
from shoal.kernels.columns.table import Tables
from shoal.kernels.kernel import FOREVER_US, NEVER_US, concat_blocks
from shoal.model.control.binding import Binding
from shoal.model.control.partitioning import DECLARED, Partitioning
from shoal.model.query.graph import Graph
from shoal.runtimes.arrangement import Arrangement, state_after
from shoal.runtimes.interpreter import Interpreted

Row = Mapping[str, Any]


class Resending(Router):
    """A router whose messages go through Arrow."""

    def parcels(self) -> Iterator[Parcel]:
        """The same messages as they arrive."""
        return (replace(parcel, content=_resent(parcel.content)) for parcel in super().parcels())


class Spread(Interpreted):
    """One epoch on the workers of a binding."""

    def __init__(self, arrangement: Arrangement, marks: Mapping[str, int], now_us: int) -> None:
        """Nothing read yet."""
        super().__init__(arrangement.program, marks, now_us)
        self.binding = arrangement.binding

    def take(self, stream: str, block: Block) -> None:
        """Route a block of a stream."""
        router = self._router()
        router.take(stream, block)
        self._collect(router)

    def _router(self) -> Router:
        workers = [self.binding.worker_of.get(instance, 0) for instance in self._program.instances]
        return Resending(self._program, workers, self._before, self._now_us)

    def _advanced(
        self, lane: Lane, state: Tables, fresh: Tables, before_us: int, after_us: int
    ) -> tuple[Tables, Block]:
        assert lane.kernel is not None
        worker_of = [self.binding.worker_of.get(instance, 0) for instance in lane.instances]
        parts = (split_tables(tables, worker_of, self.binding.workers) for tables in (state, fresh))
        advanced = [lane.advanced(held, sent, before_us, after_us) for held, sent in zip(*parts, strict=True)]
        kept = [{slot: _resent(table) for slot, table in tables.items() if len(table)} for tables, _ in advanced]
        return lane.kernel.concatenated(kept), concat_blocks([each for _, each in advanced if each.length])


@dataclass
class InProcess:
    """A run of epochs, with results as plain rows by table."""

    watermarks_us: dict[str, int] = field(default_factory=dict)
    results: dict[str, list[Row]] = field(default_factory=lambda: defaultdict(list))
    late: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    now_us: int = 0
    arrangement: Arrangement | None = None
    state: dict[int, Tables] = field(default_factory=dict)

    def epoch(
        self,
        graph: Graph,
        binding: Binding,
        blocks: Mapping[str, Sequence[Sequence[Row]]],
        partitioning: Partitioning = DECLARED,
    ) -> None:
        """Read blocks of rows of each stream, move what they send to the workers, and advance."""
        assert set(binding.worker_of) == set(partitioning.instances(graph))
        after = Arrangement(graph, binding, partitioning)
        if self.arrangement is not None:
            self.state = state_after(self.arrangement, after, self.state)
        self.arrangement = after
        after_us = {stream: self._watermark(after.program, stream, several) for stream, several in blocks.items()}
        after_us[NOW] = max(self.watermarks_us.get(NOW, NEVER_US), self.now_us)
        self._run(blocks, after_us)

    def drain(self, graph: Graph, binding: Binding) -> None:
        """Emit every open window."""
        assert self.arrangement is not None
        self.arrangement = Arrangement(graph, binding, self.arrangement.partitioning)
        self._run({}, dict.fromkeys((*self.arrangement.program.inputs, NOW), FOREVER_US))

    def _run(self, blocks: Mapping[str, Sequence[Sequence[Row]]], after_us: Mapping[str, int]) -> None:
        assert self.arrangement is not None
        epoch = Spread(self.arrangement, self.watermarks_us, self.now_us)
        for stream, several in blocks.items():
            for rows in several:
                epoch.take(stream, _block(self.arrangement.program, stream, rows))
        self.watermarks_us = {**self.watermarks_us, **after_us}
        epoch.computed(self.state, self.watermarks_us)
        for letters in epoch.results.pop(DEAD_LETTERS, []):
            for streams in letters.column("stream").to_pylist():
                self.late[streams.split(", ")[0]] += 1
        for table, batches in epoch.results.items():
            for rows in batches:
                rows.validate(full=True)
                self.results[table] += rows.cast(_with_plain_times(rows.schema)).to_pylist()

    def _watermark(self, program: Program, stream: str, blocks: Sequence[Sequence[Row]]) -> int:
        source = program.inputs[stream]
        newest = max((row[source.time] - source.lateness_us for rows in blocks for row in rows), default=NEVER_US)
        return max(self.watermarks_us.get(stream, NEVER_US), newest)


def _block(program: Program, stream: str, rows: Sequence[Row]) -> Block:
    full = arrow_schema(program.inputs[stream].schema)
    needed = pa.schema([full.field(name) for name in program.columns(stream)])
    arrays = [pa.array([row[wanted.name] for row in rows], wanted.type) for wanted in needed]
    return Block.from_arrow(pa.RecordBatch.from_arrays(arrays, schema=needed))


def _resent(table: Any) -> Any:
    """A table as it comes out of a file or a message."""
    batch = table.to_arrow()
    return table_from_arrow(batch)


def _with_plain_times(schema: pa.Schema) -> pa.Schema:
    """Times as microseconds, which need not fit Python's calendar."""
    return pa.schema([(f.name, pa.int64() if pa.types.is_timestamp(f.type) else f.type) for f in schema])
