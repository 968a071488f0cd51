"""Tables of ranges against a list of ranges: whatever is done to them, points find the ranges that are alive."""

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.kernels.columns.parts import renumbered, split_tables, table_from_arrow
from shoal.kernels.columns.table import INSTANCE, RowTable
from shoal.kernels.spatial.range_run import BOX, CELL, ENDLESS_US, ID, SHAPE, SINCE, UNTIL
from shoal.kernels.spatial.range_table import RangeTable, concat_ranges, merged_ranges
from shoal.kernels.spatial.shapes import Shapes

Pairs = set[tuple[int, int]]
INSTANCES, CELLS = 3, 4


def rows(draw: np.random.Generator, count: int, first: int) -> RowTable:
    """Ranges that begin at various times, numbered from `first` on."""
    corner = draw.random((count, 2))
    return RowTable(
        {
            INSTANCE: draw.integers(0, INSTANCES, count),
            CELL: draw.integers(0, CELLS, count),
            BOX: np.column_stack([corner, corner + draw.uniform(0, 0.3, (count, 2))]),
            SINCE: draw.integers(0, 10, count),
            UNTIL: np.full(count, ENDLESS_US),
            ID: np.arange(first, first + count),
            "name": pa.array([f"range {first + i}" for i in range(count)]),
        }
    )


def found(table: RangeTable, seed: int) -> Pairs:
    """What some points match, as pairs of point and id, each once."""
    draw = np.random.default_rng(seed)
    instance, cell = draw.integers(0, INSTANCES, 100), draw.integers(0, CELLS, 100)
    x, y, time = draw.random(100), draw.random(100), draw.integers(0, 30, 100)
    at, ranges = table.matches(instance, cell, x, y, time)
    taken = table.rows(ranges, [ID, "name"])
    assert [f"range {each}" for each in taken[ID].tolist()] == taken["name"].to_pylist()
    pairs = list(zip(at.tolist(), taken[ID].tolist(), strict=True))
    assert len(set(pairs)) == len(pairs)
    return set(pairs)


def expected(whole: RowTable, seed: int) -> Pairs:
    """The same by comparing all points with all ranges."""
    draw = np.random.default_rng(seed)
    instance, cell = draw.integers(0, INSTANCES, (100, 1)), draw.integers(0, CELLS, (100, 1))
    x, y, time = draw.random((100, 1)), draw.random((100, 1)), draw.integers(0, 30, (100, 1))
    inside = (whole[BOX][:, 0] <= x) & (x <= whole[BOX][:, 2]) & (whole[BOX][:, 1] <= y) & (y <= whole[BOX][:, 3])
    alive = (whole[SINCE] <= time) & (time < whole[UNTIL])
    at, ranges = np.nonzero(inside & alive & (whole.instance == instance) & (whole[CELL] == cell))
    return set(zip(at.tolist(), whole[ID][ranges].tolist(), strict=True))


def shuffled(table: RangeTable, draw: np.random.Generator) -> RangeTable:
    return table.take(draw.permutation(len(table)))


def halved(table: RangeTable, draw: np.random.Generator) -> RangeTable:
    """Taken apart at random and merged again, the second part first."""
    mask = draw.random(len(table)) < 0.5
    return merged_ranges([table.where(~mask), table.where(mask)])


def stored(table: RangeTable, draw: np.random.Generator) -> RangeTable:
    again = table_from_arrow(table.to_arrow())
    assert isinstance(again, RangeTable)
    return again


def renamed(table: RangeTable, draw: np.random.Generator) -> RangeTable:
    """Under other instance numbers and back."""
    there = renumbered(table, np.array([2, 0, 1]))
    return renumbered(there, np.array([1, 2, 0]))  # type: ignore[return-value]


def split(table: RangeTable, draw: np.random.Generator) -> RangeTable:
    """Divided by instance and put together."""
    parts = split_tables({0: table}, [0, 1, 0], 2)
    return concat_ranges([part[0] for part in parts if part])


CHANGES: list[Callable[[RangeTable, np.random.Generator], RangeTable]] = [shuffled, halved, stored, renamed, split]


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 1 << 30), st.lists(st.sampled_from([5, 80, 400]), min_size=1, max_size=6))
def test_points_find_what_is_alive_whatever_is_done_to_the_table(seed: int, sizes: list[int]) -> None:
    draw = np.random.default_rng(seed)
    whole, table = rows(draw, 0, 0), RangeTable.of(rows(draw, 0, 0)).ready()
    for number, size in enumerate(sizes):
        fresh = rows(draw, size, len(whole))
        before, answer = table, found(table, seed)
        table = table.begun(fresh)
        whole = RangeTable.of(whole).begun(fresh).rows(np.arange(len(whole) + size)) if len(whole) else fresh
        ending = np.flatnonzero(draw.random(len(whole)) < 0.3)
        whole[UNTIL][ending] = np.minimum(whole[UNTIL][ending], 12 + number)
        table = table.ended(whole.take(ending))
        if draw.random() < 0.7:
            table = CHANGES[draw.integers(0, len(CHANGES))](table, draw).ready()
        assert found(table, seed + number) == expected(whole, seed + number)
        assert found(before, seed) == answer  # a table is a value
    assert len(table) == len(whole)


@settings(deadline=None, max_examples=20)
@given(st.integers(0, 1 << 30))
def test_an_end_may_come_before_its_range(seed: int) -> None:
    draw = np.random.default_rng(seed)
    first, late = rows(draw, 50, 0), rows(draw, 50, 50)
    ends = late.with_columns(**{UNTIL: np.full(50, 15)})
    waiting = RangeTable.of(first).ready().ended(ends)
    assert found(waiting, seed) == expected(first, seed)
    assert len(waiting) == 100
    for again in (waiting, stored(waiting, draw), halved(waiting, draw), renamed(waiting, draw), waiting.owned()):
        both = RangeTable.of(first).begun(ends).rows(np.arange(100))
        both = both.with_columns(**{UNTIL: np.where(both[ID] < 50, ENDLESS_US, 15)})
        assert found(again.ready().begun(late), seed) == expected(both, seed)
        assert found(merged_ranges([RangeTable.of(late), again]), seed) == expected(both, seed)


def test_ranges_that_are_over_are_dropped_once_they_are_many() -> None:
    draw = np.random.default_rng(5)
    whole = rows(draw, 1000, 0)
    table = RangeTable.of(whole).ready()
    some = table.ended(whole.take(np.arange(100)).with_columns(**{UNTIL: np.full(100, 12)}))
    assert len(some.without_dead(12)) == 1000
    many = some.ended(whole.take(np.arange(100, 400)).with_columns(**{UNTIL: np.full(300, 13)}))
    assert len(many.without_dead(12)) == 1000
    assert len(many.without_dead(13)) == 600
    kept = whole.take(np.arange(400, 1000))
    assert found(many.without_dead(13), 5) >= expected(kept, 5)
    everything = table.ended(whole.with_columns(**{UNTIL: np.full(1000, 12)})).without_dead(12)
    assert len(everything) == 0
    assert found(everything.begun(kept), 5) == expected(kept, 5)


def test_many_small_blocks_leave_few_runs() -> None:
    draw = np.random.default_rng(6)
    table = RangeTable.of(rows(draw, 20_000, 0)).ready()
    large = table.runs[0]
    for number in range(40):
        table = table.begun(rows(draw, 100, 20_000 + 100 * number))
    assert len(table.runs) == 2
    assert table.runs[0] is large
    assert len(table) == 24_000


def test_a_table_without_rows_can_be_stored_and_searched() -> None:
    draw = np.random.default_rng(7)
    table = RangeTable.of(rows(draw, 10, 0)).ready()
    empty = table.where(np.zeros(10, bool))
    again = stored(empty, draw).ready()
    assert len(again) == 0
    assert again.events(2).tolist() == [0, 0]
    assert found(again, 7) == set()


def test_circles_are_compared_exactly() -> None:
    circle = Shapes.circles(np.array([0.5]), np.array([0.5]), np.array([0.5]))
    plain = rows(np.random.default_rng(8), 1, 0).with_columns(**{BOX: circle.box, SHAPE: circle.lists()})
    table = RangeTable.of(plain.with_columns(**{SINCE: np.zeros(1, np.int64)})).ready()
    zero = np.zeros(2, np.int64)
    place = plain.instance + zero, plain[CELL] + zero
    points, _ = table.matches(*place, np.array([0.1, 0.5]), np.array([0.1, 1.0]), zero)
    assert points.tolist() == [1]


def test_ranges_must_be_laid_out_before_they_are_searched() -> None:
    raw = RangeTable.of(rows(np.random.default_rng(9), 10, 0))
    with pytest.raises(ValueError, match="laid out before"):
        found(raw, 9)


def test_ends_of_ranges_that_never_come_are_dropped_once_their_time_has_passed() -> None:
    draw = np.random.default_rng(7)
    here, lost = rows(draw, 20, 0), rows(draw, 30, 20)
    ends = lost.with_columns(**{UNTIL: np.arange(30)})
    waiting = RangeTable.of(here).ready().ended(ends)
    assert [len(waiting.without_dead(time)) for time in (-1, 0, 28, 29)] == [50, 49, 21, 20]
    assert waiting.without_dead(29).ends is None
    assert found(waiting.without_dead(29), 7) == expected(here, 7)
