"""The outbox: the content of a router as wire rows: rows for lanes, results, and late rows."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from shoal.compiler.late import late_letters
from shoal.compiler.router import Router
from shoal.kernels.columns.table import Table
from shoal.runtimes.spark.tasks import wire

WireRow = tuple[int, int, bytes]
LATE = "late"
"""Why rows were refused that only lanes refuse."""
LARGEST_PIECE = 1 << 18
"""The most rows of state in one message."""


@dataclass
class Outbox:
    """Wire rows for everything that a router holds; `refused` counts the late rows once `rows` is exhausted."""

    router: Router
    workers: int
    refused: dict[str, int] = field(default_factory=lambda: defaultdict(int))

    def rows(self) -> Iterator[WireRow]:
        """All rows, addressed to the workers that own them; results are spread over all workers."""
        for parcel in self.router.parcels():
            address = wire.address(parcel.lane, parcel.table)
            for piece in _pieces(parcel.content):
                yield parcel.worker, address, wire.pack(piece.to_arrow())
        yield from self._results()
        for lane, late in self.router.late:
            self.refused[LATE] += late.length
            yield 0, wire.DEAD, wire.pack(late_letters(lane, late, self.router.program.inputs))

    def _results(self) -> Iterator[WireRow]:
        number = 0
        for table, batches in self.router.results.items():
            for batch in batches:
                yield number % self.workers, wire.RESULT, wire.pack(batch, table)
                number += 1


def _pieces(table: Table) -> Iterator[Table]:
    """A table in pieces that fit into a message."""
    if len(table) <= LARGEST_PIECE:
        yield table
        return
    for start in range(0, len(table), LARGEST_PIECE):
        yield table.take(np.arange(start, min(len(table), start + LARGEST_PIECE)))
