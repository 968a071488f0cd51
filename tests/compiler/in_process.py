"""Runs a compiled program in this process: what every runtime does with it, in as few lines as possible.

State is kept per instance, so a binding, a partitioning, and even the graph, may change between two epochs.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from shoal.compiler.division import assigned_again
from shoal.compiler.lane import NOW, Lane
from shoal.compiler.program import Program, compile_graph
from shoal.compiler.router import Router
from shoal.kernels.columns.block import Block, arrow_schema
from shoal.kernels.columns.parts import table_from_arrow
from shoal.kernels.columns.table import Tables
from shoal.kernels.kernel import FOREVER_US, NEVER_US
from shoal.model.control.binding import Binding
from shoal.model.control.partitioning import DECLARED, Partitioning, operator_of
from shoal.model.query.graph import Graph, InstanceId

Row = Mapping[str, Any]


@dataclass
class InProcess:
    """A run of epochs, with results as plain rows by table."""

    states: dict[InstanceId, Tables] = field(default_factory=dict)
    watermarks_us: dict[str, int] = field(default_factory=dict)
    results: dict[str, list[Row]] = field(default_factory=lambda: defaultdict(list))
    late: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    now_us: int = 0
    partitioning: Partitioning = DECLARED

    def epoch(
        self,
        graph: Graph,
        binding: Binding,
        blocks: Mapping[str, Sequence[Sequence[Row]]],
        partitioning: Partitioning = DECLARED,
    ) -> None:
        """Read blocks of rows of each stream, move what they send to the workers, and advance."""
        program = self._repartitioned(graph, partitioning)
        assert set(program.instances) >= set(binding.worker_of) == set(partitioning.instances(graph))
        known = set(binding.worker_of)
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
        program = compile_graph(graph, self.partitioning)
        self._advance(program, binding, [], dict.fromkeys((*program.inputs, NOW), FOREVER_US))

    def _repartitioned(self, graph: Graph, partitioning: Partitioning) -> Program:
        """The program of a partitioning, with the state of instances that were split or merged under their heirs."""
        program = compile_graph(graph, partitioning)
        heirs, before = self.partitioning.heirs(partitioning, graph), self.states
        self.partitioning = partitioning
        self.states = {instance: tables for instance, tables in before.items() if instance not in heirs}
        for lane in program.lanes:
            for instance in heirs:
                if lane.kernel is None or not any(
                    operator_of(each) == operator_of(instance) for each in lane.instances
                ):
                    continue
                declared = next(
                    n for n, each in enumerate(lane.instances) if operator_of(each) == operator_of(instance)
                )
                for slot, table in before.get(instance, {}).items():
                    numbers = assigned_again(lane, slot, table, declared)
                    for number in np.unique(numbers).tolist():
                        heir = lane.instances[number]
                        assert heir in heirs[instance]
                        tables = [self.states.get(heir, {}), {slot: table.where(numbers == number)}]
                        self.states[heir] = lane.kernel.concatenated([each for each in tables if each])
        return program

    def _router(self, program: Program, binding: Binding) -> Router:
        numbers = [binding.worker_of.get(instance, 0) for instance in program.instances]
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
                if instance in self.states and binding.worker_of.get(instance) == worker
            ]
            state = lane.kernel.merged(held) if held else {}
            sent = fresh.get((worker, lane.number), [])
            received = lane.kernel.merged(sent) if sent else {}
            tables, results = lane.advanced(state, received, before, after)
            router.emit(lane, results)
            for number, instance in enumerate(lane.instances):
                if binding.worker_of.get(instance) == worker:
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
    return table_from_arrow(batch)


def _with_plain_times(schema: pa.Schema) -> pa.Schema:
    """Times as microseconds, which need not fit Python's calendar."""
    return pa.schema([(f.name, pa.int64() if pa.types.is_timestamp(f.type) else f.type) for f in schema])
