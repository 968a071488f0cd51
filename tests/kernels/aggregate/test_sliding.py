"""Windows that slide have the same aggregates as windows that are merged one by one."""

import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.kernels.aggregate import sliding
from shoal.kernels.aggregate.closing import ClosedWindows, closed_windows
from shoal.kernels.aggregate.panes import PaneShape, PaneTable, merged_panes, repeated_keys
from shoal.kernels.aggregate.windowed import AggregateKernel
from shoal.kernels.columns.block import Block
from shoal.kernels.columns.table import INSTANCE
from shoal.model.query.aggregate import Aggregate, count, count_distinct, max_, mean, min_, stddev, sum_, top_k
from shoal.model.query.expression import col
from shoal.model.query.window import Window

AGGREGATES: tuple[tuple[str, Aggregate], ...] = (
    ("n", count()),
    ("present", count("x")),
    ("whole", sum_("i")),
    ("total", sum_("x")),
    ("average", mean("i")),
    ("low", min_("x")),
    ("high", max_("x")),
    ("least", min_("i")),
    ("most", max_("i")),
    ("fastest", top_k("x", 3)),
    ("largest", top_k("i", 2)),
)
FLOATS = st.sampled_from([None, 0.0, -0.0, 1.5, -2.25, 1e16, -1e16, 0.1, math.nan, math.inf])
ROWS = st.lists(
    st.tuples(st.integers(0, 1), st.sampled_from("ab"), st.integers(0, 24), FLOATS, st.integers(-(2**63), 2**63 - 1)),
    min_size=1,
    max_size=80,
)
"""Instance, key, pane and two values."""
Row = tuple[int, str, int, float | None, int]


def shape_of(span: int, aggregates: tuple[tuple[str, Aggregate], ...] = AGGREGATES) -> PaneShape:
    types = (("k", "string"), ("i", "int64"), ("x", "float64"))
    return PaneShape(("k",), Window(span, 1), aggregates, types, nullable=("x",))


def table_of(shape: PaneShape, rows: list[Row]) -> PaneTable:
    """The panes of some rows, from several blocks."""
    kernel = AggregateKernel(shape, "ts")
    parts = [rows[::2], rows[1::2]]
    return merged_panes(shape, [kernel.lift(0, _block(part))[0] for part in parts if part])


def _block(rows: list[Row]) -> Block:
    instance, k, ts, x, i = (list(column) for column in zip(*rows, strict=True))
    columns = {"ts": pa.array(ts), "k": pa.array(k), "x": pa.array(x, pa.float64()), "i": pa.array(i, pa.int64())}
    block = Block.from_arrow(pa.record_batch(columns))
    return Block({**block.columns, INSTANCE: np.array(instance)}, block.length)


def listed(closed: ClosedWindows) -> list[str]:
    """All windows as texts, in which NaN equals itself and a zero has its sign."""
    columns = [closed.instance, closed.window, *closed.columns.values()]
    values = [each.tolist() if isinstance(each, np.ndarray) else each.to_pylist() for each in columns]
    return sorted(map(repr, zip(*values, strict=True)))


@settings(deadline=None, max_examples=150)
@given(ROWS, st.integers(4, 12), st.integers(-3, 30), st.integers(0, 40), st.booleans())
def test_aggregates_are_those_of_windows_merged_one_by_one(
    rows: list[Row], span: int, first: int, length: int, selected: bool
) -> None:
    shape = shape_of(span)
    table, having = table_of(shape, rows), col("n") > 2 if selected else None
    found = listed(closed_windows(shape, table, first, first + length, having))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sliding, "FEWEST_PANES", 1000)
        assert found == listed(closed_windows(shape, table, first, first + length, having))


@pytest.mark.parametrize(
    ("aggregates", "span", "panes", "slides"),
    [
        pytest.param(AGGREGATES, 10, range(30), True, id="a row in every pane"),
        pytest.param(AGGREGATES, 3, range(30), False, id="windows of few panes"),
        pytest.param(AGGREGATES, 10, range(0, 10**6, 10**4), False, id="few rows in many panes"),
        pytest.param((("n", count_distinct("i")),), 10, range(30), False, id="sets"),
        pytest.param((("n", stddev("x")),), 10, range(30), False, id="squares"),
    ],
)
def test_windows_slide_where_their_keys_are_in_most_panes(
    aggregates: tuple[tuple[str, Aggregate], ...], span: int, panes: range, slides: bool
) -> None:
    shape = shape_of(span, aggregates)
    table = table_of(shape, [(0, "a", pane, 1.0, pane) for pane in panes])
    _, keys = repeated_keys(shape, table)
    assert (sliding.slid_values(shape, table, keys, 0, 2 * 10**6) is not None) == slides


@pytest.mark.parametrize(("windows", "slides"), [(3, False), (4, True)])
def test_few_windows_that_close_together_are_merged_one_by_one(windows: int, slides: bool) -> None:
    shape = shape_of(10)
    table = table_of(shape, [(0, "a", pane, 1.0, pane) for pane in range(30)])
    _, keys = repeated_keys(shape, table)
    assert (sliding.slid_values(shape, table, keys, 15, 14 + windows) is not None) == slides
