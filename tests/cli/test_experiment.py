"""`shoal experiment plan` and `schema`: what a file declares, seen before anything is run."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from shoal.cli.main import cli

LISTING = Path(__file__).parents[1] / "experiments/listings/III.1.yaml"
SIZES = """
experiments:
- name: sizes
  title: How time grows
  workload: ysb
  set: {workers: 1}
  vary: {events: [100, 200], engine: [duckdb]}
  repeat: 3
  small: {set: {events: 10}, repeat: 1}
"""


@pytest.fixture
def sizes(tmp_path: Path) -> Path:
    path = tmp_path / "sizes.yaml"
    path.write_text(SIZES)
    return path


def printed(*arguments: str) -> str:
    result = CliRunner().invoke(cli, ["experiment", *arguments], catch_exceptions=False)
    assert result.exit_code == 0
    return result.stdout


def test_a_plan_says_what_would_be_run(sizes: Path) -> None:
    assert printed("plan", str(sizes)).splitlines() == [
        "sizes: 1 experiment, 2 points, 6 trials",
        "dialect expose: the file has no key 'network'",
        "",
        "sizes: How time grows",
        "  workload ysb on duckdb",
        "  2 points, 3 trials of each; answers: oracle",
        "  set workers=1 engine=duckdb",
        "  - events=100",
        "  - events=200",
    ]


def test_a_plan_of_the_small_variant_has_its_points(sizes: Path) -> None:
    plan = json.loads(printed("plan", str(sizes), "--small", "--json"))
    assert plan["experiments"][0]["points"] == [{"workers": 1, "events": 10, "engine": "duckdb"}]
    assert plan["experiments"][0]["trials"] == 1


def test_a_plan_says_what_is_missing() -> None:
    plan = json.loads(printed("plan", str(LISTING), "--json"))
    where, _, what = plan["missing"][0].partition(" line ")
    assert where == str(LISTING)
    assert what == "45: dataset 8: there is no file nexmark-40k.csv beside the experiment file"
    assert any("sql-query has flink, siddhi" in each for each in plan["missing"])


def test_the_schema_is_json_and_knows_all_tasks() -> None:
    schema = json.loads(printed("schema"))
    assert {"loopTasks", "adapt"} <= set(schema["$defs"]["task"]["properties"]["task"]["enum"])


def test_results_are_reported_on_one_page_and_compared(sizes: Path, tmp_path: Path) -> None:
    results = str(tmp_path / "results")
    printed("run", str(sizes), "--small", "-o", results)
    page = Path(printed("report", str(sizes), "--small", "-o", results).strip())
    assert "How time grows" in page.read_text()
    assert "<script" not in page.read_text()
    compared = printed("compare", results, results)
    assert "cannot tell: too few repetitions" in compared
