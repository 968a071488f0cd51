"""Every example runs as a user runs it, in the session all tests share, and says what its story promises."""

import runpy
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
SAID = [
    pytest.param(
        "many_queries.py",
        ["300 queries, 1201 operators, 2 lanes", "60000 events read once"],
        id="many_queries reads every event once",
    ),
    pytest.param("rebind.py", ["workers 4, ", "workers 1, ", "same results"], id="rebind changes no result"),
    pytest.param(
        "dead_letters.py",
        ["7 rows read, 4 dead letters", "null ", "type ", "future ", "late "],
        id="dead_letters names every reason",
    ),
    pytest.param(
        "join_and_pattern.py",
        ["suspicious: [{'user': 'bob', 'tries': 3", "{'user': 'ann', 'cents': 1200}"],
        id="join_and_pattern finds who guessed a password",
    ),
    pytest.param("sql_job.py", ["warmest", "heating", "place", "steps"], id="sql_job runs the SQL file beside it"),
    pytest.param("own_dataframe.py", ["kitchen", "cellar"], id="own_dataframe joins before Shoal sees the rows"),
]


@pytest.mark.parametrize(("name", "said"), SAID)
def test_an_example_keeps_its_promise(
    name: str, said: list[str], spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    runpy.run_path(str(EXAMPLES / name), run_name="__main__")
    printed = capsys.readouterr().out
    assert [words for words in said if words not in printed] == [], printed


def test_every_example_is_run() -> None:
    """The quickstart runs as a block of the README, which is the same code."""
    run = {"quickstart.py", *(str(param.values[0]) for param in SAID)}
    assert {path.name for path in EXAMPLES.glob("*.py")} == run


def test_an_example_fits_on_a_page() -> None:
    assert {path.name for path in EXAMPLES.glob("*.py") if len(path.read_text().splitlines()) >= 60} == set()


def test_the_readme_shows_the_quickstart_as_it_is() -> None:
    _, _, code = (EXAMPLES / "quickstart.py").read_text().split('"""', 2)
    assert f"```python\n{code.strip()}\n```" in (ROOT / "README.md").read_text()
