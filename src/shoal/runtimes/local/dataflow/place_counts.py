"""Place counts: points and ranges that come to a part of a lane, by the tiles that are in force meanwhile."""

from collections.abc import Callable

from shoal.compiler.division import Division
from shoal.kernels.columns.table import Ints, Tables
from shoal.kernels.kernel import Kernel
from shoal.kernels.spatial.tile_counts import TileBorders, TileCounts
from shoal.model.spatial.arrivals import TileArrivals, summed


class PlaceCounts:
    """Counters of a part; the worker that runs it adds, one other thread takes.

    A change of the tiles begins new counters. The thread that takes drops those before, once it has read them.
    """

    def __init__(self, declared: Ints, division: Callable[[], Division | None]) -> None:
        """Nothing has come; `declared` is the instance of every cell unless a division says otherwise."""
        self._declared, self._division = declared, division
        self._by: Division | None = None
        self._newest: TileCounts | None = None
        self._counts: list[TileCounts] = []
        self._before: list[tuple[Ints, Ints] | None] = []

    def add(self, kernel: Kernel, tables: Tables) -> None:
        """Count lifted rows."""
        placed = kernel.placed(tables)
        if placed is None:
            return
        division, newest = self._division(), self._newest
        if newest is None or division is not self._by:
            owners = self._declared if division is None else division.numbers[0]
            self._by = division
            self._newest = newest = TileCounts(TileBorders.of(owners, placed.columns))
            self._counts.append(newest)
        newest.add(placed)  # not the last of the list, which the other thread may shorten meanwhile

    def taken(self) -> tuple[TileArrivals, ...]:
        """What has come since the last call."""
        counts = self._counts[:]
        self._before += [None] * (len(counts) - len(self._before))
        found = []
        for place, each in enumerate(counts):
            now = each.rows.copy(), each.columns.copy()
            found += TileCounts.between(each.table, self._before[place], now)
            self._before[place] = now
        done = max(0, len(counts) - 1)  # no more rows are added to these
        del self._counts[:done], self._before[:done]
        return summed(found)
