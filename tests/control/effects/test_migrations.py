"""Migrations are measured by the epochs before and during them, whenever the runtime reports which."""

import json
from pathlib import Path

import pytest

from shoal.control.effects.migrations import Migrations
from shoal.control.journal import Migrated
from shoal.model.control.binding import Binding, WorkerId
from shoal.model.control.histogram import Histogram
from shoal.model.control.messages import (
    CommandRefused,
    EpochCommitted,
    LostState,
    MoveReport,
    MovesFinished,
    QueryLoss,
    Rebind,
    RunEnded,
)
from shoal.model.control.snapshot import Snapshot
from shoal.model.query.graph import InstanceId
from shoal.session.journal import JournalFile, read_journal

MOVE = MoveReport(InstanceId("op/0"), WorkerId(0), WorkerId(1), state_bytes=500, frozen_s=0.1)
NOWHERE = Binding({}, 2)


def epoch(number: int, at_s: float, latency_s: float, *, results: int = 1, precise: bool = False) -> EpochCommitted:
    """An epoch of one second; `precise`: the runtime knows the latency of each result."""
    snapshot = Snapshot(number, NOWHERE, period_s=1.0)
    latency = Histogram() if precise else None
    if latency is not None:
        latency.record(latency_s, results)
    took_s = 9.0 if precise else latency_s
    return EpochCommitted(
        number, 1, results, 0, 0, 0, 0, 1.0, took_s, 0.0, 0.0, 0.0, snapshot=snapshot, latency=latency, at_s=at_s
    )


def followed(*events: EpochCommitted | MovesFinished | RunEnded | CommandRefused, ask_after: int) -> list[Migrated]:
    """The migrations that are measured if a rebinding is asked for after some of the events."""
    migrations = Migrations("megaphone")
    found: list[Migrated] = []
    for number, event in enumerate(events, 1):
        found += migrations.take(event)
        if number == ask_after:
            migrations.ask(Rebind(NOWHERE, id="asked"))
    assert found == list(migrations.measured)
    return found


@pytest.mark.parametrize("precise", [False, True], ids=["latency per epoch", "latency per result"])
def test_a_migration_is_compared_with_the_epochs_before_it(precise: bool) -> None:
    epochs = [epoch(n, 100.0 + n, s, precise=precise) for n, s in enumerate([0.2, 0.2, 0.2, 0.5, 0.7, 3.0])]
    done = MovesFinished("asked", (MOVE,), at_s=104.0)
    [measured] = followed(*epochs[:5], done, epochs[5], ask_after=3)
    assert (measured.rebind, measured.mechanism, measured.moved, measured.given_up) == ("asked", "megaphone", 1, 0)
    metrics = measured.metrics
    assert (metrics.seconds, metrics.frozen_s, metrics.state_bytes) == (2.0, 0.1, 500)
    assert metrics.latency_spike_s == pytest.approx(0.5, rel=0.01)
    assert metrics.output_latency_s == pytest.approx(0.8)


def test_the_epoch_in_which_a_migration_ends_counts_even_if_it_is_committed_later() -> None:
    epochs = [epoch(n, 100.0 + n, s) for n, s in enumerate([0.2, 0.2, 0.9, 0.2])]
    done = MovesFinished("asked", (MOVE,), at_s=101.5)
    [measured] = followed(*epochs[:2], done, *epochs[2:], ask_after=2)
    assert measured.metrics.latency_spike_s == pytest.approx(0.7, rel=0.01)


def test_a_migration_at_the_end_of_a_run_is_measured_with_what_there_is() -> None:
    done = MovesFinished("asked", (MOVE,), at_s=101.5)
    [measured] = followed(epoch(0, 100.0, 0.2), done, RunEnded(at_s=101.6), ask_after=1)
    assert measured.metrics.seconds == 1.5
    assert measured.metrics.latency_spike_s is None


def test_a_rebinding_that_nobody_has_asked_for_began_when_its_moves_say() -> None:
    moves = (MoveReport(InstanceId("op/0"), WorkerId(0), WorkerId(1), seconds=1.0), MOVE)
    epochs = [epoch(n, 100.0 + n, s) for n, s in enumerate([0.2, 0.2, 0.8])]
    [measured] = followed(*epochs, MovesFinished("mail", moves, at_s=102.0), RunEnded(at_s=103.0), ask_after=0)
    assert measured.metrics.seconds == 1.0
    assert measured.metrics.latency_spike_s == pytest.approx(0.6, rel=0.01)
    [unknown] = followed(*epochs, MovesFinished("mail", (MOVE,), at_s=102.0), RunEnded(at_s=103.0), ask_after=0)
    assert (unknown.metrics.seconds, unknown.metrics.latency_spike_s) == (None, None)


def test_a_rebinding_without_moves_is_no_migration() -> None:
    refused = CommandRefused(Rebind(NOWHERE, id="asked"), "it cannot", at_s=100.5)
    assert not followed(epoch(0, 100.0, 0.2), refused, RunEnded(at_s=103.0), ask_after=1)
    assert not followed(epoch(0, 100.0, 0.2), MovesFinished("asked", at_s=101.0), RunEnded(at_s=103.0), ask_after=1)


def test_what_was_given_up_and_lost_is_told() -> None:
    loss = QueryLoss("tolls", 2, 5, 1, 100, 0.25)
    lost = MoveReport(InstanceId("op/1"), WorkerId(0), WorkerId(1), lost=LostState(2, 5, 1, 100, 0.25, (loss,)))
    aborted = MoveReport(InstanceId("op/2"), WorkerId(0), WorkerId(1), aborted="superseded")
    done = MovesFinished("asked", (MOVE, lost, aborted), at_s=101.0)
    [measured] = followed(epoch(0, 100.0, 0.2), done, epoch(1, 101.0, 0.2), ask_after=1)
    assert (measured.moved, measured.given_up, measured.lost) == (2, 1, (loss,))
    assert measured.metrics.utility_kept == pytest.approx(0.875)


def test_a_loss_that_an_earlier_run_has_reported_counts_once() -> None:
    def measured(rebind: str, rows: int, *, resumed: bool, earlier: list[Migrated]) -> list[Migrated]:
        loss = QueryLoss("tolls", 2, rows, 1, 100, 0.25)
        lost = MoveReport(InstanceId("op/1"), WorkerId(0), WorkerId(1), lost=LostState(2, rows, 1, 100, 0.25, (loss,)))
        migrations = Migrations("drop", lambda: earlier)
        migrations.take(MovesFinished(rebind, (lost,), resumed=resumed, at_s=100.0))
        return list(migrations.take(RunEnded(at_s=101.0)))

    first = measured("asked", 5, resumed=False, earlier=[])
    assert len(first) == 1
    assert measured("asked", 5, resumed=True, earlier=first) == []
    assert len(measured("asked", 6, resumed=True, earlier=first)) == 1
    assert len(measured("other", 5, resumed=True, earlier=first)) == 1
    assert len(measured("asked", 5, resumed=False, earlier=first)) == 1  # a new rebinding may have the id of an old one


def test_entries_with_fewer_or_more_metrics_are_read(tmp_path: Path) -> None:
    journal = JournalFile(str(tmp_path))
    journal.add([])
    fields = {"format": 1, "kind": "migrated", "at_s": 1.0, "rebind": "a", "mechanism": "rhino", "moved": 1}
    older = {**fields, "given_up": 0, "metrics": {"state_bytes": 7}}
    newer = {**older, "metrics": {"state_bytes": 7, "joules": 3.0}, "weather": "fair"}
    before = {"format": 1, "kind": "aborted", "at_s": 1.0, "number": 1, "made": 0, "given_up": 1, "reason": "ended"}
    journal.path.write_text("".join(json.dumps(line) + "\n" for line in (before, older, newer)))
    _, *found = read_journal(str(tmp_path))
    for entry in found:
        assert isinstance(entry, Migrated)
        assert (entry.metrics.state_bytes, entry.metrics.seconds, entry.lost) == (7, None, ())
