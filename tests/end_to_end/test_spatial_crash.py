"""Matches after kill -9, while rectangles follow a hotspot and subscriptions come and go: each is found once."""

import json
import os
import random
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.end_to_end.crash import KILLED, SHOAL, Fault, Workspace
from tests.small_city import result_tables

from shoal.control.partitions.rebalance_entries import Rebalanced
from shoal.control.settings import ControlSettings
from shoal.session.digest import differences
from shoal.session.journal import read_journal
from shoal.session.run import start
from shoal.workloads.catalog import workload
from shoal.workloads.workload import Amount

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EVENTS, ROWS = 30_000, 1_500
SETTINGS: dict[str, str | float] = {"per_s": 1_000, "hot_from_s": 3, "hot_s": 20, "heat": 0.8, "queries": "matches"}
SETTINGS |= {"subscriptions": 1_000, "churn": 200, "hot_subscriptions": 500}
CONTROL = {"round_s": "0.001", "beta": "2"}
PLAN = "shoal.runtimes.spark.state.checkpoint:Checkpoint.write_plan"
MANIFEST = "shoal.runtimes.spark.state.checkpoint:Checkpoint.write_manifest"
STATE = "shoal.runtimes.spark.state.writing:StateWriter.write"
MEMORY = "shoal.session.steering:ControlMemory.write"


@dataclass(frozen=True)
class SpatialWorkspace(Workspace):
    """A directory with the checkpoint, results and journal of a run of `geo-pubsub` under `swarm`."""

    rows_per_epoch: int = ROWS

    def command(self, *options: str) -> list[str]:
        amount = ["--events", str(EVENTS), "--epoch-rows", str(self.rows_per_epoch)]
        settings = [part for name, value in SETTINGS.items() for part in ("--set", f"{name}={value}")]
        control = [part for name, value in CONTROL.items() for part in ("--control", f"{name}={value}")]
        kept = ["--checkpoint", str(self.root / "checkpoint"), "--sink", f"parquet:{self.root / 'results'}"]
        where = ["--on", "spark", "--policy", "swarm", "--workers", "3"]
        return [SHOAL, "run", "geo-pubsub", *where, *amount, *settings, *control, *kept, "--json", *options]

    def check(self, spark: "SparkSession") -> int:
        """Go on to the end; the matches must be those of the oracle. Returns how often rectangles were changed."""
        texts = {name: str(value) for name, value in SETTINGS.items()}
        ready = workload("geo-pubsub").ready(0, Amount(EVENTS, None, self.rows_per_epoch), texts)
        run = start(
            ready.job,
            spark=spark,
            workers=3,
            policy="swarm",
            checkpoint=str(self.root / "checkpoint"),
            sink=self.sink,
            control=ControlSettings.of(CONTROL),
        )
        run.wait()
        assert differences(result_tables(run), ready.expected(run.consumed)) == []
        entries = read_journal(str(self.root / "checkpoint"))
        return sum(isinstance(each, Rebalanced) and each.change != "grid" for each in entries)


MOMENTS = {
    "after the plan that divides the plane": Fault(PLAN, 2, "after"),
    "after a later plan": Fault(PLAN, 9, "after"),
    "after some state is written": Fault(STATE, 11, "after"),
    "between the results and the manifest": Fault(MANIFEST, 6),
    "between the manifest and what the controller remembers": Fault(MEMORY, 5),
    "after the controller has remembered": Fault(MEMORY, 8, "after"),
}


@pytest.mark.slow
@pytest.mark.parametrize("moment", MOMENTS)
def test_matches_are_found_once_by_a_run_killed_at_a_moment(moment: str, tmp_path: Path, spark: "SparkSession") -> None:
    workspace = SpatialWorkspace(tmp_path)
    assert workspace.run(MOMENTS[moment]).returncode == KILLED
    assert workspace.struck
    assert workspace.check(spark) > 1


def killed_runs(workspace: SpatialWorkspace, draw: random.Random) -> Iterator[None]:
    """Runs that are killed at random times after their first epoch, one after another."""
    for _ in range(3):
        with subprocess.Popen(
            workspace.command(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
        ) as process:
            try:
                process.wait(timeout=draw.uniform(9, 18))
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
        yield


@pytest.mark.slow
@pytest.mark.timeout(240)
@pytest.mark.parametrize("seed", range(3))
def test_matches_are_found_once_by_runs_killed_at_random_times(
    seed: int, tmp_path: Path, spark: "SparkSession"
) -> None:
    workspace = SpatialWorkspace(tmp_path, rows_per_epoch=500)
    for _ in killed_runs(workspace, random.Random(seed)):
        pass
    assert workspace.check(spark) > 1


@pytest.mark.slow
def test_what_the_controller_remembers_is_a_message_with_a_format(tmp_path: Path) -> None:
    workspace = SpatialWorkspace(tmp_path)
    assert workspace.run(Fault(MEMORY, 6, "after")).returncode == KILLED
    text = (tmp_path / "checkpoint" / "control").read_text().partition("\n")[2]
    message = json.loads(text)
    assert (message["format"], message["kind"], message["policy"], message["epoch"]) == (1, "remembered", "swarm", 5)
