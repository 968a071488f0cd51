"""Overload: shedding begins when a run stays late, ends when it has not been for a while, and does not flap."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from shoal.control.journal import SheddingBegun, SheddingEnded
from shoal.control.overload import PATIENCE, RELEASE, Overload
from shoal.model.control.binding import Binding
from shoal.model.control.messages import EpochCommitted, ShedInput
from shoal.model.control.shedding import ShedCount, Shedding, ShedRule, StreamShedding
from shoal.model.control.snapshot import InstanceLoad, Snapshot
from shoal.model.query.graph import InstanceId

LIMIT_S = 2.0
SHEDDING = Shedding("random", 0.2, above_s=LIMIT_S)


def report(epoch: int, latency_s: float, *, backlog: int = 0, rows: int = 0) -> EpochCommitted:
    load = {InstanceId("a/0"): InstanceLoad(events=100, cost_s=0.1, results=1, state_bytes=10, backlog=backlog)}
    snapshot = Snapshot(epoch, Binding.of({}, 1), load, period_s=0.5)
    shed = {"cars": ShedCount(rows)} if rows else {}
    return EpochCommitted(epoch, 100, 1, 0, 0, 0, 0, 0.5, latency_s, 0.1, 0.0, 0.0, snapshot, shed=shed, at_s=epoch / 2)


def test_a_run_that_is_late_once_sheds_nothing() -> None:
    overload = Overload(SHEDDING)
    late = [3.0, 1.0] * 10
    assert all(not overload.handle(report(epoch, s)).commands for epoch, s in enumerate(late))


def test_shedding_begins_with_the_second_late_report_and_says_why() -> None:
    overload = Overload(SHEDDING)
    assert not overload.handle(report(0, 3.0)).commands
    reaction = overload.handle(report(1, 3.0))
    why = "latency was 3 s, over the limit of 2 s"
    assert reaction.commands == (ShedInput(active=True, reason=why),)
    assert reaction.entries == (SheddingBegun(0.5, 1, "random:0.2", why),)


def test_a_backlog_counts_as_the_time_that_it_takes() -> None:
    overload = Overload(SHEDDING)
    overload.handle(report(0, 0.1, backlog=1000))
    [command] = overload.handle(report(1, 0.1, backlog=1000)).commands
    assert isinstance(command, ShedInput)
    assert command.reason == "a backlog of 1,000 events, or 5 s, over the limit of 2 s"


def test_shedding_ends_after_a_calm_time_with_the_number_of_rows() -> None:
    overload = Overload(SHEDDING)
    for epoch in range(2):
        overload.handle(report(epoch, 3.0))
    reactions = [overload.handle(report(epoch, 0.5, rows=10)) for epoch in range(2, 40)]
    [ended] = [entry for reaction in reactions for entry in reaction.entries]
    assert ended == SheddingEnded(9.0, 18, "latency was 500 ms, and not over 1 s for 8 s", rows=170, lasted_s=8.5)


def test_a_run_that_ends_while_it_sheds_says_how_much() -> None:
    overload = Overload(replace(SHEDDING, when="always"))
    rule = ShedRule("random", 0.2)
    first = replace(report(0, 0.1, rows=5), shedding={"cars": StreamShedding().asked(rule, always=True)})
    assert overload.handle(first).entries == (SheddingBegun(0.0, 0, "random:0.2", "it was asked for"),)
    assert overload.handle(report(1, 99.0, rows=6)).entries == ()
    assert overload.ended(1.0, 1).entries == (SheddingEnded(1.0, 1, "the run ended", rows=11, lasted_s=1.5),)


@given(st.lists(st.floats(0, 4), max_size=200))
def test_commands_alternate_and_every_one_has_its_reason_in_the_reports(latencies_s: list[float]) -> None:
    overload, active = Overload(SHEDDING), False
    for epoch, latency_s in enumerate(latencies_s):
        for command in overload.handle(report(epoch, latency_s)).commands:
            assert isinstance(command, ShedInput)
            assert command.active is not active
            active = command.active
            recent = latencies_s[max(0, epoch + 1 - (PATIENCE if active else 16)) : epoch + 1]
            assert all(s > LIMIT_S if active else s <= RELEASE * LIMIT_S for s in recent)
