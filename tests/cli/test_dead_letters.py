"""Dead letters are named in the summary, said loudly when they are many, and can fail a run."""

import json
import sys
from pathlib import Path

import pytest

from shoal.cli.main import main

JOB = """
from shoal import Files, Job, Stream
cars = Stream("cars", {"ts": "timestamp", "speed": "float64"}, time="ts")
job = Job.of("cars", [cars.sink("all")], {"cars": Files("cars", format="csv", follow=False)})
"""


@pytest.fixture
def cars(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "job.py").write_text(JOB)
    (tmp_path / "cars").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path / "cars/one.csv"


def said(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *options: str) -> tuple[object, str, str]:
    """Exit code, stdout and stderr of a run."""
    monkeypatch.setattr(sys, "argv", ["shoal", "run", "job.py:job", "--on", "reference", *options])
    with pytest.raises(SystemExit) as end:
        main()
    return end.value.code, *capsys.readouterr()


def rows(good: int, *bad: str) -> str:
    return "\n".join(["ts,speed", *(["2026-01-01,1.5"] * good), *bad]) + "\n"


@pytest.mark.parametrize("on", ["reference", "local"])
def test_every_kind_has_a_number_and_an_example(
    on: str, cars: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    cars.write_text(rows(2, "2026-01-01,fast", "2026-01-01,slow", "soon,1.0"))
    code, out, err = said(monkeypatch, capsys, "--on", on)
    assert code == 0
    assert "dead letters of stream cars: 2 type in column speed\n" in out
    assert f"    for example {cars}, row 2: column 'speed' must be float64; got a text that does not fit: " in out
    assert '{"ts": "2026-01-01", "speed": "fast"}' in out
    assert "dead letters of stream cars: 1 type in column ts\n" in out
    assert "WARNING: 3 dead letters for 5 rows read (60.0%); the results are without them; for example, in str" in err
    code, out, err = said(monkeypatch, capsys, "--on", on, "--json")
    counted = [
        (kind["stream"], kind["reason"], kind["column"], kind["rows"]) for kind in json.loads(out)["refused_rows"]
    ]
    assert counted == [("cars", "type", "speed", 2), ("cars", "type", "ts", 1)]
    assert err.startswith("WARNING: ")


def test_few_dead_letters_are_not_said_loudly_but_fail_a_run_that_allows_none(
    cars: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    cars.write_text(rows(100, "2026-01-01,fast"))
    code, out, err = said(monkeypatch, capsys)
    assert (code, "WARNING" in err) == (0, False)
    assert "dead letters of stream cars: 1 type in column speed" in out
    code, _, err = said(monkeypatch, capsys, "--fail-on-dead-letters")
    assert code == 1
    assert "shoal: there must be no dead letters with --fail-on-dead-letters; got 1 dead letter\n" in err
    cars.write_text(rows(100))
    assert said(monkeypatch, capsys, "--fail-on-dead-letters")[0] == 0


def test_a_summary_says_where_the_results_are(
    cars: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    cars.write_text(rows(1))
    assert "1 in memory, gone with this run; keep them with --sink" in said(monkeypatch, capsys)[1]
    assert "1 in results" in said(monkeypatch, capsys, "--sink", "parquet:results")[1]
    code, _, err = said(monkeypatch, capsys, "--sink", "parquet:results")
    assert (code, "holds results of another run" in err) == (2, True)
    assert said(monkeypatch, capsys, "--sink", "parquet:results", "--overwrite")[0] == 0
    stored = json.loads(said(monkeypatch, capsys, "--sink", "parquet:results", "--append", "--json")[1])
    assert (stored["sink"], stored["results"]) == ("parquet:results", 1)
