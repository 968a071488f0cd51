"""Fits of costs: what they find again, and what they say of their own error."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.runtimes.measured.cost_fit import PARTS, fitted, non_negative, turns_of, usual

RANGES = ((1e-5, 1e-3), (5e-9, 1e-6), (1e-8, 1e-6), (1e-10, 1e-8), (1e-8, 1e-6), (5e-9, 1e-6), (1e-10, 1e-8))
"""Seconds of the parts of a cost."""


@given(st.integers(0, 2**32 - 1), st.integers(1, 4))
def test_no_point_of_a_grid_is_better_than_the_non_negative_fit(seed: int, width: int) -> None:
    random = np.random.default_rng(seed)
    columns, values = random.normal(size=(12, width)), random.normal(size=12)
    found = non_negative(columns, values)
    error = float(((values - columns @ found) ** 2).sum())
    assert (found >= 0).all()
    for factors in product((0.0, 0.5, 1.0, 1.5), repeat=width):
        other = found * factors + (np.array(factors) > 1) * 0.1
        assert error <= float(((values - columns @ other) ** 2).sum()) + 1e-9


@settings(max_examples=25, deadline=None)
@given(
    st.integers(0, 2**32 - 1),
    st.tuples(*(st.floats(low, high) for low, high in RANGES)),
)
def test_costs_are_found_again_from_noisy_turns(seed: int, costs: tuple[float, ...]) -> None:
    random = np.random.default_rng(seed)
    size = 600
    events = 10 ** random.uniform(2, 5, size)
    merged = (10 ** random.uniform(2, most, size) for most in (5, 5, 6))
    turns = turns_of(events, events * random.uniform(0, 0.5, size), 10 ** random.uniform(4, 6.5, size), *merged)
    seconds = turns @ costs * random.lognormal(-0.02, 0.2, size)
    found = fitted(turns, seconds)
    parts = [getattr(found, name) for name in PARTS]
    assert float(np.abs((turns @ parts) / (turns @ costs) - 1).mean()) < 0.15
    assert float((turns @ parts).sum()) == pytest.approx(float(seconds.sum()), rel=1e-6)
    assert found.error == pytest.approx(0, abs=0.15)
    assert found.spread == pytest.approx(0.2, abs=0.05)


def test_a_cost_that_the_turns_do_not_follow_has_a_large_error_or_spread() -> None:
    events = np.geomspace(10, 1e5, 300)
    squares = events**2 * 1e-10
    found = fitted(turns_of(events, 0 * events, 0 * events), squares, ("fixed_s", "event_s"))
    assert found.spread > 1


def test_turns_that_cost_far_more_than_others_of_their_size_are_exceptions() -> None:
    events = np.tile([100.0, 1000.0, 50_000.0], 20)
    turns = turns_of(events, 0 * events, 0 * events)
    seconds = 1e-4 + 1e-8 * events
    seconds[[4, 8]] = 0.05
    kept = usual(turns, seconds, ("fixed_s", "event_s"))
    assert np.flatnonzero(~kept).tolist() == [4, 8]
    found = fitted(turns[kept], seconds[kept], ("fixed_s", "event_s"))
    assert found.fixed_s == pytest.approx(1e-4)
    assert found.event_s == pytest.approx(1e-8, rel=1e-6, abs=0)


@pytest.mark.parametrize(
    "turns", [pytest.param(0, id="no turns"), pytest.param(1, id="one turn"), pytest.param(5, id="too few to hold out")]
)
def test_few_turns_give_a_cost_without_an_error(turns: int) -> None:
    events = np.arange(1.0, turns + 1)
    found = fitted(turns_of(events, 0 * events, 0 * events), events * 1e-6)
    assert found.error is None
    assert found.fixed_s + found.event_s == pytest.approx(1e-6 if turns else 0.0)


def test_turns_below_the_resolution_of_the_clock_cost_nothing() -> None:
    columns = turns_of([1.0, 2.0], [0.0, 0.0], [0.0, 0.0])
    assert fitted(columns, np.zeros(2)).event_s == 0
    assert usual(columns, np.zeros(2)).all()
