"""Percentiles to within one percent, also of merged histograms."""

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.model.control.histogram import LARGEST_S, PERCENTILES, SMALLEST_S, Histogram, merged

SPREAD = st.floats(math.log(SMALLEST_S), math.log(LARGEST_S)).map(math.exp)
LATENCIES = st.floats(SMALLEST_S, LARGEST_S) | SPREAD
PERCENTS = st.sampled_from([1.0, 25.0, 50.0, 95.0, 99.0, 99.9, 100.0]) | st.floats(0.1, 100.0)


def histogram_of(values: list[float]) -> Histogram:
    observed = Histogram()
    for value in values:
        observed.record(value)
    return observed


def exact(values: list[float], percent: float) -> float:
    """The smallest value that `percent` of all values do not exceed."""
    return sorted(values)[max(1, math.ceil(percent / 100 * len(values))) - 1]


@given(st.lists(LATENCIES, min_size=1, max_size=300), PERCENTS)
def test_a_percentile_is_right_to_within_one_percent(values: list[float], percent: float) -> None:
    assert histogram_of(values).percentile(percent) == pytest.approx(exact(values, percent), rel=0.01)


@pytest.mark.parametrize("percent", [0.1, 10.0, 50.0, 90.0, 99.0, 99.9])
def test_so_it_is_for_many_values(percent: float) -> None:
    draw = random.Random(1)
    values = [draw.lognormvariate(-5, 2) for _ in range(20_000)]
    assert histogram_of(values).percentile(percent) == pytest.approx(exact(values, percent), rel=0.01)


@given(st.lists(st.floats(-1.0, SMALLEST_S), min_size=1), PERCENTS)
def test_less_than_a_microsecond_is_at_most_one(values: list[float], percent: float) -> None:
    assert 0.0 <= histogram_of(values).percentile(percent) <= SMALLEST_S


@given(st.lists(LATENCIES | st.floats(0, 1e9), min_size=1), PERCENTS, PERCENTS)
def test_percentiles_grow_and_never_exceed_the_maximum(values: list[float], one: float, other: float) -> None:
    observed = histogram_of(values)
    assert observed.percentile(min(one, other)) <= observed.percentile(max(one, other)) <= observed.max_s == max(values)


@given(st.lists(st.tuples(LATENCIES, st.integers(1, 50)), max_size=30))
def test_a_value_recorded_several_times_counts_as_often(values: list[tuple[float, int]]) -> None:
    at_once, apart = Histogram(), Histogram()
    for value, times in values:
        at_once.record(value, times)
        for _ in range(times):
            apart.record(value)
    assert (at_once.counts, at_once.total, at_once.max_s) == (apart.counts, apart.total, apart.max_s)
    assert at_once.sum_s == pytest.approx(apart.sum_s)


@given(st.lists(st.lists(LATENCIES, max_size=40), max_size=6))
def test_resulthistograms_are_the_histogram_of_all_values(parts: list[list[float]]) -> None:
    histograms = [histogram_of(part) for part in parts]
    before = [(dict(each.counts), each.total) for each in histograms]
    whole, result = histogram_of([value for part in parts for value in part]), merged(histograms)
    assert (result.counts, result.total, result.max_s) == (whole.counts, whole.total, whole.max_s)
    assert result.sum_s == pytest.approx(whole.sum_s)
    assert [(each.counts, each.total) for each in histograms] == before


def test_a_resulthistogram_can_be_recorded_to_without_touching_its_parts() -> None:
    part = histogram_of([0.5])
    merged([part]).record(0.5)
    assert (part.total, sum(part.counts.values())) == (1, 1)


def test_a_summary_is_in_milliseconds() -> None:
    summary = histogram_of([0.25] * 90 + [2.0] * 10).summary_ms()
    assert list(summary) == ["mean", *PERCENTILES, "max"]
    assert summary["mean"] == 425.0
    assert summary["p50"] == pytest.approx(250, rel=0.01)
    assert summary["p95"] == summary["p99"] == pytest.approx(2000, rel=0.01)
    assert summary["max"] == 2000.0


def test_where_nothing_was_seen_all_is_zero() -> None:
    assert set(Histogram().summary_ms().values()) == {0.0}
    assert merged([]).total == 0
