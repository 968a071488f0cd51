"""Lanes: operators of one shape that run together, however many queries they belong to.

Queries that differ only in the constant of one equality filter (`region == 7`) form one lane with an
instance each. A lane turns blocks into partial aggregates where events are read, and merges them, closes
windows and answers where its instances are bound.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from shoal.kernels.aggregate import INSTANCE, WINDOW, AggregateKernel, PaneState
from shoal.kernels.block import Block, arrow_schema, as_arrow
from shoal.kernels.panes import PaneTable, concat_tables
from shoal.model.graph import InstanceId
from shoal.model.schema import Schema
from shoal.query.steps import Step
from shoal.query.stream import QUERY, WINDOW_END


@dataclass(frozen=True)
class Outlet:
    """Where answers go: a table, the steps between aggregate and sink, and the query of each instance, if any."""

    table: str
    steps: tuple[Step, ...]
    schema: Schema
    query_of: tuple[str | None, ...]

    @cached_property
    def arrow(self) -> pa.Schema:
        """The result table's Arrow schema."""
        return pa.schema([pa.field(QUERY, pa.string()), *arrow_schema(self.schema)])

    def rows(self, block: Block) -> pa.RecordBatch:
        """The result rows of a block of answers."""
        for step in self.steps:
            block = step.apply(block)
        names = pa.array(self.query_of, pa.string()).take(pa.array(block.columns[INSTANCE]))
        arrays = [
            names,
            *(as_arrow(block.columns[f.name], self.arrow.field(f.name).type) for f in self.schema.fields),
        ]
        batch = pa.RecordBatch.from_arrays(arrays, schema=self.arrow)
        return batch if None not in self.query_of else batch.filter(names.is_valid())


BlockCache = dict[Any, Any]
"""What lanes that begin alike have computed already of one block."""


@dataclass(frozen=True)
class Lane:
    """Operators of one shape over one stream."""

    number: int
    stream: str
    steps: tuple[Step, ...]
    kernel: AggregateKernel | None
    instances: tuple[InstanceId, ...]
    outlets: tuple[Outlet, ...]
    constant_key: str = ""
    constants: tuple[Any, ...] = ()

    def reads(self) -> frozenset[str]:
        """Columns of the stream that the lane may look at."""
        wanted: set[str] = set()
        if self.kernel is None:
            wanted.update(*(outlet.schema.names for outlet in self.outlets))
            wanted.update(*(step.reads() for outlet in self.outlets for step in outlet.steps))
        else:
            wanted |= {self.kernel.time, *self.kernel.shape.keys}
            wanted |= {slot.column for slot in self.kernel.shape.slots if slot.column}
        return frozenset(wanted.union(*(step.reads() for step in self.steps)))

    def prepared(self, block: Block, cache: BlockCache) -> Block:
        """The block after the stateless steps, shared with the lanes that begin alike."""
        return cache[self._prepare(block, cache)]

    def _prepare(self, block: Block, cache: BlockCache) -> tuple[str, ...]:
        key: tuple[str, ...] = ()
        cache.setdefault(key, block)
        for step in self.steps:
            longer = (*key, step.text)
            if longer not in cache:
                cache[longer] = step.apply(cache[key])
            key = longer
        return key

    def partials(self, block: Block, watermark_us: int, cache: BlockCache) -> tuple[PaneTable, Block]:
        """Partial aggregates of a block, and the rows that came too late for every window of theirs."""
        kernel = self.kernel
        if kernel is None:
            raise TypeError("a lane without aggregate has no partials")
        key = self._prepare(block, cache)
        prepared: Block = cache[key]
        panes = _once(cache, (key, "panes", kernel.time, kernel.shape.window.slide_us), lambda: kernel.panes(prepared))
        late = kernel.late(panes, watermark_us)
        if late.any():
            timely = prepared.where(~late)
            return kernel.partial(timely, panes[~late]), prepared.take(np.flatnonzero(late))
        shape = kernel.shape
        group = (key, "cells", kernel.time, shape.window.slide_us, shape.keys, shape.by_instance)
        cells = _once(cache, group, lambda: kernel.cells(prepared, panes, len(self.instances)))
        return kernel.partial(prepared, panes, cells), Block({}, 0)

    def advanced(self, tables: Sequence[PaneTable], before_us: int, after_us: int) -> tuple[PaneTable, Block]:
        """State and partials merged, and the answers of the windows that the watermark closes on its way."""
        if self.kernel is None:
            raise TypeError("a lane without aggregate has no state")
        state = PaneState(self.kernel.shape.empty(), before_us)
        self.kernel.absorb(state, concat_tables(self.kernel.shape, tables))
        answers = self.kernel.close_until(state, after_us)
        return state.table, self._named(answers, self.kernel.shape.window.slide_us)

    def _named(self, answers: Block, slide_us: int) -> Block:
        """Answers with their public columns: keys, window end and aggregates."""
        columns = dict(answers.columns)
        columns[WINDOW_END] = columns.pop(WINDOW) * slide_us
        if self.constant_key:
            values = pa.array(self.constants).take(pa.array(columns[INSTANCE]))
            columns[self.constant_key] = values if isinstance(self.constants[0], str) else values.to_numpy()
        return Block(columns, answers.length)


def _once(cache: BlockCache, key: Any, make: Any) -> Any:
    if key not in cache:
        cache[key] = make()
    return cache[key]
