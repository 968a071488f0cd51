"""Metrics of migrations: computed from reports and latencies, and unknown where nothing was measured."""

from collections.abc import Sequence
from dataclasses import fields, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.model.control.binding import WorkerId
from shoal.model.control.histogram import Histogram
from shoal.model.control.messages import LostState, MoveReport
from shoal.model.control.migration_metrics import MigrationMetrics, deviation_of, metrics_of
from shoal.model.query.graph import InstanceId

MOVE = MoveReport(InstanceId("op/0"), WorkerId(0), WorkerId(1))
SECONDS = st.none() | st.floats(0, 100)
MOVES = st.lists(
    st.builds(
        replace,
        st.just(MOVE),
        state_bytes=st.integers(0, 10**9),
        seconds=SECONDS,
        frozen_s=SECONDS,
        late_s=SECONDS,
        late_results=st.none() | st.integers(0, 100),
        emission_delay_s=SECONDS,
        emission_delay_sum_s=SECONDS,
        aborted=st.sampled_from(["", "", "superseded"]),
        lost=st.none() | st.builds(LostState, *[st.integers(0, 9)] * 4, share=st.floats(0, 1)),
    ),
    max_size=5,
)


def latencies(values_s: Sequence[float]) -> Histogram:
    found = Histogram()
    for value_s in values_s:
        found.record(value_s)
    return found


def test_what_was_not_measured_is_unknown_and_never_zero() -> None:
    measured = metrics_of([MOVE, MOVE])
    assert measured == MigrationMetrics(state_bytes=0, utility_kept=1.0)
    unknown = {field.name for field in fields(measured)} - {"state_bytes", "utility_kept"}
    assert all(getattr(measured, name) is None for name in unknown)


@given(MOVES)
def test_times_are_the_longest_and_numbers_are_sums(moves: list[MoveReport]) -> None:
    measured = metrics_of(moves)
    made = [move for move in moves if not move.aborted]
    for name in ("seconds", "frozen_s", "late_s", "emission_delay_s"):
        known_s = [x for x in (getattr(move, name) for move in made) if x is not None]
        assert getattr(measured, name) == max(known_s, default=None)
    for name in ("late_results", "emission_delay_sum_s"):
        known = [x for x in (getattr(move, name) for move in made) if x is not None]
        assert getattr(measured, name) == (sum(known) if known else None)
    assert measured.state_bytes == sum(move.state_bytes for move in made)
    shares = [0.0 if move.lost is None else move.lost.share for move in made]
    assert measured.utility_kept == (pytest.approx(1 - sum(shares) / len(shares)) if shares else None)


def test_latency_during_a_migration_is_compared_with_that_before() -> None:
    before, during = latencies([0.1, 0.2, 0.3]), latencies([0.2, 0.9])
    measured = metrics_of([MOVE], 2.0, before, during)
    assert measured.seconds == 2.0
    assert measured.latency_spike_s == pytest.approx(0.7, rel=0.01)
    assert measured.output_latency_s == pytest.approx(1.1 - 2 * 0.2)
    assert measured.output_latency_mean_s == pytest.approx(0.35)


@pytest.mark.parametrize(("before", "during"), [([], [0.1]), ([0.1], [])], ids=["before", "during"])
def test_without_results_there_is_no_spike(before: list[float], during: list[float]) -> None:
    measured = metrics_of([MOVE], 2.0, latencies(before), latencies(during))
    assert (measured.latency_spike_s, measured.output_latency_s, measured.output_latency_mean_s) == (None, None, None)


@given(st.lists(st.integers(0, 5)), st.lists(st.integers(0, 5)))
def test_results_deviate_by_what_is_missing_or_too_much(got: list[int], wanted: list[int]) -> None:
    share = deviation_of(got, wanted)
    assert 0 <= share <= 1
    assert (share == 0) == (sorted(got) == sorted(wanted))
    assert share == deviation_of(wanted, got)
    assert deviation_of([*got, 9], [*wanted, 9]) <= share
