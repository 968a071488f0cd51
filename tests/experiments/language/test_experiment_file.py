"""Experiment files: what they declare is what is loaded."""

from pathlib import Path

import pytest

from shoal.errors import GraphError
from shoal.experiments.experiment import FigureSpec, MeasureFunction, Task, TaskFlow, WorkloadRun
from shoal.experiments.language.experiment_file import flow_for, load_experiments, read_declared, read_experiments

LISTINGS = Path(__file__).parents[1] / "listings"
YSB = """
name: ysb
experiments:
- name: engines
  workload: ysb
  title: The Yahoo! Streaming Benchmark on several engines
  set: {events: 20000000, workers: 2}
  vary:
    engine: [spark-sql, shoal-spark, shoal-local, duckdb]
  repeat: 5
  answers: oracle
  metrics: [events_per_s, latency_ms.mean]
  figures: [{type: bars, x: engine, y: events_per_s}]
  small: {set: {events: 100000}, repeat: 1}
"""


def test_an_experiment_with_a_workload_is_loaded_as_declared() -> None:
    file = read_experiments(YSB, "somewhere/other.yaml")
    (experiment,) = file.experiments
    assert (file.name, file.dialect, experiment.name, experiment.repeat) == ("ysb", "expose", "engines", 5)
    assert experiment.subject == WorkloadRun("ysb")
    assert experiment.points[0] == {"events": 20_000_000, "workers": 2, "engine": "spark-sql"}
    assert [point["engine"] for point in experiment.points] == ["spark-sql", "shoal-spark", "shoal-local", "duckdb"]
    assert experiment.metrics == ("events_per_s", "latency_ms.mean")
    assert experiment.figures == (FigureSpec("bars", "events_per_s", "engine"),)


def test_the_small_variant_replaces_only_what_it_names() -> None:
    (small,) = read_experiments(YSB, "ysb.yaml", small=True).experiments
    assert (small.repeat, len(small.points), small.points[0]["events"]) == (1, 4, 100_000)


def test_a_value_of_the_small_variant_wins_over_those_of_points_and_equal_points_are_run_once() -> None:
    text = """
experiments:
- name: sizes
  workload: ysb
  set: {workers: 1}
  points: [{events: 100}, {events: 200, workers: 2}, {events: 300}]
  small: {set: {events: 10}}
"""
    (small,) = read_experiments(text, "sizes.yaml", small=True).experiments
    assert small.points == ({"workers": 1, "events": 10}, {"workers": 2, "events": 10})


def test_a_measure_function_is_found_beside_the_file_or_among_measures(tmp_path: Path) -> None:
    (tmp_path / "measures").mkdir()
    (tmp_path / "measures" / "twin.py").write_text("raise SystemExit\ndef choice(): ...\n")
    path = tmp_path / "twin.yaml"
    for written in ("twin.py:choice", "measures/twin.py:choice"):
        path.write_text(f"experiments: [{{name: a, measure: '{written}'}}]")
        (experiment,) = load_experiments(path).experiments
        assert experiment.subject == MeasureFunction("measures/twin.py", "choice")


def test_listing_iii_1_runs_each_query_with_its_output_stream() -> None:
    file = load_experiments(LISTINGS / "III.1.yaml")
    (experiment,) = file.experiments
    assert isinstance(experiment.subject, TaskFlow)
    assert experiment.subject.tasks[3].arguments == ("output_stream_id", 3)
    flow = flow_for(file, experiment.subject, experiment.points[1])
    assert [task.arguments for task in flow.tasks[3:5]] == [((5,), (3,)), (2, 1)]
    loop = flow.tasks[5]
    assert (loop.name, loop.nodes, loop.arguments[0]) == ("loopTasks", (), 10)
    assert [task.name for task in loop.arguments[1]][:3] == ["startRuntimeEnv", "startRuntimeEnv", "sendDsAsStream"]
    sent: Task = loop.arguments[1][2]
    assert (sent.nodes, sent.arguments) == ((1,), (8, 1, "as-fast-as-possible"))


def test_a_name_that_is_neither_declared_nor_a_parameter_is_refused_with_both_lists() -> None:
    text = (LISTINGS / "III.1.yaml").read_text().replace("query_id: 0,", "qury_id: 0,")
    with pytest.raises(
        GraphError, match=r"III.1.yaml line 71: query of deployQueries must be a query \(0 Pass.*qury_id"
    ):
        read_experiments(text, "III.1.yaml")


def test_a_flow_may_name_every_engine_of_the_catalog() -> None:
    text = (LISTINGS / "III.1.yaml").read_text().replace("query_id: 0,", "engine: shoal-simulated, query_id: 0,")
    assert read_experiments(text, "III.1.yaml").experiments[0].points[0]["engine"] == "shoal-simulated"
    with pytest.raises(GraphError, match=r"engine must be one of .*shoal-simulated, .*; got 'shoal-remote'"):
        read_experiments(text.replace("shoal-simulated", "shoal-remote"), "III.1.yaml")


QUERY = """
stream-definitions: [{stream-id: 1, name: bid, tuple-format: [{name: ts, type: timestamp}]}]
spequeries: [{id: 1, name: q, output-stream-id: 1, sql-query: {flink: select ts from bid}, not-supported: REASONS}]
experiments: [{name: e, measure: m.py:f}]
"""


@pytest.mark.parametrize(
    ("reasons", "message"),
    [
        pytest.param("{flunk: no}", "got 'flunk'; did you mean 'flink'", id="unknown engine"),
        pytest.param("{flink: no}", "sql-query has a text for it", id="an engine that has a text"),
        pytest.param("{duckdb: [no]}", "not-supported must have a text for each engine", id="no text"),
    ],
)
def test_a_reason_why_an_engine_cannot_run_a_query_is_checked(reasons: str, message: str) -> None:
    with pytest.raises(GraphError, match=message):
        read_declared(QUERY.replace("REASONS", reasons), "f.yaml")


def test_a_query_may_say_which_engines_cannot_run_it() -> None:
    file = read_declared(QUERY.replace("REASONS", "{duckdb: it has no streams}"), "f.yaml")
    assert file.queries[1].unsupported == {"duckdb": "it has no streams"}
