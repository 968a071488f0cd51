"""The Linear Road generator: the same event for the same index, and roads as the query expects them."""

from collections import defaultdict
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.errors import ConfigError
from shoal.workloads.linear_road.events import LinearRoadEvents

untimed = settings(deadline=None, max_examples=50)  # the first example may compile
streams = st.builds(
    LinearRoadEvents,
    expressways=st.integers(1, 4),
    vehicles=st.integers(1, 100),
    seed=st.integers(0, 2**63 - 1),
)


def reports(events: LinearRoadEvents, number: int) -> dict[str, Any]:
    """The position reports among the first events, by column; times in seconds from the start."""
    table = pa.table(events.batch(0, number))
    columns = {name: table[name].cast(pa.int64()).to_numpy() for name in table.column_names}
    columns["ts"] = (columns["ts"] - events.start_us) // 1_000_000
    chosen = columns["type"] == 0
    return {name: column[chosen] for name, column in columns.items()}


@untimed
@given(streams, st.lists(st.integers(0, 20_000), min_size=3, max_size=3).map(sorted))
def test_an_event_is_the_same_however_the_stream_is_cut(events: LinearRoadEvents, cuts: list[int]) -> None:
    start, middle, stop = cuts
    parts = pa.Table.from_batches([events.batch(start, middle), events.batch(middle, stop)])
    assert parts.combine_chunks() == pa.Table.from_batches([events.batch(start, stop)])


@untimed
@given(streams, st.integers(0, 10**9), st.integers(1, 250))
def test_events_made_one_after_another_are_those_made_one_by_one(
    events: LinearRoadEvents, start: int, number: int
) -> None:
    alone = [events.columns(index, index + 1) for index in range(start, start + number)]
    for name, column in events.columns(start, start + number).items():
        assert column.tolist() == [each[name][0] for each in alone]


def test_batches_have_the_declared_schema() -> None:
    assert LinearRoadEvents().batch(0, 5).schema == LinearRoadEvents.schema()
    assert LinearRoadEvents().batch(5, 5).num_rows == 0


def test_a_recorded_stream_can_be_made_again() -> None:
    batch = LinearRoadEvents(3, 500, seed=42).batch(123_456, 123_459)
    assert [tuple(row.values())[1:] for row in batch.to_pylist()] == [
        (0, 5174, 75, 1, 1, 0, 23, 122_538),
        (0, 6704, 5, 1, 2, 0, 29, 157_377),
        (0, 6734, 47, 1, 2, 1, 77, 410_445),
    ]


@untimed
@given(streams)
def test_every_slot_reports_once_in_every_30_seconds(events: LinearRoadEvents) -> None:
    slots = events.expressways * events.vehicles
    rounds = reports(events, 5 * slots)
    for first in range(0, len(rounds["ts"]) - slots, slots):
        part = {name: column[first : first + slots] for name, column in rounds.items()}
        assert np.unique(part["ts"] // 30).tolist() == [first // slots]
        assert np.unique(part["vid"]).size == slots
        assert np.bincount(part["xway"]).tolist() == [events.vehicles] * events.expressways


@untimed
@given(streams)
def test_a_vehicle_reports_every_30_seconds_at_its_own_second(events: LinearRoadEvents) -> None:
    rows = reports(events, 3000)
    assert (rows["ts"] % 30 == rows["vid"] % 30).all()
    times = defaultdict[int, list[int]](list)
    for vid, time in zip(rows["vid"].tolist(), rows["ts"].tolist(), strict=True):
        times[vid].append(time)
    assert all(set(np.diff(reported).tolist()) <= {30} for reported in times.values())


@untimed
@given(streams, st.integers(0, 10**9))
def test_time_never_goes_back_and_places_are_on_the_road(events: LinearRoadEvents, start: int) -> None:
    batch = events.batch(start, start + 1000)
    assert (np.diff(batch["ts"].cast(pa.int64()).to_numpy()) >= 0).all()
    columns = {name: batch[name].to_numpy() for name in batch.schema.names[1:]}
    rows = {name: column[columns["type"] == 0] for name, column in columns.items()}
    highest = {"speed": 100, "xway": events.expressways - 1, "lane": 4, "dir": 1, "seg": 99, "pos": 527_999}
    assert all(rows[name].min() >= 0 and rows[name].max() <= high for name, high in highest.items())
    assert (rows["seg"] == rows["pos"] // 5280).all()


def test_a_vehicle_enters_drives_as_fast_as_it_says_and_leaves() -> None:
    rows = reports(LinearRoadEvents(1, 60), 6000)
    reported = list(zip(*(rows[name].tolist() for name in ("vid", "ts", "speed", "lane", "dir", "pos")), strict=True))
    trips = defaultdict[int, list[tuple[int, ...]]](list)
    for vid, _, *rest in sorted(reported):
        trips[vid].append(tuple(rest))
    whole = [trip for trip in trips.values() if trip[0][1] == 0 and trip[-1][1] == 4]
    assert len(whole) > 50
    for trip in whole:
        speeds, lanes, ways, feet = zip(*trip, strict=True)
        assert 20 <= len(trip) <= 40
        assert len(set(lanes[1:-1])) == len(set(ways)) == 1
        assert lanes[1] in (1, 2, 3)
        forward = 1 if ways[0] == 0 else -1
        assert (forward * np.diff(feet)).tolist() == [44 * speed for speed in speeds[:-1]]


def test_one_event_in_a_hundred_is_no_report_and_says_nothing_about_a_place() -> None:
    batch = LinearRoadEvents().batch(0, 100_000)
    kinds, counts = np.unique(batch["type"].to_numpy(), return_counts=True)
    assert kinds.tolist() == [0, 2, 3, 4]
    assert counts[0] == 99_000
    assert counts[1:].min() > 250
    others = pa.table(batch).filter(pa.array(batch["type"].to_numpy() != 0))
    assert {value for name in ("speed", "xway", "pos") for value in others[name].to_pylist()} == {-1}


def test_seeds_change_the_trips() -> None:
    one, other = (LinearRoadEvents(seed=seed).batch(0, 1000) for seed in (1, 2))
    assert one["pos"] != other["pos"]
    assert one["ts"] == other["ts"]


@pytest.mark.parametrize("wrong", [{"expressways": 0}, {"vehicles": 0}, {"seed": -1}, {"vehicles": 1.5}])
def test_settings_beyond_their_limits_are_rejected(wrong: dict[str, int]) -> None:
    with pytest.raises(ConfigError, match=f"linear road {next(iter(wrong))} must be a whole number from"):
        LinearRoadEvents(**wrong)


@pytest.mark.parametrize(("start", "stop"), [(-1, 3), (5, 4)])
def test_a_batch_with_an_invalid_range_is_rejected(start: int, stop: int) -> None:
    with pytest.raises(ConfigError, match=f"got start {start}, stop {stop}"):
        LinearRoadEvents().batch(start, stop)
