"""Forecasts: lines, seasons, and what they refuse."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from shoal.control.forecast import Last, Seasonal, Trend, forecast_of
from shoal.errors import ConfigError


def test_a_line_goes_on_as_a_line() -> None:
    past = np.array([[2.0 + 3 * n, 50.0 - n] for n in range(8)])
    predicted = Trend(observations=8, most=10.0).predicted(past, step_s=2.0, horizon_s=8.0)
    assert predicted == pytest.approx([2.0 + 3 * 9, 50.0 - 9])


def test_a_season_knows_what_comes_next() -> None:
    wave = 10 + 5 * np.sin(np.arange(60) * 2 * np.pi / 20)
    past = wave[:45, None]
    seasonal = Seasonal(period_s=20.0).predicted(past, step_s=1.0, horizon_s=5.0)
    truth = wave[45:50].mean()
    trend = Trend().predicted(past, step_s=1.0, horizon_s=5.0)
    assert abs(seasonal[0] - truth) < 0.1 < abs(trend[0] - truth)


def test_before_a_period_has_passed_a_season_is_a_trend() -> None:
    past = np.array([[1.0], [2.0], [3.0]])
    assert Seasonal(100.0).predicted(past, 1.0, 2.0) == pytest.approx(Trend().predicted(past, 1.0, 2.0))


@given(arrays(np.float64, st.tuples(st.integers(1, 30), st.integers(1, 4)), elements=st.floats(0, 1e6)))
def test_no_forecast_is_below_zero_or_without_bounds(past: np.ndarray) -> None:
    for forecast in (Last(), Trend(), Seasonal(5.0)):
        predicted = forecast.predicted(past, 1.0, 10.0)
        assert predicted.shape == past.shape[1:]
        assert (predicted >= 0).all()
        assert (predicted <= 2 * past.max(axis=0) + 1e-6).all()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("tides", "forecast must be none, trend, trend:OBSERVATIONS or season:SECONDS; got 'tides'"),
        ("season:", "forecast must be none, trend, trend:OBSERVATIONS or season:SECONDS; got 'season:'"),
        ("season:x", "forecast 'season:x' must have a number after its colon"),
        ("season:0", "a season must be longer than 0 s; got 0.0"),
        ("trend:2", "a trend needs at least 3 observations; got 2"),
    ],
)
def test_a_forecast_that_does_not_exist_is_a_clear_error(text: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        forecast_of(text)
    assert str(caught.value) == message
