"""Routing: sends the rows of a stream, or the results of a lane, to the lanes they feed and to the result tables."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from shoal.compiler.codegen.loop_run import LASTING_ROWS
from shoal.compiler.lane import BlockCache, Feed, Lane, Origin
from shoal.compiler.program import Program
from shoal.compiler.query_failure import feed_failure, lane_failure, outlet_failure, raise_instead
from shoal.compiler.shedding.whole_windows import whole_windows
from shoal.compiler.watermarks import partition_us
from shoal.kernels.columns.block import Block
from shoal.kernels.columns.table import INSTANCE, Tables
from shoal.kernels.kernel import NEVER_US, Kernel
from shoal.model.control.shedding import StreamShedding
from shoal.model.query.schema import TIME

MERGE_ROWS = 200_000
"""Rows that may be buffered for a lane before they are merged."""


@dataclass(frozen=True)
class Parcel:
    """Rows of one table of a lane's state on their way to a worker."""

    worker: int
    lane: int
    table: int
    content: Any


@dataclass
class Router:
    """Buffers the output of several blocks; `marks`: watermarks before the epoch, `now_us`: its processing time."""

    program: Program
    binding: Sequence[int]
    marks: Mapping[str, int]
    now_us: int
    shedding: Mapping[str, StreamShedding] = field(default_factory=dict)
    """Windows that lack rows because of it are not emitted."""
    results: dict[str, list[pa.RecordBatch]] = field(default_factory=lambda: defaultdict(list))
    late: list[tuple[Lane, Block]] = field(default_factory=list)
    _buffered: dict[int, list[Tables]] = field(default_factory=lambda: defaultdict(list))
    _buffered_rows: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    _merged_rows: dict[int, int] = field(default_factory=lambda: defaultdict(int))

    def take(self, origin: Origin, block: Block, partition: str = "") -> None:
        """Route a block: rows of a partition of a stream, or results of a lane, none of which is late."""
        of_rows = partition_us(self.marks, origin, partition) if isinstance(origin, str) else NEVER_US
        cache: BlockCache = {}
        for lane, feed in self.program.feeds.get(origin, ()):
            try:
                if isinstance(origin, str):
                    self._fuse(origin, feed, block, cache)
                if lane.kernel is None:
                    self._write(lane, feed.prepared(block, cache)[1])
                    continue
                lifted, late = lane.lifted(feed, block, lane.late_us(self.marks, of_rows), self.now_us, cache)
            except Exception as error:  # noqa: BLE001  (any failure is one of the queries behind)
                raise_instead(feed_failure(self.program, lane, feed, block, error), error)
            self._buffer(lane, lifted)
            if late.length:
                read = lane.kernel.reads(feed.port) | {INSTANCE, TIME}
                columns = {name: column for name, column in late.columns.items() if name in read}
                self.late.append((lane, Block(columns, late.length)))

    def _fuse(self, stream: str, feed: Feed, block: Block, cache: BlockCache) -> None:
        """Apply a feed's steps as one, if that was prepared and the result lasts."""
        if block.length < LASTING_ROWS or feed.texts in cache:
            return
        chain = self.program.fused_feeds[stream].get(feed.texts)
        if chain is not None:
            cache[feed.texts] = chain.apply(block)

    def emit(self, lane: Lane, results: Block) -> None:
        """Send a lane's results to its result tables and to the lanes it feeds."""
        if self.shedding:
            results = whole_windows(self.program, lane, results, self.shedding)
        if results.length:
            labelled = lane.labelled(results)
            self._write(lane, labelled)
            self.take(lane.number, labelled)

    def parcels(self) -> Iterator[Parcel]:
        """The buffered rows, split by the workers that their instances are bound to."""
        for number, buffered in self._buffered.items():
            lane = self.program.lanes[number]
            if lane.kernel is None or not buffered:
                continue
            start = self.program.first_instances[number]
            bound = np.array(self.binding[start : start + len(lane.instances)], np.int64)
            merged = self._merged(lane, lane.kernel, buffered)
            if lane.division is not None:
                merged = lane.division.divided(lane.kernel, merged)
            for table, content in merged.items():
                workers = bound[content.instance]
                for worker in np.unique(workers).tolist():
                    yield Parcel(worker, number, table, content.where(workers == worker))

    def _merged(self, lane: Lane, kernel: Kernel, buffered: list[Tables]) -> Tables:
        try:
            return kernel.merged(buffered)
        except Exception as error:  # noqa: BLE001  (any failure is one of the queries behind)
            raise_instead(lane_failure(self.program, lane, error), error)

    def _write(self, lane: Lane, block: Block) -> None:
        if not block.length:
            return
        for outlet in lane.outlets:
            try:
                rows = outlet.rows(block)
            except Exception as error:  # noqa: BLE001  (any failure is one of the queries behind)
                raise_instead(outlet_failure(self.program, outlet, block, error), error)
            if rows.num_rows:
                self.results[outlet.table].append(rows)

    def _buffer(self, lane: Lane, lifted: Tables) -> None:
        if not lifted or lane.kernel is None:
            return
        number = lane.number
        self._buffered[number].append(lifted)
        self._buffered_rows[number] += _rows(lifted)
        if self._buffered_rows[number] > max(MERGE_ROWS, 2 * self._merged_rows[number]):
            merged = self._merged(lane, lane.kernel, self._buffered[number])
            self._buffered[number] = [merged]
            self._buffered_rows[number] = self._merged_rows[number] = _rows(merged)


def _rows(tables: Tables) -> int:
    return sum(len(table) for table in tables.values())
