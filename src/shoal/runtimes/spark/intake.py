"""The reading side: raw batches in, wire rows out; raw events never leave the process that read them."""

import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from shoal.connectors.admission import DEAD_LETTER_SCHEMA, Refusal, admit, dead_letters
from shoal.connectors.source import BadFile, RawBatch
from shoal.kernels.aggregate import INSTANCE, NEVER_US
from shoal.kernels.block import Block, arrow_schema
from shoal.kernels.panes import PaneTable, merged
from shoal.query.lane import BlockCache, Lane
from shoal.query.program import Program
from shoal.runtimes.spark import wire
from shoal.runtimes.spark.checkpoint import Plan

MERGE_ROWS = 200_000
"""Partial rows a lane may pile up before they are merged in between."""


@dataclass
class Intake:
    """One task's pass over one slice of a stream."""

    program: Program
    plan: Plan
    stream: str
    rows: int = 0
    newest_us: int = NEVER_US
    _partials: dict[int, list[PaneTable]] = field(default_factory=lambda: defaultdict(list))
    _rows: dict[int, list[pa.RecordBatch]] = field(default_factory=lambda: defaultdict(list))
    _dead: list[pa.RecordBatch] = field(default_factory=list)
    _refused: dict[str, int] = field(default_factory=lambda: defaultdict(int))

    def run(self, raw: Iterable[RawBatch | BadFile], slice_: Mapping[str, Any]) -> Iterator[tuple[int, int, bytes]]:
        """Take everything in, then send it to the workers the plan names."""
        began = time.perf_counter()
        for item in raw:
            if isinstance(item, BadFile):
                self._pass_over(item)
            else:
                self._take(item)
        yield from self._partial_rows()
        yield from self._plain_rows()
        for letters in self._dead:
            yield 0, wire.DEAD, wire.pack(letters)
        header = {
            "stream": self.stream,
            "rows": self.rows,
            "newest_us": self.newest_us,
            "slice": slice_,
            "refused": self._refused,
            "cost_s": time.perf_counter() - began,
        }
        payload = wire.pack_data(header)
        for worker in range(self.plan.workers):
            yield worker, wire.HEADER, payload

    def _take(self, raw: RawBatch) -> None:
        source = self.program.inputs[self.stream]
        columns = self.program.columns(self.stream)
        full = arrow_schema(source.schema)
        expected = pa.schema([full.field(name) for name in columns])
        ahead = source.max_ahead_us
        admitted = admit(raw, expected, source.time, None if ahead is None else self.plan.now_us + ahead)
        self.rows += raw.batch.num_rows
        if admitted.refusals:
            self._refuse(raw, admitted.refusals)
        if not admitted.batch.num_rows:
            return
        block = Block.from_arrow(admitted.batch)
        self.newest_us = max(self.newest_us, int(block.columns[source.time].max()))
        cache: BlockCache = {}
        for lane in self.program.lanes_of(self.stream):
            if lane.kernel is None:
                self._take_rows(lane, lane.prepared(block, cache))
            else:
                self._take_partials(lane, block, cache)

    def _take_partials(self, lane: Lane, block: Block, cache: BlockCache) -> None:
        watermark = self.plan.watermarks_us.get(self.stream, NEVER_US)
        table, late = lane.partials(block, watermark, cache)
        piled = self._partials[lane.number]
        piled.append(table)
        if lane.kernel and sum(len(other) for other in piled) > MERGE_ROWS:
            self._partials[lane.number] = [merged(lane.kernel.shape, piled)]
        if late.length:
            self._too_late(lane, late)

    def _take_rows(self, lane: Lane, block: Block) -> None:
        if block.length:
            for outlet in lane.outlets:
                rows = outlet.rows(block)
                self._rows[lane.number].append(rows.replace_schema_metadata({wire.TABLE: outlet.table.encode()}))

    def _too_late(self, lane: Lane, late: Block) -> None:
        columns = {name: column for name, column in late.columns.items() if name != INSTANCE}
        source = self.program.inputs[self.stream]
        arrays = [pa.array(column) if isinstance(column, np.ndarray) else column for column in columns.values()]
        batch = pa.RecordBatch.from_arrays(arrays, names=list(columns))
        batch = _with_times(batch, source.time)
        numbers = late.columns[INSTANCE]
        for number in np.unique(numbers).tolist():
            rows = np.flatnonzero(numbers == number)
            detail = f"operator {lane.instances[number]} has closed all windows of this row"
            self._refuse(RawBatch(batch, f"stream {self.stream}"), [Refusal("late", detail, rows)])

    def _refuse(self, raw: RawBatch, refusals: list[Refusal]) -> None:
        for refusal in refusals:
            self._refused[refusal.reason] += int(refusal.rows.size)
        self._dead.append(dead_letters(self.stream, raw, refusals))

    def _pass_over(self, bad: BadFile) -> None:
        self._refused["file"] += 1
        values = [[self.stream], ["file"], [bad.reason], [bad.place], [""]]
        self._dead.append(pa.RecordBatch.from_arrays([pa.array(v) for v in values], schema=DEAD_LETTER_SCHEMA))

    def _partial_rows(self) -> Iterator[tuple[int, int, bytes]]:
        """Merged partials, each row to the worker its instance is bound to."""
        starts = _first_instances(self.program)
        for lane in self.program.lanes_of(self.stream):
            if not self._partials[lane.number] or lane.kernel is None:
                continue
            table = merged(lane.kernel.shape, self._partials[lane.number])
            start = starts[lane.number]
            binding = np.array(self.plan.binding[start : start + len(lane.instances)], np.int64)
            workers = binding[table.instance]
            for worker in np.unique(workers).tolist():
                yield worker, lane.number, wire.pack(table.where(workers == worker).to_arrow())

    def _plain_rows(self) -> Iterator[tuple[int, int, bytes]]:
        """Result rows of queries without state, spread over the workers."""
        number = 0
        for batches in self._rows.values():
            for batch in batches:
                if batch.num_rows:
                    yield number % self.plan.workers, wire.RESULT, wire.pack(batch, wire.table_of(batch))
                    number += 1


def _first_instances(program: Program) -> dict[int, int]:
    """Where each lane's instances begin in the order of bindings."""
    starts, at = {}, 0
    for lane in program.lanes:
        starts[lane.number] = at
        at += len(lane.instances) if lane.kernel else 0
    return starts


def _with_times(batch: pa.RecordBatch, time_column: str) -> pa.RecordBatch:
    """Event times as times again, for people to read."""
    names = batch.schema.names
    if time_column not in names:
        return batch
    at = names.index(time_column)
    return batch.set_column(at, time_column, batch.column(at).view(pa.timestamp("us")))
