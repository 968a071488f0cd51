"""Whole jobs on machines whose hosts go as announced: who leaves ahead loses no time, and no result changes."""

from pathlib import Path

import pytest
from tests.small_city import city, result_tables

from shoal.control.journal import Entry, Left, Lost
from shoal.control.settings import ControlSettings
from shoal.session.digest import differences
from shoal.session.journal import read_journal
from shoal.session.run import Run, start

MACHINE = """
hosts: [{name: box, count: 2, cores: 2}, %s]
star: {bandwidth: 20Mbit, latency: 2ms}
outages: [%s]
"""
PLAIN = "{name: weak, cores: 2}"
STEP_S = 0.04


def run_city(directory: Path, host: str, outages: str, departures: str = "ahead") -> tuple[Run, list[Entry]]:
    """The small city for 1.8 s; its worst latency is otherwise that of a step and a little work."""
    (directory / "machine.yaml").write_text(MACHINE % (host, outages))
    ready, journal = city(rate=5_000.0), str(directory / departures)
    run = start(
        ready.job,
        on="simulated",
        topology=str(directory / "machine.yaml"),
        policy="guarded",
        conf={"epoch_s": "0.02", "work_factor": "20", "step_s": str(STEP_S)},
        control=ControlSettings(window_s=0.1, rest_s=0.1, horizon_s=1.0, split=0, departures=departures),
        journal=journal,
    )
    run.wait()
    assert differences(result_tables(run), ready.expected(run.consumed)) == []
    return run, read_journal(journal)


def left(entries: list[Entry]) -> list[Left]:
    return [entry for entry in entries if isinstance(entry, Left)]


def test_an_announced_disconnection_costs_no_time_where_a_surprise_waits_for_the_link(tmp_path: Path) -> None:
    outage = "{link: [weak, hub], at: 0.8, until: 1.4%s}"
    quiet, _ = run_city(tmp_path, PLAIN, "", "wait")
    surprised, nothing = run_city(tmp_path, PLAIN, outage % "")
    reactive, _ = run_city(tmp_path, PLAIN, outage % ", announced: 0.5", "wait")
    proactive, entries = run_city(tmp_path, PLAIN, outage % ", announced: 0.5")
    assert left(nothing) == []
    assert surprised.tally.latency.max_s == reactive.tally.latency.max_s > 0.5
    assert proactive.tally.latency.max_s < quiet.tally.latency.max_s + STEP_S
    assert proactive.tally.latency.sum_s < reactive.tally.latency.sum_s
    (only,) = left(entries)
    assert only.trigger == "host weak is expected to lose its link at 0.8 s"
    assert only.at_s + only.transfer_s < 0.8
    assert (only.stayed, only.moved > 0) == (0, True)


def test_an_announced_failure_finds_the_host_empty(tmp_path: Path) -> None:
    run, entries = run_city(tmp_path, PLAIN, "{host: weak, at: 0.8, announced: 1}")
    assert [event.workers for event in run.lost] == [(4, 5)]
    (only,) = left(entries)
    assert only.at_s < 0.8
    (lost,) = [entry for entry in entries if isinstance(entry, Lost)]
    assert (lost.workers, lost.moved) == ((4, 5), 0), "nothing was left on it"


@pytest.mark.parametrize("departures", ["ahead", "wait"])
def test_a_host_is_left_before_its_battery_is_empty(tmp_path: Path, departures: str) -> None:
    weak = "{name: weak, cores: 2, energy: {busy_w: 1, idle_w: 0.5, battery_j: 1.0}}"
    run, entries = run_city(tmp_path, weak, "", departures)
    found = left(entries)
    if departures == "wait":
        assert found == []
        assert [event.workers for event in run.lost] == [(4, 5)]
        return
    assert found[0].trigger.startswith("host weak is expected to run out of battery at ")
    for event in run.lost:
        assert found[0].at_s + found[0].transfer_s < event.at_s
