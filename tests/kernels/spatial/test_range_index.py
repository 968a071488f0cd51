"""The index of ranges against brute force: any cells, sizes, lifetimes and numbers of ranges."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from shoal.kernels.spatial.point_block import PointBlock, keys_of
from shoal.kernels.spatial.range_index import RangeIndex

Floats = NDArray[np.float64]
Columns = dict[str, Any]
SIZES: dict[str, Callable[[np.random.Generator, int], Floats]] = {
    "equal": lambda draw, n: np.full((n, 2), 0.01),
    "tiny": lambda draw, n: np.zeros((n, 2)),
    "of all orders": lambda draw, n: 10 ** draw.uniform(-4, 0.5, (n, 2)),
    "long and thin": lambda draw, n: np.column_stack([draw.uniform(0.5, 2, n), draw.uniform(0, 0.002, n)]),
    "small, some huge": lambda draw, n: np.where(draw.random((n, 1)) < 0.05, 50.0, 0.01) * np.ones((n, 2)),
}


def ranges(seed: int, count: int, groups: int, sizes: str) -> Columns:
    """Ranges of several instances and cells, most of them around a place of their group."""
    draw = np.random.default_rng(seed)
    middle, size = draw.random((count, 2)) * draw.choice([1.0, 0.05]), SIZES[sizes](draw, count)
    since = draw.integers(0, 10, count)
    group = draw.integers(0, groups, count)
    return {
        "instance": group % 3,
        "cell": group // 3,
        "box": np.column_stack([middle - size / 2, middle + size / 2]),
        "since": since,
        "until": since + draw.integers(0, 10, count),
    }


def points(seed: int, count: int, groups: int, given: Columns) -> Columns:
    """Points of the same space and beyond, some of them corners of ranges."""
    draw = np.random.default_rng(seed + 1)
    place = draw.uniform(-0.2, 1.2, (count, 2))
    boxes: Floats = given["box"]
    if len(boxes):
        corners = boxes[draw.integers(0, len(boxes), count)][:, [0, 1]]
        place = np.where(draw.random((count, 1)) < 0.3, corners, place)
    group = draw.integers(0, groups + 3, count)
    return {
        "instance": group % 3,
        "cell": group // 3,
        "x": place[:, 0].copy(),
        "y": place[:, 1].copy(),
        "time": draw.integers(0, 20, count),
    }


def expected(given: Columns, wanted: Columns, *, degrees: bool = False) -> set[tuple[int, int]]:
    """All pairs, by comparing everything with everything."""
    box: Floats = given["box"]
    p = {name: column[:, None] for name, column in wanted.items()}
    across = (box[:, 0] <= p["x"]) & (p["x"] <= box[:, 2])
    if degrees:
        across |= (box[:, 0] > box[:, 2]) & ((p["x"] >= box[:, 0]) | (p["x"] <= box[:, 2]))
    inside = across & (box[:, 1] <= p["y"]) & (p["y"] <= box[:, 3])
    same = (given["instance"] == p["instance"]) & (given["cell"] == p["cell"])
    alive = (given["since"] <= p["time"]) & (p["time"] < given["until"])
    return set(zip(*(rows.tolist() for rows in np.nonzero(inside & same & alive)), strict=True))


def found(index: RangeIndex, wanted: Columns) -> set[tuple[int, int]]:
    """The pairs that an index finds, each once."""
    pairs = list(zip(*(rows.tolist() for rows in index.matches(**wanted)), strict=True))
    assert len(set(pairs)) == len(pairs)
    return set(pairs)


@settings(deadline=None, max_examples=60)
@given(
    st.integers(0, 1 << 30),
    st.sampled_from([0, 1, 25, 60, 700]),
    st.sampled_from([1, 5, 40]),
    st.sampled_from(sorted(SIZES)),
)
def test_every_pair_of_a_cell_is_found_once(seed: int, count: int, groups: int, sizes: str) -> None:
    given = ranges(seed, count, groups, sizes)
    wanted = points(seed, 200, groups, given)
    assert found(RangeIndex.of(**given), wanted) == expected(given, wanted)


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 1 << 30), st.sampled_from([9, 60, 300]))
def test_ranges_across_the_date_line_are_found_on_both_sides(seed: int, count: int) -> None:
    draw = np.random.default_rng(seed)
    given = ranges(seed, count, 2, "of all orders")
    west, east = draw.uniform(170, 180, count), draw.uniform(-180, -170, count)
    crossing = draw.random(count) < 0.5
    given["box"][:, 0] = np.where(crossing, west, np.minimum(west, 175.0))
    given["box"][:, 2] = np.where(crossing, east, 180.0)
    wanted = points(seed, 200, 2, given)
    wanted["x"] = np.where(draw.random(200) < 0.5, draw.uniform(170, 180, 200), draw.uniform(-180, -170, 200))
    assert found(RangeIndex.of(**given, degrees=True), wanted) == expected(given, wanted, degrees=True)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_ranges_and_points_that_are_not_finite_disturb_nothing(value: float) -> None:
    given = ranges(7, 300, 2, "equal")
    wanted = points(7, 300, 2, given)
    given["box"][::7, 0] = value
    given["box"][::11, 3] = value
    wanted["x"][::5] = value
    assert found(RangeIndex.of(**given), wanted) == expected(given, wanted)


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 1 << 30), st.sampled_from([1, 40, 700]), st.sampled_from(sorted(SIZES)))
def test_equal_ranges_are_found_by_their_corner(seed: int, count: int, sizes: str) -> None:
    given = ranges(seed, count, 5, sizes)
    again = np.random.default_rng(seed).integers(0, count, 50)
    index = RangeIndex.of(**given)
    rows, at = index.equal(keys_of(given["instance"], given["cell"])[again], given["box"][again], given["since"][again])
    assert index.order is not None
    assert set(zip(again[rows].tolist(), index.order[at].tolist(), strict=True)) >= {
        (row, row) for row in again.tolist()
    }
    assert (given["box"][again[rows]] == index.box[at]).all()


@pytest.mark.parametrize("sizes", ["equal", "tiny", "small, some huge"])
def test_a_point_in_a_crowded_cell_is_compared_with_few_ranges(sizes: str) -> None:
    given = ranges(3, 50_000, 1, sizes)
    layout = RangeIndex.of(**given).layout
    finest = layout.levels[-1]
    rows = np.diff(layout.starts)[finest[4] :]
    assert rows.mean() * (finest[2] + 1) * (finest[3] + 1) < 100
    assert layout.nbytes < 10 * 50_000


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 1 << 30), st.sampled_from([1, 25, 700]), st.sampled_from([1, 40]), st.sampled_from(sorted(SIZES)))
def test_a_point_meets_the_ranges_that_match_it_and_none_of_another_cell(
    seed: int, count: int, groups: int, sizes: str
) -> None:
    given = ranges(seed, count, groups, sizes)
    wanted = points(seed, 200, groups, given)
    met = RangeIndex.of(**given).met(PointBlock.of(**wanted))
    keys, ours = keys_of(given["instance"], given["cell"]), keys_of(wanted["instance"], wanted["cell"])
    in_cell = np.array([np.count_nonzero(keys == key) for key in ours])
    matching = np.bincount([point for point, _ in expected(given, wanted)], minlength=200)
    assert (matching <= met).all()
    assert (met <= in_cell).all()
    few = in_cell <= 12  # such a cell has no finer grid
    assert (met[few] == in_cell[few]).all()
