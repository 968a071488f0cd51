"""The traffic generator: the same event for the same index, and the load the profiles promise."""

from dataclasses import replace
from itertools import pairwise
from multiprocessing import get_context
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.errors import ConfigError
from shoal.workloads.traffic import events as traffic_events
from shoal.workloads.traffic.events import Profile, TrafficEvents

untimed = settings(deadline=None)  # the first example may compile
PROFILES: tuple[Profile, ...] = ("W1", "W2", "W3")

cities = st.builds(
    TrafficEvents,
    profile=st.sampled_from(PROFILES),
    vehicles=st.integers(1, 300),
    regions=st.integers(1, 12),
    seed=st.integers(0, 2**63 - 1),
    steps_per_s=st.integers(1, 5),
    ratio=st.floats(0, 3),
    disorder_s=st.floats(0, 5),
    period_s=st.integers(1, 20),
    step_s=st.integers(1, 9),
    shift=st.integers(0, 15),
)
steady_cities = cities.filter(lambda city: city.profile != "W3")
ordered_cities = cities.map(lambda city: replace(city, disorder_s=0.0))


def offsets_us(city: TrafficEvents, batch: pa.RecordBatch) -> npt.NDArray[np.int64]:
    """Event times, counted from the start of the stream."""
    times: npt.NDArray[np.int64] = batch["ts"].cast(pa.int64()).to_numpy() - city.start_us
    return times


def second_of(city: TrafficEvents, second: int) -> pa.RecordBatch:
    """All events of one second, jitter aside."""
    return city.batch(city.index_at(second), city.index_at(second + 1))


@untimed
@given(cities, st.lists(st.integers(0, 5000), min_size=3, max_size=3).map(sorted))
def test_an_event_is_the_same_however_the_stream_is_cut(city: TrafficEvents, cuts: list[int]) -> None:
    start, middle, stop = cuts
    parts = pa.Table.from_batches([city.batch(start, middle), city.batch(middle, stop)])
    assert parts.combine_chunks() == pa.Table.from_batches([city.batch(start, stop)])


@pytest.mark.parametrize("profile", PROFILES)
def test_another_process_makes_the_same_events_without_compiling_again(profile: Profile) -> None:
    city = TrafficEvents(profile, vehicles=1000, seed=7, disorder_s=0.5)
    here = city.batch(10_000, 20_000)
    with get_context("spawn").Pool(1) as pool:
        there, compilations = pool.apply(_batch_and_compilations, (city, 10_000, 20_000))
    assert there == here
    assert compilations == 0


def _batch_and_compilations(city: TrafficEvents, start: int, stop: int) -> tuple[pa.RecordBatch, int]:
    batch = city.batch(start, stop)
    fill: Any = traffic_events._fill
    return batch, sum(fill.stats.cache_misses.values())


def test_a_recorded_stream_can_be_made_again() -> None:
    batch = TrafficEvents("W2", vehicles=1000, seed=42, disorder_s=1.0).batch(123_456, 123_459)
    assert batch["ts"].cast(pa.int64()).to_pylist() == [
        1_704_067_323_061_661,
        1_704_067_323_196_848,
        1_704_067_323_146_514,
    ]
    assert [tuple(row.values()) for row in batch.drop_columns("ts").to_pylist()] == [
        (264, 69, "car", 28.63),
        (883, 16, "car", 20.55),
        (502, 91, "bus", 21.04),
    ]


def test_batches_have_the_declared_schema() -> None:
    assert TrafficEvents().batch(0, 5).schema == TrafficEvents.schema()
    assert TrafficEvents().batch(5, 5).num_rows == 0


def test_seeds_change_speeds_but_not_the_load() -> None:
    one, other = (TrafficEvents(vehicles=1000, seed=seed).batch(0, 1000) for seed in (1, 2))
    assert one["speed"] != other["speed"]
    assert one.select(["ts", "region"]) == other.select(["ts", "region"])


@untimed
@given(cities, st.integers(0, 100))
def test_every_vehicle_reports_once_per_step_from_its_region(city: TrafficEvents, step: int) -> None:
    counts = city.counts(step)
    second, part = divmod(step, city.steps_per_s)
    start = city.index_at(second) + part * int(counts.sum())
    batch = city.batch(start, start + int(counts.sum()))
    assert sorted(batch["vehicle"].to_pylist()) == list(range(counts.sum()))
    assert np.bincount(batch["region"].to_numpy(), minlength=city.regions).tolist() == counts.tolist()


@untimed
@given(ordered_cities, st.integers(0, 4000))
def test_without_disorder_time_ascends_and_a_step_takes_its_share_of_a_second(city: TrafficEvents, start: int) -> None:
    times = offsets_us(city, city.batch(start, start + 1000))
    assert (np.diff(times) >= 0).all()
    first_of_second = offsets_us(city, second_of(city, 3))[:: int(city.counts(3 * city.steps_per_s).sum())]
    assert first_of_second.tolist() == [
        3_000_000 + step * 1_000_000 // city.steps_per_s for step in range(city.steps_per_s)
    ]


@untimed
@given(ordered_cities, st.integers(0, 25_000_000))
def test_index_at_counts_the_events_before_an_offset(city: TrafficEvents, offset_us: int) -> None:
    index = city.index_at(offset_us / 1e6)
    around = offsets_us(city, city.batch(max(0, index - 1), index + 1))
    assert around[-1] >= offset_us
    assert index == 0 or around[0] < offset_us


@untimed
@given(cities, st.integers(0, 4000))
def test_disorder_makes_events_older_within_its_bound_and_changes_nothing_else(city: TrafficEvents, start: int) -> None:
    actual = city.batch(start, start + 500)
    ordered = replace(city, disorder_s=0.0).batch(start, start + 500)
    age_us = offsets_us(city, ordered) - offsets_us(city, actual)
    assert 0 <= age_us.min() <= age_us.max() <= round(city.disorder_s * 1e6)
    assert actual.drop_columns("ts") == ordered.drop_columns("ts")


def test_disorder_uses_the_whole_of_its_bound() -> None:
    city = TrafficEvents(vehicles=1000, disorder_s=2.0)
    ordered = replace(city, disorder_s=0.0).batch(0, 5000)
    age_us = offsets_us(city, ordered) - offsets_us(city, city.batch(0, 5000))
    assert age_us.min() < 10_000
    assert age_us.max() > 1_990_000


@untimed
@given(steady_cities, st.integers(0, 100))
def test_w1_and_w2_always_have_all_vehicles_on_the_road(city: TrafficEvents, step: int) -> None:
    assert city.counts(step).sum() == city.vehicles


@untimed
@given(steady_cities)
def test_regions_get_their_share_to_within_one_vehicle(city: TrafficEvents) -> None:
    weights = 1 + np.arange(city.regions) * city.ratio
    exact = city.vehicles * weights / weights.sum()
    assert np.abs(city.counts(0) - exact).max() <= 1 + 1e-9


def test_a_region_of_300_000_vehicles_starts_from_the_papers_base_count() -> None:
    counts = TrafficEvents("W1", vehicles=300_000).counts(0)
    assert counts[0] == 275 + 1  # a = 275, and the first of the vehicles left by rounding


@untimed
@given(steady_cities, st.integers(0, 50))
def test_w1_stays_and_w2_moves_by_its_shift_whenever_its_step_is_over(city: TrafficEvents, step: int) -> None:
    shift = step // city.steps_per_s // city.step_s * city.shift if city.profile == "W2" else 0
    assert city.counts(step).tolist() == np.roll(city.counts(0), shift).tolist()


def test_a_w2_vehicle_drives_to_the_next_region_every_second() -> None:
    city = TrafficEvents("W2", vehicles=500, regions=7)
    now, later = (second_of(city, second)["region"].to_numpy() for second in (3, 4))
    assert ((now + 1) % 7 == later).all()


def test_a_w2_vehicle_stays_in_its_region_until_the_step_is_over() -> None:
    city = TrafficEvents("W2", vehicles=500, regions=7, step_s=3, shift=2)
    regions = [second_of(city, second)["region"].to_numpy() for second in range(7)]
    moved = [((later - now) % 7).tolist() for now, later in pairwise(regions)]
    assert moved == [[0] * 500, [0] * 500, [2] * 500, [0] * 500, [0] * 500, [2] * 500]


@pytest.mark.parametrize("profile", ["W1", "W3"])
def test_steps_and_shifts_are_for_w2_alone(profile: Profile) -> None:
    plain = TrafficEvents(profile, vehicles=1000, period_s=5)
    assert replace(plain, step_s=2, shift=3).batch(0, 5000) == plain.batch(0, 5000)


def test_w3_peaks_half_way_from_a_base_of_40_percent_and_repeats() -> None:
    city = TrafficEvents("W3", vehicles=100_000, period_s=60)
    totals = [int(city.counts(second).sum()) for second in range(120)]
    assert totals[0] == 40_000
    assert totals.index(max(totals)) == 30
    assert totals[30] == 100_000
    assert totals[60:] == totals[:60]
    assert city.index_at(120) == sum(totals)


def test_the_crowd_of_w3_crosses_the_city() -> None:
    city = TrafficEvents("W3", regions=100, period_s=100)
    assert [int(city.counts(second).argmax()) for second in (10, 50, 90)] == [10, 50, 90]


def test_a_vehicle_keeps_its_type_and_types_have_their_shares() -> None:
    city = TrafficEvents("W1", vehicles=20_000)
    now, later = (second_of(city, second)["vehicle_type"] for second in (0, 1))
    assert now == later
    shares = {row["values"]: row["counts"] / 20_000 for row in now.value_counts().to_pylist()}
    assert shares == pytest.approx({"car": 0.7, "truck": 0.15, "bus": 0.1, "taxi": 0.05}, abs=0.01)


@pytest.mark.parametrize("profile", PROFILES)
def test_speeds_are_plausible_and_have_two_decimals(profile: Profile) -> None:
    speed = TrafficEvents(profile, vehicles=10_000).batch(0, 100_000)["speed"].to_numpy()
    assert speed.min() >= 0
    assert 20 < speed.mean() < 60
    assert speed.max() < 130
    assert (speed == np.round(speed, 2)).all()


def test_crowded_regions_and_trucks_are_slower() -> None:
    table = pa.table(second_of(TrafficEvents("W1"), 0))
    mean = {
        (row["region"], row["vehicle_type"]): row["speed_mean"]
        for row in table.group_by(["region", "vehicle_type"]).aggregate([("speed", "mean")]).to_pylist()
    }
    assert mean[10, "car"] > 2 * mean[99, "car"]
    assert mean[10, "car"] > mean[10, "truck"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param({"profile": "W4"}, "profile must be one of W1, W2, W3; got 'W4'", id="unknown profile"),
        pytest.param({"vehicles": 0}, "vehicles must be a whole number from 1 to", id="empty road"),
        pytest.param({"regions": 2.5}, "regions must be a whole number.*got 2.5", id="half a region"),
        pytest.param({"seed": -1}, "seed must be a whole number", id="negative seed"),
        pytest.param({"steps_per_s": "2"}, "steps_per_s must be.*got '2'", id="text for a number"),
        pytest.param({"ratio": float("nan")}, "ratio must be a number.*got nan", id="ratio is not a number"),
        pytest.param({"disorder_s": -0.1}, "disorder_s must be a number from 0", id="events in the future"),
        pytest.param({"period_s": 0}, "period_s must be a whole number", id="no time for a rush hour"),
        pytest.param({"step_s": 0}, "step_s must be a whole number from 1 to 86400; got 0", id="no time for a step"),
        pytest.param({"step_s": 0.5}, "step_s must be a whole number.*got 0.5", id="half a second for a step"),
        pytest.param({"shift": -1}, "shift must be a whole number from 0 to 10000; got -1", id="a shift back"),
    ],
)
def test_invalid_arguments_are_rejected_by_name(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        TrafficEvents(**arguments)


@pytest.mark.parametrize(("start", "stop"), [(-1, 3), (5, 4)])
def test_a_batch_with_an_invalid_range_is_rejected(start: int, stop: int) -> None:
    with pytest.raises(ConfigError, match=f"got start {start}, stop {stop}"):
        TrafficEvents().batch(start, stop)


def test_an_endless_offset_is_rejected() -> None:
    with pytest.raises(ConfigError, match="finite number of seconds; got inf"):
        TrafficEvents().index_at(float("inf"))


@untimed
@given(city=cities, start=st.integers(0, 5_000), length=st.integers(0, 2_000))
def test_events_are_counted_by_region_without_being_made(city: TrafficEvents, start: int, length: int) -> None:
    counted = city.counted(start, start + length, "region")
    assert counted is not None
    regions = city.batch(start, start + length)["region"].to_numpy()
    assert counted[1].tolist() == np.bincount(regions, minlength=city.regions).tolist()
    assert city.counted(start, start + length, "vehicle_type") is None


def test_events_of_the_largest_city_are_counted_without_overflow() -> None:
    city = TrafficEvents(vehicles=2**31 - 1, regions=3, ratio=0.5)
    counted = city.counted(0, 2**31 - 2, "region")
    assert counted is not None
    assert np.abs(counted[1] - city.counts(0)).sum() == 1


@untimed
@given(city=ordered_cities, index=st.integers(0, 5_000))
def test_the_time_of_an_event_is_that_of_its_batch(city: TrafficEvents, index: int) -> None:
    (offset_us,) = offsets_us(city, city.batch(index, index + 1))
    assert round(city.seconds_at(index) * 1e6) == offset_us
    assert city.index_at(city.seconds_at(index)) <= index < city.index_at(city.seconds_at(index) + 1e-6)
