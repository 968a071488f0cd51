"""Routing: what a block of a stream, or of a lane's answers, sends to the lanes it feeds and to the result tables."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from shoal.compiler.lane import BlockCache, Lane, Origin
from shoal.compiler.program import Program
from shoal.kernels.columns.block import Block
from shoal.kernels.columns.table import Tables

MERGE_ROWS = 200_000
"""Rows a lane may pile up on the way before they are brought together in between."""


@dataclass(frozen=True)
class Parcel:
    """Rows of one table of a lane's state on their way to a worker."""

    worker: int
    lane: int
    table: int
    content: Any


@dataclass
class Router:
    """Collects what several blocks send; `marks` are the watermarks before the epoch, `now_us` its processing time."""

    program: Program
    binding: Sequence[int]
    marks: Mapping[str, int]
    now_us: int
    results: dict[str, list[pa.RecordBatch]] = field(default_factory=lambda: defaultdict(list))
    late: list[tuple[Lane, Block]] = field(default_factory=list)
    _piled: dict[int, list[Tables]] = field(default_factory=lambda: defaultdict(list))
    _merged_rows: dict[int, int] = field(default_factory=lambda: defaultdict(int))

    def take(self, origin: Origin, block: Block) -> None:
        """Take a block in: of a stream, or of a lane's answers."""
        cache: BlockCache = {}
        for lane, feed in self.program.feeds.get(origin, ()):
            if lane.kernel is None:
                self._answer(lane, feed.prepared(block, cache)[1])
                continue
            lifted, late = lane.lifted(feed, block, lane.watermark_us(self.marks), self.now_us, cache)
            self._pile(lane, lifted)
            if late.length:
                self.late.append((lane, late))

    def answered(self, lane: Lane, answers: Block) -> None:
        """Send a lane's answers to its result tables and to the lanes it feeds."""
        if answers.length:
            labelled = lane.labelled(answers)
            self._answer(lane, labelled)
            self.take(lane.number, labelled)

    def parcels(self) -> Iterator[Parcel]:
        """Everything collected, split by the workers that the instances are bound to."""
        for number, piled in self._piled.items():
            lane = self.program.lanes[number]
            if lane.kernel is None or not piled:
                continue
            start = self.program.first_instances[number]
            bound = np.array(self.binding[start : start + len(lane.instances)], np.int64)
            gathered = lane.kernel.gathered(piled)
            if lane.division is not None:
                gathered = lane.division.divided(lane.kernel, gathered)
            for table, content in gathered.items():
                workers = bound[content.instance]
                for worker in np.unique(workers).tolist():
                    yield Parcel(worker, number, table, content.where(workers == worker))

    def _answer(self, lane: Lane, block: Block) -> None:
        if not block.length:
            return
        for outlet in lane.outlets:
            rows = outlet.rows(block)
            if rows.num_rows:
                self.results[outlet.table].append(rows)

    def _pile(self, lane: Lane, lifted: Tables) -> None:
        if not lifted or lane.kernel is None:
            return
        piled = self._piled[lane.number]
        piled.append(lifted)
        if _rows(piled) > max(MERGE_ROWS, 2 * self._merged_rows[lane.number]):
            self._piled[lane.number] = [lane.kernel.gathered(piled)]
            self._merged_rows[lane.number] = _rows(self._piled[lane.number])


def _rows(piled: Sequence[Tables]) -> int:
    return sum(len(table) for tables in piled for table in tables.values())
