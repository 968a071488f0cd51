"""A scenario runs with the run: SUMO is found, started with the right options, listened to and always stopped."""

import json
import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import psutil
import pytest
from tests.recorded_sumo import FAILS, KILLS_ITSELF, WAITS, WRITES_ON, drive, floating_cars, recorded_sumo

from shoal.connectors.sources.live_cursor import LiveCursor
from shoal.connectors.sources.source import Offset
from shoal.connectors.sources.sumo import Bounds, Sumo
from shoal.errors import ConfigError, ShoalError, SourceError

STEPS = drive(8)
TEXT = floating_cars(STEPS)


@pytest.fixture(autouse=True)
def sumo_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SUMO_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", "/usr/bin:/bin")


def started(directory: Path) -> list[Mapping[str, Any]]:
    return [json.loads(line) for line in (directory / "started").read_text().splitlines()]


def is_running(pid: int) -> bool:
    return psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE


def moved_on(cursor: LiveCursor, start: Offset) -> Offset:
    """The next offset, when there is one."""
    while (end := cursor.latest(start)) == start:
        pass
    return end


def read_all(source: Sumo, directory: Path) -> list[str]:
    """The ids of all vehicles in order."""
    ids, at = list[str](), source.start()
    with closing(source.cursor(str(directory / "pieces"))) as cursor:
        while not at["ended"]:
            end = moved_on(cursor, at)
            for piece in cursor.slices(at, end, 2):
                ids += [each for raw in source.read(piece, ["id"]) for each in raw.batch["id"].to_pylist()]
            at = end
    return ids


def test_a_simulation_is_read_to_its_end(tmp_path: Path) -> None:
    source = Sumo(recorded_sumo(tmp_path, TEXT))
    expected = [vehicle["id"] for vehicles in STEPS for vehicle in vehicles]
    assert read_all(pickle.loads(pickle.dumps(source)), tmp_path) == expected
    assert source.first_rows(7)["id"].to_pylist() == expected[:7]
    assert source.first_rows(10_000)["id"].to_pylist() == expected


def test_options_of_the_source_are_those_of_sumo(tmp_path: Path) -> None:
    scenario = recorded_sumo(tmp_path, TEXT)
    read_all(Sumo(scenario), tmp_path / "own")
    read_all(Sumo(scenario, seed=7, end_s=60.5), tmp_path / "set")
    own, changed = (each["options"] for each in started(tmp_path))
    assert {**own, "fcd-output": ""} == {
        "fcd-output": "",
        "output-prefix": "",
        "human-readable-time": "false",
        "random": "false",
        "no-step-log": "true",
        "no-warnings": "true",
        "duration-log.disable": "true",
        "fcd-output.geo": "false",
    }
    assert {name: value for name, value in changed.items() if name not in own} == {"seed": "7", "end": "60.5"}


def test_a_simulation_with_a_speed_is_no_faster(tmp_path: Path) -> None:
    scenario = recorded_sumo(tmp_path, TEXT)
    before_s = os.times().elapsed
    assert len(read_all(Sumo(scenario, speed=20), tmp_path)) == sum(map(len, STEPS))
    assert os.times().elapsed - before_s >= 6 / 20  # from second 1, which has the first vehicle, to second 7


@pytest.mark.parametrize(
    ("then", "end", "message"),
    [
        pytest.param(FAILS, False, "ended with exit code 1 and said: .*Error: no edge / named 'x'.$", id="error"),
        pytest.param(KILLS_ITSELF, False, "ended with signal SIGKILL and said nothing$", id="killed"),
        pytest.param("pass", False, "ended with incomplete floating-car data and said nothing$", id="incomplete"),
    ],
)
def test_a_simulation_that_fails_is_reported_in_its_own_words(
    tmp_path: Path, then: str, end: bool, message: str
) -> None:
    source = Sumo(recorded_sumo(tmp_path, floating_cars(STEPS, end=end), then))
    with pytest.raises(SourceError, match=f"^SUMO must run scenario {source.scenario} to its end; it {message}"):
        read_all(source, tmp_path)


def test_output_that_is_no_floating_car_data_is_refused(tmp_path: Path) -> None:
    source = Sumo(recorded_sumo(tmp_path, "Success.</done>", WAITS))
    with pytest.raises(SourceError, match=r"^SUMO must write floating-car data for .*; .* is not XML"):
        read_all(source, tmp_path)
    assert not is_running(started(tmp_path)[0]["pid"])


@pytest.mark.parametrize("then", [WAITS, WRITES_ON], ids=["that computes", "that has to wait"])
def test_a_simulation_is_stopped_with_the_cursor(tmp_path: Path, then: str) -> None:
    source = Sumo(recorded_sumo(tmp_path, floating_cars(STEPS, end=False), then))
    cursor = source.cursor(str(tmp_path / "pieces"))
    moved_on(cursor, source.start())
    [process] = started(tmp_path)
    assert is_running(process["pid"])
    cursor.close()
    assert not is_running(process["pid"])


READER = """
import os, signal, sys
from shoal.connectors.sources.sumo import Sumo
source = Sumo(sys.argv[1])
cursor, start = source.cursor(sys.argv[2]), source.start()
while cursor.latest(start) == start:
    pass
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_simulation_ends_when_its_reader_is_killed(tmp_path: Path) -> None:
    scenario = recorded_sumo(tmp_path, floating_cars(STEPS, end=False), WRITES_ON)
    killed = subprocess.run([sys.executable, "-c", READER, scenario, str(tmp_path / "pieces")], check=False)
    assert killed.returncode == -signal.SIGKILL
    [process] = started(tmp_path)
    if is_running(process["pid"]):
        psutil.wait_procs([psutil.Process(process["pid"])], timeout=10)
    assert not is_running(process["pid"])


def test_a_restart_with_another_seed_is_refused(tmp_path: Path) -> None:
    scenario = recorded_sumo(tmp_path, floating_cars(STEPS, end=False), FAILS)
    with pytest.raises(SourceError, match="no edge"):
        read_all(Sumo(scenario), tmp_path)
    (tmp_path / "fcd.xml").write_text(TEXT.replace("13.50", "13.49"))
    source = Sumo(scenario)
    with closing(source.cursor(str(tmp_path / "pieces"))) as cursor:
        at = cursor.latest(source.start())
        with pytest.raises(ShoalError, match="same 8 steps as before the restart; their rows differ"):
            moved_on(cursor, at)


def test_the_bounds_are_those_of_the_network(tmp_path: Path) -> None:
    assert Sumo(recorded_sumo(tmp_path, TEXT)).bounds() == Bounds(0, 0, 1000, 500)


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    scenario = recorded_sumo(tmp_path, TEXT)
    with pytest.raises(ConfigError, match="geo needs a network with a projection"):
        Sumo(scenario, geo=True).check()
    with pytest.raises(SourceError, match=r"^scenario .*/none.sumocfg does not exist$"):
        Sumo(str(tmp_path / "none.sumocfg")).check()
    (tmp_path / "city.net.xml").write_text("<net/>")
    with pytest.raises(SourceError, match=r"city.net.xml must have an element <location>; it has none$"):
        Sumo(scenario).check()
    (tmp_path / "city.sumocfg").write_text("net-file = city.net.xml")
    with pytest.raises(SourceError, match=r"city.sumocfg must be XML of SUMO; got: syntax error"):
        Sumo(scenario).check()


def test_a_machine_without_sumo_says_how_to_install_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scenario = recorded_sumo(tmp_path, TEXT)
    monkeypatch.setenv("SUMO_HOME", str(tmp_path / "nothing"))
    monkeypatch.setattr("shoal.connectors.sources.sumo_process.find_spec", lambda _: None)
    with pytest.raises(SourceError, match=r"nothing has no bin/sumo, .* install it with: pip install 'shoal\[sumo\]'$"):
        Sumo(scenario).check()
