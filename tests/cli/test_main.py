"""The command line before anything runs: lists, and mistakes that are reported in one sentence."""

import json
from pathlib import Path

import pytest

from shoal.cli.main import main
from shoal.workloads.catalog import WORKLOADS


def shoal(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    """The exit code of a command."""
    monkeypatch.setattr("sys.argv", ["shoal", *arguments])
    try:
        main()
    except SystemExit as end:
        return int(end.code or 0)
    return 0


JOB = """
from shoal import Generator, Job, Stream
from shoal.workloads.traffic.events import TrafficEvents
stream = Stream("cars", {"ts": "timestamp", "speed": "float64"}, time="ts")
job = Job.of("mine", [stream.select("speed").sink("speeds")], {"cars": Generator(TrafficEvents())})
something_else = 42
"""


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param(["run", "trafic"], "target must be a workload (traffic", id="unknown workload"),
        pytest.param(["run", "nowhere.py:job"], "there is no file nowhere.py", id="missing file"),
        pytest.param(["run", "mine.py:something_else"], "must be a Job or a function that returns one", id="not a job"),
        pytest.param(["run", "mine.py:job", "--set", "a=1"], "--set is for workloads", id="setting for a file"),
        pytest.param(["run", "mine.py:job", "--check"], "mine.py:job has no oracle", id="check without oracle"),
        pytest.param(["run", "traffic", "--set", "regions"], "--set takes KEY=VALUE; got 'regions'", id="not a pair"),
        pytest.param(
            ["run", "traffic", "--set", "cars=1"],
            "workload 'traffic' has no setting 'cars'",
            id="no setting",
        ),
        pytest.param(
            ["run", "traffic", "--set", "regions=many"], "'regions' must be of type int; got 'many'", id="not a number"
        ),
        pytest.param(
            ["run", "traffic", "--set", "profile=W9"], "traffic profile must be one of W1, W2, W3", id="unknown profile"
        ),
        pytest.param(["run", "traffic", "--seed", "-1"], "seed must be a whole number from 0", id="negative seed"),
        pytest.param(["run", "traffic", "--conf", "a"], "--conf takes KEY=VALUE; got 'a'", id="conf not a pair"),
        pytest.param(
            ["run", "traffic", "--conf", "cores=2"], "a Spark setting begins with 'spark.'; got 'cores'", id="no conf"
        ),
        pytest.param(["run", "traffic", "--sink", "kafka:x"], "sink must be parquet:DIR", id="unknown sink"),
        pytest.param(["run", "traffic", "--source", "parquet:nowhere"], "nowhere does not exist", id="no source"),
        pytest.param(["run", "traffic", "--source", "xml:."], "source must be parquet:DIR", id="unknown source"),
        pytest.param(["run", "traffic", "--json", "--sink", "console:"], "both write to stdout", id="two on stdout"),
        pytest.param(["run", "traffic", "--workers", "0"], "0 is not in the range", id="no workers"),
        pytest.param(["run", "traffic", "--policy", "best"], "'best' is not one of 'round-robin'", id="unknown policy"),
        pytest.param(["run", "traffic", "--wrokers", "2"], "No such option '--wrokers'", id="unknown option"),
        pytest.param(["run"], "Missing argument 'TARGET'", id="no target"),
        pytest.param(["rum"], "No such command 'rum'", id="unknown command"),
    ],
)
def test_a_mistake_is_one_clear_message_and_exit_code_2(
    arguments: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "mine.py").write_text(JOB)
    monkeypatch.chdir(tmp_path)
    assert shoal(monkeypatch, *arguments) == 2
    said = capfd.readouterr()
    assert said.out == ""
    assert message in said.err.replace("\n", " ")
    assert "Traceback" not in said.err
    assert len([line for line in said.err.splitlines() if line.startswith(("shoal: ", "Error: "))]) == 1


@pytest.mark.parametrize("command", ["workloads", "operators"])
def test_lists_have_a_line_each_and_a_machine_readable_form(
    command: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    assert shoal(monkeypatch, command) == 0
    text = capfd.readouterr().out
    assert shoal(monkeypatch, command, "--json") == 0
    listed = json.loads(capfd.readouterr().out)
    assert all(name in text for name in listed)
    if command == "workloads":
        assert set(listed) == set(WORKLOADS)


def test_help_and_version_need_no_spark(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    for arguments in (["--help"], ["-h"], ["run", "--help"], ["--version"]):
        assert shoal(monkeypatch, *arguments) == 0
    assert "shoal, version" in capfd.readouterr().out
