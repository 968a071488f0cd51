"""What a spatial policy remembers, as a message, so that a run that goes on decides as one that never stopped."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from shoal.kernels.spatial.statistics import AxisStatistics, Floats, PartitionStatistics
from shoal.model.query.graph import OperatorId
from shoal.model.spatial.tiles import Tile
from shoal.policies.partitioning.swarm.decision_stages import DecisionStages
from shoal.policies.partitioning.swarm.rounds import SwarmMemory

Rows = tuple[tuple[float, ...], ...]


@dataclass(frozen=True)
class RememberedAxis:
    """The statistics of the rows or of the columns of a tile; a line without any number but 0 is empty."""

    closed: Rows
    collected: Rows

    @classmethod
    def of(cls, axis: AxisStatistics) -> "RememberedAxis":
        """The message of the statistics."""
        return cls(_lines(axis.closed), _lines(axis.collected))

    def statistics(self, size: int) -> AxisStatistics:
        """The inverse of `of`, for so many rows or columns."""
        none = AxisStatistics.none(size)
        return AxisStatistics(_filled(none.closed, self.closed), _filled(none.collected, self.collected))


@dataclass(frozen=True)
class RememberedTile:
    """The statistics of a tile with its borders."""

    borders: tuple[int, int, int, int]
    rows: RememberedAxis
    columns: RememberedAxis
    busy_s: float = 0.0
    collected_s: float = 0.0

    @classmethod
    def of(cls, each: PartitionStatistics) -> "RememberedTile":
        """The message of the statistics."""
        tile = each.tile
        axes = RememberedAxis.of(each.rows), RememberedAxis.of(each.columns)
        return cls((tile.left, tile.top, tile.right, tile.bottom), *axes, each.busy_s, each.collected_s)

    def statistics(self) -> PartitionStatistics:
        """The inverse of `of`."""
        tile = Tile(*self.borders)
        axes = self.rows.statistics(tile.rows), self.columns.statistics(tile.columns)
        return PartitionStatistics(tile, *axes, self.busy_s, self.collected_s)


@dataclass(frozen=True)
class Remembered:
    """The memory of a spatial policy after an epoch.

    `round_s`: how long the running round, or the sample, has lasted. `divided` and `sampled`: whether the first
    partitions, and those by history, were made.
    """

    epoch: int
    policy: str
    tiles: Mapping[OperatorId, tuple[RememberedTile, ...]]
    round_s: float
    pointer: int
    rebalances: bool
    taken: int
    throughput: float
    rounds: int
    divided: bool
    sampled: bool

    @property
    def memory(self) -> SwarmMemory:
        """What the decision remembers of the rounds before."""
        return SwarmMemory(DecisionStages(self.pointer, self.rebalances, self.taken, self.throughput), self.rounds)


def _lines(numbers: Floats) -> Rows:
    return tuple(tuple(line.tolist()) if line.any() else () for line in numbers)


def _filled(numbers: Floats, lines: Rows) -> Floats:
    for number, line in enumerate(lines):
        if line:
            numbers[number] = np.array(line)
    return numbers
