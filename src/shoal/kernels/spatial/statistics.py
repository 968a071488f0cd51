"""Statistics of a partition of the plane: enough to cost it, and both parts of it for any cut.

For every row, and separately for every column: N, the points up to it; Q, the ranges that begin up to it; R, the points
and ranges received up to it in the last round; `span`, the ranges that it has in common with the row before, and
`pre_span` those of them that were received in the last round. Arrivals of the running round are collected apart and
added when the round is closed, in one pass; N is halved first, so that old points count less and less.

A range is clipped to its partition. `span` of the first row is used by no cut: it holds the ranges that come in from
before the partition, so that partitions can be joined again without counting a range twice.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from shoal.kernels.compiled import compiled
from shoal.model.spatial.arrivals import BEGUN, BEGUN_BEFORE, ENDED, ENDED_BEFORE, KINDS, POINTS, Counts, TileArrivals
from shoal.model.spatial.tiles import Axis, Tile

Floats = NDArray[np.float64]
N, Q, R, SPAN, PRE_SPAN = range(5)
"""Rows of the closed statistics."""
KEPT = 0.5
"""How much of N is kept when a round is closed."""


class Amounts(NamedTuple):
    """Points, ranges, and points and ranges received in the last round."""

    n: float
    q: float
    r: float

    @property
    def work(self) -> float:
        """The numerator of the cost: N * Q * R."""
        return self.n * self.q * self.r


@dataclass(frozen=True, eq=False)
class AxisStatistics:
    """The statistics of rows or of columns: `closed[N | Q | R | SPAN | PRE_SPAN]`, and collectors as in arrivals."""

    closed: Floats
    collected: Floats

    @classmethod
    def none(cls, size: int) -> "AxisStatistics":
        """Nothing was received."""
        return cls(np.zeros((5, size)), np.zeros((KINDS, size)))

    @property
    def size(self) -> int:
        """The number of rows or columns."""
        return self.closed.shape[1]

    @property
    def total(self) -> Amounts:
        """The amounts of the whole partition."""
        return Amounts(*self.closed[:3, -1].tolist())

    def before(self, at: int) -> Amounts:
        """The amounts of the part before row or column `at`."""
        return Amounts(*self.closed[:3, at - 1].tolist())

    def behind(self, at: int) -> Amounts:
        """The amounts of the part that begins with row or column `at`."""
        whole, first = self.total, self.before(at)
        span, pre_span = self.closed[SPAN:, at].tolist()
        return Amounts(whole.n - first.n, whole.q - first.q + span, whole.r - first.r + pre_span)

    def share_before(self, at: int) -> float:
        """The share of the work that is before row or column `at`: half of it by points, half by points times ranges.

        Ranges count in every row that they overlap, so that points cost more where ranges are dense.
        """
        points = np.diff(self.closed[N], prepend=0.0)
        ranges = np.diff(self.closed[Q], prepend=0.0)
        ranges[1:] += self.closed[SPAN, 1:]
        pairs = points * ranges
        shares = [_share(float(each[:at].sum()), float(each.sum())) for each in (points, pairs) if each.sum() > 0]
        return sum(shares) / len(shares) if shares else at / self.size

    def with_arrivals(self, counts: Counts) -> "AxisStatistics":
        """The same with more in the collectors."""
        return replace(self, collected=self.collected + counts)

    def closing(self, kept: float = KEPT) -> "AxisStatistics":
        """The statistics after the round; `kept` is the share of N that stays from before."""
        closed = self.closed.copy()
        _close(closed, self.collected, kept)
        return AxisStatistics(closed, np.zeros_like(self.collected))

    def cut(self, at: int) -> "tuple[AxisStatistics, AxisStatistics]":
        """Both parts, the second of which begins with row or column `at`; ranges across the cut are in both."""
        closed = self.closed[:, at:].copy()
        closed[:3] -= self.closed[:3, at - 1 : at]
        closed[Q] += closed[SPAN, 0]
        closed[R] += closed[PRE_SPAN, 0]
        collected = self.collected[:, at:].copy()
        collected[BEGUN, 0] += collected[BEGUN_BEFORE, 0]
        collected[ENDED, 0] += collected[ENDED_BEFORE, 0]
        first = AxisStatistics(self.closed[:, :at].copy(), self.collected[:, :at].copy())
        return first, AxisStatistics(closed, collected)

    def joined(self, behind: "AxisStatistics") -> "AxisStatistics":
        """This part and the one behind it as one; the inverse of `cut`."""
        closed, collected = behind.closed.copy(), behind.collected.copy()
        closed[Q] -= closed[SPAN, 0]
        closed[R] -= closed[PRE_SPAN, 0]
        closed[:3] += self.closed[:3, -1:]
        collected[BEGUN, 0] -= collected[BEGUN_BEFORE, 0]
        collected[ENDED, 0] -= collected[ENDED_BEFORE, 0]
        return AxisStatistics(
            np.concatenate([self.closed, closed], axis=1), np.concatenate([self.collected, collected], axis=1)
        )

    def fitted(self, other: "AxisStatistics") -> "AxisStatistics":
        """The same shape with the totals of another axis of the same partition: what a cut across it leaves."""
        n, q, r = (_share(now, was) for now, was in zip(other.total, self.total, strict=True))
        points, begun, ended = (
            _share(float(other.collected[kind].sum()), float(self.collected[kind].sum()))
            for kind in (POINTS, BEGUN, ENDED)
        )
        closed = self.closed * np.array([[n], [q], [r], [q], [r]])
        return AxisStatistics(closed, self.collected * np.array([[points], [begun], [begun], [ended], [ended]]))

    def __add__(self, other: "AxisStatistics") -> "AxisStatistics":
        """The sums of both, of the same rows or columns."""
        return AxisStatistics(self.closed + other.closed, self.collected + other.collected)


@dataclass(frozen=True, eq=False)
class PartitionStatistics:
    """The statistics of one tile by row and by column, and what it has cost.

    `busy_s`: seconds of workers up to the last round, of which those of earlier rounds count less and less;
    `collected_s`: those of the running round.
    """

    tile: Tile
    rows: AxisStatistics
    columns: AxisStatistics
    busy_s: float = 0.0
    collected_s: float = 0.0

    @classmethod
    def none(cls, tile: Tile) -> "PartitionStatistics":
        """Nothing was received."""
        return cls(tile, AxisStatistics.none(tile.rows), AxisStatistics.none(tile.columns))

    @property
    def total(self) -> Amounts:
        """The amounts of the whole tile."""
        return self.rows.total

    def of(self, axis: Axis) -> AxisStatistics:
        """The statistics of one axis."""
        return self.rows if axis == "row" else self.columns

    def with_arrivals(self, came: TileArrivals) -> "PartitionStatistics":
        """The same with arrivals of the running round."""
        rows, columns = self.rows.with_arrivals(came.rows), self.columns.with_arrivals(came.columns)
        return replace(self, rows=rows, columns=columns)

    def with_cost(self, cost_s: float) -> "PartitionStatistics":
        """The same with more seconds of work in the running round."""
        return replace(self, collected_s=self.collected_s + cost_s)

    def closing(self, kept: float = KEPT) -> "PartitionStatistics":
        """The statistics after the round."""
        busy_s = self.busy_s * kept + self.collected_s
        return PartitionStatistics(self.tile, self.rows.closing(kept), self.columns.closing(kept), busy_s)

    def cut(self, axis: Axis, at: int) -> "tuple[PartitionStatistics, PartitionStatistics]":
        """Both parts of the tile, cut before a row or column of the grid.

        Along the axis they are exact. Across it, how much of each column is in which part is not known: each part gets
        its share, so that totals are exact.
        """
        tiles = self.tile.cut(axis, at)
        across = self.columns if axis == "row" else self.rows
        line = at - (self.tile.top if axis == "row" else self.tile.left)
        share = self.of(axis).share_before(line)
        made = []
        for tile, part, share_ in zip(tiles, self.of(axis).cut(line), (share, 1 - share), strict=True):
            both = (part, across.fitted(part)) if axis == "row" else (across.fitted(part), part)
            made.append(PartitionStatistics(tile, *both, self.busy_s * share_, self.collected_s * share_))
        return made[0], made[1]

    def joined(self, behind: "PartitionStatistics", axis: Axis) -> "PartitionStatistics":
        """This tile and the one behind it along an axis as one."""
        along = self.of(axis).joined(behind.of(axis))
        other: Axis = "column" if axis == "row" else "row"
        across = (self.of(other) + behind.of(other)).fitted(along)
        tile = Tile(self.tile.left, self.tile.top, behind.tile.right, behind.tile.bottom)
        seconds = self.busy_s + behind.busy_s, self.collected_s + behind.collected_s
        return PartitionStatistics(tile, *((along, across) if axis == "row" else (across, along)), *seconds)


def _share(now: float, was: float) -> float:
    return now / was if was else 0.0


@compiled
def _close(closed: Floats, collected: Floats, kept: float) -> None:
    """Add the collectors to the statistics, row by row; sums are carried along."""
    points, ranges, received = 0.0, 0.0, 0.0
    for i in range(closed.shape[1]):
        points += collected[POINTS, i]
        ranges += collected[BEGUN, i] - collected[ENDED, i]
        received += collected[POINTS, i] + collected[BEGUN, i] + collected[ENDED, i]
        closed[N, i] = closed[N, i] * kept + points
        closed[Q, i] += ranges
        closed[R, i] = received
        closed[SPAN, i] += collected[BEGUN_BEFORE, i] - collected[ENDED_BEFORE, i]
        closed[PRE_SPAN, i] = collected[BEGUN_BEFORE, i] + collected[ENDED_BEFORE, i]
