"""Running values: the order of events, blocks and merges does not change a result, down to the last bit."""

import math
import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.kernels.aggregate.slots import (
    FilledCells,
    Slot,
    partial_values,
    result_column,
    result_columns,
    slot_of,
    slots_of,
)
from shoal.kernels.columns.block import Block
from shoal.model.query.aggregate import Aggregate, count, count_distinct, max_, mean, min_, sum_, top_k


def aggregated(aggregate: Aggregate, parts: Sequence[Sequence[Any]], type_: str = "float64") -> Any:
    """The result of an aggregate for one cell whose events are in several parts, merged in turn."""
    slot = slot_of(aggregate, {"v": type_})
    into, counts = slot.empty(1), np.zeros(1, np.int64)
    for part in parts:
        values = slot.empty(1)
        slot.add(np.zeros(len(part), np.int64), np.array(part, type_), values)
        both = np.concatenate([into, values])
        both_counts = np.array([counts[0], len(part)])
        into = slot.empty(1)
        slot.merge(np.arange(2), np.zeros(2, np.int64), both, both_counts, into)
        counts += len(part)
    result = result_column(aggregate, slot, into, counts)
    return result.to_pylist()[0] if isinstance(result, pa.Array) else result.tolist()[0]


def in_many_ways(values: Sequence[Any], seed: int, ways: int = 6) -> list[list[list[Any]]]:
    """The same values in other orders and cut into other parts."""
    draw = random.Random(seed)
    found = [[list(values)], [[value] for value in values]]
    for _ in range(ways):
        shuffled = draw.sample(list(values), len(values))
        cuts = sorted(draw.randrange(len(values) + 1) for _ in range(draw.randrange(4)))
        found.append([shuffled[a:b] for a, b in zip([0, *cuts], [*cuts, len(values)], strict=True)])
    return found


def cancelling(draw: st.DrawFn, magnitudes: st.SearchStrategy[float]) -> list[float]:
    """Values that mostly cancel, so that the sum is far smaller than its addends."""
    values = draw(st.lists(magnitudes, min_size=1, max_size=30))
    taken_back = [-value for value in values if draw(st.booleans())]
    return [*values, *taken_back]


WIDE = st.builds(
    lambda sign, digits, exponent: sign * digits * 10.0**exponent,
    st.sampled_from([1, -1]),
    st.floats(1, 10, exclude_max=True),
    st.integers(-10, 10),
)


@st.composite
def wide_values(draw: st.DrawFn) -> list[float]:
    return cancelling(draw, WIDE)


@settings(deadline=None, max_examples=150)
@given(wide_values(), st.integers(0, 2**32))
def test_a_float_sum_over_twenty_orders_of_magnitude_is_exact_in_every_order(values: list[float], seed: int) -> None:
    exact = math.fsum(values)
    for parts in in_many_ways(values, seed):
        assert aggregated(sum_("v"), parts) == exact
        assert aggregated(mean("v"), parts) == exact / len(values)


def test_a_sum_of_a_million_floats_over_ten_orders_of_magnitude_is_exact_in_every_order() -> None:
    draw = np.random.default_rng(3)
    values = draw.uniform(1, 10, 1_000_000) * 10.0 ** draw.integers(-5, 6, 1_000_000) * draw.choice([-1, 1], 1_000_000)
    exact = math.fsum(values)
    shuffled = np.array_split(draw.permutation(values), 37)
    assert aggregated(sum_("v"), [values.tolist()]) == exact
    assert aggregated(sum_("v"), [part.tolist() for part in shuffled]) == exact
    assert aggregated(sum_("v"), [sorted(values.tolist())]) == exact


def test_a_remainder_of_three_magnitudes_is_exact_in_every_order() -> None:
    values = [1.0, 2.0**-60, 2.0**-120, -1.0, -(2.0**-60)]
    for parts in in_many_ways(values, seed=1, ways=300):
        assert aggregated(sum_("v"), parts) == 2.0**-120


@settings(deadline=None, max_examples=100)
@given(
    st.lists(st.sampled_from([math.inf, -math.inf, math.nan, 1.0, -1e300, 0.0]), min_size=1, max_size=6),
    st.integers(0, 2**32),
)
def test_a_sum_with_infinities_is_infinite_and_with_both_is_not_a_number(values: list[float], seed: int) -> None:
    wanted = repr(float(sum(values)))
    for parts in in_many_ways(values, seed):
        assert repr(aggregated(sum_("v"), parts)) == wanted


LIMITS = [-(2**63), 2**63 - 1, -1, 0, 1]


@settings(deadline=None, max_examples=100)
@given(st.lists(st.one_of(st.sampled_from(LIMITS), st.integers(-9, 9)), min_size=1, max_size=12), st.integers(0, 99))
def test_integers_at_the_limits_of_64_bits_have_the_right_extremes(values: list[int], seed: int) -> None:
    for parts in in_many_ways(values, seed, ways=3):
        assert aggregated(min_("v"), parts, "int64") == min(values)
        assert aggregated(max_("v"), parts, "int64") == max(values)
        assert aggregated(top_k("v", 3), parts, "int64") == sorted(values, reverse=True)[:3]
        assert aggregated(sum_("v"), parts, "int64") == (sum(values) + 2**63) % 2**64 - 2**63
        assert aggregated(mean("v"), parts, "int64") == math.fsum(map(float, values)) / len(values)


def nan_last(value: float) -> tuple[bool, float]:
    return (True, 0.0) if math.isnan(value) else (False, value)


@settings(deadline=None, max_examples=150)
@given(
    st.lists(
        st.one_of(st.sampled_from([math.nan, math.inf, -math.inf, 0.0, -0.0, -1.0]), st.floats()),
        min_size=1,
        max_size=12,
    ),
    st.integers(1, 5),
    st.integers(0, 99),
)
def test_floats_have_the_same_extremes_in_every_order_with_nan_as_the_largest(
    values: list[float], k: int, seed: int
) -> None:
    ordered = sorted((value + 0.0 for value in values), key=nan_last)
    for parts in in_many_ways(values, seed, ways=3):
        assert repr(aggregated(min_("v"), parts)) == repr(ordered[0])
        assert repr(aggregated(max_("v"), parts)) == repr(ordered[-1])
        assert repr(aggregated(top_k("v", k), parts)) == repr(ordered[::-1][:k])


@pytest.mark.parametrize(
    ("values", "k", "wanted"),
    [
        pytest.param([5, 5, 5, 4], 3, [5, 5, 5], id="ties count towards k"),
        pytest.param([-5, -7, -1], 2, [-1, -5], id="negative values are not beaten by empty entries"),
        pytest.param([3], 4, [3], id="fewer values than k"),
        pytest.param([1, 2, 3, 4, 5], 1, [5], id="k of one"),
        pytest.param(list(range(2_000)), 1_024, list(range(1_999, 975, -1)), id="the largest k"),
    ],
)
def test_top_k_keeps_the_largest_first(values: list[int], k: int, wanted: list[int]) -> None:
    for parts in in_many_ways(values, 1):
        assert aggregated(top_k("v", k), parts, "int64") == wanted
        assert aggregated(top_k("v", k), parts, "float64") == wanted


@pytest.mark.parametrize(
    ("aggregates", "wanted"),
    [
        pytest.param([count()], [Slot("count")], id="a count is always kept, once"),
        pytest.param(
            [mean("x"), sum_("x")], [Slot("count"), Slot("sum", "x", "float64")], id="mean and sum of floats share"
        ),
        pytest.param(
            [mean("i"), sum_("i")],
            [Slot("count"), Slot("sum", "i", "float64"), Slot("sum", "i")],
            id="a mean of integers has a float sum of its own",
        ),
        pytest.param(
            [top_k("x", 2), top_k("x", 3)],
            [Slot("count"), Slot("top", "x", "float64", 2), Slot("top", "x", "float64", 3)],
            id="tops of different depth do not share",
        ),
        pytest.param(
            [sum_("maybe"), count("maybe"), count_distinct("maybe"), count("x")],
            [Slot("count"), Slot("present", "maybe"), Slot("sum", "maybe"), Slot("set", "maybe", "object")],
            id="the values of a column that may be null are counted, once",
        ),
        pytest.param([min_("ts")], [Slot("count"), Slot("min", "ts")], id="times are integers"),
    ],
)
def test_aggregates_share_their_running_values(aggregates: list[Aggregate], wanted: list[Slot]) -> None:
    types = {"x": "float64", "i": "int64", "ts": "timestamp", "maybe": "int64"}
    assert slots_of(aggregates, types, {"maybe"}) == tuple(wanted)


def test_values_of_a_block_without_nulls_are_not_counted_again() -> None:
    slots = slots_of([sum_("v")], {"v": "int64"}, {"v"})
    values = partial_values(slots, FilledCells.of(np.array([0, 1, 0]), 2), Block({"v": np.array([1, 2, 3])}, 3))
    assert values[1] is values[0]


def test_values_are_counted_where_a_block_has_nulls_and_null_is_the_result_of_none() -> None:
    aggregates = [
        ("n", count("v")),
        ("sum", sum_("v")),
        ("mean", mean("v")),
        ("low", min_("v")),
        ("top", top_k("v", 2)),
    ]
    slots = slots_of([each for _, each in aggregates], {"v": "int64"}, {"v"})
    block = Block.from_arrow(pa.record_batch({"v": pa.array([1, None, 3, None], pa.int64())}))
    values = partial_values(slots, FilledCells.of(np.array([0, 1, 0, 1]), 2), block)
    columns = result_columns(aggregates, {"v": "int64"}, slots, values)
    assert columns.pop("n").tolist() == [2, 0]
    assert {name: column.to_pylist() for name, column in columns.items()} == {
        "sum": [4, None],
        "mean": [2.0, None],
        "low": [1, None],
        "top": [[3, 1], []],
    }


def test_a_mean_of_large_integers_does_not_wrap_around() -> None:
    assert aggregated(mean("v"), [[2**62] * 8], "int64") == 2.0**62
