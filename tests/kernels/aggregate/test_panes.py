"""Pane tables: merging, closing over gaps, Arrow and back."""

import time
import tracemalloc
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.kernels.aggregate import closing, panes
from shoal.kernels.aggregate.cells import codes_of
from shoal.kernels.aggregate.closing import closed_windows
from shoal.kernels.aggregate.panes import PaneShape, PaneTable, concat_tables, grouping, merged_panes
from shoal.kernels.columns.block import Block, Column
from shoal.kernels.columns.table import INSTANCE
from shoal.model.query.aggregate import count, sum_, top_k
from shoal.model.query.window import Window

YEAR_9999_US = 8030 * 31_556_952_000_000


def shape_of(window: Window, **types: str) -> PaneShape:
    return PaneShape(tuple(types), window, (("n", count()),), tuple(types.items()))


def counts(panes: list[int], instance: int = 0) -> PaneTable:
    """A table with one event in each of some panes."""
    size = len(panes)
    return PaneTable(np.full(size, instance), np.array(panes, np.int64), (), (np.ones(size, np.int64),))


def closed(shape: PaneShape, table: PaneTable, first: int, last: int) -> list[tuple[int, int, int]]:
    results = closed_windows(shape, merged_panes(shape, [table]), first, last)
    columns = [results.instance.tolist(), results.window.tolist(), results.columns["n"].tolist()]
    return sorted(zip(*columns, strict=True))


PANES = st.lists(
    st.one_of(st.integers(-6, 6), st.integers(-(10**6), 10**6), st.integers(-(10**14), 10**14)), max_size=9
)


@settings(deadline=None, max_examples=150)
@given(PANES, st.integers(1, 6), st.integers(-12, 12), st.integers(0, 20), st.booleans(), st.integers(1, 12))
def test_closed_windows_are_those_with_events_for_any_limit_of_expansion(
    numbers: list[int], span: int, first: int, length: int, to_the_end: bool, limit: int
) -> None:
    last = 10**15 if to_the_end else first + length
    wanted: dict[int, int] = {}
    for number in numbers:
        for window in range(number + 1, number + span + 1):
            if first <= window <= last:
                wanted[window] = wanted.get(window, 0) + 1
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(closing, "LARGEST_EXPANSION", limit)
        shape = shape_of(Window(span, 1))
        assert closed(shape, counts(numbers), first, last) == [(0, w, n) for w, n in sorted(wanted.items())]


@settings(deadline=None, max_examples=100)
@given(PANES, st.integers(1, 50), st.integers(1, 30))
def test_runs_of_windows_neither_overlap_nor_exceed_the_limit(numbers: list[int], span: int, limit: int) -> None:
    runs = list(closing._runs(np.array(numbers, np.int64), span, -(10**15), 10**15, limit))
    assert all(last < first for (_, last, _), (first, _, _) in pairwise(runs))
    assert all(expanded <= limit or first == last for first, last, expanded in runs)
    assert sum(expanded for _, _, expanded in runs) == span * len(numbers)


def test_a_gap_of_ten_thousand_years_costs_neither_time_nor_memory() -> None:
    shape = shape_of(Window(30, 1))
    table = counts([-YEAR_9999_US, 0, YEAR_9999_US])
    closed(shape, table, 0, 5)
    tracemalloc.start()
    began = time.perf_counter()
    results = closed(shape, table, -(1 << 62), 1 << 62)
    seconds = time.perf_counter() - began
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(results) == 90
    assert peak < 10_000_000
    assert seconds < 5


def test_many_gaps_cost_no_more_than_their_rows() -> None:
    shape = shape_of(Window(1, 1))
    table = counts(list(range(0, 100_000_000, 1_000)))
    began = time.perf_counter()
    assert len(closed(shape, table, -(1 << 62), 1 << 62)) == 100_000
    assert time.perf_counter() - began < 5


def test_long_tops_are_computed_in_small_runs() -> None:
    shape = PaneShape((), Window(40, 1), (("top", top_k("v", 1_024)),), (("v", "int64"),))
    size = 500
    top = np.zeros((size, 1_024), np.int64)
    top[:, 0] = np.arange(size)
    table = PaneTable(np.zeros(size, np.int64), np.arange(size), (), (np.ones(size, np.int64), top))
    results = closed_windows(shape, table, 1, 600)
    assert results.window.size == size + 39
    by_window = dict(zip(results.window.tolist(), results.columns["top"].to_pylist(), strict=True))
    assert by_window[1] == [0]
    assert by_window[45] == list(range(44, 4, -1))
    assert by_window[539] == [499]


def test_tables_of_the_same_rows_merge_into_one() -> None:
    shape = shape_of(Window(1, 1))
    table = merged_panes(shape, [counts([3, 1]), counts([1]), shape.empty(), counts([1], instance=4)])
    rows = sorted(zip(table.instance.tolist(), table.pane.tolist(), table.slots[0].tolist(), strict=True))
    assert rows == [(0, 1, 2), (0, 3, 1), (4, 1, 1)]


def test_merging_does_not_change_its_input() -> None:
    shape = PaneShape((), Window(1, 1), (("sum", sum_("v")), ("top", top_k("v", 2))), (("v", "float64"),))
    slots = (np.array([2]), np.array([[3.0, 0.0, 0.0]]), np.array([[2.0, 1.0]]))
    table = PaneTable(np.array([0]), np.array([5]), (), slots)
    before = table.to_arrow()
    merged_panes(shape, [table, table])
    closed_windows(shape, table, 0, 10)
    assert table.to_arrow().equals(before)


def test_empty_tables_merge_into_an_empty_table() -> None:
    shape = shape_of(Window(1, 1), road="int64", kind="string", toll="bool", day="timestamp")
    table = concat_tables(shape, [shape.empty(), shape.empty()])
    assert len(table) == 0
    assert [str(getattr(key, "dtype", "string")) for key in table.keys] == ["int64", "string", "bool", "int64"]
    results = closed_windows(shape, table, 0, 10)
    assert results.window.size == 0
    assert set(results.columns) == {"road", "kind", "toll", "day", "n"}


SUMS = PaneShape((), Window(2, 1), (("n", count("v")), ("sum", sum_("v"))), (("v", "int64"),), nullable=("v",))
PARTS = st.lists(
    st.lists(st.tuples(st.integers(0, 1), st.integers(0, 3), st.sampled_from([None, 0, 1, 5])), min_size=1, max_size=6),
    min_size=1,
    max_size=5,
)
"""Blocks of events: instance, pane and value."""


def partial_of(events: Sequence[tuple[int, int, int | None]]) -> PaneTable:
    instance, pane = (np.array([event[at] for event in events]) for at in (0, 1))
    block = Block.from_arrow(pa.record_batch({"v": pa.array([event[2] for event in events], pa.int64())}))
    block = Block({**block.columns, INSTANCE: instance}, block.length)
    cells = grouping(SUMS, instance, 2, [], codes_of(pane))
    return panes.partial(SUMS, block, panes.Grouped.of(SUMS, block, pane, cells))


@settings(deadline=None, max_examples=100)
@given(PARTS)
def test_sums_over_blocks_with_and_without_nulls_are_those_of_their_values(
    parts: list[list[tuple[int, int, int | None]]],
) -> None:
    half = len(parts) // 2
    table = merged_panes(
        SUMS, [merged_panes(SUMS, [partial_of(part) for part in some]) for some in (parts[:half], parts[half:])]
    )
    results = closed_windows(SUMS, table, 0, 9)
    columns = [results.columns[name] for name in ("n", "sum")]
    found = zip(
        results.instance.tolist(), results.window.tolist(), *(as_list(column) for column in columns), strict=True
    )
    values: dict[tuple[int, int], list[int | None]] = {}
    for instance, pane, value in (event for part in parts for event in part):
        for window in (pane + 1, pane + 2):
            values.setdefault((instance, window), []).append(value)
    there = {key: [value for value in each if value is not None] for key, each in values.items()}
    assert sorted(found) == sorted((*key, len(each), sum(each) if each else None) for key, each in there.items())


def as_list(column: Column) -> list[int | None]:
    return column.tolist() if isinstance(column, np.ndarray) else column.to_pylist()


def test_state_has_no_array_for_nulls_until_there_is_one() -> None:
    without = merged_panes(SUMS, [partial_of([(0, 0, 1), (0, 1, 2)]), partial_of([(0, 1, 3)])])
    kept = without.where(without.pane > 0)
    assert kept.slots[1] is kept.slots[0]
    assert kept.nbytes == 4 * 8  # instance, pane, count, sum
    both = merged_panes(SUMS, [kept, partial_of([(0, 1, None)])])
    assert [slot.tolist() for slot in both.slots] == [[3], [2], [5]]


@pytest.mark.parametrize(
    "key",
    [
        pytest.param(np.array([1, -1, 2**63 - 1]), id="integers"),
        pytest.param(np.array([True, False, True]), id="booleans"),
        pytest.param(pa.array(["a", "", "ä"]), id="texts"),
        pytest.param(pa.array(["a", "", "a"]).dictionary_encode(), id="texts with a dictionary"),
    ],
)
def test_a_table_is_the_same_after_arrow_also_when_sliced(key: object) -> None:
    slots = (np.array([1, 2, 3]), np.array([[1.0, 0.5, 0.25]] * 3), np.arange(12).reshape(3, 4))
    table = PaneTable(np.array([0, 1, 1]), np.array([-5, 0, 5]), (key,), slots)
    batch = table.to_arrow()
    assert PaneTable.from_arrow(batch).to_arrow().equals(batch)
    assert PaneTable.from_arrow(batch.slice(1, 2)).to_arrow().equals(batch.slice(1, 2))
    assert PaneTable.from_arrow(batch.slice(0, 0)).to_arrow().equals(batch.slice(0, 0))
    assert PaneTable.from_arrow(batch).where(np.array([True, False, True])).pane.tolist() == [-5, 5]
