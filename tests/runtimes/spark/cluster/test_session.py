"""Two executors, which are processes of their own: workers stay where they are, and executors may be killed."""

import json
import os
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from tests.end_to_end.crash import FAULTS, Fault

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.timeout(600)]
ROOT = Path(__file__).parents[4]
STAGE = "shoal.runtimes.spark.tasks.stage:Stage.run"
INTAKE = "shoal.runtimes.spark.tasks.intake:Intake.run"


def on_a_cluster(root: Path, fault: Fault | None = None, **asked: Any) -> dict[str, Any]:
    """What a run in a process of its own did; a fault may strike one of its executors."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
    if fault is not None:
        calls = root / "calls"
        calls.mkdir()
        environment["PYTHONPATH"] = os.pathsep.join([FAULTS, environment["PYTHONPATH"]])
        environment |= {"FAULT": json.dumps(asdict(fault)), "FAULT_DIR": str(calls)}
    done = subprocess.run(
        [sys.executable, "-m", "tests.runtimes.spark.cluster_run", json.dumps({"root": str(root), **asked})],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert fault is None or (root / "calls" / "killed").exists()
    return json.loads(done.stdout)


def nodes_of(report: dict[str, Any], *epochs: int) -> list[list[int]]:
    return [report["epochs"][epoch][2] for epoch in epochs]


def test_workers_stay_on_their_executors_while_their_number_changes(tmp_path: Path) -> None:
    report = on_a_cluster(tmp_path, changes={"moves": 1, "2": 8, "5": 3})
    assert report["wrong"] == []
    assert (report["consumed"], report["lost"]) == (9_000, [])
    assert report["executors"] == [["0", 1], ["1", 1]]
    four, eight, three = nodes_of(report, 0, 1, 2), nodes_of(report, 3, 4, 5), nodes_of(report, 6, 7, 8)
    for nodes, workers in ((four, 4), (eight, 8), (three, 3)):
        assert [len(each) for each in nodes] == [workers] * 3
        assert nodes == [nodes[0]] * 3
        assert set(nodes[0]) == {0, 1}


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(Fault(STAGE, 14, victim="executor"), id="while it works on state"),
        pytest.param(Fault(INTAKE, 7, "after", "executor"), id="while it reads"),
    ],
)
def test_an_executor_killed_in_the_middle_of_an_epoch_changes_no_result(fault: Fault, tmp_path: Path) -> None:
    """Its tasks run again, also those whose output it had; the session hears whose executor it was."""
    report = on_a_cluster(tmp_path, fault)
    assert report["wrong"] == []
    assert report["consumed"] == 9_000
    (lost,) = report["lost"]
    before, workers, reason = lost
    home = report["epochs"][before - 1][2]
    assert workers
    assert workers == [worker for worker in range(4) if home[worker] == home[workers[0]]]
    assert "is gone: Command exited with code 137" in reason
