"""The taxi trip generator: the same trip for the same index, and the marginals that were promised."""

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.errors import ConfigError
from shoal.workloads.nyt.events import COORDINATES, NytEvents
from shoal.workloads.nyt.oracle import cell_of

untimed = settings(deadline=None)  # the first example may compile
streams = st.builds(NytEvents, per_s=st.integers(1, 2_000_000), seed=st.integers(0, 2**63 - 1))


def column(name: str, rows: int = 200_000, seed: int = 0) -> npt.NDArray[np.float64]:
    values: npt.NDArray[np.float64] = NytEvents(seed=seed).batch(0, rows)[name].to_numpy(zero_copy_only=False)
    return values


@untimed
@given(streams, st.lists(st.integers(0, 3000), min_size=3, max_size=3).map(sorted))
def test_a_trip_is_the_same_however_the_stream_is_cut(events: NytEvents, cuts: list[int]) -> None:
    start, middle, stop = cuts
    parts = pa.Table.from_batches([events.batch(start, middle), events.batch(middle, stop)])
    assert parts.combine_chunks() == pa.Table.from_batches([events.batch(start, stop)])


def test_event_time_never_goes_back_and_keeps_the_rate() -> None:
    times = NytEvents(per_s=300, start_us=0).batch(0, 901)["ts"].cast(pa.int64()).to_numpy()
    assert (np.diff(times) >= 0).all()
    assert times[[0, 299, 300, 900]].tolist() == [0, 996_666, 1_000_000, 3_000_000]


def test_half_of_the_trips_are_of_each_vendor() -> None:
    vendors = NytEvents().batch(0, 200_000)["vendor"].cast(pa.string()).to_pylist()
    assert vendors.count("VTS") / len(vendors) == pytest.approx(0.5, abs=0.01)
    assert set(vendors) == {"VTS", "CMT"}


@pytest.mark.parametrize("seed", [0, 1, 2**63 - 1])
def test_distances_are_log_normal_and_a_quarter_at_most_a_mile(seed: int) -> None:
    distance = column("distance", seed=seed)
    assert np.mean(distance <= 1) == pytest.approx(0.25, abs=0.01)
    assert np.std(np.log(distance)) == pytest.approx(0.85, abs=0.02)
    assert distance.min() > 0
    assert distance.max() < 50


def test_a_fare_follows_its_distance() -> None:
    distance, fare = column("distance"), column("fare")
    assert fare.min() >= 2.5
    assert np.corrcoef(distance, fare)[0, 1] > 0.9
    assert (fare * 2 == np.rint(fare * 2)).all()


def test_most_trips_have_one_passenger_and_none_more_than_six() -> None:
    passengers = column("passengers")
    assert np.mean(passengers == 1) == pytest.approx(0.7, abs=0.01)
    assert np.unique(passengers).tolist() == [1, 2, 3, 4, 5, 6]


def test_one_trip_in_fifty_has_a_place_outside_of_the_grid() -> None:
    positions = np.stack([column(name, 50_000) for name in COORDINATES], axis=1).tolist()
    cells = [(cell_of(*position[:2]), cell_of(*position[2:])) for position in positions]
    invalid = [position for position, cell in zip(positions, cells, strict=True) if None in cell]
    assert len(invalid) / len(cells) == pytest.approx(0.02, abs=0.004)
    assert [0.0] * 4 in invalid
    assert any(position[0] > 40 and position[2] > 42 for position in invalid), "some end too far north"
    assert any(position[1] < -75.5 for position in invalid), "some begin too far west"


def test_trips_crowd_in_manhattan_and_at_the_airports() -> None:
    latitude, longitude = column("pickup_latitude"), column("pickup_longitude")
    manhattan = (np.abs(latitude - 40.75) < 0.06) & (np.abs(longitude + 73.98) < 0.04)
    kennedy = (np.abs(latitude - 40.645) < 0.008) & (np.abs(longitude + 73.785) < 0.008)
    assert np.mean(manhattan) > 0.7
    assert np.mean(kennedy) == pytest.approx(0.04, abs=0.01)


def test_pickup_and_drop_off_are_drawn_independently() -> None:
    pickup, dropoff = column("pickup_longitude"), column("dropoff_longitude")
    valid = (np.abs(pickup + 74) < 0.5) & (np.abs(dropoff + 74) < 0.5)
    assert abs(np.corrcoef(pickup[valid], dropoff[valid])[0, 1]) < 0.02


@pytest.mark.parametrize("wrong", [{"per_s": 0}, {"seed": -1}, {"per_s": 1.5}])
def test_settings_beyond_their_limits_are_rejected(wrong: dict[str, int]) -> None:
    name = next(iter(wrong))
    with pytest.raises(ConfigError, match=f"nyt {name} must be a whole number from"):
        NytEvents(**wrong)


def test_a_batch_must_not_end_before_it_starts() -> None:
    with pytest.raises(ConfigError, match="got start 2, stop 1"):
        NytEvents().batch(2, 1)
