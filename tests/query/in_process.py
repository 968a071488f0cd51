"""Runs a compiled program in this process: what every runtime does with it, in as few lines as possible.

State is kept per instance, so a binding, and even the graph, may change between two epochs.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from shoal.kernels.aggregate import FOREVER_US, NEVER_US
from shoal.kernels.block import Block, arrow_schema
from shoal.kernels.panes import PaneTable, merged
from shoal.model.binding import Binding
from shoal.model.graph import Graph, InstanceId
from shoal.query.lane import BlockCache, Lane
from shoal.query.program import Program, compile_graph

Row = Mapping[str, Any]


@dataclass
class InProcess:
    """A run of epochs, with results as plain rows by table."""

    states: dict[InstanceId, PaneTable] = field(default_factory=dict)
    watermarks_us: dict[str, int] = field(default_factory=dict)
    results: dict[str, list[Row]] = field(default_factory=lambda: defaultdict(list))
    late: dict[str, int] = field(default_factory=lambda: defaultdict(int))

    def epoch(self, graph: Graph, binding: Binding, blocks: Mapping[str, Sequence[Sequence[Row]]]) -> None:
        """Read blocks of rows of each stream, move their partials to the workers, and advance."""
        program = compile_graph(graph)
        assert sorted(program.instances) == sorted(graph.stateful_instances)
        known = set(graph.stateful_instances)
        self.states = {instance: table for instance, table in self.states.items() if instance in known}
        partials: dict[tuple[int, int], list[PaneTable]] = defaultdict(list)
        for stream, several in blocks.items():
            for rows in several:
                self._read(program, binding, stream, rows, partials)
        after_us = {stream: self._watermark(program, stream, several) for stream, several in blocks.items()}
        self._advance(program, binding, partials, after_us)

    def drain(self, graph: Graph, binding: Binding) -> None:
        """Answer every open window."""
        program = compile_graph(graph)
        self._advance(program, binding, {}, dict.fromkeys(program.inputs, FOREVER_US))

    def _read(
        self,
        program: Program,
        binding: Binding,
        stream: str,
        rows: Sequence[Row],
        partials: dict[tuple[int, int], list[PaneTable]],
    ) -> None:
        full = arrow_schema(program.inputs[stream].schema)
        needed = pa.schema([full.field(name) for name in program.columns(stream)])
        arrays = [pa.array([row[wanted.name] for row in rows], wanted.type) for wanted in needed]
        block = Block.from_arrow(pa.RecordBatch.from_arrays(arrays, schema=needed))
        cache: BlockCache = {}
        for lane in program.lanes_of(stream):
            if lane.kernel is None:
                self._answer(lane, lane.prepared(block, cache))
                continue
            table, late = lane.partials(block, self.watermarks_us.get(stream, NEVER_US), cache)
            self.late[stream] += late.length
            worker_of = np.array([binding.worker_of[instance] for instance in lane.instances], np.int64)
            for worker in range(binding.workers):
                part = table.where(worker_of[table.instance] == worker)
                partials[worker, lane.number].append(PaneTable.from_arrow(part.to_arrow()))

    def _advance(
        self,
        program: Program,
        binding: Binding,
        partials: Mapping[tuple[int, int], list[PaneTable]],
        after_us: Mapping[str, int],
    ) -> None:
        for lane in program.lanes:
            if lane.kernel is None:
                continue
            before = self.watermarks_us.get(lane.stream, NEVER_US)
            after = after_us.get(lane.stream, before)
            for worker in range(binding.workers):
                held = [
                    self.states[instance].with_instances(np.full(len(self.states[instance]), number))
                    for number, instance in enumerate(lane.instances)
                    if instance in self.states and binding.worker_of[instance] == worker
                ]
                fresh = merged(lane.kernel.shape, partials.get((worker, lane.number), []))
                table, answers = lane.advanced([*held, fresh], before, after)
                self._keep(lane, table, worker, binding)
                self._answer(lane, answers)
        self.watermarks_us.update(after_us)

    def _keep(self, lane: Lane, table: PaneTable, worker: int, binding: Binding) -> None:
        for number, instance in enumerate(lane.instances):
            if binding.worker_of[instance] == worker:
                self.states[instance] = table.where(table.instance == number)

    def _answer(self, lane: Lane, block: Block) -> None:
        for outlet in lane.outlets:
            rows = outlet.rows(block)
            rows.validate(full=True)
            self.results[outlet.table] += rows.cast(_with_plain_times(rows.schema)).to_pylist()

    def _watermark(self, program: Program, stream: str, blocks: Sequence[Sequence[Row]]) -> int:
        source = program.inputs[stream]
        newest = max((row[source.time] - source.lateness_us for rows in blocks for row in rows), default=NEVER_US)
        return max(self.watermarks_us.get(stream, NEVER_US), newest)


def _with_plain_times(schema: pa.Schema) -> pa.Schema:
    """Times as microseconds, which need not fit Python's calendar."""
    return pa.schema([(f.name, pa.int64() if pa.types.is_timestamp(f.type) else f.type) for f in schema])
