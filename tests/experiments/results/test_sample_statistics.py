"""Medians, intervals and comparisons keep what they promise, also with few repetitions."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.experiments.results.sample_statistics import CERTAINTY, Sample, difference

positive = st.floats(0.001, 1e9)
samples = st.lists(positive, min_size=1, max_size=9).map(lambda values: Sample(tuple(values)))


def measured(random: np.random.Generator, size: int, factor: float = 1.0) -> Sample:
    """Times with a noise of 5 % and a tail, as those of a busy machine."""
    return Sample(tuple(factor * np.exp(0.05 * random.standard_t(4, size))))


def brute_p(first: Sample, second: Sample) -> float:
    """The share of all divisions of the values into two such sets that differ at least as much in ranks."""

    def wins(one: list[float], other: list[float]) -> float:
        return sum((b > a) + 0.5 * (b == a) for a in one for b in other)

    values, n = [*first.values, *second.values], len(first.values)
    both = n * len(second.values)
    observed = abs(wins(list(first.values), list(second.values)) - both / 2)
    splits = list(itertools.combinations(range(len(values)), n))
    others = [[values[i] for i in range(len(values)) if i not in split] for split in splits]
    distances = [
        abs(wins([values[i] for i in split], other) - both / 2) for split, other in zip(splits, others, strict=True)
    ]
    return sum(distance >= observed for distance in distances) / len(splits)


@given(
    st.lists(st.integers(1, 6), min_size=1, max_size=5).map(lambda v: Sample(tuple(map(float, v)))),
    st.lists(st.integers(1, 6), min_size=1, max_size=5).map(lambda v: Sample(tuple(map(float, v)))),
)
def test_the_chance_is_that_of_all_divisions_of_the_values(first: Sample, second: Sample) -> None:
    assert difference(first, second).p == pytest.approx(brute_p(first, second))


@given(samples)
def test_the_interval_has_the_median_and_lies_within_the_values(sample: Sample) -> None:
    interval = sample.interval
    assert min(sample.values) <= interval.low <= sample.median <= interval.high <= max(sample.values)


@pytest.mark.parametrize("size", [3, 5, 6, 9, 20])
def test_the_interval_has_the_true_median_as_often_as_it_says(size: int) -> None:
    random = np.random.default_rng(size)
    intervals = [measured(random, size).interval for _ in range(3000)]
    covered = np.mean([interval.low <= 1.0 <= interval.high for interval in intervals])
    assert covered == pytest.approx(intervals[0].certainty, abs=0.025)
    assert intervals[0].certainty >= CERTAINTY or size < 6


@given(samples, samples)
def test_a_comparison_is_the_same_seen_from_the_other_side(first: Sample, second: Sample) -> None:
    there, back = difference(first, second), difference(second, first)
    assert there.p == pytest.approx(back.p)
    assert there.found == back.found
    assert there.ratio is not None
    assert back.ratio is not None
    if len(first.values) * len(second.values) % 2:
        assert there.ratio * back.ratio == pytest.approx(1.0)


@given(samples, samples, st.floats(0.01, 100))
def test_a_comparison_does_not_depend_on_the_unit(first: Sample, second: Sample, unit: float) -> None:
    scaled = [Sample(tuple(unit * value for value in each.values)) for each in (first, second)]
    assert difference(*scaled).ratio == pytest.approx(difference(first, second).ratio)


@pytest.mark.parametrize("size", [4, 5, 10, 30])
def test_equal_things_differ_no_more_often_than_stated(size: int) -> None:
    random = np.random.default_rng(size)
    found = np.mean([difference(measured(random, size), measured(random, size)).found for _ in range(2000)])
    assert found <= 1 - CERTAINTY + 0.015


@pytest.mark.parametrize(("size", "power"), [(5, 0.8), (10, 0.98)])
def test_a_change_by_a_fifth_is_found(size: int, power: float) -> None:
    random = np.random.default_rng(size)
    results = [difference(measured(random, size), measured(random, size, 1.2)) for _ in range(500)]
    assert np.mean([each.found for each in results]) > power
    assert np.median([each.ratio for each in results if each.ratio]) == pytest.approx(1.2, rel=0.01)


@pytest.mark.parametrize("size", [4, 6, 12, 25])
def test_the_interval_of_a_ratio_is_that_of_the_test(size: int) -> None:
    random = np.random.default_rng(size)
    covered = 0
    for _ in range(1000):
        found = difference(measured(random, size), measured(random, size, 1.1))
        assert found.interval is not None
        assert found.interval.low <= (found.ratio or 0) <= found.interval.high
        if size <= 20:  # above, p is approximate and may disagree in rare cases at the edge
            assert found.found == (not found.interval.low <= 1.0 <= found.interval.high)
        covered += found.interval.low <= 1.1 <= found.interval.high
    assert covered / 1000 >= CERTAINTY - 0.02


@pytest.mark.parametrize(
    ("n", "m", "knowable"), [(1, 1, False), (3, 3, False), (4, 4, True), (3, 5, True), (2, 5, False)]
)
def test_few_repetitions_cannot_tell_a_difference(n: int, m: int, knowable: bool) -> None:
    found = difference(Sample((1.0,) * n), Sample((100.0,) * m))
    assert (found.knowable, found.found) == (knowable, knowable)


def test_numbers_that_are_not_positive_have_no_ratio() -> None:
    found = difference(Sample((0.0, 1.0, 2.0, 3.0)), Sample((5.0, 6.0, 7.0, 8.0)))
    assert (found.ratio, found.interval, found.found) == (None, None, True)


def test_the_standard_deviation_is_that_of_a_sample_in_percent() -> None:
    assert Sample((1.0, 2.0, 3.0)).rsd == pytest.approx(50.0)
    assert Sample((1.0,)).rsd is None
    assert Sample((-1.0, 1.0)).rsd is None
    assert math.isclose(Sample((2.0, 2.0)).rsd or 0.0, 0.0)
