"""Generated streams: as many events as are due, allowed and left."""

from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.connectors.admission import admit
from shoal.connectors.sources.generator import Generator, GeneratorCursor
from shoal.connectors.sources.source import Slice
from shoal.errors import ConfigError, SchemaError, SourceError
from shoal.storage.directory import Directory
from shoal.workloads.traffic.events import TrafficEvents


@dataclass(frozen=True)
class Numbers:
    """Event n holds the number n; some are missing where `lost` is set."""

    lost: int = 0

    def batch(self, start: int, stop: int) -> pa.RecordBatch:
        return pa.record_batch({"n": pa.array(range(start, stop - self.lost), pa.int64())})


class Clock:
    """A clock that the test moves."""

    def __init__(self, now_s: float = 1000.0) -> None:
        self.now_s = now_s

    def __call__(self) -> float:
        return self.now_s


def cursor_of(source: Generator, tmp_path: Path, clock: Clock) -> GeneratorCursor:
    return GeneratorCursor(source, Directory(str(tmp_path)), clock)


def test_events_come_at_the_rate_asked_for(tmp_path: Path) -> None:
    source, clock = Generator(Numbers(), rate=100.0), Clock()
    cursor, at = cursor_of(source, tmp_path, clock), source.start()
    positions = []
    for elapsed_s in (0.0, 0.0, 0.5, 0.0, 1.0, 10.0):
        clock.now_s += elapsed_s
        at = cursor.latest(at)
        positions.append(at["position"])
    assert positions == [0, 0, 50, 50, 150, 1150]


@pytest.mark.parametrize("position", [0, 12_345], ids=["from the first event on", "after a restart"])
def test_events_can_come_at_their_own_times(position: int, tmp_path: Path) -> None:
    events = TrafficEvents("W3", vehicles=500, period_s=20, steps_per_s=3)
    source, clock = Generator(events, rate="event-time"), Clock()
    cursor, at = cursor_of(source, tmp_path, clock), {"position": position, "ended": False}
    cursor.latest(at)
    clock.now_s += 4.5
    end = cursor.latest(at)
    assert end["position"] == pytest.approx(events.index_at(events.seconds_at(position) + 4.5), abs=1)
    assert cursor.due_s(end) == pytest.approx(clock.now_s, abs=0.01)


def test_events_that_do_not_know_their_times_cannot_come_at_them() -> None:
    with pytest.raises(ConfigError, match="rate event-time needs events that know their times; got Numbers"):
        Generator(Numbers(), rate="event-time")


def test_a_run_that_has_fallen_behind_catches_up_in_bounded_epochs(tmp_path: Path) -> None:
    source, clock = Generator(Numbers(), rate=100.0, rows_per_epoch=60), Clock()
    cursor, at = cursor_of(source, tmp_path, clock), source.start()
    cursor.latest(at)
    clock.now_s += 2.0
    positions = []
    for _ in range(5):
        at = cursor.latest(at)
        positions.append(at["position"])
    assert positions == [60, 120, 180, 200, 200]


def test_a_restart_starts_the_clock_anew(tmp_path: Path) -> None:
    source, clock = Generator(Numbers(), rate=100.0), Clock()
    at = {"position": 500, "ended": False}
    cursor = cursor_of(source, tmp_path, clock)
    assert cursor.latest(at) == at
    clock.now_s += 1.0
    assert cursor.latest(at)["position"] == 600


def test_the_last_event_ends_the_stream(tmp_path: Path) -> None:
    source = Generator(Numbers(), events=25, rows_per_epoch=10)
    cursor, at = cursor_of(source, tmp_path, Clock()), source.start()
    ends = []
    while not at["ended"]:
        at = cursor.latest(at)
        ends.append((at["position"], at["ended"]))
    assert ends == [(10, False), (20, False), (25, True)]


def test_a_stream_of_no_events_ends_at_once(tmp_path: Path) -> None:
    source = Generator(Numbers(), events=0)
    assert cursor_of(source, tmp_path, Clock()).latest(source.start()) == {"position": 0, "ended": True}


@settings(deadline=None)
@given(
    rate=st.floats(0.001, 1e6),
    steps_s=st.lists(st.floats(0, 100), max_size=20),
    events=st.none() | st.integers(0, 10_000),
    rows=st.integers(1, 5_000),
)
def test_events_are_never_early_never_too_many_and_never_taken_back(
    tmp_path_factory: pytest.TempPathFactory, rate: float, steps_s: list[float], events: int | None, rows: int
) -> None:
    source, clock = Generator(Numbers(), events=events, rate=rate, rows_per_epoch=rows), Clock(0.0)
    cursor, at = cursor_of(source, tmp_path_factory.getbasetemp() / "never made", clock), source.start()
    cursor.latest(at)
    for step_s in steps_s:
        clock.now_s += step_s
        end = cursor.latest(at)
        assert 0 <= end["position"] - at["position"] <= rows
        assert end["position"] <= clock.now_s * rate
        assert events is None or end["position"] <= events
        at = end


def test_events_that_lack_a_column_are_reported_like_any_other_input() -> None:
    (raw,) = Generator(Numbers()).read(Slice("here", 3, {"start": 0, "stop": 3}), ["n", "speed"])
    with pytest.raises(SchemaError, match="generator Numbers lacks column 'speed'; it has n"):
        admit(raw, pa.schema([("n", pa.int64()), ("speed", pa.float64())]), "n", None)


def test_a_function_that_loses_events_is_found_out() -> None:
    source = Generator(Numbers(lost=1))
    with pytest.raises(SourceError, match="generator Numbers must make 3 events for numbers 0 to 2; got 2"):
        list(source.read(Slice("here", 3, {"start": 0, "stop": 3}), ["n"]))


REFUSED = [
    pytest.param({"events": -1}, "number of events must not be negative; got -1", id="fewer than none"),
    pytest.param({"rate": 0.0}, "rate must be positive; got 0.0 events per second", id="no rate"),
    pytest.param({"rows_per_epoch": 0}, "rows per epoch must be at least 1; got 0", id="no rows"),
]


@pytest.mark.parametrize(("options", "message"), REFUSED)
def test_invalid_limits_are_rejected(options: dict[str, float], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Generator(Numbers(), **options)  # type: ignore[arg-type]
