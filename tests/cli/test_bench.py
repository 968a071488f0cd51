"""`shoal bench` and `shoal profile` as their users see them."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from shoal.cli.commands.bench import declared
from shoal.cli.main import cli
from shoal.compiler.program import compile_graph
from shoal.errors import ConfigError
from shoal.runtimes.simulated.delay.model import delay_model
from shoal.session.prediction import calibration
from shoal.workloads.catalog import workload
from shoal.workloads.workload import Amount


@pytest.fixture(autouse=True)
def short_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs that calibrate a profile take four seconds each otherwise."""
    monkeypatch.setattr(calibration, "RUN_S", 0.4)
    monkeypatch.setattr(calibration, "WARM_UP_S", 0.05)


SMALL = ["--events", "20000", "--set", "per_s=1000", "--repeat", "1"]


def test_a_bench_is_an_experiment_whose_results_are_kept_and_compared(tmp_path: Path) -> None:
    output = ["-o", str(tmp_path)]
    done = CliRunner().invoke(cli, ["bench", "ysb", "--engines", "shoal-local,duckdb", *SMALL, *output, "--json"])
    assert done.exit_code == 0, done.output
    [found] = json.loads(done.stdout)["experiments"]
    assert [(point["parameters"]["engine"], point["answers"]) for point in found["points"]] == [
        ("shoal-local", "equal"),
        ("duckdb", "equal"),
    ]
    assert all(point["parameters"]["events"] == 20_000 for point in found["points"])
    assert len(list(tmp_path.glob("bench/ysb/*/*/0.json"))) == 2
    again = CliRunner().invoke(cli, ["bench", "ysb", "--engines", "shoal-local,duckdb", *SMALL, *output])
    assert again.stderr.count("done before") == 2
    assert "ysb, 20,000 events, 2 workers" in again.stdout


def test_engines_get_the_same_events_and_one_alone_more() -> None:
    def events(engines: str) -> list[object]:
        return [point["events"] for point in declared("ysb", engines, 1, None, 2, 0, (), ()).points]

    assert events("shoal-local,duckdb") == [5_000_000, 5_000_000]
    assert events("shoal-local") == [150_000_000]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["nope"], "no workload is named 'nope'"),
        (["ysb", "--engines", "heron"], "engine must be one of shoal-local"),
        (["ysb", "--engines", "duckbd"], "did you mean 'duckdb'"),
        (["ysb", "--set", "per_s"], "--set takes KEY=VALUE"),
    ],
)
def test_a_bench_that_makes_no_sense_is_refused(options: list[str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        CliRunner().invoke(cli, ["bench", *options], catch_exceptions=False)


def test_a_profile_tells_what_every_operator_costs(tmp_path: Path) -> None:
    kept = tmp_path / "profile.json"
    done = CliRunner().invoke(cli, ["profile", "ysb", "--events", "30000", "-o", str(kept)])
    assert done.exit_code == 0, done.output
    assert "selectivity" in done.stdout
    found = json.loads(kept.read_text())
    assert found["events"] == 30_000
    source, views, *_, sink = found["operators"]
    assert (source["events_in"], views["events_in"]) == (30_000, 30_000)
    assert views["selectivity"] == pytest.approx(1 / 3, abs=0.02)
    assert sink["events_out"] == 100
    assert sum(each["share"] for each in found["operators"]) == pytest.approx(1.0, abs=1e-4)
    assert all(each["cost_s"] > 0 for each in found["operators"])


def test_events_are_for_generated_streams_only() -> None:
    with pytest.raises(ConfigError, match=r"--events is for generated events; job\.py:job has its own"):
        CliRunner().invoke(cli, ["profile", "job.py:job", "--events", "5"], catch_exceptions=False)


def test_a_profile_has_a_section_for_the_simulator_and_tells_how_good_it_is(tmp_path: Path) -> None:
    kept = tmp_path / "profile.json"
    done = CliRunner().invoke(cli, ["profile", "traffic", "--events", "30000", "--set", "regions=2", "-o", str(kept)])
    assert done.exit_code == 0, done.output
    found = json.loads(kept.read_text())
    printed = " ".join(done.stdout.split())
    for form in ("simulator", "divided"):
        assert f"fitted to {found[form]['turns']:,} turns in one thread" in printed
        assert {node["kind"] for node in found[form]["nodes"]} >= {"source", "steps", "lane", "outlet"}
    assert printed.count("error of the total cost of held-out turns") == 2
    program = compile_graph(workload("traffic").ready(0, Amount(10), {"regions": "2"}).job.graph)
    model = delay_model("traced", program, found)
    assert model.stream("vehicles").event_s > 0
    assert all(0 < model.selectivity(lane) < 1 for lane in program.lanes)


def test_a_runtime_that_measures_no_profile_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"runtime of a profile must be one of .*local; got 'reference'"):
        CliRunner().invoke(cli, ["profile", "ysb", "--on", "reference"], catch_exceptions=False)
