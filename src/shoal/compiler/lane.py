"""Lanes: operators of one shape that run together, however many queries they belong to.

Queries that differ only in the constant of one equality filter (`region == 7`) form one lane with an
instance each. A lane is fed by streams, or by other lanes; it lifts blocks where they are read or answered,
and keeps state, closes windows and results where its instances are bound.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from shoal.compiler.steps import Step
from shoal.kernels.columns.block import Block, arrow_schema, as_arrow
from shoal.kernels.columns.table import INSTANCE, Ints, Tables
from shoal.kernels.kernel import NEVER_US, Kernel, Shared
from shoal.language.python.flow import QUERY
from shoal.model.query.graph import InstanceId
from shoal.model.query.schema import TIME, Schema

if TYPE_CHECKING:
    from shoal.compiler.division import Division

NOW = "#now"
"""Mark of the processing clock among the watermarks of streams."""
ENDED = "#ended:"
"""Prefix of the marks of streams that have ended."""
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
class Feed:
    """One way into a lane: where rows come from, which input they are, and the steps on the way."""

    origin: Origin
    steps: tuple[Step, ...]
    port: int = 0

    def prepared(self, block: Block, cache: BlockCache) -> tuple[tuple[str, ...], Block]:
        """The block after the steps, shared with the feeds that begin alike, and the name it is shared under."""
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
    """Operators of one shape; without a kernel, rows go from the feeds to the outlets as they are.

    `depth`: how many lanes with state lie between the streams and here, this one included. `streams`: all that reach
    it. `hold_us`: how far its input's times may lie behind the streams' watermark.
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
    """Per input, the columns that come in and their types."""
    division: "Division | None" = None
    """Which instances have the slots of the declared ones, where that is not as declared."""

    def reads(self) -> frozenset[str]:
        """Columns that the lane may look at on the way in."""
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
        """How far event time is closed here: the slowest stream that has not ended, less what operators hold back."""
        if self.processing:
            return marks.get(NOW, NEVER_US)
        alive = [stream for stream in self.streams if ENDED + stream not in marks] or self.streams
        slowest = min((marks.get(stream, NEVER_US) for stream in alive), default=NEVER_US)
        return slowest if slowest == NEVER_US else slowest - self.hold_us

    def lifted(
        self, feed: Feed, block: Block, watermark_us: int, now_us: int, cache: BlockCache
    ) -> tuple[Tables, Block]:
        """What a block sends to the lane's state, and the rows that came too late."""
        kernel = self.kernel
        if kernel is None:
            raise TypeError("a lane without a kernel has no state")
        key, prepared = feed.prepared(block, cache)
        if self.processing:
            prepared = Block({**prepared.columns, TIME: np.full(prepared.length, now_us)}, prepared.length)
            key, cache = (), {}  # no other lane reads rows with these times
        return kernel.lift_timely(feed.port, prepared, watermark_us, Shared(len(self.instances), cache, key))

    def labelled(self, results: Block) -> Block:
        """Results under the declared instances, by which everything behind the lane knows them."""
        return results if self.division is None else self.division.labelled(results)

    def advanced(
        self, state: Tables, fresh: Tables, before_us: int, after_us: int, declared_of: Ints | None = None
    ) -> tuple[Tables, Block]:
        """State and what has come brought together, and the results that the watermark makes certain on its way.

        `declared_of`: the declared instance of every number, where numbers are others than those of the division.
        """
        if self.kernel is None:
            raise TypeError("a lane without a kernel has no state")
        tables, results = self.kernel.advance(state, fresh, before_us, after_us)
        if not self.constant_key or not results.length:
            return tables, results
        declared = results.columns[INSTANCE]
        if declared_of is None and self.division is not None:
            declared_of = self.division.declared
        if declared_of is not None:
            declared = declared_of[declared]
        values = pa.array(self.constants).take(pa.array(declared))
        column = values if isinstance(self.constants[0], str) else values.to_numpy()
        return tables, Block({**results.columns, self.constant_key: column}, results.length)
