"""`shoal run --on simulated`: the machine, simulated time and the story, as a person gets them."""

import json
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.cli.test_main import shoal

Said = Callable[..., tuple[int, str, str]]
SMALL = ["run", "traffic", "--on", "simulated", "--set", "regions=4", "--set", "vehicles=300"]


@pytest.fixture(autouse=True)
def ctrl_c_as_before() -> Iterator[None]:
    """A command in this process changes what Ctrl-C does."""
    before = signal.getsignal(signal.SIGINT)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Said:
    """Runs a command; returns its exit code, stdout and stderr."""

    def command(*arguments: str) -> tuple[int, str, str]:
        capfd.readouterr()
        code = shoal(monkeypatch, *arguments)
        output = capfd.readouterr()
        return code, output.out, output.err

    return command


def test_the_table_says_that_time_was_simulated_and_on_which_machine(said: Said) -> None:
    code, out, err = said(*SMALL, "--topology", "numa:2x2", "--rate", "3000", "--events", "6000", "--check")
    lines = {line[:15].strip(): line[15:].strip() for line in out.splitlines() if line[:1] != " "}
    assert (code, lines["oracle"]) == (0, "equal")
    assert lines["simulated"].endswith("s, 4 workers on 2 nodes")
    assert lines["events/s"].endswith("of simulated time")
    assert " s simulated: " in err


def test_elapsed_time_ends_with_the_last_turn_so_that_rates_are_right(said: Said) -> None:
    code, out, _ = said(*SMALL, "--rate", "3000", "--events", "6000", "--json")
    held = json.loads(out)
    assert (code, held["simulated_time"], held["start_up_s"]) == (0, True, None)
    assert held["events_per_s"] == pytest.approx(3000, rel=0.03)
    assert held["peak_rss_mb"] > 0
    _, out, _ = said(*SMALL, "--events", "6000", "--json")
    assert json.loads(out)["events_per_s"] > 10 * held["events_per_s"], "as fast as possible is not the epoch's length"


def test_the_journal_of_a_simulated_run_is_explained_in_simulated_seconds(said: Said, tmp_path: Path) -> None:
    steered = ("--policy", "guarded", "--control", "trigger=periodic:1", "--journal", str(tmp_path))
    code, _, err = said(*SMALL, "--topology", "cores:3", "--rate", "3000", "--events", "9000", *steered)
    assert code == 0, err
    code, out, _ = said("explain", str(tmp_path))
    first, *_, last = out.splitlines()
    assert first.startswith("simulated time from 0 s: traffic began on simulated with policy guarded: 12 instances")
    assert last.startswith("     3.0")
    assert "ended after 9,000 events" in last


def test_a_failing_host_is_told_in_the_run_and_in_its_story(
    said: Said, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "machine.yaml").write_text(
        "hosts:\n- {name: server, cores: 2}\n- {name: box, cores: 2}\n"
        "links:\n- {from: box, to: server, bandwidth: 1Gbit, latency: 1ms}\n"
        "outages:\n- {host: box, at: 1 s}\n"
    )
    machine = ("--topology", str(tmp_path / "machine.yaml"), "--policy", "guarded", "--journal", str(tmp_path))
    code, out, _ = said(*SMALL, *machine, "--rate", "3000", "--events", "9000", "--check")
    assert (code, "equal" in out) == (0, True)
    assert caplog.messages == ["lost worker 2, 3: host box has failed"]
    _, story, _ = said("explain", str(tmp_path))
    assert "s  lost worker 2, 3: host box has failed; 6 instances bound elsewhere" in story
