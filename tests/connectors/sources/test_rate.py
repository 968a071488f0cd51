"""Rates that change in steps: how many events are due, and when each was."""

from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.connectors.sources.test_generator import Clock, Numbers, cursor_of

from shoal.connectors.sources.generator import Generator
from shoal.connectors.sources.rate import Rate, steps_of
from shoal.errors import ConfigError

QUARTERS = st.integers(1, 400).map(lambda n: n / 4)
PER_S = st.just(0.0) | st.integers(1, 1_000_000).map(float)


@st.composite
def rates(draw: st.DrawFn) -> Rate:
    """Steps of whole events per second at quarters of seconds, for which floats are exact; the last is no pause."""
    moments = [0.0, *sorted(draw(st.sets(QUARTERS, max_size=5)))]
    values = [draw(PER_S) for _ in moments[1:]]
    return Rate(tuple(zip(moments, [*values, float(draw(st.integers(1, 1_000_000)))], strict=True)))


def exact(rate: Rate, elapsed_s: float) -> Fraction:
    """Events due by a moment, added step by step."""
    total, ends = Fraction(0), [*(moment for moment, _ in rate.steps[1:]), None]
    for (start, value), end in zip(rate.steps, ends, strict=True):
        until = elapsed_s if end is None else min(elapsed_s, end)
        total += Fraction(value) * max(Fraction(0), Fraction(until) - Fraction(start))
    return total


@given(rates(), st.integers(0, 1000).map(lambda n: n / 4))
def test_as_many_events_are_due_as_the_steps_add_up_to(rate: Rate, elapsed_s: float) -> None:
    assert rate.due(elapsed_s) == int(exact(rate, elapsed_s))


@given(rates(), st.integers(0, 10_000_000))
def test_an_event_is_due_when_as_many_came_before_it(rate: Rate, event: int) -> None:
    when_s = rate.when(event)
    assert float(exact(rate, when_s)) == pytest.approx(event, rel=1e-9, abs=1e-6)
    assert rate.due(when_s + 0.001) >= event
    assert exact(rate, when_s + 1.0) > event  # not before a pause but after it


@given(rates(), st.lists(st.floats(0, 1000), min_size=2, max_size=20))
def test_what_is_due_only_grows(rate: Rate, moments: list[float]) -> None:
    due = [rate.due(moment) for moment in sorted(moments)]
    assert due == sorted(due)
    assert rate.due(0.0) == 0


@given(rates() | st.floats(1e-6, 1e12).map(Rate.of))
def test_a_rate_is_what_its_text_says(rate: Rate) -> None:
    assert Rate.of(str(rate)) == rate


@given(rates(), st.sampled_from([0.5, 0.25, 1.0, 2.0]), st.integers(0, 1000).map(lambda n: n / 4))
def test_a_share_of_a_rate_has_that_share_of_the_events(rate: Rate, share: float, elapsed_s: float) -> None:
    assert (rate * share).due(elapsed_s) == int(exact(rate, elapsed_s) * Fraction(share))


@pytest.mark.parametrize(
    ("given_", "steps"),
    [
        pytest.param(100, ((0.0, 100.0),), id="a number"),
        pytest.param("100", ((0.0, 100.0),), id="a text"),
        pytest.param("1e3,5000@10,0@20.5,1000@30", ((0, 1000), (10, 5000), (20.5, 0), (30, 1000)), id="steps"),
        pytest.param("0,50@3", ((0, 0), (3, 50)), id="a late start"),
        pytest.param(Rate(((0.0, 7.0),)), ((0.0, 7.0),), id="a rate"),
    ],
)
def test_a_rate_is_a_number_or_steps(given_: float | str | Rate, steps: tuple[tuple[float, float], ...]) -> None:
    assert Rate.of(given_).steps == steps


@pytest.mark.parametrize(
    ("given_", "message"),
    [
        pytest.param("fast", "rate must be events per second, or steps like 1000,5000@10", id="no number"),
        pytest.param("1@2@3", "or steps like 1000,5000@10", id="two moments"),
        pytest.param("", "or steps like 1000,5000@10", id="nothing"),
        pytest.param("5@1", "steps of a rate must begin at 0", id="nothing at the start"),
        pytest.param("5,6@2,7@1", "must begin at 0 and follow each other in time", id="steps back in time"),
        pytest.param("5,6@2,7@2", "must begin at 0 and follow each other in time", id="two steps at once"),
        pytest.param("5,6@nan", "must begin at 0 and follow each other in time", id="no moment"),
        pytest.param("5,6@inf", "must begin at 0 and follow each other in time", id="a step that never comes"),
        pytest.param("-5", "rate must be positive; got -5.0 events per second", id="below nothing"),
        pytest.param("nan", "rate must be positive; got nan events per second", id="not a number"),
        pytest.param("inf", "rate must be positive; got inf events per second", id="all at once"),
        pytest.param("5,0@3", "rate must be positive; got 0.0 events per second", id="a pause without end"),
        pytest.param(0, "rate must be positive; got 0.0 events per second", id="never"),
    ],
)
def test_invalid_rates_are_rejected(given_: float | str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Rate.of(given_)


def test_steps_can_be_of_anything() -> None:
    assert steps_of("0.1,0.9@2") == ((0.0, 0.1), (2.0, 0.9))
    assert steps_of("0.1,often@2") is None


def test_generated_events_follow_the_steps(tmp_path: Path) -> None:
    source, clock = Generator(Numbers(), rate="100,1000@2,0@3,10@4"), Clock()
    cursor, at = cursor_of(source, tmp_path, clock), source.start()
    positions = [cursor.latest(at)["position"]]
    for _ in range(6):
        clock.now_s += 1.0
        at = cursor.latest(at)
        positions.append(at["position"])
    assert positions == [0, 100, 200, 1200, 1200, 1210, 1220]


def test_events_are_stamped_with_when_they_were_due_however_late_they_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, clock = Generator(Numbers(), rate="100,1000@2", rows_per_epoch=10_000), Clock(1000.0)
    cursor, at = cursor_of(source, tmp_path, clock), source.start()
    cursor.latest(at)  # the clock starts: 5000 s on the wall
    clock.now_s += 60.0
    monkeypatch.setattr("shoal.connectors.sources.generator.time.time", lambda: 5060.0)
    end = cursor.latest(at)
    first, second = cursor.slices({"position": 0, "ended": False}, {"position": 100_000, "ended": False}, 2)
    assert end["position"] == 10_000
    assert cursor.scheduled_s(first) == pytest.approx(5000.0)
    assert second.data["start"] == 50_000
    assert cursor.scheduled_s(second) == pytest.approx(5000.0 + 2.0 + 49.8)


def test_events_without_a_rate_are_due_whenever_they_are_asked_for(tmp_path: Path) -> None:
    source = Generator(Numbers(), events=10)
    cursor = cursor_of(source, tmp_path, Clock())
    (piece,) = cursor.slices(source.start(), cursor.latest(source.start()), 4)
    assert cursor.scheduled_s(piece) is None
