"""Statistics of partitions: equal to brute force for any ranges and any cut, before points are forgotten."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.kernels.spatial.statistics import Amounts, PartitionStatistics
from shoal.kernels.spatial.tile_counts import PlacedRows, TileBorders, TileCounts, counted
from shoal.model.spatial.arrivals import TileArrivals
from shoal.model.spatial.tiles import Axis, Tile, halvings, painted

COLUMNS, ROWS = 7, 5
BOXES = st.tuples(
    st.integers(0, COLUMNS - 1), st.integers(0, ROWS - 1), st.integers(1, COLUMNS), st.integers(1, ROWS)
).map(lambda box: Tile(box[0], box[1], min(COLUMNS, box[0] + box[2]), min(ROWS, box[1] + box[3])))
POINTS = st.lists(st.integers(0, COLUMNS * ROWS - 1), max_size=20)


@dataclass(frozen=True)
class Round:
    """What comes in a round: cells of points, and ranges that begin or end."""

    points: Sequence[int]
    begun: Sequence[Tile]
    ended: Sequence[Tile] = ()

    def placed(self) -> PlacedRows:
        """As rows, one for each cell of a range."""
        ranges = [(box, ends) for several, ends in ((self.begun, False), (self.ended, True)) for box in several]
        rows = [(c, box, ends) for box, ends in ranges for c in cells(box)]
        first = [box.top * COLUMNS + box.left for _, box, _ in rows]
        ends = np.array([ends for _, _, ends in rows], bool)
        return PlacedRows.of(COLUMNS, ints(self.points), ints([c for c, _, _ in rows]), ints(first), ends)


ROUNDS = st.lists(st.builds(Round, POINTS, st.lists(BOXES, max_size=8)), min_size=1, max_size=3)


def ints(values: Sequence[int]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.array(values, np.int64)


def cells(box: Tile) -> list[int]:
    return [row * COLUMNS + column for row in range(box.top, box.bottom) for column in range(box.left, box.right)]


def overlaps(box: Tile, other: Tile) -> bool:
    return bool({*cells(box)} & {*cells(other)})


def brute_force(tile: Tile, rounds: Sequence[Round]) -> Amounts:
    """The amounts of a tile, counted one by one."""
    inside = {*cells(tile)}
    points = [sum(cell in inside for cell in each.points) for each in rounds]
    begun = [sum(overlaps(box, tile) for box in each.begun) for each in rounds]
    ended = [sum(overlaps(box, tile) for box in each.ended) for each in rounds]
    return Amounts(sum(points), sum(begun) - sum(ended), points[-1] + begun[-1] + ended[-1])


def closed(tiles: Sequence[Tile], rounds: Sequence[Round], kept: float = 1.0) -> list[PartitionStatistics]:
    """The statistics of tiles after some rounds; by default, all points are kept."""
    owners = painted(COLUMNS, ROWS, dict(enumerate(tiles)))
    found = [PartitionStatistics.none(tile) for tile in tiles]
    for each in rounds:
        for came in counted(owners, each.placed()):
            number = [*tiles].index(came.tile)
            found[number] = found[number].with_arrivals(came)
        found = [one.closing(kept) for one in found]
    return found


def lines(tile: Tile, axis: Axis) -> range:
    """Where a tile can be cut."""
    return range(tile.top + 1, tile.bottom) if axis == "row" else range(tile.left + 1, tile.right)


def same(found: PartitionStatistics, expected: PartitionStatistics, axis: Axis) -> None:
    """Whether two have the same statistics along an axis."""
    assert found.tile == expected.tile
    np.testing.assert_allclose(found.of(axis).closed, expected.of(axis).closed)
    np.testing.assert_allclose(found.of(axis).collected, expected.of(axis).collected)


@settings(deadline=None, max_examples=60)
@given(ROUNDS, st.integers(1, 6))
def test_totals_and_all_cuts_equal_brute_force(rounds: list[Round], parts: int) -> None:
    for each in closed(halvings(COLUMNS, ROWS, parts), rounds):
        assert each.rows.total == each.columns.total == brute_force(each.tile, rounds)
        for axis in ("row", "column"):
            for at in lines(each.tile, axis):
                index = at - (each.tile.top if axis == "row" else each.tile.left)
                first, second = each.tile.cut(axis, at)
                assert each.of(axis).before(index) == brute_force(first, rounds)
                assert each.of(axis).behind(index) == brute_force(second, rounds)


@settings(deadline=None, max_examples=60)
@given(ROUNDS, st.sampled_from(["row", "column"]), st.data())
def test_a_cut_gives_what_the_parts_would_have_counted(rounds: list[Round], axis: Axis, data: st.DataObject) -> None:
    whole = Tile(0, 0, COLUMNS, ROWS)
    at = data.draw(st.sampled_from(lines(whole, axis)))
    statistics = closed([whole], rounds)[0]
    parts = closed(whole.cut(axis, at), rounds)
    for found, expected in zip(statistics.cut(axis, at), parts, strict=True):
        same(found, expected, axis)
        np.testing.assert_allclose(found.rows.total, expected.rows.total)
        np.testing.assert_allclose(found.columns.total, expected.columns.total)
    same(parts[0].joined(parts[1], axis), statistics, axis)
    joined = parts[0].joined(parts[1], axis)
    np.testing.assert_allclose(joined.rows.total, statistics.total)
    np.testing.assert_allclose(joined.columns.total, statistics.total)


@settings(deadline=None, max_examples=30)
@given(ROUNDS, st.data())
def test_the_running_round_is_cut_and_joined_as_well(rounds: list[Round], data: st.DataObject) -> None:
    whole = Tile(0, 0, COLUMNS, ROWS)
    at = data.draw(st.sampled_from(lines(whole, "column")))
    came = counted(np.zeros(COLUMNS * ROWS, np.int64), rounds[0].placed())
    (open_,) = [PartitionStatistics.none(whole).with_arrivals(each) for each in came or [TileArrivals.none(whole)]]
    first, second = open_.cut("column", at)
    assert first.closing(1.0).columns.total == brute_force(first.tile, rounds[:1])
    assert second.closing(1.0).columns.total == brute_force(second.tile, rounds[:1])
    same(first.joined(second, "column"), open_, "column")


@given(BOXES, BOXES)
def test_ranges_that_end_are_received_and_no_longer_there(kept: Tile, ended: Tile) -> None:
    rounds = [Round([3], [kept, ended]), Round([], [], [ended])]
    (found,) = closed([Tile(0, 0, COLUMNS, ROWS)], rounds)
    assert found.total == Amounts(1, 1, 1)
    for at in lines(found.tile, "row"):
        assert found.rows.behind(at) == brute_force(found.tile.cut("row", at)[1], rounds)


def test_points_of_earlier_rounds_count_half_as_much_every_round() -> None:
    rounds = [Round([0, 0, 8, 8], []), Round([], []), Round([1], [])]
    (found,) = closed([Tile(0, 0, COLUMNS, ROWS)], rounds, kept=0.5)
    assert found.total == Amounts(2.0, 0, 1)
    assert found.rows.before(1).n == 1.5


def test_a_range_counts_once_however_many_blocks_its_cells_come_in() -> None:
    placed = Round([], [Tile(1, 1, 5, 4)]).placed()
    counts = TileCounts(TileBorders.of(painted(COLUMNS, ROWS, {0: Tile(0, 0, 3, 5), 4: Tile(3, 0, 7, 5)}), COLUMNS))
    for cell, flag in reversed(list(zip(placed.ranges, placed.flags, strict=True))):
        counts.add(PlacedRows(COLUMNS, ints([]), ints([cell]), np.array([flag], np.int8)))
    assert [came.received for came in counts.arrivals()] == [1, 1]
    now = counts.rows, counts.columns
    assert TileCounts.between(counts.table, now, now) == []
