"""No event is lost or counted twice, whichever process is killed when: the results equal those of a quiet run."""

import os
import random
import signal
import subprocess
from importlib import import_module
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.end_to_end.crash import KILLED, SHOAL, Fault, Workspace, summary
from tests.small_city import EVENTS, city, digest

from shoal.compiler.program import compile_graph
from shoal.runtimes.spark.state.checkpoint import Checkpoint
from shoal.session.run import Run, start
from shoal.workloads.linear_road.queries import LINEAR_ROAD
from shoal.workloads.workload import Amount, Ready

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SPARK = "shoal.runtimes.spark"
PLAN = f"{SPARK}.state.checkpoint:Checkpoint.write_plan"
MANIFEST = f"{SPARK}.state.checkpoint:Checkpoint.write_manifest"
GRAPH = f"{SPARK}.state.checkpoint:Checkpoint.write_graph"
INTAKE = f"{SPARK}.tasks.intake:Intake.gathered"
STAGE = f"{SPARK}.tasks.stage:Stage.run"
EPOCH = f"{SPARK}.driver.epoch:EpochRunner.run"
FLUSH = f"{SPARK}.driver.runtime:SparkRuntime._flush"
DELETE = f"{SPARK}.state.store:StateStore.delete"
FORGET = f"{SPARK}.state.checkpoint:Checkpoint.forget_before"
SINK = "shoal.connectors.sinks:ParquetSink.write"
WRITE = "shoal.storage.directory:Directory.write"
STATE = f"{SPARK}.state.store:StateStore.write"

FUNCTIONS = (PLAN, MANIFEST, GRAPH, INTAKE, STAGE, EPOCH, FLUSH, DELETE, FORGET, SINK, WRITE, STATE)

IN_WORKERS = ("--conf", "spark.shoal.smallEpochs.enabled=false")
"""Options of a run none of whose epochs is finished by the driver."""

pytestmark = pytest.mark.timeout(600)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_process_can_be_killed_at_every_function_that_is_named(function: str) -> None:
    module, _, name = function.partition(":")
    assert callable(attrgetter(name)(import_module(module)))


@pytest.fixture(scope="module")
def quiet(spark: "SparkSession") -> str:
    """The digest of a run to which nothing happens."""
    run = start(city().job, spark=spark)
    run.wait()
    return digest(run)


@pytest.mark.slow
def test_a_run_killed_again_and_again_ends_with_the_right_results(
    tmp_path: Path, quiet: str, spark: "SparkSession"
) -> None:
    """Each run goes on where the one before it was killed, and gets a little further."""
    workspace = Workspace(tmp_path)
    for fault in (Fault(STAGE, 2), Fault(MANIFEST, 2), Fault(EPOCH, 2, "after")):
        assert workspace.run(fault).returncode == KILLED
    assert workspace.finish(spark).consumed == EVENTS
    assert workspace.digest() == quiet


@pytest.mark.slow
def test_a_killed_python_worker_does_not_end_the_run(tmp_path: Path, quiet: str) -> None:
    workspace = Workspace(tmp_path)
    done = summary(workspace.run(Fault(STAGE, 4, "before", "process"), *IN_WORKERS))
    assert workspace.struck
    assert done["epochs"] == 7
    assert workspace.digest() == quiet


MOMENTS = {
    "before the first plan": Fault(PLAN),
    "after the first plan": Fault(PLAN, 1, "after"),
    "before a later plan": Fault(PLAN, 3),
    "after a later plan": Fault(PLAN, 4, "after"),
    "before the graph is written": Fault(GRAPH),
    "in the first reading task": Fault(INTAKE, 1, "before"),
    "in a later reading task": Fault(INTAKE, 4, "after"),
    "in the first stateful task": Fault(STAGE, 1, "before"),
    "in a later stateful task": Fault(STAGE, 6, "before"),
    "before the first result": Fault(SINK),
    "between two result tables": Fault(SINK, 5),
    "between the results and the manifest": Fault(MANIFEST, 3),
    "between the manifest and the cleaning": Fault(MANIFEST, 3, "after"),
    "between the first manifest and Spark's commit": Fault(EPOCH, 1, "after"),
    "between a later manifest and Spark's commit": Fault(EPOCH, 4, "after"),
    "while old state is deleted": Fault(DELETE, 3),
    "after old state is deleted": Fault(DELETE, 3, "after"),
    "while old plans are deleted": Fault(FORGET, 5),
    "before the flush": Fault(FLUSH),
    "in the flush, before its results": Fault(MANIFEST, 7),
    "after the flush": Fault(FLUSH, 1, "after"),
    **{f"before file {number} is written": Fault(WRITE, number) for number in (3, 8, 13, 21, 34, 45, 55)},
}


@pytest.mark.slow
@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(Fault(PLAN, 3, "after"), id="after the plan that divides state"),
        pytest.param(Fault(STAGE, 6, "before"), id="in a task that divides state"),
        pytest.param(Fault(STATE, 5, "after"), id="after divided state is written"),
        pytest.param(Fault(MANIFEST, 3), id="before the manifest"),
        pytest.param(Fault(MANIFEST, 3, "after"), id="after the manifest"),
    ],
)
def test_a_run_killed_while_instances_are_split_and_merged_goes_on_with_nothing_lost_or_doubled(
    fault: Fault, tmp_path: Path, quiet: str, spark: "SparkSession"
) -> None:
    workspace = Workspace(tmp_path)
    assert workspace.run(fault, "--shuffle-partitions", "--shuffle-bindings").returncode == KILLED
    assert workspace.finish(spark).consumed == EVENTS
    assert workspace.digest() == quiet


@pytest.mark.slow
@pytest.mark.parametrize("moment", MOMENTS)
def test_a_run_killed_at_any_moment_goes_on_with_nothing_lost_or_doubled(
    moment: str, tmp_path: Path, quiet: str, spark: "SparkSession"
) -> None:
    workspace = Workspace(tmp_path)
    assert workspace.run(MOMENTS[moment]).returncode == KILLED
    assert workspace.finish(spark).consumed == EVENTS
    assert workspace.digest() == quiet


@pytest.mark.slow
@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(Fault(PLAN, 3, "after"), id="when it is planned"),
        pytest.param(Fault(MANIFEST, 3, "after"), id="when it is committed"),
    ],
)
def test_a_run_killed_while_a_rebinding_is_announced_goes_on_with_it(
    fault: Fault, tmp_path: Path, quiet: str, spark: "SparkSession"
) -> None:
    """Nobody asks for it again, and the second run would use another mechanism."""
    workspace = Workspace(tmp_path)
    assert workspace.run(fault, "--mechanism", "rhino", "--shuffle-bindings").returncode == KILLED
    checkpoint = Checkpoint(str(tmp_path / "checkpoint"))
    goal = (checkpoint.plan(2) if fault.function == PLAN else checkpoint.manifest(2)).goal
    assert goal is not None
    assert goal.mechanism == "rhino"
    run = workspace.finish(spark)
    (report,) = run.finished
    assert (report.rebind, report.resumed, report.aborted) == (goal.rebind, True, ())
    last = checkpoint.last_epoch()
    assert last is not None
    assert checkpoint.manifest(last).binding == goal.binding
    assert checkpoint.manifest(last).goal is None
    assert workspace.digest() == quiet


@pytest.mark.slow
@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(Fault(PLAN, 4, "after"), id="when instances move"),
        pytest.param(Fault(STAGE, 8, "before"), id="in a task"),
        pytest.param(Fault(MANIFEST, 5, "after"), id="when an epoch is committed"),
    ],
)
def test_a_run_killed_while_state_is_not_read_yet_goes_on_with_nothing_lost_or_doubled(
    fault: Fault, tmp_path: Path, quiet: str, spark: "SparkSession"
) -> None:
    workspace = Workspace(tmp_path)
    assert workspace.run(fault, "--mechanism", "meces", "--shuffle-bindings").returncode == KILLED
    assert workspace.finish(spark).consumed == EVENTS
    assert workspace.digest() == quiet


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_a_run_killed_at_random_times_goes_on_with_nothing_lost_or_doubled(
    seed: int, tmp_path: Path, quiet: str
) -> None:
    """However far each run got, start-up included, until one gets through."""
    workspace = Workspace(tmp_path, rows_per_epoch=500)
    draw = random.Random(seed)
    for _ in range(3):
        with subprocess.Popen(
            workspace.command(), stdout=subprocess.PIPE, text=True, start_new_session=True
        ) as process:
            try:
                process.wait(timeout=draw.uniform(5, 20))
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
    done = summary(workspace.run())
    assert workspace.digest() == done["result_digest"] == quiet


@pytest.mark.slow
@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(Fault(INTAKE, 3, "before", "process"), id="while it reads"),
        pytest.param(Fault(INTAKE, 3, "after", "process"), id="when it has read"),
        pytest.param(Fault(STAGE, 5, "before", "process"), id="before it loads its state"),
        pytest.param(Fault(STATE, 3, "before", "process"), id="before it writes its state"),
        pytest.param(Fault(STATE, 3, "after", "process"), id="when it has written its state"),
        pytest.param(Fault(STAGE, 13, "before", "process"), id="in the flush"),
    ],
)
def test_a_python_worker_killed_at_any_moment_does_not_end_the_run(fault: Fault, tmp_path: Path, quiet: str) -> None:
    workspace = Workspace(tmp_path)
    summary(workspace.run(fault, *IN_WORKERS))
    assert workspace.struck
    assert workspace.digest() == quiet


REPORTS = 4_800
ROUNDS = 6
WORKERS = 2
ROAD = {"expressways": "1", "vehicles": "100", "groups": "2"}


def road(rows_per_epoch: int) -> Ready:
    """Linear Road in small, with six rounds in each epoch and in the flush."""
    return LINEAR_ROAD.ready(0, Amount(REPORTS, None, rows_per_epoch), ROAD)


class RoadWorkspace(Workspace):
    """A directory with one run of Linear Road, whose instances all move before every epoch."""

    def command(self, *options: str) -> list[str]:
        amount = ["--events", str(REPORTS), "--epoch-rows", str(self.rows_per_epoch)]
        moving = ["--workers", str(WORKERS), "--shuffle-bindings"]
        settings = [text for name, value in ROAD.items() for text in ("--set", f"{name}={value}")]
        kept = ["--checkpoint", str(self.root / "checkpoint"), "--sink", f"parquet:{self.root / 'results'}"]
        return [SHOAL, "run", "linear-road", *amount, *moving, *settings, *kept, "--json", *options]

    def finish(self, spark: "SparkSession") -> Run:
        job = road(self.rows_per_epoch).job
        run = start(job, spark=spark, checkpoint=str(self.root / "checkpoint"), sink=self.sink)
        run.wait()
        return run


@pytest.fixture(scope="module")
def quiet_road(spark: "SparkSession") -> str:
    """The digest of a run in other epochs, to which nothing happens."""
    ready = road(rows_per_epoch=REPORTS)
    assert compile_graph(ready.job.graph).depth == ROUNDS
    run = start(ready.job, spark=spark)
    run.wait()
    return digest(run)


def task(epoch: int, number: int) -> int:
    """Which of all tasks with state is the first one of a round (from 1) in an epoch (from 0)."""
    return epoch * ROUNDS * WORKERS + (number - 1) * WORKERS + 1


@pytest.mark.slow
def test_a_run_killed_between_two_rounds_ends_with_the_right_results(
    tmp_path: Path, quiet_road: str, spark: "SparkSession"
) -> None:
    """The first round of the second epoch has written its state, the second round has not begun."""
    workspace = RoadWorkspace(tmp_path, REPORTS // 2)
    assert workspace.run(Fault(STAGE, task(1, 2))).returncode == KILLED
    assert workspace.finish(spark).consumed == REPORTS
    assert workspace.digest() == quiet_road


ROUND_MOMENTS = {
    "at the end of the very first round": Fault(STAGE, task(0, 1) + 1, "after"),
    "in the second round of the first epoch": Fault(STAGE, task(0, 2) + 1),
    "at the end of a later epoch's second round": Fault(STAGE, task(2, 2) + 1, "after"),
    "before the last round of an epoch": Fault(STAGE, task(1, ROUNDS)),
    "after the last round of an epoch": Fault(STAGE, task(1, ROUNDS) + 1, "after"),
    "before a later round writes its state": Fault(STATE, 5),
    "when a later round has written its state": Fault(STATE, 6, "after"),
    "between the results and the manifest": Fault(MANIFEST, 3),
    "between the manifest and Spark's commit": Fault(EPOCH, 3, "after"),
    "in the second round of the flush": Fault(STAGE, task(4, 2)),
    "in the last round of the flush": Fault(STAGE, task(4, ROUNDS) + 1),
}


@pytest.mark.slow
@pytest.mark.parametrize("moment", ROUND_MOMENTS)
def test_a_run_of_several_rounds_killed_at_any_moment_goes_on_with_nothing_lost_or_doubled(
    moment: str, tmp_path: Path, quiet_road: str, spark: "SparkSession"
) -> None:
    workspace = RoadWorkspace(tmp_path, REPORTS // 4)
    assert workspace.run(ROUND_MOMENTS[moment]).returncode == KILLED
    assert workspace.finish(spark).consumed == REPORTS
    assert workspace.digest() == quiet_road


@pytest.mark.slow
def test_a_run_of_several_rounds_killed_in_one_round_after_another_ends_with_the_right_results(
    tmp_path: Path, quiet_road: str, spark: "SparkSession"
) -> None:
    """The same epoch is begun again and again, and gets one round further each time."""
    workspace = RoadWorkspace(tmp_path, REPORTS // 4)
    for number in range(1, ROUNDS + 1):
        assert workspace.run(Fault(STAGE, task(0, number) + 1)).returncode == KILLED
    assert workspace.finish(spark).consumed == REPORTS
    assert workspace.digest() == quiet_road


@pytest.mark.slow
@pytest.mark.parametrize("number", [2, ROUNDS])
def test_a_python_worker_killed_in_a_later_round_does_not_end_the_run(
    number: int, tmp_path: Path, quiet_road: str
) -> None:
    workspace = RoadWorkspace(tmp_path, REPORTS // 4)
    summary(workspace.run(Fault(STAGE, task(1, number), "before", "process"), *IN_WORKERS))
    assert workspace.struck
    assert workspace.digest() == quiet_road
