"""Experiments: declared before they run, results checked first, and every number from its own trial."""

from collections.abc import Sequence
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from shoal.errors import ConfigError, RunError, ShoalError
from shoal.experiments import files, report
from shoal.experiments import variants as declared
from shoal.experiments.engines.engine import ENGINES, ready
from shoal.experiments.figure import draw
from shoal.experiments.variants import MeasuredPoint, Point, Variants
from shoal.experiments.workload_trial import WorkloadOutcome, WorkloadTrial, run_apart

SMALL = WorkloadTrial("ysb", events=20_000, settings={"per_s": "1000"})


def outcomes(*rates: float) -> list[WorkloadOutcome]:
    return [WorkloadOutcome(events=1000, elapsed_s=1000 / rate, cpu_s=0.001, digest="d") for rate in rates]


def said(
    experiment: Variants, found: Sequence[WorkloadOutcome], monkeypatch: pytest.MonkeyPatch
) -> list[MeasuredPoint]:
    """What comes of an experiment whose trials turn out as given."""
    given = iter(found)
    monkeypatch.setattr(declared, "run_apart", lambda _: next(given))
    return declared.run(experiment, len(found) // len(experiment.points), lambda _: None)


def test_a_trial_runs_in_its_own_process_and_its_results_are_checked() -> None:
    outcome = run_apart(SMALL)
    assert (outcome.events, outcome.oracle) == (20_000, "equal")
    assert outcome.events_per_s > 0
    assert outcome.marker_ms is not None
    assert outcome.decision_us is not None


def test_a_trial_at_a_rate_has_a_course_and_latencies() -> None:
    outcome = run_apart(WorkloadTrial("ysb", rate="20000,40000@1", seconds=2.0, settings={"per_s": "10000"}))
    assert outcome.oracle == "equal"
    assert outcome.events > 20_000
    assert [len(point) for point in outcome.timeline] == [3] * len(outcome.timeline)
    assert outcome.timeline


def test_batch_and_stream_read_the_same_number_of_events() -> None:
    found = declared.run(declared.engines("ysb", ["shoal-local", "duckdb"], SMALL), 1, lambda _: None)
    assert [each.outcomes[0].events for each in found] == [20_000, 20_000]
    assert [row[-1] for row in report.rows(found)] == ["equal", "equal"]


def test_peers_get_a_file_for_every_epoch(tmp_path: Path) -> None:
    trial = WorkloadTrial("skew", "spark-sql", events=90_000)
    files.write(ready(trial), trial, tmp_path, "parquet")
    rows = [pq.read_metadata(path).num_rows for path in sorted(tmp_path.iterdir())]
    assert rows == [40_000, 40_000, 10_000]


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_spark_joins_as_shoal_does() -> None:
    settings = {"queries": "join", "cells": "8", "hot": "2", "per_s": "1000", "move_s": "2"}
    outcome = run_apart(WorkloadTrial("skew", "spark-sql", 5_000, workers=2, settings=settings))
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


def test_what_a_trial_says_in_its_own_process_is_the_error_of_the_caller() -> None:
    with pytest.raises(RunError, match=r"ysb on duckdb: .*DuckDB runs one batch"):
        run_apart(WorkloadTrial("ysb", "duckdb", rate="5"))


def test_an_unknown_engine_is_rejected() -> None:
    with pytest.raises(ConfigError, match=f"engine must be one of {', '.join(ENGINES)}; got 'x'"):
        WorkloadTrial("ysb", "x")


def test_a_wrong_result_ends_the_experiment(monkeypatch: pytest.MonkeyPatch) -> None:
    experiment = Variants("e", "", (Point("p", SMALL),))
    with pytest.raises(RunError, match="p gave wrong results"):
        said(experiment, [WorkloadOutcome(10, 1.0, oracle="different")], monkeypatch)


def test_a_result_that_changes_from_run_to_run_ends_the_experiment(monkeypatch: pytest.MonkeyPatch) -> None:
    experiment = Variants("e", "", (Point("p", SMALL),))
    with pytest.raises(RunError, match="p gave wrong results"):
        said(experiment, [WorkloadOutcome(10, 1.0, digest="a"), WorkloadOutcome(10, 1.0, digest="b")], monkeypatch)


def test_points_take_turns_and_are_compared_with_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    experiment = Variants("e", "", (Point("one", SMALL), Point("other", SMALL)))
    found = said(experiment, outcomes(100.0, 10.0, 300.0, 30.0, 200.0, 20.0), monkeypatch)
    assert [each.events_per_s for each in found] == [
        pytest.approx((200.0, 100.0, 300.0)),
        pytest.approx((20.0, 10.0, 30.0)),
    ]
    assert [row[4] for row in report.rows(found)] == ["1.00", "0.10"]


def test_an_ablation_leaves_out_what_it_is_told_to() -> None:
    def modes(*parts: str) -> list[str]:
        return [point.label for point in declared.ablation("ysb", parts, SMALL).points]

    assert modes("memory", "scheduling") == ["SM", "TM", "SQ", "TQ"]
    assert modes("memory") == ["SM", "SQ"]
    assert modes("scheduling") == ["SM", "TM"]


def test_queries_scale_by_streams_of_their_own() -> None:
    points = declared.scaling("linear-road", [1, 3], WorkloadTrial("linear-road", events=100)).points
    assert [point.trial.settings["linear_road"] for point in points] == ["1", "3"]
    assert [point.trial.settings["ysb"] for point in points] == ["0", "0"]
    assert [point.trial.events for point in points] == [100, 99]


@pytest.mark.parametrize("kind", ["bars", "line", "course"])
def test_a_figure_is_drawn_from_the_data_alone(kind: str, tmp_path: Path) -> None:
    points = {
        "bars": (Point("a", SMALL), Point("b", SMALL)),
        "line": (Point("1", SMALL, 1.0), Point("100", SMALL, 100.0)),
        "course": (Point("a", SMALL),),
    }[kind]
    name, axis = ("dynamic", "seconds") if kind == "course" else ("e", "queries" if kind == "line" else "")
    course = [[0.5, 1e6, 2.0], [1.0, 2e6, 3.0]]
    measured = [MeasuredPoint(point, [WorkloadOutcome(1000, 1.0, timeline=course)]) for point in points]
    path = tmp_path / "deep" / f"{kind}.png"
    draw(report.data(Variants(name, "title", points, axis), measured), path)
    assert path.read_bytes().startswith(b"\x89PNG")
