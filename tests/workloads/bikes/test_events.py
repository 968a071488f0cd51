"""The bike trips: the same event for the same index, and bikes that stay where they were left."""

from collections import defaultdict
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.errors import ConfigError
from shoal.workloads.bikes.events import STATION, BikesEvents

untimed = settings(deadline=None, max_examples=50)  # the first example may compile
streams = st.builds(
    BikesEvents,
    bikes=st.integers(1, 100),
    stations=st.integers(1, 2000),
    per_day=st.integers(1, 1_000_000),
    seed=st.integers(0, 2**63 - 1),
)


@untimed
@given(streams, st.lists(st.integers(0, 5000), min_size=3, max_size=3).map(sorted))
def test_an_event_is_the_same_however_the_stream_is_cut(events: BikesEvents, cuts: list[int]) -> None:
    start, middle, stop = cuts
    parts = pa.Table.from_batches([events.batch(start, middle), events.batch(middle, stop)])
    assert parts.combine_chunks() == pa.Table.from_batches([events.batch(start, stop)])


def test_batches_have_the_declared_schema() -> None:
    assert BikesEvents().batch(0, 5).schema == BikesEvents.schema()
    assert BikesEvents().batch(5, 5).num_rows == 0


def test_a_recorded_stream_can_be_made_again() -> None:
    batch = BikesEvents(seed=42).batch(123_456, 123_459)
    assert [tuple(row.values())[1:] for row in batch.to_pylist()] == [
        (16_359, 2762, 2909, 401, "Subscriber"),
        (19_450, 3293, 3242, 1637, "Subscriber"),
        (17_541, 2636, 2831, 468, "Customer"),
    ]


@untimed
@given(streams, st.integers(0, 10**7))  # with one trip per day, still a year that Arrow can write
def test_time_never_goes_back_and_keeps_the_rate(events: BikesEvents, start: int) -> None:
    times = events.batch(start, start + 1000)["ts"].cast(pa.int64()).to_numpy() - events.start_us
    assert (np.diff(times) >= 0).all()
    assert times[0] == start * 86_400_000_000 // events.per_day


@untimed
@given(streams)
def test_every_bike_makes_one_trip_per_round(events: BikesEvents) -> None:
    bikes = events.batch(0, 3 * events.bikes)["bikeid"].to_numpy().reshape(3, events.bikes)
    assert (np.sort(bikes, axis=1) == np.sort(bikes[0])).all()
    assert np.unique(bikes).size == events.bikes


@untimed
@given(streams)
def test_a_trip_does_not_start_before_the_bike_is_back(events: BikesEvents) -> None:
    back = dict[int, int]()
    rows = events.batch(0, 1000)
    times = rows["ts"].cast(pa.int64()).to_pylist()
    for bike, end, seconds in zip(rows["bikeid"].to_pylist(), times, rows["duration"].to_pylist(), strict=True):
        assert seconds >= 0
        assert end - seconds * 1_000_000 >= back.get(bike, end - 3_661_000_000)
        back[bike] = end


def test_a_bike_starts_where_it_was_left_but_for_one_trip_in_twenty() -> None:
    trips = defaultdict[int, list[tuple[int, int]]](list)
    rows = BikesEvents().batch(0, 50_000)
    names = ("bikeid", "start_station_id", "end_station_id")
    for bike, start, end in zip(*(rows[name].to_pylist() for name in names), strict=True):
        trips[bike].append((start, end))
    stays = [now[0] == before[1] for of in trips.values() for before, now in pairwise(of)]
    assert np.mean(stays) == pytest.approx(0.95, abs=0.01)


def test_shares_are_those_of_a_city() -> None:
    rows = BikesEvents().batch(0, 100_000)
    ends = rows["end_station_id"].to_numpy()
    assert 0.02 < np.mean(ends == STATION) < 0.05
    assert 750 < np.unique(ends).size <= 800
    assert ends.min() > 0
    assert 600 < rows["duration"].to_numpy().mean() < 1200
    customers = rows["user_type"].cast(pa.string()).to_pylist().count("Customer")
    assert customers == pytest.approx(12_000, abs=500)


@pytest.mark.parametrize("wrong", [{"bikes": 0}, {"stations": 2001}, {"seed": -1}, {"per_day": 1.5}])
def test_settings_beyond_their_limits_are_rejected(wrong: dict[str, int]) -> None:
    with pytest.raises(ConfigError, match=f"bikes {next(iter(wrong))} must be a whole number from"):
        BikesEvents(**wrong)


@pytest.mark.parametrize(("start", "stop"), [(-1, 3), (5, 4)])
def test_a_batch_with_an_invalid_range_is_rejected(start: int, stop: int) -> None:
    with pytest.raises(ConfigError, match=f"got start {start}, stop {stop}"):
        BikesEvents().batch(start, stop)
