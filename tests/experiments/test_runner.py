"""Trials: each in a process of its own, kept at once, run again only when there is a reason; none leaves a process."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import psutil
import pytest

from shoal.errors import ConfigError
from shoal.experiments import processes
from shoal.experiments import runner as running
from shoal.experiments.experiment import (
    Experiment,
    ExperimentFile,
    MeasureFunction,
    Parameters,
    Trial,
    TrialOutcome,
    WorkloadRun,
)
from shoal.experiments.processes import MARK, ProcessEnd, run_to_end
from shoal.experiments.results.point_summary import summary_of
from shoal.experiments.results.result_store import ResultStore, TrialRecord
from shoal.experiments.runner import RunChoice, Runner, chosen, run_trial
from shoal.experiments.trial import TrialOrder, outcome_of
from shoal.storage.directory import Directory

MEASURES = """
from beside import TWICE
from shoal.experiments.experiment import TrialOutcome


def numbers(size, engine="none"):
    return {"size": size, "nested": {"twice": size * TWICE}}


def outcome(size):
    return TrialOutcome(metrics={"size": size}, answers={"t": "d"}, oracle="equal")


def fails(size):
    raise ValueError(f"no {size}")


def nothing(size):
    return None


def infinite(size):
    return {"size": float("inf")}
"""


@pytest.fixture
def file(tmp_path: Path) -> str:
    (tmp_path / "measures.py").write_text(MEASURES)
    (tmp_path / "beside.py").write_text("TWICE = 2\n")
    return str(tmp_path / "file.yaml")


def experiment(function: str, *points: Parameters, **fields: Any) -> Experiment:
    return Experiment("e", MeasureFunction("measures.py", function), points or ({"size": 3},), **fields)


@pytest.fixture
def store(tmp_path: Path) -> ResultStore:
    return ResultStore(Directory(str(tmp_path / "results")))


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> list[Trial]:
    """Trials run in this process, and are listed."""
    ran: list[Trial] = []

    def run(trial: Trial, _: Experiment) -> tuple[TrialOutcome, str]:
        ran.append(trial)
        failure = "bad luck" if trial.parameters.get("fails") else ""
        metrics: Mapping[str, float] = {} if failure else {"size": float(len(ran))}
        return TrialOutcome(metrics=metrics, failure=failure, series={"s": [[1.0, 2.0]]}), "log"

    monkeypatch.setattr(running, "run_trial", run)
    return ran


def ordered(file: str, function: str, **parameters: Any) -> TrialOutcome:
    order = TrialOrder(Trial(file, "e", parameters), python=str(Path(file).with_name("measures.py")), function=function)
    return outcome_of(order)


def test_a_trial_of_a_function_runs_in_a_process_of_its_own(file: str) -> None:
    outcome, _ = run_trial(Trial(file, "e", {"size": 4}), experiment("numbers"))
    assert outcome == TrialOutcome(metrics={"size": 4, "nested.twice": 8})


def test_a_trial_of_a_workload_has_metrics_and_checked_results() -> None:
    subject = Experiment("e", WorkloadRun("ysb"))
    outcome, _ = run_trial(Trial("f.yaml", "e", {"events": 20_000, "set.per_s": 1000}), subject)
    assert (outcome.oracle, outcome.metrics["events"]) == ("equal", 20_000)
    assert outcome.metrics["events_per_s"] > 0
    assert set(outcome.answers) == {"results"}


@pytest.mark.parametrize(
    ("function", "parameters", "reason"),
    [
        pytest.param("fails", {"size": 3}, r"ValueError in measures\.py, line \d+: no 3", id="raises"),
        pytest.param(
            "nothing", {"size": 3}, "must return a TrialOutcome or a mapping of numbers; got NoneType", id="None"
        ),
        pytest.param(
            "infinite", {"size": 3}, "metric 'size' of a trial must be a finite number; got inf", id="infinite"
        ),
        pytest.param("numbers", {"sizes": 3}, "unexpected keyword argument 'sizes'", id="a parameter it does not have"),
        pytest.param("missing", {"size": 3}, r"measures\.py must have a function missing", id="no such function"),
    ],
)
def test_what_goes_wrong_in_a_trial_is_its_outcome(
    file: str, function: str, parameters: dict[str, Any], reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setitem(sys.modules, "measures", ModuleType("measures"))  # so that the trial's does not stay
    outcome = ordered(file, function, **parameters)
    assert outcome.metrics == {}
    assert re.search(reason, outcome.failure)


@pytest.mark.parametrize(
    ("ended", "printed", "reason"),
    [
        pytest.param(ProcessEnd(None), "x", "it took longer than 2 s and was ended", id="took too long"),
        pytest.param(ProcessEnd(-9), "", "its process was ended by SIGKILL", id="killed"),
        pytest.param(ProcessEnd(3), "a\nout of luck\n", "its process ended with exit code 3: out of luck", id="exited"),
    ],
)
def test_a_trial_without_an_outcome_has_a_reason(
    ended: ProcessEnd, printed: str, reason: str, file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ends(command: Sequence[str], timeout_s: float, log: Path) -> ProcessEnd:
        log.write_text(printed)
        return ended

    monkeypatch.setattr(running, "run_to_end", ends)
    outcome, log = run_trial(Trial(file, "e", {"size": 1}), experiment("numbers", timeout_s=2.0))
    assert (outcome, log) == (TrialOutcome(failure=reason), printed)


TEST = "SHOAL_TEST_OF_TRIALS"


def marked(test: str) -> list[psutil.Process]:
    """The processes of trials that a test has started; others may run beside it."""
    found = []
    for process in psutil.process_iter():
        try:
            marks = process.environ()
            if marks.get(TEST) == test and MARK in marks and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except psutil.Error:
            continue
    return found


def alive(number: int) -> bool:
    """Whether a process runs; one that nobody has waited for does not."""
    return psutil.pid_exists(number) and psutil.Process(number).status() != psutil.STATUS_ZOMBIE


DEEP = """
import subprocess, sys, time
child = "import os, time; print(os.getpid(), flush=True); time.sleep(600)"
subprocess.Popen([sys.executable, "-c", child], start_new_session=True)
time.sleep(600)
"""


@pytest.mark.parametrize("interruption", ["time-out", "Ctrl-C"])
def test_all_processes_of_a_trial_are_ended(interruption: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "log"

    def wait(process: subprocess.Popen[bytes], timeout: float | None = None) -> int:
        """Wait until the child of the child runs; then it is over."""
        monkeypatch.undo()
        while not log.read_text().endswith("\n"):
            assert process.poll() is None
            time.sleep(0.01)
        if interruption == "Ctrl-C":
            os.kill(os.getpid(), signal.SIGINT)
        raise subprocess.TimeoutExpired(process.args, 0.0)

    monkeypatch.setattr(subprocess.Popen, "wait", wait)
    monkeypatch.setenv(TEST, str(tmp_path))
    command = [sys.executable, "-c", DEEP]
    if interruption == "Ctrl-C":
        with pytest.raises(KeyboardInterrupt):
            run_to_end(command, 60.0, log)
    else:
        assert run_to_end(command, 60.0, log) == ProcessEnd(None)
    assert not alive(int(log.read_text()))
    assert not marked(str(tmp_path))


LEAVES = """
import subprocess, sys
child = "import os, sys, time; print(os.getpid(), flush=True); sys.stdout.close(); time.sleep(600)"
left = subprocess.Popen([sys.executable, "-c", child], start_new_session=True, stdout=subprocess.PIPE, text=True)
print(left.stdout.readline(), flush=True)
"""


def test_what_a_finished_trial_leaves_running_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "GRACE_S", 0.2)
    assert run_to_end([sys.executable, "-c", LEAVES], 60.0, tmp_path / "log") == ProcessEnd(0)
    assert not alive(int((tmp_path / "log").read_text()))


def test_the_points_take_turns_and_failures_do_not_stop_the_rest(
    file: str, store: ResultStore, here: list[Trial]
) -> None:
    declared = experiment("numbers", {"size": 1}, {"fails": True}, repeat=2)
    said: list[str] = []
    records = Runner(store, said.append).run(file, declared)
    assert [trial.key for trial in here] == ["size=1", "fails=True"] * 2
    assert [record.outcome.failure for record in records] == ["", "bad luck"] * 2
    assert [record.log for record in records] == ["", "log"] * 2
    assert said.count("e 2/4 fails=True: FAILED, bad luck") == 1
    summary = summary_of(declared, records)
    assert [point.verdict.text for point in summary.points] == ["", "FAILED"]
    assert not summary.right


def test_finished_trials_are_not_run_again(file: str, store: ResultStore, here: list[Trial]) -> None:
    declared = experiment("numbers", {"size": 1}, {"fails": True})
    first = Runner(store, lambda _: None).run(file, declared)
    again = Runner(store, lambda _: None).run(file, declared)
    assert [trial.key for trial in here] == ["size=1", "fails=True", "fails=True"]
    assert again[0] == first[0]
    Runner(store, lambda _: None, again=True).run(file, declared)
    assert len(here) == 5


@pytest.mark.parametrize("edited", ["parameters", "measures.py", "beside.py", "answers"])
def test_a_trial_that_is_declared_otherwise_runs_again(
    edited: str, file: str, store: ResultStore, here: list[Trial]
) -> None:
    Runner(store, lambda _: None).run(file, experiment("numbers"))
    if edited.endswith(".py"):
        Path(file).with_name(edited).write_text("TWICE = 3\n")
    changed = experiment(
        "numbers",
        {"size": 4 if edited == "parameters" else 3},
        answers="none" if edited == "answers" else "same",
    )
    Runner(store, lambda _: None).run(file, changed)
    assert len(here) == 2


def test_a_record_is_read_as_it_was_written(file: str, store: ResultStore, here: list[Trial]) -> None:
    (record,) = Runner(store, lambda _: None).run(file, experiment("numbers"))
    assert list(store.records()) == [record]
    assert record.outcome.series == {"s": [[1.0, 2.0]]}
    assert {"version", "commit", "dirty", "cores", "load_1min", "python"} <= set(record.environment)
    path = Path(store.directory.uri) / "file" / "e" / "size=3" / record.version / "0.json"
    assert path.is_file()


def test_a_damaged_record_is_refused_with_its_name(file: str, store: ResultStore, here: list[Trial]) -> None:
    (record,) = Runner(store, lambda _: None).run(file, experiment("numbers"))
    name = f"file/e/size=3/{record.version}/0.json"
    store.directory.write(name, b'{"trial": 5}')
    with pytest.raises(ConfigError, match=r"0\.json is not the record of a trial: Expected `object`, got `int`"):
        list(store.records())


def test_a_choice_restricts_experiments_engines_and_repetitions() -> None:
    points = ({"engine": "a"}, {"engine": "b"})
    file = ExperimentFile(
        "f.yaml", "f", "expose", (experiment("numbers", *points), Experiment("other", WorkloadRun("ysb")))
    )
    (found,) = chosen(file, RunChoice(only=["e"], engines=["b"], repeat=7))
    assert (found.name, found.points, found.repeat) == ("e", ({"engine": "b"},), 7)
    assert len(chosen(file, RunChoice())) == 2
    with pytest.raises(ConfigError, match=r"f\.yaml has the experiments e, other; got 'x'"):
        chosen(file, RunChoice(only=["x"]))
    with pytest.raises(ConfigError, match=r"points of f\.yaml have engine a, b; got c"):
        chosen(file, RunChoice(only=["e"], engines=["c"]))
    with pytest.raises(ConfigError, match=r"have the parameters engine; got 'engin'; did you mean 'engine'"):
        chosen(file, RunChoice(only=["e"], where={"engin": ["a"]}))


def test_records_of_one_version_are_found_by_it(file: str, store: ResultStore, here: list[Trial]) -> None:
    (record,) = Runner(store, lambda _: None).run(file, experiment("numbers"))
    other = TrialRecord(**{**vars(record), "environment": {**record.environment, "version": "older"}})
    store.write(other)
    assert sorted(each.version for each in store.records()) == sorted(["older", record.version])
    assert store.finished(record.trial, record.declaration, "older") == other
