"""Rows of pane tables are grouped and merged as one by one in a dictionary, whatever their order."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from tests.random_expressions import Draw

from shoal.kernels.aggregate.cells import Codes, codes_of
from shoal.kernels.aggregate.panes import PaneShape, PaneTable, merged_panes
from shoal.kernels.aggregate.row_groups import RowGroups, combined_codes, groups_of, repeated
from shoal.kernels.aggregate.slots import COUNT, Slot
from shoal.model.query.aggregate import count, max_, mean, min_, sum_
from shoal.model.query.window import Window

FAR = 1 << 40
"""Keys so far apart that there are no dense cells for them."""
SHAPE = PaneShape(
    ("a", "b"),
    Window(10, 10),
    (("n", count()), ("i", sum_("i")), ("low", min_("i")), ("high", max_("i")), ("mean", mean("v"))),
    (("a", "int64"), ("b", "bool"), ("i", "int64"), ("v", "float64")),
)
Row = tuple[int, int, int, bool, int]
"""Instance, pane, two keys and a value."""


@st.composite
def tables_of_rows(draw: Draw) -> list[list[Row]]:
    """Tables whose rows often share panes and keys; panes ascend or not."""
    panes = st.integers(0, 3)
    row = st.tuples(st.integers(0, 2), panes, st.sampled_from([-FAR, 0, 1, FAR]), st.booleans(), st.integers(-9, 9))
    drawn = draw(st.lists(row, min_size=1, max_size=40))
    rows = sorted(drawn, key=lambda row: row[1]) if draw(st.booleans()) else drawn
    cut = draw(st.integers(0, len(rows)))
    return [rows[:cut], rows[cut:]]


def table_of(rows: Sequence[Row]) -> PaneTable:
    instance, pane, a, values = (np.array([row[i] for row in rows], np.int64) for i in (0, 1, 2, 4))
    sums = np.zeros((len(rows), 3))
    sums[:, 0] = values / 4
    slots = (np.ones(len(rows), np.int64), values, values, values, sums)
    return PaneTable(instance, pane, (a, np.array([row[3] for row in rows], bool)), slots)


def merged_one_by_one(rows: Sequence[Row]) -> dict[tuple[int, int, int, bool], list[int]]:
    values: dict[tuple[int, int, int, bool], list[int]] = {}
    for *key, value in rows:
        values.setdefault(tuple(key), []).append(value)  # type: ignore[arg-type]
    return values


@settings(deadline=None)
@given(tables_of_rows())
def test_tables_are_merged_as_one_by_one(tables: list[list[Row]]) -> None:
    assert [slot.kind for slot in SHAPE.slots] == ["count", "sum", "min", "max", "sum"]
    merged = merged_panes(SHAPE, [table_of(rows) for rows in tables])
    keys = zip(*(column.tolist() for column in (merged.instance, merged.pane, *merged.keys)), strict=True)
    values = zip(*(slot.tolist() for slot in merged.slots), strict=True)
    got = dict(zip(keys, values, strict=True))
    wanted = {
        key: (len(each), sum(each), min(each), max(each), [sum(each) / 4, 0.0, 0.0])
        for key, each in merged_one_by_one([*tables[0], *tables[1]]).items()
    }
    assert len(merged) == len(wanted)
    assert got == wanted


@settings(deadline=None)
@given(tables_of_rows())
def test_rows_have_the_same_group_exactly_if_they_have_the_same_keys_and_pane(tables: list[list[Row]]) -> None:
    made = [table_of(rows) for rows in tables if rows]
    groups = groups_of([COUNT], [[each.keys[0] for each in made]], [each.pane for each in made])
    pairs = [(row[1], row[2]) for row in (*tables[0], *tables[1])]
    first_seen = {pair: number for number, pair in enumerate(dict.fromkeys(pairs))}
    if groups is None:
        assert not {-FAR, FAR} & {key for _, key in pairs} or len({key for _, key in pairs}) == 1, "dense"
        return
    assert groups.size == len(first_seen)
    assert len(set(zip(groups.of_row.tolist(), pairs, strict=True))) == groups.size
    if all(earlier[0] <= later[0] for earlier, later in pairwise(pairs)):
        assert groups.of_row.tolist() == [first_seen[pair] for pair in pairs], "in order of appearance"


@pytest.mark.parametrize(
    ("slots", "column"),
    [
        pytest.param([Slot("set", "x", "object")], np.array([0, FAR]), id="sets of values"),
        pytest.param([COUNT], codes_of(np.array([0, 1])).codes, id="dense keys"),
        pytest.param([COUNT], np.array([0.5, FAR]), id="keys that are no integers"),
        pytest.param([COUNT], np.array([-(1 << 62), 1 << 62]), id="keys that are too far apart"),
    ],
)
def test_what_needs_other_means_is_left_to_them(slots: list[Slot], column: NDArray[Any]) -> None:
    panes = np.zeros(2, np.int64)
    assert groups_of([COUNT], [[np.array([0, FAR])]], [panes]) is not None
    assert groups_of(slots, [[column]], [panes]) is None


@settings(deadline=None)
@given(st.lists(st.integers(0, 30), min_size=1, max_size=60), st.sampled_from([1, FAR]))
def test_repeated_codes_are_those_of_several_rows(drawn: list[int], apart: int) -> None:
    numbers = np.array(drawn) * apart
    rows, codes = repeated(Codes(numbers, int(numbers.max()) + 1))
    several = [row for row, number in enumerate(drawn) if drawn.count(number) > 1]
    assert rows.tolist() == several
    assert len(set(zip(codes.codes.tolist(), (drawn[row] for row in several), strict=True))) == len(
        {drawn[row] for row in several}
    )


def test_columns_are_numbered_across_tables() -> None:
    tables = [np.array([5, 6]), np.array([], np.int64), np.array([5])]
    codes = combined_codes([tables, [np.array([True, False]), np.array([], bool), np.array([True])]], 3)
    assert codes is not None
    assert codes.codes[0] == codes.codes[2] != codes.codes[1]
    assert codes.size == 4


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(-FAR, FAR), st.integers(0, 3)), min_size=1, max_size=20), st.data())
def test_columns_are_placed_together_as_they_are_one_by_one(rows: list[tuple[int, int]], data: st.DataObject) -> None:
    keys, groups = np.array([row[0] for row in rows]), np.unique([row[1] for row in rows], return_inverse=True)[1]
    of_group = keys[np.unique(groups, return_index=True)[1]][groups]
    cut = data.draw(st.integers(0, len(rows)))
    of_rows = RowGroups(groups.astype(np.int64), int(groups.max()) + 1, (cut, len(rows) - cut))
    read_only = of_group.copy()
    read_only.flags.writeable = False
    for others in (read_only, of_group > 0):
        tables = [(of_group[:cut], others[:cut]), (of_group[cut:], others[cut:])]
        one_by_one = [of_rows.common(column) for column in zip(*tables, strict=True)]
        for together, alone in zip(of_rows.all_common(tables), one_by_one, strict=True):
            assert together.dtype == alone.dtype
            assert together.tolist() == alone.tolist()
