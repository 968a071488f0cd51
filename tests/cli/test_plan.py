"""`shoal plan`, as a person gets it."""

import json
from pathlib import Path

import pytest
from tests.cli.test_main import shoal

SMALL = ["plan", "traffic", "--set", "regions=4", "--set", "vehicles=300", "--seconds", "1", "--rate", "3000"]


def test_a_plan_says_what_runs_where_and_why(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    assert shoal(monkeypatch, *SMALL, "--topology", "star:2x2@10Mbit,2ms") == 0
    out = capfd.readouterr().out
    lines = out.splitlines()
    assert lines[0] == "traffic on star:2x2@10Mbit,2ms at 3000 events/s: policy guarded, 4 workers on 2 hosts"
    assert lines[1].startswith("why: moves that pay for their state")
    assert [line.split()[0] for line in lines if line.startswith("host-")] == ["host-1", "host-2"]
    assert "and 2 more queries; --all lists them" in lines
    assert "guarded (chosen)" in out
    assert "candidates, by the utilisation of the busiest worker; less is better" in lines
    assert (
        "not possible: policy energy-aware needs the energy of hosts; the topology has none: give hosts `energy`"
        in lines
    )


def test_a_plan_as_data_has_every_host_query_and_instance(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    assert shoal(monkeypatch, *SMALL, "--topology", "star:2x2@10Mbit,2ms", "--json") == 0
    plan = json.loads(capfd.readouterr().out)
    assert (plan["target"], plan["policy"], plan["workers"]) == ("traffic", "guarded", 4)
    assert sum(len(host["instances"]) for host in plan["hosts"]) == len(plan["queries"]) == 12


def test_a_profile_gives_the_costs_of_a_plan(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert shoal(monkeypatch, *SMALL, "--topology", "cores:2", "--profile", str(tmp_path / "none.json")) == 2
    assert "none.json" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["plan", "ysb", "--topology", "cores:2"], "a plan needs events at a rate; stream 'ad_events' is read as fast"),
        ([*SMALL, "--topology", "cores:2", "--set", "mode=real"], "--set mode is not for a plan; it is always statist"),
        ([*SMALL, "--topology", "cores:2", "--policy", "deadline-aware"], "policy deadline-aware needs deadlines; add"),
        (
            ["plan", "cars.py:job", "--topology", "cores:2", "--rate", "3"],
            "--rate is for generated events; cars.py",
        ),
    ],
)
def test_a_mistake_is_one_sentence(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], options: list[str], message: str
) -> None:
    assert shoal(monkeypatch, *options) == 2
    assert f"shoal: {message}" in capfd.readouterr().err
