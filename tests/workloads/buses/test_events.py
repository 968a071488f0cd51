"""The bus positions: the same event for the same index, and buses that keep to their lines."""

from collections import defaultdict

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.errors import ConfigError
from shoal.workloads.buses.events import BLOCK, BusesEvents

untimed = settings(deadline=None, max_examples=50)  # the first example may compile
streams = st.builds(
    BusesEvents,
    vehicles=st.integers(1, 100),
    per_s=st.integers(1, 1_000_000),
    seed=st.integers(0, 2**63 - 1),
)


@untimed
@given(streams, st.lists(st.integers(0, 5000), min_size=3, max_size=3).map(sorted))
def test_an_event_is_the_same_however_the_stream_is_cut(events: BusesEvents, cuts: list[int]) -> None:
    start, middle, stop = cuts
    parts = pa.Table.from_batches([events.batch(start, middle), events.batch(middle, stop)])
    assert parts.combine_chunks() == pa.Table.from_batches([events.batch(start, stop)])


def test_batches_have_the_declared_schema() -> None:
    assert BusesEvents().batch(0, 5).schema == BusesEvents.schema()
    assert BusesEvents().batch(5, 5).num_rows == 0


def test_a_recorded_stream_can_be_made_again() -> None:
    batch = BusesEvents(seed=42).batch(123_456, 123_459)
    rows = batch.drop_columns(["ts", "latitude", "longitude"]).to_pylist()
    assert [tuple(row.values()) for row in rows] == [
        (113, 1, 33_493, "CD", 66_891, 175, 0),
        (115, 1, 33_150, "CF", 66_873, 785, 0),
        (53, 1, 33_707, "CD", 66_886, -175, 1),
    ]


@untimed
@given(streams, st.integers(0, 10**9))
def test_time_never_goes_back_and_keeps_the_rate(events: BusesEvents, start: int) -> None:
    times = events.batch(start, start + 1000)["ts"].cast(pa.int64()).to_numpy() - events.start_us
    assert (np.diff(times) >= 0).all()
    assert times[0] == start * 1_000_000 // events.per_s


@untimed
@given(streams)
def test_every_bus_reports_once_per_round_from_its_line_and_operator(events: BusesEvents) -> None:
    rows = events.batch(0, 3 * events.vehicles)
    vehicles = rows["vehicle_id"].to_numpy().reshape(3, events.vehicles)
    assert (vehicles == vehicles[0]).all()
    assert np.unique(vehicles).size == events.vehicles
    names = ("vehicle_id", "line_id", "operator")
    assert len(set(zip(*(rows[name].to_pylist() for name in names), strict=True))) == events.vehicles


def test_shares_are_those_of_a_city() -> None:
    rows = BusesEvents().batch(0, 100_000)
    blocks = rows["block_id"].to_numpy()
    assert np.mean(blocks == BLOCK) == pytest.approx(0.003, abs=0.0005)
    assert np.abs(blocks - BLOCK).max() == 166
    _, sizes = np.unique(rows["operator"].cast(pa.string()).to_numpy(zero_copy_only=False), return_counts=True)
    assert len(sizes) == 8
    assert sizes.max() > 5 * sizes.min()
    assert np.mean(rows["direction"].to_numpy()) == pytest.approx(0.5, abs=0.05)
    assert 0.05 < np.mean(rows["congestion"].to_numpy()) < 0.3
    assert set(rows["congestion"].to_pylist()) == {0, 1}


def test_buses_move_within_dublin_and_delays_drift() -> None:
    rows = BusesEvents(vehicles=20).batch(0, 10_000)
    names = ("vehicle_id", "latitude", "longitude", "delay")
    latitude, longitude = (rows[name].to_numpy() for name in names[1:3])
    assert np.abs(latitude - 53.35).max() <= 0.05
    assert np.abs(longitude + 6.26).max() <= 0.1
    reports = defaultdict[int, list[tuple[float, float, int]]](list)
    for vehicle, *rest in zip(*(rows[name].to_pylist() for name in names), strict=True):
        reports[vehicle].append(tuple(rest))
    for found in reports.values():
        steps = np.abs(np.diff(np.array(found), axis=0))
        assert steps[:, 0].max() < 0.001
        assert steps[:, 1].max() < 0.002
        assert steps[:, 2].max() < 130
        assert min(delay for *_, delay in found) >= -330
        assert max(delay for *_, delay in found) <= 1666


@pytest.mark.parametrize("wrong", [{"vehicles": 0}, {"per_s": 0}, {"seed": -1}, {"per_s": 1.5}])
def test_settings_beyond_their_limits_are_rejected(wrong: dict[str, int]) -> None:
    with pytest.raises(ConfigError, match=f"buses {next(iter(wrong))} must be a whole number from"):
        BusesEvents(**wrong)


@pytest.mark.parametrize(("start", "stop"), [(-1, 3), (5, 4)])
def test_a_batch_with_an_invalid_range_is_rejected(start: int, stop: int) -> None:
    with pytest.raises(ConfigError, match=f"got start {start}, stop {stop}"):
        BusesEvents().batch(start, stop)
