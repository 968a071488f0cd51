"""The skew generator: the same report for the same index, the shares that were declared, and a hotspot that moves."""

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.errors import ConfigError
from shoal.workloads.skew.events import LENGTH_DM, WIDTH_DM, Profile, SkewEvents

untimed = settings(deadline=None)  # the first example may compile
PROFILES: tuple[Profile, ...] = ("steps", "orbit", "oscillating")


@st.composite
def cities(draw: st.DrawFn) -> SkewEvents:
    cells = draw(st.integers(1, 40))
    stride = draw(st.integers(1, cells))
    return SkewEvents(
        cells=cells,
        per_s=draw(st.integers(1, 2_000_000)),
        hot=draw(st.integers(1, cells // stride)),
        heat=draw(st.floats(0, 1)),
        skew=draw(st.floats(0, 3)),
        stride=stride,
        profile=draw(st.sampled_from(PROFILES)),
        move_s=draw(st.floats(0, 5)),
        drift=draw(st.integers(0, 50)),
        vehicles=draw(st.integers(1, 1000)),
        seed=draw(st.integers(0, 2**63 - 1)),
    )


def shares_of(city: SkewEvents, from_s: float, to_s: float) -> npt.NDArray[np.float64]:
    """The share of the reports that every cell really has in a stretch of event time."""
    batch = city.batch(round(from_s * city.per_s), round(to_s * city.per_s))
    shares: npt.NDArray[np.float64] = np.bincount(batch["cell"].to_numpy(), minlength=city.cells) / batch.num_rows
    return shares


@untimed
@given(cities(), st.lists(st.integers(0, 3000), min_size=3, max_size=3).map(sorted))
def test_a_report_is_the_same_however_the_stream_is_cut(city: SkewEvents, cuts: list[int]) -> None:
    start, middle, stop = cuts
    parts = pa.Table.from_batches([city.batch(start, middle), city.batch(middle, stop)])
    assert parts.combine_chunks() == pa.Table.from_batches([city.batch(start, stop)])


def test_a_recorded_stream_can_be_made_again() -> None:
    batch = SkewEvents(seed=42, profile="orbit").batch(1_234_567, 1_234_570)
    assert batch["ts"].cast(pa.int64()).to_pylist() == [
        1_704_067_261_728_350,
        1_704_067_261_728_400,
        1_704_067_261_728_450,
    ]
    assert [tuple(row.values()) for row in batch.drop_columns("ts").to_pylist()] == [
        (3, 5161, 4177, 145, 2531, 641),
        (40, 18_958, 6641, 61, 3470, 782),
        (11, 13_294, 6438, 28, 2389, 8),
    ]


@untimed
@given(cities())
def test_reports_lie_on_the_road_and_come_in_order(city: SkewEvents) -> None:
    batch = city.batch(0, 2000)
    times = batch["ts"].cast(pa.int64()).to_numpy()
    assert (np.diff(times) >= 0).all()
    assert times[-1] == city.start_us + 1999 * 1_000_000 // city.per_s
    limits = {
        "cell": city.cells, "vehicle": city.vehicles, "x": LENGTH_DM, "y": WIDTH_DM, "speed": 4096, "braking": 1000,
    }  # fmt: skip
    for name, limit in limits.items():
        values = batch[name].to_numpy()
        assert 0 <= values.min() <= values.max() < limit, name
    assert batch.schema == SkewEvents.schema()


@untimed
@given(cities(), st.floats(0, 30))
def test_declared_shares_add_up_and_the_hot_cells_have_theirs(city: SkewEvents, at_s: float) -> None:
    shares = city.shares(at_s)
    assert shares.sum() == pytest.approx(1)
    assert shares.min() >= 0
    hot = city.hot_cells(at_s)
    assert len(set(hot)) == city.hot
    if city.profile != "orbit":
        heat = city.heat if city.hot < city.cells else 1
        assert shares[hot].sum() == pytest.approx(heat, abs=1e-5)
        weights = 1 / np.arange(1, city.hot + 1) ** city.skew
        assert shares[hot] == pytest.approx(heat * weights / weights.sum(), abs=1e-5)


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("seed", [0, 2**63 - 1])
def test_cells_have_the_shares_that_were_declared(profile: Profile, seed: int) -> None:
    city = SkewEvents(profile=profile, seed=seed, per_s=1_000_000, move_s=2.0)
    for at_s in (0.0, 1.5, 2.5, 7.0):
        assert shares_of(city, at_s, at_s + 0.1) == pytest.approx(city.shares(at_s + 0.05), abs=0.002)


def test_without_skew_hot_cells_are_equally_hot_and_without_heat_they_are_cold() -> None:
    assert SkewEvents(skew=0.0).shares(0)[::4][:12] == pytest.approx([0.8 / 12] * 12, abs=1e-6)
    assert SkewEvents(heat=0.0).shares(0)[::4][:12] == pytest.approx([0.0] * 12, abs=1e-6)


def test_where_all_cells_are_hot_the_law_is_that_of_zipf() -> None:
    shares = SkewEvents(cells=4, hot=4, stride=1, skew=1.0).shares(0)
    assert shares == pytest.approx(np.array([12, 6, 4, 3]) / 25, abs=1e-6)


def test_hot_cells_are_a_stride_apart_so_that_one_worker_of_two_or_four_has_them_all_by_turns() -> None:
    city = SkewEvents()
    assert city.hot_cells(0) == list(range(0, 48, 4))
    for step in range(4):
        workers = {cell % 4 for cell in city.hot_cells(step * city.move_s)}
        assert workers == {step}
        assert {cell % 2 for cell in city.hot_cells(step * city.move_s)} == {step % 2}


def test_a_hotspot_moves_in_steps() -> None:
    city = SkewEvents(cells=8, hot=2, move_s=10.0, drift=3)
    assert [city.hot_cells(at_s) for at_s in (0, 9.9, 10, 20, 30)] == [[0, 4], [0, 4], [3, 7], [6, 2], [1, 5]]


def test_a_hotspot_in_orbit_glides_from_one_place_to_the_next() -> None:
    city = SkewEvents(cells=8, hot=1, heat=1.0, stride=1, profile="orbit", move_s=10.0)
    assert [city.shares(at_s)[:3].round(2).tolist() for at_s in (0, 2.5, 10, 15)] == [
        [1.0, 0.0, 0.0],
        [0.75, 0.25, 0.0],
        [0.0, 1.0, 0.0],
        [0.0, 0.5, 0.5],
    ]


def test_an_oscillating_hotspot_goes_back_and_forth() -> None:
    city = SkewEvents(cells=8, hot=2, profile="oscillating", move_s=0.5)
    assert [city.hot_cells(step / 2)[0] for step in range(5)] == [0, 1, 0, 1, 0]


@pytest.mark.parametrize("profile", PROFILES)
def test_a_hotspot_that_has_no_time_to_move_stays(profile: Profile) -> None:
    city = SkewEvents(profile=profile, move_s=0.0)
    assert city.hot_cells(1e6) == city.hot_cells(0)
    assert city.batch(0, 5000) == replace(city, drift=7).batch(0, 5000)


def test_speeds_and_braking_make_patterns_rare() -> None:
    batch = SkewEvents().batch(0, 1_000_000)
    speed, braking = batch["speed"].to_numpy(), batch["braking"].to_numpy()
    assert np.mean(speed == 0) == pytest.approx(1 / 4096, rel=0.2)
    assert np.mean(speed > 3300) == pytest.approx(0.076, abs=0.003)
    assert np.mean(braking >= 900) == pytest.approx(0.1, abs=0.003)
    assert speed.mean() == pytest.approx(2047, abs=5)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param({"profile": "spiral"}, "profile must be one of steps, orbit, oscillating; got", id="no profile"),
        pytest.param({"cells": 0}, "cells must be a whole number from 1 to 4096; got 0", id="no cells"),
        pytest.param({"hot": 0}, "hot must be a whole number from 1", id="nothing hot"),
        pytest.param({"hot": 17}, "hot times stride must be at most 64 cells; got hot 17, stride 4", id="too many hot"),
        pytest.param({"heat": 1.5}, "heat must be a number from 0 to 1; got 1.5", id="more than all"),
        pytest.param({"skew": float("nan")}, "skew must be a number from 0 to 10; got nan", id="skew is no number"),
        pytest.param({"move_s": -1.0}, "move_s must be a number from 0", id="moves back in time"),
        pytest.param({"drift": 0.5}, "drift must be a whole number", id="half a cell"),
        pytest.param({"per_s": 0}, "per_s must be a whole number from 1", id="no events"),
        pytest.param({"seed": -1}, "seed must be a whole number", id="negative seed"),
    ],
)
def test_invalid_arguments_are_rejected_by_name(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        SkewEvents(**arguments)


@pytest.mark.parametrize("at_s", [-1.0, float("inf"), float("nan")])
def test_a_time_that_is_not_in_the_stream_is_rejected(at_s: float) -> None:
    with pytest.raises(ConfigError, match="offset must be a finite number of seconds from 0 on"):
        SkewEvents().shares(at_s)


def test_a_batch_must_not_end_before_it_starts() -> None:
    with pytest.raises(ConfigError, match="got start 2, stop 1"):
        SkewEvents().batch(2, 1)
