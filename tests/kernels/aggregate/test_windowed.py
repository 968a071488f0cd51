"""The windowed-aggregate kernel: late rows, closed windows, fragments."""

import tracemalloc
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from shoal.kernels.aggregate.panes import PaneShape
from shoal.kernels.aggregate.windowed import WINDOW_END, AggregateKernel
from shoal.kernels.columns.block import Block
from shoal.kernels.columns.table import INSTANCE
from shoal.kernels.kernel import FOREVER_US, NEVER_US
from shoal.model.query.aggregate import count, max_, mean, min_, sum_, top_k
from shoal.model.query.schema import TIME
from shoal.model.query.window import Window

Windows = dict[tuple[int, int], list[int]]
"""Values by instance and end of the window."""


def kernel_of(window: Window) -> AggregateKernel:
    shape = PaneShape((), window, (("n", count()), ("high", max_("v"))), (("v", "int64"),))
    return AggregateKernel(shape, "ts")


def block_of(rows: Sequence[tuple[int, int, int]]) -> Block:
    times, instances, values = (np.array([row[i] for row in rows], np.int64) for i in range(3))
    return Block({"ts": times, INSTANCE: instances, "v": values}, len(rows))


@dataclass
class PlainWindows:
    """Late rows by their rule: late iff the last window with the row has ended, else counted where still open."""

    window: Window
    watermark_us: int = NEVER_US
    open: Windows = field(default_factory=lambda: defaultdict(list))

    def ends(self, time: int) -> list[int]:
        size, slide = self.window.size_us, self.window.slide_us
        return [end for end in range(time - slide, time + size + 1) if end % slide == 0 and end - size <= time < end]

    def process(self, rows: Sequence[tuple[int, int, int]]) -> list[tuple[int, int, int]]:
        late = []
        for time, instance, value in rows:
            still_open = [end for end in self.ends(time) if end > self.watermark_us]
            for end in still_open:
                self.open[instance, end].append(value)
            if not still_open:
                late.append((time, instance, value))
        return late

    def close_until(self, watermark_us: int) -> list[tuple[int, int, int, int]]:
        closed = [key for key in self.open if key[1] <= watermark_us]
        self.watermark_us = max(self.watermark_us, watermark_us)
        results = [(key, self.open.pop(key)) for key in closed]
        return sorted((*key, len(values), max(values)) for key, values in results)


def results_of(block: Block) -> list[tuple[int, ...]]:
    if not block.length:
        return []
    columns = [block.columns[name].tolist() for name in (INSTANCE, WINDOW_END, "n", "high")]
    return sorted(zip(*columns, strict=True))


WINDOWS = st.builds(lambda slide, panes: Window(slide * panes, slide), st.integers(1, 7), st.integers(1, 5))
ROWS = st.lists(st.tuples(st.integers(-40, 40), st.integers(0, 2), st.integers(-9, 9)), max_size=8)
STEPS = st.lists(st.tuples(ROWS, st.integers(-60, 60)), max_size=8)


@settings(deadline=None, max_examples=150)
@given(WINDOWS, STEPS)
def test_rows_are_late_for_closed_windows_only(
    window: Window, steps: list[tuple[list[tuple[int, int, int]], int]]
) -> None:
    kernel, plain = kernel_of(window), PlainWindows(window)
    state = kernel.open()
    for rows, watermark_us in [*steps, ([], FOREVER_US)]:
        late = kernel.process(state, block_of(rows))
        got = list(zip(*(late.columns[name].tolist() for name in ("ts", INSTANCE, "v")), strict=True))
        assert got == plain.process(rows)
        assert results_of(kernel.close_until(state, watermark_us)) == plain.close_until(watermark_us)
        assert state.watermark_us == plain.watermark_us
    assert not len(state.tables[0])


def test_a_row_behind_the_watermark_counts_in_its_open_windows() -> None:
    kernel = kernel_of(Window(30, 10))
    state = kernel.open()
    kernel.process(state, block_of([(25, 0, 1)]))
    assert results_of(kernel.close_until(state, 30)) == [(0, 30, 1, 1)]
    late = kernel.process(state, block_of([(5, 0, 9), (11, 0, 7)]))
    assert late.columns["ts"].tolist() == [5]
    assert results_of(kernel.close_until(state, FOREVER_US)) == [(0, 40, 2, 7), (0, 50, 1, 1)]


def test_a_watermark_that_goes_back_changes_nothing() -> None:
    kernel = kernel_of(Window(30, 10))
    state = kernel.open()
    kernel.process(state, block_of([(25, 0, 1)]))
    kernel.close_until(state, 40)
    assert not kernel.close_until(state, -100).length
    assert state.watermark_us == 40
    assert results_of(kernel.close_until(state, FOREVER_US)) == [(0, 50, 1, 1)]


def test_windows_before_1970_are_aligned_to_it() -> None:
    kernel = kernel_of(Window(10, 10))
    state = kernel.open()
    kernel.process(state, block_of([(-1, 0, 1), (-10, 0, 2), (-11, 0, 3), (0, 0, 4)]))
    assert results_of(kernel.close_until(state, 0)) == [(0, -10, 1, 3), (0, 0, 2, 2)]


def test_a_name_that_another_column_has_elsewhere_is_free_for_keys_and_aggregates() -> None:
    shape = PaneShape(
        ("instance", "window"),
        Window(10, 10),
        (("pane", count()),),
        (("instance", "int64"), ("window", "string")),
    )
    kernel = AggregateKernel(shape, "ts")
    state = kernel.open()
    columns = {"ts": np.array([3]), INSTANCE: np.array([2]), "instance": np.array([77]), "window": pa.array(["w"])}
    kernel.process(state, Block(columns, 1))
    results = kernel.close_until(state, FOREVER_US)
    assert {name: list(column) for name, column in results.columns.items()} == {
        INSTANCE: [2],
        "instance": [77],
        "window": [pa.scalar("w")],
        "pane": [1],
        WINDOW_END: [10],
        TIME: [9],
    }


@pytest.mark.parametrize(
    ("block_rows", "rows"),
    [
        pytest.param([], 0, id="no rows"),
        pytest.param([(0, 0, 1), (0, 1, 1)], 2, id="one row per instance"),
        pytest.param([(0, 0, 1), (1, 0, 1)], 1, id="rows of one pane share one"),
    ],
)
def test_state_has_one_row_per_instance_and_pane(block_rows: list[tuple[int, int, int]], rows: int) -> None:
    kernel = kernel_of(Window(10, 10))
    state = kernel.open()
    kernel.process(state, block_of(block_rows))
    kernel.process(state, block_of(block_rows))
    assert len(kernel.fragments(state)) == len(state.tables[0]) == rows
    assert kernel.fragments(state).state_bytes.sum() == state.tables[0].nbytes


def test_absorbing_a_fragment_twice_counts_it_twice() -> None:
    kernel = kernel_of(Window(10, 10))
    state = kernel.open()
    kernel.process(state, block_of([(0, 0, 5)]))
    kernel.absorb(state, state.tables)
    assert results_of(kernel.close_until(state, FOREVER_US)) == [(0, 10, 2, 5)]


def test_long_tops_of_few_keys_far_apart_need_no_memory_for_the_keys_between() -> None:
    shape = PaneShape(("key",), Window(10, 10), (("top", top_k("v", 1_024)),), (("key", "int64"), ("v", "int64")))
    kernel = AggregateKernel(shape, "ts")
    rows = 50
    columns = {"ts": np.zeros(rows, np.int64), INSTANCE: np.zeros(rows, np.int64), "v": np.arange(rows)}
    block = Block({**columns, "key": np.arange(rows) * 1_000}, rows)
    tracemalloc.start()
    state = kernel.open()
    kernel.process(state, block)
    kernel.process(state, block)
    results = kernel.close_until(state, FOREVER_US)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert results.columns["top"].to_pylist() == [[v, v] for v in results.columns["key"] // 1_000]
    assert peak < 20_000_000


FLOATS = st.sampled_from([0.0, -0.0, 1.5, -2.25, 1e300, float("nan"), float("inf"), float("-inf")])
KEYED = st.lists(st.tuples(st.integers(0, 20), st.integers(0, 3), st.integers(-4, 4), FLOATS), min_size=1, max_size=12)


@settings(deadline=None, max_examples=60)
@given(st.lists(KEYED, min_size=1, max_size=4), st.sampled_from([Window(7, 7), Window(12, 4)]))
def test_rows_lifted_singly_give_the_results_of_rows_that_were_grouped(
    blocks: list[list[tuple[int, int, int, float]]], window: Window
) -> None:
    of = {"n": count(), "i": sum_("i"), "low": min_("v"), "high": max_("v"), "total": sum_("v"), "mean": mean("i")}
    types = (("key", "int64"), ("i", "int64"), ("v", "float64"))
    kernel = AggregateKernel(PaneShape(("key",), window, tuple(of.items()), types), "ts")
    closed = []
    for lift in (kernel.lift, kernel.lift_singly):
        lifted = [lift(0, keyed_block(rows)) for rows in blocks]
        state, _ = kernel.advance({}, kernel.concatenated(lifted), NEVER_US, NEVER_US)
        _, results = kernel.advance(state, {}, NEVER_US, FOREVER_US)
        order = np.lexsort((results.columns["key"], results.columns[WINDOW_END]))
        closed.append({name: bits(column[order]) for name, column in results.columns.items()})
    assert closed[0] == closed[1], "the same bits"


def bits(column: NDArray[Any]) -> list[int]:
    """The bits of numbers; all NaN are equal."""
    same = np.where(np.isnan(column), np.nan, column) if column.dtype == np.float64 else column
    bits_: list[int] = same.view(np.int64).tolist()
    return bits_


def keyed_block(rows: Sequence[tuple[int, int, int, float]]) -> Block:
    times, keys, integers, floats = (np.array(column) for column in zip(*rows, strict=True))
    return Block({"ts": times, INSTANCE: keys % 2, "key": keys, "i": integers, "v": floats}, len(rows))


def test_rows_lifted_singly_keep_no_memory_of_the_block_once_they_are_owned() -> None:
    kernel = kernel_of(Window(10, 10))
    memory = np.arange(6).reshape(3, 2)
    block = Block(dict(zip(("ts", INSTANCE, "v"), memory, strict=True)), 2)
    table = kernel.lift_singly(0, block)[0].owned()
    memory[:] = 99
    assert (table.instance.tolist(), table.pane.tolist(), table.slots[1].tolist()) == ([2, 3], [0, 0], [4, 5])


@settings(deadline=None, max_examples=150)
@given(WINDOWS, ROWS, st.integers(-60, 60), st.one_of(st.integers(-60, 60), st.just(FOREVER_US)))
def test_windows_that_close_are_counted_from_the_first_with_a_row_to_the_last(
    window: Window, rows: list[tuple[int, int, int]], before_us: int, after_us: int
) -> None:
    before_us, after_us = sorted((before_us, after_us))
    kernel, timely = kernel_of(window), [row for row in rows if row[0] >= before_us]
    fresh = kernel.lift(0, block_of(timely)) if timely else {}
    ends = [end for time, _, _ in timely for end in PlainWindows(window).ends(time)]
    between = range(min(ends, default=0), max(ends, default=-1) + 1, window.slide_us)
    assert kernel.closings([{}, fresh], before_us, after_us) == sum(before_us < end <= after_us for end in between)
