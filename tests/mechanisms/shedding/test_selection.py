"""Selections against brute force, and their limits."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.errors import ConfigError, MechanismError
from shoal.mechanisms.shedding.selection import (
    SELECTIONS,
    FptasSelection,
    GreedySelection,
    OptimalSelection,
    RandomSelection,
    Selection,
    selection_named,
)

SIZES = st.one_of(st.integers(0, 30), st.integers(0, 5000))
UTILITIES = st.one_of(st.integers(0, 20).map(float), st.floats(0, 1e6), st.just(0.0))
ITEMS = st.lists(st.tuples(UTILITIES, SIZES), max_size=9)
every_selection = pytest.mark.parametrize("selection", SELECTIONS.values(), ids=SELECTIONS)


def columns(items: list[tuple[float, int]]) -> tuple[np.ndarray, np.ndarray]:
    return np.array([u for u, _ in items], np.float64), np.array([s for _, s in items], np.int64)


def best(worth: np.ndarray, sizes: np.ndarray, capacity: int) -> float:
    """The largest total worth of all subsets that fit."""
    subsets = np.array(list(product((0, 1), repeat=worth.size)), np.int64).reshape(2**worth.size, worth.size)
    return float((subsets @ worth)[subsets @ sizes <= capacity].max())


@settings(deadline=None, max_examples=60)
@given(ITEMS, st.integers(0, 8000), st.sampled_from([None, 1, 7, 100]))
def test_optimal_is_the_best_choice_for_scaled_utilities(
    items: list[tuple[float, int]], capacity: int, levels: int | None
) -> None:
    utility, sizes = columns(items)
    chosen = OptimalSelection(levels)
    level = chosen.scaled(utility, sizes, capacity)
    mask, greedy = (each.choose(utility, sizes, capacity).mask for each in (chosen, GreedySelection()))
    assert level[mask].sum() == best(level, sizes, capacity) or np.array_equal(mask, greedy)
    assert utility[mask].sum() >= utility[greedy].sum()


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 2**32), st.integers(1, 3), st.floats(0.0, 1.0))
def test_optimal_is_the_best_choice_of_many_fragments(seed: int, levels: int, share: float) -> None:
    draw = np.random.default_rng(seed)
    utility, sizes = draw.random(60) * 9, draw.integers(0, 40, 60)
    capacity = int(share * sizes.sum())
    level = OptimalSelection(levels).scaled(utility, sizes, capacity)
    most = np.zeros(capacity + 1, np.int64)
    for worth, size in zip(level.tolist(), sizes.tolist(), strict=True):
        if size <= capacity:
            most[size:] = np.maximum(most[size:], most[: most.size - size] + worth)
    mask, greedy = (
        each.choose(utility, sizes, capacity).mask for each in (OptimalSelection(levels), GreedySelection())
    )
    assert level[mask].sum() == most[-1] or np.array_equal(mask, greedy)


@settings(deadline=None, max_examples=60)
@given(ITEMS, st.integers(0, 8000), st.floats(0.03, 0.99))
def test_fptas_has_its_share_of_the_best_utility(items: list[tuple[float, int]], capacity: int, theta: float) -> None:
    utility, sizes = columns(items)
    found = utility[FptasSelection(theta).choose(utility, sizes, capacity).mask].sum()
    assert found >= (1 - theta) * best(utility, sizes, capacity) * (1 - 1e-12)


@settings(deadline=None, max_examples=60)
@given(ITEMS, st.integers(0, 8000))
def test_greedy_has_at_least_half_of_the_best_utility(items: list[tuple[float, int]], capacity: int) -> None:
    utility, sizes = columns(items)
    found = utility[GreedySelection().choose(utility, sizes, capacity).mask].sum()
    assert found >= best(utility, sizes, capacity) / 2 * (1 - 1e-12)


@settings(deadline=None, max_examples=60)
@given(st.lists(st.integers(0, 30), max_size=30), st.integers(1, 50), st.integers(0, 800))
def test_greedy_and_optimal_choose_the_same_fragments_of_equal_size(worth: list[int], size: int, capacity: int) -> None:
    utility, sizes = np.array(worth, np.float64), np.full(len(worth), size)
    greedy, optimal = (each.choose(utility, sizes, capacity) for each in (GreedySelection(), OptimalSelection()))
    assert greedy.mask.tolist() == optimal.mask.tolist()
    assert greedy.order.tolist() == optimal.order.tolist()


@every_selection
def test_a_choice_fits_and_leaves_no_fragment_out_that_would_fit(selection: Selection) -> None:
    @settings(deadline=None, max_examples=40)
    @given(ITEMS, st.integers(0, 8000))
    def holds(items: list[tuple[float, int]], capacity: int) -> None:
        utility, sizes = columns(items)
        mask = selection.choose(utility, sizes, capacity).mask
        left = capacity - sizes[mask].sum()
        assert left >= 0
        assert (sizes[~mask] > left).all()

    holds()


@every_selection
def test_all_fragments_are_sent_the_chosen_ones_first(selection: Selection) -> None:
    @settings(deadline=None, max_examples=40)
    @given(ITEMS, st.integers(0, 8000))
    def holds(items: list[tuple[float, int]], capacity: int) -> None:
        utility, sizes = columns(items)
        choice = selection.choose(utility, sizes, capacity)
        number = int(choice.mask.sum())
        assert sorted(choice.order.tolist()) == list(range(utility.size))
        assert choice.mask[choice.order[:number]].all()
        assert (choice.arrived(sizes, capacity) >= choice.mask).all()
        assert choice.arrived(sizes, int(sizes.sum())).all()

    holds()


@pytest.mark.parametrize(
    "selection", [GreedySelection(), OptimalSelection(), FptasSelection()], ids=lambda each: each.name
)
def test_chosen_and_other_fragments_are_each_sent_best_first(selection: Selection) -> None:
    draw = np.random.default_rng(5)
    utility, sizes = draw.random(50), draw.integers(1, 90, 50)
    choice = selection.choose(utility, sizes, int(sizes.sum()) // 2)
    density = (utility / sizes)[choice.order]
    cut = int(choice.mask.sum())
    assert 0 < cut < 50
    assert (np.diff(density[:cut]) <= 0).all()
    assert (np.diff(density[cut:]) <= 0).all()


def test_one_very_useful_fragment_is_preferred_to_many_that_are_dense() -> None:
    utility, sizes = np.array([2.0, 100.0]), np.array([1, 100])
    assert GreedySelection().choose(utility, sizes, 100).mask.tolist() == [False, True]


@every_selection
def test_without_capacity_only_fragments_without_bytes_are_chosen(selection: Selection) -> None:
    choice = selection.choose(np.array([1.0, 0.0, 3.0]), np.array([5, 0, 0]), 0)
    assert choice.mask.tolist() == [False, True, True]


@every_selection
def test_a_fragment_larger_than_the_capacity_is_not_chosen(selection: Selection) -> None:
    choice = selection.choose(np.array([1000.0, 1.0]), np.array([11, 3]), 10)
    assert choice.mask.tolist() == [False, True]


@every_selection
@pytest.mark.parametrize(
    ("utility", "sizes", "capacity", "message"),
    [
        pytest.param([1.0, -2.0], [1, 1], 1, "utility of fragment number 1 must be 0 or more and finite; got -2.0"),
        pytest.param([float("nan")], [1], 1, "utility of fragment number 0 must be 0 or more and finite; got nan"),
        pytest.param([float("inf")], [1], 1, "utility of fragment number 0 must be 0 or more and finite; got inf"),
        pytest.param([1.0], [-4], 1, "size of fragment number 0 must be 0 bytes or more; got -4"),
        pytest.param([1.0], [1], -1, "capacity of a transfer must be 0 bytes or more; got -1"),
        pytest.param([1.0], [1, 2], 1, "fragments must have a utility and a size each; got 1 utilities and 2 sizes"),
    ],
    ids=["negative utility", "utility NaN", "infinite utility", "negative size", "negative capacity", "lengths"],
)
def test_what_cannot_be_chosen_from_is_rejected(
    selection: Selection, utility: list[float], sizes: list[int], capacity: int, message: str
) -> None:
    with pytest.raises(MechanismError, match=message):
        selection.choose(np.array(utility), np.array(sizes), capacity)


def test_random_choices_differ_by_seed_only() -> None:
    utility, sizes = np.arange(40.0), np.ones(40, np.int64)
    orders = [RandomSelection(seed).choose(utility, sizes, 9).order.tolist() for seed in (1, 1, 2)]
    assert orders[0] == orders[1] != orders[2]


def test_settings_beyond_their_limits_are_rejected() -> None:
    with pytest.raises(ConfigError, match=r"theta of selection fptas must be at least 0\.03 and below 1; got 1"):
        FptasSelection(1)
    with pytest.raises(ConfigError, match="levels of selection optimal must be from 1 to 100; got 0"):
        OptimalSelection(0)
    with pytest.raises(ConfigError, match="selection must be one of greedy, optimal, fptas, random; got 'best'"):
        selection_named("best")
