"""A graph run in this process with all of its state on one worker: kernels, and nothing around them."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa

import shoal
from shoal.compiler.program import compile_graph
from shoal.compiler.router import Router
from shoal.compiler.watermarks import NOW
from shoal.kernels.columns.block import Block
from shoal.kernels.columns.table import Tables
from shoal.kernels.kernel import FOREVER_US


@dataclass
class OneWorker:
    """A graph run in this process with all of its state on one worker."""

    graph: shoal.Graph
    state: dict[int, Tables] = field(default_factory=lambda: defaultdict(dict))
    marks: dict[str, int] = field(default_factory=dict)
    results: dict[str, list[pa.RecordBatch]] = field(default_factory=lambda: defaultdict(list))
    state_rows: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.program = compile_graph(self.graph)
        self.binding = [0] * len(self.program.instances)

    def epoch(self, batches: Mapping[str, pa.RecordBatch]) -> None:
        """Process a batch of every stream."""
        router = Router(self.program, self.binding, self.marks, 0)
        after = dict(self.marks)
        for stream, batch in batches.items():
            router.take(stream, Block.from_arrow(batch.select(list(self.program.columns(stream)))))
            after[stream] = batch["ts"][-1].value
        self._advance(router, after)

    def drain(self) -> None:
        """Emit every open window."""
        router = Router(self.program, self.binding, self.marks, 0)
        self._advance(router, dict.fromkeys((*self.program.inputs, NOW), FOREVER_US))

    def tables(self) -> dict[str, pa.Table]:
        """All results so far."""
        return {name: pa.Table.from_batches(batches) for name, batches in self.results.items()}

    def _advance(self, router: Router, after: dict[str, int]) -> None:
        for lane in (lane for lane in self.program.lanes if lane.kernel is not None):
            assert lane.kernel is not None
            come = [{parcel.table: parcel.content} for parcel in router.parcels() if parcel.lane == lane.number]
            fresh = lane.kernel.merged(come) if come else {}
            before_us, after_us = (lane.watermark_us(marks) for marks in (self.marks, after))
            self.state[lane.number], results = lane.advanced(self.state[lane.number], fresh, before_us, after_us)
            router.emit(lane, results)
        for name, batches in router.results.items():
            self.results[name] += batches
        self.marks = after
        self.state_rows.append(sum(len(rows) for tables in self.state.values() for rows in tables.values()))
