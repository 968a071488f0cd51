"""Lanes: operators of one shape that run as one, for any number of queries.

Queries that differ only in the constant of one equality filter (`region == 7`) form one lane with an
instance each. A lane is fed by streams or by other lanes. It lifts blocks where they are read or emitted, and keeps
state, closes windows and emits results where its instances are bound.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from shoal.compiler.steps import Step
from shoal.compiler.watermarks import NOW, merged_us
from shoal.kernels.columns.block import Block, arrow_schema, as_arrow
from shoal.kernels.columns.shared_values import Shared
from shoal.kernels.columns.table import INSTANCE, Ints, Tables
from shoal.kernels.kernel import NEVER_US, Kernel
from shoal.language.python.flow import QUERY
from shoal.model.query.expression import Expression
from shoal.model.query.graph import InstanceId
from shoal.model.query.schema import TIME, Schema

if TYPE_CHECKING:
    from shoal.compiler.division import Division

Origin = str | int
"""Where rows come from: a stream by name, or a lane by number."""


@dataclass(frozen=True)
class Outlet:
    """Where results go: a table, the steps between operator and sink, and the query of each instance, if any."""

    table: str
    steps: tuple[Step, ...]
    schema: Schema
    query_of: tuple[str | None, ...]

    @cached_property
    def arrow(self) -> pa.Schema:
        """The result table's Arrow schema."""
        return pa.schema([pa.field(QUERY, pa.string()), *arrow_schema(self.schema)])

    def rows(self, block: Block) -> pa.RecordBatch:
        """The rows of a result table, from a block of results."""
        for step in self.steps:
            block = step.apply(block)
        names = self._names(block)
        arrays = [
            names,
            *(as_arrow(block.columns[f.name], self.arrow.field(f.name).type) for f in self.schema.fields),
        ]
        batch = pa.RecordBatch.from_arrays(arrays, schema=self.arrow)
        return batch if None not in self.query_of else batch.filter(names.is_valid())

    @cached_property
    def _texts(self) -> pa.Array:
        return pa.array(self.query_of, pa.string())

    def _names(self, block: Block) -> pa.Array:
        """The query of every row; looking it up takes Arrow 0.3 ms after a pause, repeating it a third of that."""
        if len(self.query_of) == 1:
            return pa.repeat(self._texts[0], block.length)
        return self._texts.take(pa.array(block.columns[INSTANCE]))


BlockCache = dict[Any, Any]
"""Intermediate blocks of one block, shared by lanes whose first steps are the same."""


@dataclass(frozen=True)
class Feed:
    """One input of a lane: where rows come from, the port they enter, and the steps before it."""

    origin: Origin
    steps: tuple[Step, ...]
    port: int = 0

    @cached_property
    def texts(self) -> tuple[str, ...]:
        """The texts of all steps: the key of the block after them."""
        return tuple(step.text for step in self.steps)

    def prepared(self, block: Block, cache: BlockCache) -> tuple[tuple[str, ...], Block]:
        """The block after the steps, shared with feeds that have the same steps, and its key in the cache."""
        if self.texts in cache:
            return self.texts, cache[self.texts]
        key: tuple[str, ...] = ()
        cache.setdefault(key, block)
        for step in self.steps:
            longer = (*key, step.text)
            if longer not in cache:
                cache[longer] = step.apply(cache[key])
            key = longer
        return key, cache[key]


@dataclass(frozen=True)
class Lane:
    """Operators of one shape; without a kernel, rows pass from feeds to outlets unchanged.

    `depth`: the number of lanes with state from the streams to here, this one included. `streams`: all that feed it,
    directly or not. `hold_us`: how far its input may be behind the streams' watermark.
    """

    number: int
    kernel: Kernel | None
    instances: tuple[InstanceId, ...]
    feeds: tuple[Feed, ...]
    outlets: tuple[Outlet, ...]
    constant_key: str = ""
    constants: tuple[Any, ...] = ()
    depth: int = 0
    streams: frozenset[str] = frozenset()
    hold_us: int = 0
    processing: bool = False
    types: tuple[tuple[tuple[str, str], ...], ...] = ()
    """For each port, the columns of its rows and their types."""
    division: "Division | None" = None
    """Which instances have the slots of the declared ones, where that is not as declared."""
    utilities: tuple[Expression | None, ...] = ()
    """For each instance, the utility of its state by its keys, where a query defines one."""

    def reads(self) -> frozenset[str]:
        """Columns of its input that the lane may read."""
        wanted: set[str] = set()
        for feed in self.feeds:
            wanted.update(*(step.reads() for step in feed.steps))
            if self.kernel is not None:
                wanted |= self.kernel.reads(feed.port)
        if self.kernel is None:
            wanted.update(*(outlet.schema.names for outlet in self.outlets))
            wanted.update(*(step.reads() for outlet in self.outlets for step in outlet.steps))
        return frozenset(wanted)

    def watermark_us(self, marks: Mapping[str, int]) -> int:
        """The lane's watermark: that of the slowest stream that neither has ended nor is idle, less `hold_us`."""
        if self.processing:
            return marks.get(NOW, NEVER_US)
        slowest = merged_us(self.streams, marks)
        return slowest if slowest == NEVER_US else slowest - self.hold_us

    def late_us(self, marks: Mapping[str, int], partition_us: int) -> int:
        """The watermark by which rows of a stream are late: that of their own partition, less `hold_us`.

        So other partitions and streams, which may be read earlier or later, make no row late. Only behind idle ones the
        lane's watermark can be ahead of it; then that one counts.
        """
        mark_us = self.watermark_us(marks)
        if self.processing or partition_us == NEVER_US:
            return mark_us
        return max(mark_us, partition_us - self.hold_us)

    def lifted(
        self, feed: Feed, block: Block, watermark_us: int, now_us: int, cache: BlockCache
    ) -> tuple[Tables, Block]:
        """A block as input tables for the lane's state, and the rows that are late."""
        kernel = self.kernel
        if kernel is None:
            raise TypeError("a lane without a kernel has no state")
        key, prepared = feed.prepared(block, cache)
        if self.processing:
            prepared = Block({**prepared.columns, TIME: np.full(prepared.length, now_us)}, prepared.length)
            key, cache = (), {}  # no other lane reads rows with these times
        return kernel.lift_timely(feed.port, prepared, watermark_us, Shared(len(self.instances), cache, key))

    def labelled(self, results: Block) -> Block:
        """Results with the numbers of declared instances, which downstream lanes and outlets expect."""
        return results if self.division is None else self.division.labelled(results)

    def advanced(
        self, state: Tables, fresh: Tables, before_us: int, after_us: int, declared_of: Ints | None = None
    ) -> tuple[Tables, Block]:
        """State merged with new input, and the results of moving the watermark from `before_us` to `after_us`.

        `declared_of`: the declared instance of every number, where the division's numbers do not apply.
        """
        if self.kernel is None:
            raise TypeError("a lane without a kernel has no state")
        tables, results = self.kernel.advance(state, fresh, before_us, after_us)
        return tables, self.with_constants(results, declared_of)

    def with_constants(self, results: Block, declared_of: Ints | None = None) -> Block:
        """Results of the kernel with the constant that each instance filters by, if it is a key."""
        if not self.constant_key or not results.length:
            return results
        declared = results.columns[INSTANCE]
        if declared_of is None and self.division is not None:
            declared_of = self.division.declared
        if declared_of is not None:
            declared = declared_of[declared]
        values = pa.array(self.constants).take(pa.array(declared))
        column = values if isinstance(self.constants[0], str) else values.to_numpy()
        return Block({**results.columns, self.constant_key: column}, results.length)
