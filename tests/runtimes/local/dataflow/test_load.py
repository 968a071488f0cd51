"""Loads: the time of a turn goes to the instances that caused it."""

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.runtimes.local.dataflow.load import Ints, LaneLoad, Prices

COUNTS = st.lists(st.integers(0, 50), min_size=3, max_size=3)


def rows_of(counts: list[int]) -> Ints:
    return np.repeat(np.arange(len(counts)), counts)


def turn(load: LaneLoad, received: list[int], kept: list[int], emitted: list[int], cost_s: float) -> None:
    load.take(rows_of(received))
    load.merge(np.array(received), np.array(kept), rows_of(emitted))
    load.charge(cost_s)


def test_the_only_instance_of_a_turn_has_all_of_its_time() -> None:
    load = LaneLoad(3)
    turn(load, [0, 7, 0], [0, 2, 0], [0, 1, 0], 0.5)
    turn(load, [9, 0, 0], [0, 0, 0], [0, 0, 0], 0.25)
    assert load.cost_s.tolist() == [0.25, 0.5, 0.0]
    assert load.events.tolist() == [9, 7, 0]
    assert load.results.tolist() == [0, 1, 0]


@given(st.lists(st.tuples(COUNTS, COUNTS, COUNTS, st.floats(0, 10)), max_size=20))
def test_all_time_of_turns_with_rows_is_given_to_instances_that_had_some(
    turns: list[tuple[list[int], list[int], list[int], float]],
) -> None:
    load, spent_s = LaneLoad(3), 0.0
    for received, kept, emitted, cost_s in turns:
        turn(load, received, kept, emitted, cost_s)
        spent_s += cost_s if sum(received) + sum(kept) + sum(emitted) else 0.0
    assert load.cost_s.sum() == pytest.approx(spent_s)
    assert (load.cost_s >= 0).all()
    had_rows = np.zeros(3, bool)
    for received, kept, emitted, _ in turns:
        had_rows |= np.array([received, kept, emitted]).any(axis=0)
    assert not load.cost_s[~had_rows].any()
    assert load.events.tolist() == [sum(received[instance] for received, *_ in turns) for instance in range(3)]


def test_a_turn_in_which_nothing_happened_costs_no_instance_anything() -> None:
    load = LaneLoad(2)
    load.charge(1.0)
    assert load.cost_s.tolist() == [0.0, 0.0]


@pytest.mark.parametrize(
    ("row_s", "comparison_s"),
    [
        pytest.param(2e-8, 0.0, id="windows: rows only"),
        pytest.param(1e-7, 3e-9, id="a join: rows and comparisons"),
        pytest.param(0.0, 1e-8, id="a pattern that tries everything"),
    ],
)
def test_prices_are_learned_from_turns(row_s: float, comparison_s: float) -> None:
    draw, prices = random.Random(1), Prices()
    for _ in range(300):
        rows, comparisons = draw.uniform(100, 10_000), draw.uniform(0, 1e6)
        prices.learn(rows, comparisons, (row_s * rows + comparison_s * comparisons) * draw.uniform(0.9, 1.1))
    assert prices.row_s == pytest.approx(row_s, rel=0.1, abs=2e-9)
    assert prices.comparison_s == pytest.approx(comparison_s, rel=0.1, abs=1e-10)


def test_a_hot_instance_of_a_join_costs_more_than_its_share_of_the_rows() -> None:
    draw, load = random.Random(2), LaneLoad(2)
    for _ in range(200):
        cold = draw.randint(10, 50)
        received, kept = [10 * cold, cold], [20 * cold, 2 * cold]
        comparisons = received[0] * (received[0] + kept[0]) + received[1] * (received[1] + kept[1])
        turn(load, received, kept, [0, 0], 1e-6 * (sum(received) + sum(kept)) + 1e-6 * comparisons)
    assert load.cost_s[0] / load.cost_s.sum() > 0.97  # by rows alone it would be 0.91


def test_a_fixed_cost_of_turns_is_not_taken_for_comparisons() -> None:
    draw, prices = random.Random(3), Prices()
    for _ in range(200):
        rows = draw.uniform(10, 1000)
        prices.learn(rows, rows * rows, 1e-3 + 1e-6 * rows)
    assert prices.comparison_s == 0.0
    assert prices.row_s > 0
