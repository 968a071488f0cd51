"""The points of geo-pubsub: the same for the same index, and hotspots that have the share that was declared."""

from dataclasses import replace
from typing import Any, get_args

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.errors import ConfigError
from shoal.workloads.geo_pubsub.cities import CITIES, SPACE
from shoal.workloads.geo_pubsub.hotspots import LOWER_LEFT, SIDE, UPPER_RIGHT, Heat, Hotspot, Scenario, Spread
from shoal.workloads.geo_pubsub.points import GeoPoints

Floats = npt.NDArray[np.float64]

untimed = settings(deadline=None, max_examples=40)  # the first example may compile
MIN_X, MIN_Y, MAX_X, MAX_Y = SPACE
WIDTH, HEIGHT = MAX_X - MIN_X, MAX_Y - MIN_Y


@st.composite
def heats(draw: st.DrawFn) -> Heat:
    return Heat(
        draw(st.sampled_from(get_args(Scenario))),
        draw(st.floats(0, 1)),
        draw(st.floats(0, 2)),
        draw(st.floats(0, 3)),
        draw(st.sampled_from(get_args(Spread))),
    )


@st.composite
def streams(draw: st.DrawFn) -> GeoPoints:
    return GeoPoints(draw(heats()), draw(st.integers(1, 2_000_000)), draw(st.integers(0, 2**63 - 1)))


def in_shares(points: GeoPoints, from_s: float, to_s: float) -> tuple[Floats, Floats]:
    """Points of a stretch of event time, as shares of the space."""
    columns = points.columns(points.index_at(from_s), points.index_at(to_s))
    x, y = columns["x"].astype(float), columns["y"].astype(float)
    return (x - MIN_X) / WIDTH, (y - MIN_Y) / HEIGHT


def share_inside(points: GeoPoints, from_s: float, to_s: float, centre: tuple[float, float]) -> float:
    """The share of the points of a stretch of event time that lie in the square of a hotspot."""
    x, y = in_shares(points, from_s, to_s)
    inside = (abs(x - centre[0]) <= SIDE / 2 + 1e-6) & (abs(y - centre[1]) <= SIDE / 2 + 1e-6)
    return float(inside.mean())


@untimed
@given(streams(), st.lists(st.integers(0, 3000), min_size=3, max_size=3).map(sorted))
def test_a_point_is_the_same_however_the_stream_is_cut(points: GeoPoints, cuts: list[int]) -> None:
    start, middle, stop = cuts
    parts = pa.Table.from_batches([points.batch(start, middle), points.batch(middle, stop)])
    assert parts.combine_chunks() == pa.Table.from_batches([points.batch(start, stop)])


def test_a_recorded_stream_can_be_made_again() -> None:
    points = GeoPoints(Heat("moving", spread="normal"), seed=42)
    rows = points.batch(154_321, 154_324).to_pylist()
    assert [tuple(row.values())[1:] for row in rows] == [
        (154_321, -118.556451, 31.43159, 43),
        (154_322, -77.490129, 37.805232, 22),
        (154_323, -81.663537, 28.44724, 67),
    ]
    assert rows[0]["ts"].isoformat() == "2024-01-01T00:00:15.432100"


@untimed
@given(streams())
def test_points_lie_in_the_space_and_come_in_order(points: GeoPoints) -> None:
    batch = points.batch(0, 2000)
    times = batch["ts"].cast(pa.int64()).to_numpy()
    assert (np.diff(times) >= 0).all()
    assert times[-1] == points.start_us + 1999 * 1_000_000 // points.per_s
    x, y, value = (batch[name].to_numpy() for name in ("x", "y", "value"))
    assert MIN_X <= x.min() <= x.max() <= MAX_X
    assert MIN_Y <= y.min() <= y.max() <= MAX_Y
    assert 0 <= value.min() <= value.max() < 100
    assert batch["point"].to_pylist() == list(range(2000))
    assert np.array_equal(x, np.rint(x * 1e6) / 1e6)
    assert batch.schema == GeoPoints.schema()


@untimed
@given(heats(), st.integers(-1, 6_000_000))
def test_hotspots_never_have_more_than_the_heat(heat: Heat, offset_us: int) -> None:
    shares = [hotspot.share_at(offset_us) for hotspot in heat.hotspots]
    assert all(0 <= share <= hotspot.share for share, hotspot in zip(shares, heat.hotspots, strict=True))
    assert sum(shares) <= heat.heat * (1 + 1e-12)
    begin, end = heat.hot_from_s * 1e6, (heat.hot_from_s + heat.hot_s) * 1e6
    if not begin - 1 <= offset_us <= end + 1:
        assert sum(shares) == 0


@pytest.mark.parametrize("spread", get_args(Spread))
@pytest.mark.parametrize("scenario", get_args(Scenario))
def test_every_hotspot_has_its_share_of_the_points_at_every_time(scenario: Scenario, spread: Spread) -> None:
    heat = Heat(scenario, hot_from_s=1, hot_s=2, spread=spread)
    points, before = GeoPoints(heat, per_s=200_000, seed=5), GeoPoints(Heat("none"), per_s=200_000, seed=5)
    for at_s in (0.5, 1.1, 1.5, 2.0, 2.4, 2.9, 3.5):
        offset_us = round(at_s * 1e6)
        hot = sum(hotspot.share_at(offset_us) for hotspot in heat.hotspots)
        for hotspot in heat.hotspots:
            centre = hotspot.centre_at(offset_us)
            cold = share_inside(before, at_s - 0.025, at_s + 0.025, centre) * (1 - hot)
            declared = hotspot.share_at(offset_us)
            if scenario == "moving":
                assert share_inside(points, at_s - 0.025, at_s + 0.025, centre) <= declared + cold + 0.02
                assert share_inside(points, at_s - 0.001, at_s + 0.001, centre) >= declared - 0.08
            else:
                assert share_inside(points, at_s - 0.025, at_s + 0.025, centre) == pytest.approx(
                    declared + cold, abs=0.02
                )


def test_a_hotspot_is_a_square_of_15_percent_of_the_space_filled_evenly_or_normally() -> None:
    everything_hot = Heat("step", heat=1.0, hot_from_s=0, hot_s=10)
    x, y = in_shares(GeoPoints(everything_hot, per_s=100_000), 0, 1)
    for values, centre in ((x, LOWER_LEFT[0]), (y, LOWER_LEFT[1])):
        inside = (values - centre) / SIDE
        assert -0.5 <= inside.min() < -0.499
        assert 0.499 < inside.max() <= 0.5 + 1e-6
        assert inside.std() == pytest.approx(12**-0.5, abs=0.003)
    x, y = in_shares(GeoPoints(replace(everything_hot, spread="normal"), per_s=100_000), 0, 1)
    for values, centre in ((x, LOWER_LEFT[0]), (y, LOWER_LEFT[1])):
        inside = (values - centre) / SIDE
        assert abs(inside).max() <= 0.5 + 1e-6
        assert inside.mean() == pytest.approx(0, abs=0.003)
        assert inside.std() == pytest.approx(0.2, abs=0.005)
        assert float((abs(inside) < 0.2).mean()) == pytest.approx(0.683, abs=0.015)
    assert abs(np.corrcoef(x, y)[0, 1]) < 0.01


def test_the_scenarios_have_the_hotspots_of_the_study() -> None:
    def shape(scenario: Scenario) -> list[tuple[float, float, float, tuple[float, float]]]:
        found = Heat(scenario, hot_from_s=10, hot_s=20).hotspots
        return [(h.from_us / 1e6, h.until_us / 1e6, h.share, h.start) for h in found]

    assert shape("none") == []
    assert shape("step") == shape("bell") == shape("moving") == [(10, 30, 0.4, LOWER_LEFT)]
    assert shape("double") == [(10, 30, 0.2, LOWER_LEFT), (10, 30, 0.2, UPPER_RIGHT)]
    assert shape("consecutive") == [(10, 20, 0.2, LOWER_LEFT), (20, 30, 0.2, UPPER_RIGHT)]
    assert Heat("moving", hot_from_s=0, hot_s=2).hotspots[0].centre_at(1_000_000) == pytest.approx((0.5, 0.5))


def test_a_bell_rises_and_falls_and_a_step_does_not() -> None:
    bell, step = (Hotspot(0, 100, 0.4, LOWER_LEFT, LOWER_LEFT, bell=bell) for bell in (True, False))
    rising = [bell.share_at(at) for at in range(0, 51, 10)]
    assert rising == sorted(rising)
    assert rising[-1] == 0.4
    assert [bell.share_at(at) for at in (20, 80)] == pytest.approx([0.16384] * 2)
    assert [step.share_at(at) for at in (-1, 0, 99, 100)] == [0, 0.4, 0.4, 0]


def test_without_hotspots_a_large_city_has_more_points_than_a_small_one() -> None:
    x, y = in_shares(GeoPoints(Heat("none"), per_s=200_000), 0, 1)
    lon, lat = MIN_X + x * WIDTH, MIN_Y + y * HEIGHT
    near = {name: int(((abs(lon - at_x) < 0.5) & (abs(lat - at_y) < 0.5)).sum()) for name, at_x, at_y, _ in CITIES}
    total = sum(weight for *_, weight in CITIES)
    for name in ("Denver", "Seattle", "Minneapolis", "Spokane"):  # far from other cities
        weight = next(weight for city, _, _, weight in CITIES if city == name)
        core, around = 0.9044**2, 0.254**2  # of a normal distribution, within 0.5 of 0.3 and of 1.5 deviations
        assert near[name] / 200_000 == pytest.approx(weight / total * (0.65 * core + 0.35 * around), rel=0.15)
    assert near["New York"] > near["Chicago"] > near["Denver"] > near["Billings"] > 0


def test_event_time_and_index_are_inverse() -> None:
    points = GeoPoints(per_s=7)
    assert [points.index_at(points.seconds_at(index)) for index in range(20)] == list(range(20))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Heat("sudden"), "scenario must be one of none, step, bell, double, consecutive, moving; got 'sudden'"),  # type: ignore[arg-type]
        (lambda: Heat(spread="odd"), "spread must be one of uniform, normal; got 'odd'"),  # type: ignore[arg-type]
        (lambda: Heat(heat=1.5), "heat must be a number from 0 to 1; got 1.5"),
        (lambda: GeoPoints(per_s=0), "per_s must be a whole number from 1"),
        (lambda: GeoPoints().batch(5, 3), "batch needs 0 <= start <= stop; got start 5, stop 3"),
    ],
)
def test_settings_that_make_no_sense_are_rejected(make: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=f"^geo-pubsub {message}"):
        make()
