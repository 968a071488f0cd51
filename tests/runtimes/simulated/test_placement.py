"""Policies that know hosts, on machines whose power and latency are simulated: what they promise comes true."""

from pathlib import Path

import pytest
from tests.small_city import city, result_tables

from shoal.control.journal import Decided, Measured
from shoal.control.settings import ControlSettings
from shoal.errors import ConfigError
from shoal.session.digest import differences
from shoal.session.journal import read_journal
from shoal.session.run import Run, start

POWER = """
hosts:
- {name: frugal, cores: 2, energy: {busy_w: 2, idle_w: 1, byte_j: 1.0e-7}}
- {name: hungry, count: 2, cores: 2, energy: {busy_w: 20, idle_w: 1, byte_j: 1.0e-7}}
star: {bandwidth: 20Mbit, latency: 2ms}
"""
FAR = """
hosts: [{name: near, cores: 2}, {name: far, count: 2, cores: 2}]
links: [{from: near, to: far, bandwidth: 20Mbit, latency: 60ms}]
"""


def run_city(directory: Path, machine: str, policy: str, deadline_ms: str = "") -> Run:
    (directory / "machine.yaml").write_text(machine)
    ready = city(rate=5_000.0)
    run = start(
        ready.job,
        on="simulated",
        topology=str(directory / "machine.yaml"),
        policy=policy,
        conf={"epoch_s": "0.02", "work_factor": "20"},
        control=ControlSettings(window_s=0.1, rest_s=0.1, trigger="periodic:0.2", deadline_ms=deadline_ms),
        journal=str(directory / policy),
    )
    run.wait()
    assert differences(result_tables(run), ready.expected(run.consumed)) == []
    return run


def joules(run: Run) -> float:
    report = run.runtime.machine_report()
    assert report is not None
    return float(report["joules"])


def test_energy_aware_takes_less_energy_and_keeps_its_promise(tmp_path: Path) -> None:
    saving, even = (run_city(tmp_path, POWER, policy) for policy in ("energy-aware", "guarded"))
    assert joules(saving) < joules(even)
    entries = read_journal(str(tmp_path / "energy-aware"))
    (first, *_), (measured, *_) = (
        [entry for entry in entries if isinstance(entry, kind)] for kind in (Decided, Measured)
    )
    assert isinstance(first, Decided)
    assert isinstance(measured, Measured)
    assert first.goal_expected < first.goal_before / 2
    assert measured.goal_after == pytest.approx(first.goal_expected, rel=0.2)
    assert saving.binding is not None
    assert {int(worker) for worker in saving.binding.worker_of.values()} <= {0, 1}


def test_deadline_aware_brings_the_query_with_a_deadline_close_and_leaves_the_others(tmp_path: Path) -> None:
    tight = "avg_speed[1]"
    run = run_city(tmp_path, FAR, "deadline-aware", deadline_ms=f"{tight}:60,400")
    decisions = [entry for entry in read_journal(str(tmp_path / "deadline-aware")) if isinstance(entry, Decided)]
    moved = [move for entry in decisions for move in entry.moves if not move.refused]
    assert [(move.name, move.target in (0, 1)) for move in moved] == [(f"aggregate of {tight}", True)]
    assert run.tally.moves == 1
    assert decisions[0].goal_before > 1 > decisions[0].goal_expected


@pytest.mark.parametrize(
    ("on", "policy", "control", "message"),
    [
        pytest.param(
            "local",
            "energy-aware",
            {},
            "policy energy-aware is for runtime simulated; runtime local does not know its hosts and links",
            id="a runtime without hosts",
        ),
        pytest.param(
            "simulated",
            "energy-aware",
            {},
            "policy energy-aware needs the energy of hosts; topology of cores alone has none, use a file with `energy`",
            id="hosts without energy",
        ),
        pytest.param(
            "simulated",
            "deadline-aware",
            {},
            "policy deadline-aware needs deadlines; add deadline_ms, e.g. deadline_ms=50",
            id="no deadline",
        ),
        pytest.param(
            "simulated",
            "guarded",
            {"deadline_ms": "50"},
            "deadline_ms is for policy deadline-aware; got policy guarded",
            id="a deadline that nobody heeds",
        ),
        pytest.param(
            "simulated",
            "deadline-aware",
            {"deadline_ms": "avg_sped[1]:50"},
            "deadline_ms must name queries of the job; got 'avg_sped[1]'; did you mean 'avg_speed[1]'?",
            id="no such query",
        ),
    ],
)
def test_what_a_policy_does_not_know_is_refused_at_the_start(
    on: str, policy: str, control: dict[str, str], message: str
) -> None:
    settings = ControlSettings(**control)  # type: ignore[arg-type]
    with pytest.raises(ConfigError) as caught:
        start(city().job, on=on, policy=policy, control=settings)
    assert str(caught.value) == message
