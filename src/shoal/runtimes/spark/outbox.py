"""The outbox: what a router has collected, as wire rows: state on its way, results, and rows that came too late."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from shoal.connectors.admission import Refusal, dead_letters
from shoal.connectors.source import RawBatch
from shoal.kernels.aggregate import AggregateKernel
from shoal.kernels.block import Block
from shoal.kernels.table import INSTANCE, Table
from shoal.model.schema import TIME
from shoal.query.lane import Lane
from shoal.query.router import Router
from shoal.runtimes.spark import wire

WireRow = tuple[int, int, bytes]
_PASSED = {True: "has closed all windows of this row", False: "has gone on past the time of this row"}
LARGEST_PIECE = 1 << 18
"""Rows of state that travel in one message."""


@dataclass
class Outbox:
    """Wire rows for everything that a router holds; `refused` counts the late rows once they have been given."""

    router: Router
    workers: int
    refused: dict[str, int] = field(default_factory=lambda: defaultdict(int))

    def rows(self) -> Iterator[WireRow]:
        """Everything, addressed to the workers it belongs to; results are spread over all."""
        for parcel in self.router.parcels():
            address = wire.address(parcel.lane, parcel.table)
            for piece in _pieces(parcel.content):
                yield parcel.worker, address, wire.pack(piece.to_arrow())
        yield from self._results()
        for lane, late in self.router.late:
            yield 0, wire.DEAD, wire.pack(self._late(lane, late))

    def _results(self) -> Iterator[WireRow]:
        number = 0
        for table, batches in self.router.results.items():
            for batch in batches:
                yield number % self.workers, wire.RESULT, wire.pack(batch, table)
                number += 1

    def _late(self, lane: Lane, late: Block) -> pa.RecordBatch:
        """Dead letters for rows that came too late, each told which operator had closed."""
        names = [name for name in late.columns if name not in (INSTANCE, TIME)]
        arrays = [pa.array(c) if isinstance(c, np.ndarray) else c for c in (late.columns[name] for name in names)]
        stream = ", ".join(sorted(lane.streams))
        times = {name for each in lane.streams for name in (self.router.program.inputs[each].time,)}
        batch = pa.RecordBatch.from_arrays(arrays, names=names)
        for name in times & set(names):
            at = names.index(name)
            batch = batch.set_column(at, name, batch.column(at).view(pa.timestamp("us")))
        numbers = late.columns[INSTANCE]
        refusals = []
        for number in np.unique(numbers).tolist():
            rows = np.flatnonzero(numbers == number)
            detail = f"operator {lane.instances[number]} {_PASSED[isinstance(lane.kernel, AggregateKernel)]}"
            refusals.append(Refusal("late", detail, rows))
            self.refused["late"] += int(rows.size)
        return dead_letters(stream, RawBatch(batch, f"stream {stream}"), refusals)


def _pieces(table: Table) -> Iterator[Table]:
    """A table in messages that Spark can carry."""
    if len(table) <= LARGEST_PIECE:
        yield table
        return
    for start in range(0, len(table), LARGEST_PIECE):
        yield table.take(np.arange(start, min(len(table), start + LARGEST_PIECE)))
