"""What `shoal run` refuses before it starts Spark, and with which exit code."""

import sys
from pathlib import Path
from typing import Any

import click
import pytest

from shoal.cli import main as command_line
from shoal.cli.main import cli, main
from shoal.errors import ConfigError, RunError, ShoalError, SourceError
from shoal.runtimes.spark.state.checkpoint import Checkpoint, Manifest

JOB = """
from shoal import Files, Job, Stream, count, tumbling
cars = Stream("cars", {"ts": "timestamp"}, time="ts")
query = cars.window(tumbling(10)).aggregate(n=count()).sink("n")
job = Job.of("cars", [query], {"cars": Files(".")})
"""


def ended(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int | str | None:
    """The exit code of a command line."""
    monkeypatch.setattr(sys, "argv", ["shoal", *arguments])
    with pytest.raises(SystemExit) as end:
        main()
    return end.value.code


@pytest.fixture
def job_file(tmp_path: Path) -> Path:
    path = tmp_path / "cars.py"
    path.write_text(JOB)
    return path


@pytest.mark.parametrize("option", ["--events", "--rate"])
def test_a_limit_for_generated_events_is_refused_for_a_job_of_ones_own(
    option: str, job_file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ended(monkeypatch, "run", f"{job_file}:job", option, "5") == 2
    assert capsys.readouterr().err == f"shoal: {option} is for generated events; {job_file}:job has its own\n"


def test_a_limit_for_generated_events_is_refused_for_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    source = f"parquet:{tmp_path}"
    assert ended(monkeypatch, "run", "traffic", "--source", source, "--events", "5") == 2
    assert capsys.readouterr().err == f"shoal: --events is for generated events; {source} has its own\n"


def test_results_that_only_went_to_the_console_cannot_be_checked(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ended(monkeypatch, "run", "traffic", "--check", "--sink", "console:") == 2
    assert "--check needs results that can be read back" in capsys.readouterr().err


def test_results_of_an_earlier_run_that_are_gone_cannot_be_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Checkpoint(str(tmp_path)).write_manifest(
        Manifest(epoch=0, graph="", workers=1, binding=(), watermarks_us={}, states=())
    )
    assert ended(monkeypatch, "run", "traffic", "--check", "--checkpoint", str(tmp_path)) == 2
    assert "use --sink parquet:DIR from the first run on" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "code"),
    [
        pytest.param(RunError("the Spark job failed"), 1, id="a run that failed is 1"),
        pytest.param(SourceError("cannot read x"), 2, id="what the user can repair is 2"),
        pytest.param(ConfigError("no such thing"), 2, id="a wrong value is 2"),
    ],
)
def test_an_error_is_one_sentence_and_an_exit_code(
    error: ShoalError, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(_: Any) -> int:
        raise error

    monkeypatch.setattr(command_line, "run_target", fails)
    assert ended(monkeypatch, "run", "traffic") == code
    assert capsys.readouterr().err == f"shoal: {error}\n"


@pytest.mark.parametrize("option", [p for p in cli.commands["run"].params if isinstance(p, click.Option)], ids=str)
def test_an_option_has_an_environment_variable_of_its_name(option: click.Option) -> None:
    name = option.opts[0].removeprefix("--").replace("-", "_").upper()
    assert str(option.envvar or f"SHOAL_RUN_{str(option.name).upper()}") == f"SHOAL_RUN_{name}"
