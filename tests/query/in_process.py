"""Runs a compiled program in this process: what every runtime does with it, in as few lines as possible.

State is kept per instance, so a binding, and even the graph, may change between two epochs.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from shoal.kernels.block import Block, arrow_schema
from shoal.kernels.kernel import FOREVER_US, NEVER_US
from shoal.kernels.panes import PaneTable
from shoal.kernels.table import INSTANCE, RowTable, Tables
from shoal.model.binding import Binding
from shoal.model.graph import Graph, InstanceId
from shoal.query.lane import NOW, Lane
from shoal.query.program import Program, compile_graph
from shoal.query.router import Router

Row = Mapping[str, Any]


@dataclass
class InProcess:
    """A run of epochs, with results as plain rows by table."""

    states: dict[InstanceId, Tables] = field(default_factory=dict)
    watermarks_us: dict[str, int] = field(default_factory=dict)
    results: dict[str, list[Row]] = field(default_factory=lambda: defaultdict(list))
    late: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    now_us: int = 0

    def epoch(self, graph: Graph, binding: Binding, blocks: Mapping[str, Sequence[Sequence[Row]]]) -> None:
        """Read blocks of rows of each stream, move what they send to the workers, and advance."""
        program = compile_graph(graph)
        assert sorted(program.instances) == sorted(graph.stateful_instances)
        known = set(graph.stateful_instances)
        self.states = {instance: tables for instance, tables in self.states.items() if instance in known}
        routers = []
        for stream, several in blocks.items():
            for rows in several:
                router = self._router(program, binding)
                router.take(stream, self._block(program, stream, rows))
                routers.append(router)
        after_us = {stream: self._watermark(program, stream, several) for stream, several in blocks.items()}
        after_us[NOW] = max(self.watermarks_us.get(NOW, NEVER_US), self.now_us)
        self._advance(program, binding, routers, after_us)

    def drain(self, graph: Graph, binding: Binding) -> None:
        """Answer every open window."""
        program = compile_graph(graph)
        self._advance(program, binding, [], dict.fromkeys((*program.inputs, NOW), FOREVER_US))

    def _router(self, program: Program, binding: Binding) -> Router:
        numbers = [binding.worker_of[instance] for instance in program.instances]
        return Router(program, numbers, self.watermarks_us, self.now_us)

    def _block(self, program: Program, stream: str, rows: Sequence[Row]) -> Block:
        full = arrow_schema(program.inputs[stream].schema)
        needed = pa.schema([full.field(name) for name in program.columns(stream)])
        arrays = [pa.array([row[wanted.name] for row in rows], wanted.type) for wanted in needed]
        return Block.from_arrow(pa.RecordBatch.from_arrays(arrays, schema=needed))

    def _advance(self, program: Program, binding: Binding, routers: list[Router], after_us: Mapping[str, int]) -> None:
        marks = {**self.watermarks_us, **after_us}
        for depth in range(1, program.depth + 1):
            fresh: dict[tuple[int, int], list[Tables]] = defaultdict(list)
            for router in routers:
                for parcel in router.parcels():
                    if program.lanes[parcel.lane].depth == depth:
                        content = _resent(parcel.content)
                        fresh[parcel.worker, parcel.lane].append({parcel.table: content})
            lanes = [lane for lane in program.lanes if lane.kernel is not None and lane.depth == depth]
            routers += [self._advance_lane(program, lane, binding, fresh, marks) for lane in lanes]
        for router in routers:
            self._collect(router)
        self.watermarks_us = marks

    def _advance_lane(
        self,
        program: Program,
        lane: Lane,
        binding: Binding,
        fresh: Mapping[tuple[int, int], list[Tables]],
        marks: Mapping[str, int],
    ) -> Router:
        assert lane.kernel is not None
        router = self._router(program, binding)
        before, after = lane.watermark_us(self.watermarks_us), lane.watermark_us(marks)
        for worker in range(binding.workers):
            held = [
                {slot: t.with_instances(np.full(len(t), number)) for slot, t in self.states[instance].items()}
                for number, instance in enumerate(lane.instances)
                if instance in self.states and binding.worker_of[instance] == worker
            ]
            state = lane.kernel.gathered(held) if held else {}
            sent = fresh.get((worker, lane.number), [])
            come = lane.kernel.gathered(sent) if sent else {}
            tables, answers = lane.advanced(state, come, before, after)
            router.answered(lane, answers)
            for number, instance in enumerate(lane.instances):
                if binding.worker_of[instance] == worker:
                    kept = {slot: _resent(t.where(t.instance == number)) for slot, t in tables.items()}
                    self.states[instance] = {slot: table for slot, table in kept.items() if len(table)}
        return router

    def _collect(self, router: Router) -> None:
        for table, batches in router.results.items():
            for rows in batches:
                rows.validate(full=True)
                self.results[table] += rows.cast(_with_plain_times(rows.schema)).to_pylist()
        for lane, late in router.late:
            self.late[min(lane.streams)] += late.length

    def _watermark(self, program: Program, stream: str, blocks: Sequence[Sequence[Row]]) -> int:
        source = program.inputs[stream]
        newest = max((row[source.time] - source.lateness_us for rows in blocks for row in rows), default=NEVER_US)
        return max(self.watermarks_us.get(stream, NEVER_US), newest)


def _resent(table: Any) -> Any:
    """A table as it comes out of a file or a message."""
    batch = table.to_arrow()
    return RowTable.from_arrow(batch) if INSTANCE in batch.schema.names else PaneTable.from_arrow(batch)


def _with_plain_times(schema: pa.Schema) -> pa.Schema:
    """Times as microseconds, which need not fit Python's calendar."""
    return pa.schema([(f.name, pa.int64() if pa.types.is_timestamp(f.type) else f.type) for f in schema])
