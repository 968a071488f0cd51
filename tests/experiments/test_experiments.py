"""Trials of workloads: results are checked first, and a trial that cannot run says why."""

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from shoal.errors import ConfigError, ShoalError
from shoal.experiments import files
from shoal.experiments.engines.engine import ENGINES, ready
from shoal.experiments.experiment import Experiment, Trial, WorkloadRun
from shoal.experiments.runner import run_trial
from shoal.experiments.workload_trial import WorkloadTrial, run_workload

SMALL = {"events": 20_000, "set.per_s": 1000}


def test_a_trial_runs_in_its_own_process_and_its_results_are_checked() -> None:
    outcome, _ = run_trial(Trial("f.yaml", "e", SMALL), Experiment("e", WorkloadRun("ysb"), (SMALL,)))
    assert (outcome.metrics["events"], outcome.oracle) == (20_000, "equal")
    assert {"events_per_s", "marker_ms.mean", "decision_us", "cpu_ns_per_event"} <= set(outcome.metrics)


def test_a_trial_at_a_rate_has_a_course_and_latencies() -> None:
    outcome = run_workload("ysb", {"rate": "20000,40000@1", "seconds": 2.0, "set.per_s": 10_000}, 0)
    assert outcome.oracle == "equal"
    assert outcome.metrics["events"] > 20_000
    assert {len(point) for point in outcome.series["timeline"]} == {3}


def test_batch_and_stream_read_the_same_number_of_events() -> None:
    found = [run_workload("ysb", {**SMALL, "engine": engine}, 0) for engine in ("shoal-local", "duckdb")]
    assert [(each.metrics["events"], each.oracle) for each in found] == [(20_000, "equal")] * 2


def test_peers_get_a_file_for_every_epoch(tmp_path: Path) -> None:
    trial = WorkloadTrial("skew", "spark-sql", events=90_000)
    files.write(ready(trial), trial, tmp_path, "parquet")
    rows = [pq.read_metadata(path).num_rows for path in sorted(tmp_path.iterdir())]
    assert rows == [40_000, 40_000, 10_000]


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_spark_joins_as_shoal_does() -> None:
    settings = {"queries": "join", "cells": "8", "hot": "2", "per_s": "1000", "move_s": "2"}
    outcome = ENGINES["spark-sql"](WorkloadTrial("skew", "spark-sql", 5_000, workers=2, settings=settings))
    assert (outcome.events, outcome.oracle) == (5_000, "equal")


@pytest.mark.parametrize(
    ("trial", "message"),
    [
        pytest.param(WorkloadTrial("traffic", "flink", 10), "flink needs SHOAL_FLINK_PYTHON", id="no flink"),
        pytest.param(WorkloadTrial("ysb", "duckdb", rate="5"), "DuckDB runs one batch", id="a rate for a batch"),
        pytest.param(
            WorkloadTrial("ysb", "spark-sql", rate="5"), "reads files as fast as it can", id="a rate for files"
        ),
        pytest.param(
            WorkloadTrial("skew", "spark-sql", 10), "runs the join alone; set queries=join", id="more than a join"
        ),
        pytest.param(
            WorkloadTrial("bikes", "spark-sql", 10), "runs ysb, nyt and skew; there is no bikes", id="no SQL for it"
        ),
        pytest.param(WorkloadTrial("nope"), "no workload is named 'nope'", id="no workload"),
        pytest.param(WorkloadTrial("ysb", local={"memory": "x"}), "memory must be one of block, queue", id="no memory"),
    ],
)
def test_a_trial_that_cannot_run_says_why(trial: WorkloadTrial, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SHOAL_FLINK_PYTHON", raising=False)
    with pytest.raises(ShoalError, match=message):
        ENGINES[trial.engine](trial)


def test_what_a_trial_says_in_its_own_process_is_the_reason_of_its_failure() -> None:
    point = {"engine": "duckdb", "rate": "5"}
    outcome, _ = run_trial(Trial("f.yaml", "e", point), Experiment("e", WorkloadRun("ysb"), (point,)))
    assert "DuckDB runs one batch" in outcome.failure


def test_an_unknown_engine_is_rejected() -> None:
    with pytest.raises(ConfigError, match=f"engine must be one of {', '.join(ENGINES)}; got 'x'"):
        WorkloadTrial("ysb", "x")
