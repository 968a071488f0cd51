"""`shoal bench` and `shoal profile` as their users see them."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from shoal.cli.main import cli
from shoal.compiler.program import compile_graph
from shoal.errors import ConfigError
from shoal.runtimes.simulated.delay.model import delay_model
from shoal.workloads.catalog import workload
from shoal.workloads.workload import Amount

SMALL = ["--events", "20000", "--set", "per_s=1000", "--repeat", "1"]


def test_a_bench_prints_a_table_and_keeps_its_numbers(tmp_path: Path) -> None:
    kept, figure = tmp_path / "kept.json", tmp_path / "figure.svg"
    done = CliRunner().invoke(cli, ["bench", "ysb", *SMALL, "-o", str(kept), "--figure", str(figure)])
    assert done.exit_code == 0, done.output
    assert "shoal-local  20,000" in done.stdout
    found = json.loads(kept.read_text())
    assert found["points"][0]["outcomes"][0]["oracle"] == "equal"
    assert set(found["machine"]) >= {"cores", "python", "shoal", "load_1min"}
    assert figure.read_text().startswith("<?xml")


def test_json_is_all_that_is_printed() -> None:
    done = CliRunner().invoke(cli, ["bench", "ysb", *SMALL, "--load", "0.5", "--seconds", "1", "--json"])
    assert done.exit_code == 0, done.output
    points = json.loads(done.stdout)["points"]
    assert [point["label"] for point in points] == ["shoal-local", "shoal-local at 50% load"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["traffic"], "there are experiments for ysb, nyt, linear-road, mixed, skew; got 'traffic'"),
        (["ysb", "--engines", "heron"], "engine must be one of shoal-local"),
        (["ysb", "--ablate", "luck"], "--ablate takes memory and scheduling; got 'luck'"),
        (["skew", "--queries", "1,2"], "--queries makes copies of ysb, nyt, linear-road and mixed"),
        (["ysb", "--queries", "0,1"], "--queries takes positive integers"),
        (["ysb", "--sensitivity", "block_rows"], "--sensitivity takes NAME=V1,V2"),
        (["ysb", "--queries", "1", "--rate", "5"], "one experiment at a time; got --queries and --rate"),
    ],
)
def test_experiments_that_make_no_sense_are_refused(options: list[str], message: str) -> None:
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
