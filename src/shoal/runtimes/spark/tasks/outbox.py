"""The outbox: what a router has collected, as wire rows: state on its way, results, and rows that came too late."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from shoal.compiler.late import late_letters
from shoal.compiler.router import Router
from shoal.kernels.columns.table import Table
from shoal.runtimes.spark.tasks import wire

WireRow = tuple[int, int, bytes]
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
            self.refused["late"] += late.length
            yield 0, wire.DEAD, wire.pack(late_letters(lane, late, self.router.program.inputs))

    def _results(self) -> Iterator[WireRow]:
        number = 0
        for table, batches in self.router.results.items():
            for batch in batches:
                yield number % self.workers, wire.RESULT, wire.pack(batch, table)
                number += 1


def _pieces(table: Table) -> Iterator[Table]:
    """A table in messages that Spark can carry."""
    if len(table) <= LARGEST_PIECE:
        yield table
        return
    for start in range(0, len(table), LARGEST_PIECE):
        yield table.take(np.arange(start, min(len(table), start + LARGEST_PIECE)))
