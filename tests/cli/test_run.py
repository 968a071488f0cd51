"""`shoal run` from the command line to the exit code."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.cli.test_main import shoal
from tests.session.test_summary import KEYS
from tests.small_city import city_events

from shoal.connectors.sinks import ParquetSink
from shoal.session.digest import result_digest
from shoal.workloads.traffic.oracle import expected

SMALL = ["--set", "regions=4", "--set", "vehicles=300", "--epoch-rows", "3000"]
SHOAL = str(Path(sys.executable).with_name("shoal"))
TRAFFIC = ["run", "traffic", *SMALL]


@pytest.fixture(autouse=True)
def ctrl_c_as_before() -> Iterator[None]:
    """A command in this process changes what Ctrl-C does."""
    before = signal.getsignal(signal.SIGINT)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def said(spark: object, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Any:
    """Runs a command in the shared session; returns its exit code, stdout and stderr."""

    def command(*arguments: str) -> tuple[int, str, str]:
        capfd.readouterr()
        code = shoal(monkeypatch, *arguments)
        output = capfd.readouterr()
        return code, output.out, output.err

    return command


def test_json_is_one_object_with_the_keys_of_the_contract_and_nothing_else(said: Any) -> None:
    code, out, err = said(*TRAFFIC, "--events", "9000", "--seed", "1", "--workers", "3", "--check", "--json")
    assert (code, err, out.count("\n")) == (0, "", 1)
    summary = json.loads(out)
    assert list(summary) == KEYS
    asked = {"workload": "traffic", "runtime": "spark", "policy": "round-robin", "workers": 3, "seed": 1}
    assert asked.items() <= summary.items()
    assert (summary["events"], summary["epochs"], summary["oracle"]) == (9000, 4, "equal")
    assert len(summary["result_digest"]) == 64


def test_environment_variables_mirror_options_and_bindings_change_no_digest(
    said: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, out, _ = said(*TRAFFIC, "--events", "6000", "--json")
    plain = json.loads(out)
    mirrored = {"EVENTS": "6000", "SET": "regions=4 vehicles=300", "JSON": "1", "SHUFFLE_BINDINGS": "1", "WORKERS": "3"}
    for name, value in {**mirrored, "EPOCH_ROWS": "1500"}.items():
        monkeypatch.setenv(f"SHOAL_RUN_{name}", value)
    code, out, _ = said("run", "traffic")
    shuffled = json.loads(out)
    assert code == 0
    assert shuffled["moves"] > plain["moves"] == 0
    assert (shuffled["workers"], shuffled["policy"]) == (3, "random")
    assert shuffled["result_digest"] == plain["result_digest"]


def test_for_people_the_answer_is_a_table_and_progress_goes_to_stderr(said: Any) -> None:
    code, out, err = said(*TRAFFIC, "--seconds", "1", "--rate", "3000", "--check")
    assert code == 0
    assert [line.split()[0] for line in out.splitlines()][:3] == ["events", "events/s", "epochs"]
    assert "equal" in out
    assert err.startswith("starting Spark")
    assert "running 12 queries" in err


def test_a_wrong_answer_is_exit_code_1_and_says_what_is_wrong(said: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def off_by_one(events: Any) -> dict[str, pa.Table]:
        answers = expected(events)
        counts = answers["vehicle_count"]
        wrong = pa.compute.add(counts["vehicle_count"], 1)
        return {**answers, "vehicle_count": counts.set_column(2, "vehicle_count", wrong)}

    monkeypatch.setattr("shoal.workloads.traffic.queries.expected", off_by_one)
    code, out, _ = said(*TRAFFIC, "--events", "3000", "--check")
    assert code == 1
    assert "different: table 'vehicle_count': column 'vehicle_count': expected 59, got 58" in out


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_run_that_fails_is_one_line_and_exit_code_2(tmp_path: Path) -> None:
    """In a process of its own, since much of what could be said besides is said when a process ends."""
    whole = tmp_path / "whole"
    pq.write_table(pa.table(city_events().batch(0, 1000)), whole)
    (tmp_path / "cut.parquet").write_bytes(whole.read_bytes()[:-100])
    command = [SHOAL, *TRAFFIC, "--source", f"parquet:{tmp_path}", "--json"]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (run.returncode, run.stdout, run.stderr.count("\n")) == (2, "", 1)
    assert run.stderr.startswith(f"shoal: cannot read {tmp_path}/cut.parquet as parquet: ")


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_ctrl_c_commits_and_the_next_run_goes_on_to_the_right_answer(said: Any, tmp_path: Path) -> None:
    """The signal goes to the whole process group, as a terminal sends it; everything on stderr is Shoal's own."""
    kept = ["--checkpoint", str(tmp_path / "checkpoint"), "--sink", f"parquet:{tmp_path / 'results'}"]
    command = [SHOAL, *TRAFFIC, *kept]
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True, process_group=0) as run:
        assert run.stdout
        assert run.stderr
        lines = []
        for line in run.stderr:
            lines.append(line)
            if line.startswith("epoch "):
                os.killpg(run.pid, signal.SIGINT)
                break
        lines += run.stderr
        assert run.stdout.read() == ""
    assert run.returncode == 130, lines
    kinds = [line.split()[0] for line in lines]
    assert kinds[:3] == ["starting", "running", "epoch"]
    assert set(kinds[3:]) <= {"epoch", "interrupted"}
    assert "all committed; run it again with --checkpoint" in lines[-1]

    rest = [*TRAFFIC, *kept, "--events", "90000", "--epoch-rows", "45000"]
    code, out, _ = said(*rest, "--check", "--json")
    summary = json.loads(out)
    assert (code, summary["oracle"]) == (0, "equal")
    assert 0 < summary["events"] < 90_000
    sink = ParquetSink(str(tmp_path / "results"))
    assert summary["result_digest"] == result_digest({name: sink.table(name) for name in sink.names()})

    code, out, err = said(*rest)
    assert code == 0
    assert "had already ended; there was nothing to do" in err


FAILING_JOB = """
from tests.conformance.failing import cars, in_a_column, steady
from shoal import Job
job = Job.of("j", [steady(), in_a_column()], {"cars": cars()})
"""


@pytest.mark.parametrize("on", ["reference", "local"])
def test_a_failing_query_is_one_sentence_or_is_parked_with_an_exit_code_of_its_own(
    on: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "job.py"
    file.write_text(FAILING_JOB)
    reason, row = "function 'gear' raised ZeroDivisionError: no gear", "ts=1970-01-01T00:00:37Z, k=37"
    assert shoal(monkeypatch, "run", f"{file}:job", "--on", on) == 1
    said = capfd.readouterr().err
    assert f"shoal: query 'broken' failed: {reason}; row: {row}" in said
    assert "Traceback" not in said
    assert shoal(monkeypatch, "run", f"{file}:job", "--on", on, "--on-query-error", "park", "--json") == 3
    (parked,) = json.loads(capfd.readouterr().out)["parked"]
    assert parked["queries"] == ["broken"]
    assert parked["reason"] == reason
    assert row in parked["row"]
    assert shoal(monkeypatch, "run", f"{file}:job", "--on", on, "--on-query-error", "park") == 3
    assert f"parked: query 'broken' failed: {reason}" in capfd.readouterr().out
