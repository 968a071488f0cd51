"""Arrivals: how many points and ranges have come to a tile, by row and separately by column."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from shoal.model.spatial.tiles import Tile

Counts = NDArray[np.int64]
POINTS, BEGUN, BEGUN_BEFORE, ENDED, ENDED_BEFORE = range(5)
"""Rows of the counts; see `TileArrivals`."""
KINDS = 5


@dataclass(frozen=True, eq=False)
class TileArrivals:
    """What came to a tile in some time: `rows[kind, row of the tile]`, and the same by column.

    `POINTS`: points. `BEGUN` and `ENDED`: ranges that began and ended, each counted once, where its part within the
    tile begins. `BEGUN_BEFORE` and `ENDED_BEFORE`: ranges that the row or column has in common with the one before; for
    the first of the tile, with the one before the tile.
    """

    tile: Tile
    rows: Counts
    columns: Counts

    def __post_init__(self) -> None:
        """Reject counts that are not those of the tile."""
        wanted = (KINDS, self.tile.rows), (KINDS, self.tile.columns)
        if (self.rows.shape, self.columns.shape) != wanted:
            raise ValueError(f"counts must have the shapes {wanted}; got {self.rows.shape} and {self.columns.shape}")

    @classmethod
    def none(cls, tile: Tile) -> "TileArrivals":
        """Nothing came."""
        return cls(tile, np.zeros((KINDS, tile.rows), np.int64), np.zeros((KINDS, tile.columns), np.int64))

    @property
    def received(self) -> int:
        """How many points and ranges came."""
        return int(self.rows[[POINTS, BEGUN, ENDED]].sum())

    def __add__(self, other: "TileArrivals") -> "TileArrivals":
        """What came to a tile in both times."""
        return TileArrivals(self.tile, self.rows + other.rows, self.columns + other.columns)


def summed(several: Iterable[TileArrivals]) -> tuple[TileArrivals, ...]:
    """Arrivals of several times, one for each tile."""
    found: dict[Tile, TileArrivals] = {}
    for came in several:
        found[came.tile] = found[came.tile] + came if came.tile in found else came
    return tuple(found.values())
