"""A run as its user sees it, on a runtime that only plays given events."""

import logging
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.small_city import city

from shoal.connectors.sinks import MemorySink
from shoal.errors import ConfigError, SourceError
from shoal.model.control.binding import Binding
from shoal.model.control.messages import (
    AddQuery,
    Command,
    CommandRefused,
    Drain,
    EpochCommitted,
    Event,
    Rebind,
    RemoveQuery,
    RunEnded,
)
from shoal.model.control.snapshot import Snapshot
from shoal.model.control.topology import Topology
from shoal.model.query.graph import Graph
from shoal.policies.binding.static import round_robin
from shoal.runtimes.local.settings import LocalSettings
from shoal.runtimes.protocol import Capabilities
from shoal.session.run import Run, start

JOB = city().job
BINDING = round_robin(JOB.graph, 2)


def epoch(number: int, rows: int = 100) -> EpochCommitted:
    snapshot = Snapshot(number, BINDING)
    return EpochCommitted(number, rows, 7, 1, 2, 30, 40, 0.1, 0.2, 0.3, 0.4, 0.5, snapshot, at_s=float(number))


class Played:
    """A runtime that says what it was given and notes what it is asked for."""

    capabilities = Capabilities("played", "plays given events", "getting ready ...", changes_queries=True)
    topology = Topology.of(1, 2)
    consumed = 0

    def __init__(self, *events: Event) -> None:
        self._events = iter(events)
        self.applied: list[Command] = []
        self.stopped_at: list[Event] = []

    def start(self, graph: Graph, binding: Binding) -> None:
        """Nothing to do."""

    def events(self) -> Iterator[Event]:
        return self._events

    def apply(self, command: Command) -> None:
        self.applied.append(command)

    def now_s(self) -> float:
        return 0.0

    def cpu_s(self) -> float:
        return 0.0

    def metrics(self) -> list[dict[str, object]]:
        return []

    def overhead(self) -> None:
        """Nothing is measured."""

    def machine_report(self) -> None:
        """Nothing is known."""

    def stop(self) -> None:
        """Play the rest, and note it."""
        self.stopped_at = list(self._events)


def run_of(runtime: Played, **fields: object) -> Run:
    return Run(JOB, runtime, "round-robin", 2, MemorySink(), "/nowhere", began_s=0.0, **fields)  # type: ignore[arg-type]


def test_a_run_adds_up_what_its_epochs_say() -> None:
    run = run_of(Played(epoch(0), epoch(1), RunEnded(at_s=9.0)))
    tally = run.wait()
    assert (tally.epochs, tally.events, tally.results, tally.dead_letters) == (2, 200, 14, 2)
    assert run.binding == BINDING


def test_the_watcher_sees_every_epoch_after_it_was_counted() -> None:
    observed = []
    run = run_of(Played(epoch(0), epoch(1), RunEnded(at_s=9.0)))
    run.wait(lambda run, event: observed.append((event.epoch, run.tally.events)))
    assert observed == [(0, 100), (1, 200)]


def test_what_ends_a_run_is_raised() -> None:
    with pytest.raises(SourceError, match="cannot read a file"):
        run_of(Played(epoch(0), RunEnded(SourceError("cannot read a file"), at_s=9.0))).wait()


def test_a_refused_command_is_kept_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    refused = CommandRefused(RemoveQuery("x"), "no query is named 'x'", at_s=0.0)
    run = run_of(Played(refused, epoch(0), RunEnded(at_s=9.0)))
    with caplog.at_level(logging.WARNING, "shoal"):
        assert run.wait().epochs == 1
    assert run.refused == [refused]
    assert "a command was refused: no query is named 'x'" in caplog.text


def test_the_refusal_of_an_attempt_is_kept_and_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    attempted, other = RemoveQuery("x"), RemoveQuery("x")
    refused = [CommandRefused(attempted, "it is ending", at_s=0.0), CommandRefused(other, "it is over", at_s=0.0)]
    run = run_of(Played(*refused, RunEnded(at_s=9.0)))
    run.attempt(attempted)
    with caplog.at_level(logging.WARNING, "shoal"):
        run.wait()
    assert run.refused == refused
    assert [record.getMessage() for record in caplog.records] == ["a command was refused: it is over"]


def test_every_wish_is_passed_on_as_a_command() -> None:
    runtime = Played()
    run = run_of(runtime)
    query = next(iter(JOB.graph.queries.values()))
    run.rebind(BINDING)
    run.add(query)
    run.remove("a")
    run.drain()
    assert runtime.applied == [Rebind(BINDING, id="request 1"), AddQuery(query), RemoveQuery("a"), Drain()]


@pytest.mark.parametrize("raised", [ZeroDivisionError, KeyboardInterrupt])
def test_a_watcher_that_raises_stops_the_run(raised: type[BaseException]) -> None:
    def watcher(run: Run, event: EpochCommitted) -> None:
        raise raised

    runtime = Played(epoch(0), epoch(1), RunEnded(at_s=9.0))
    with pytest.raises(raised):
        run_of(runtime).wait(watcher)
    assert [type(event) for event in runtime.stopped_at] == [EpochCommitted, RunEnded]


def test_a_temporary_checkpoint_goes_with_its_run(tmp_path: Path) -> None:
    for temporary in (False, True):
        run = run_of(Played(RunEnded(at_s=9.0)), temporary=temporary)
        run.checkpoint = str(tmp_path)
        run.wait()
        assert tmp_path.exists() == (not temporary)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        pytest.param({"on": "flink"}, "runtime must be one of spark, local.*; got 'flink'", id="unknown runtime"),
        pytest.param(
            {"policy": "best"},
            "policy must be one of round-robin, partition, greedy, .*; got 'best'",
            id="unknown policy",
        ),
        pytest.param(
            {"policy": "single-queue"},
            "policy single-queue is for runtime local or simulated; workers of runtime spark share no queue",
            id="a queue on Spark",
        ),
        pytest.param(
            {"on": "local", "policy": "node-queue", "local": LocalSettings(queues="single-queue")},
            "policy node-queue goes with queues=node-queue; got queues=single-queue",
            id="two designs of queues",
        ),
        pytest.param(
            {"mechanism": "best"}, "mechanism must be one of megaphone, all-at-once, rhino, meces, ", id="mechanism"
        ),
        pytest.param({"local": LocalSettings()}, "local= is not for the spark runtime; leave it out", id="settings"),
        pytest.param(
            {"conf": {"mode": "SM"}}, "a Spark setting begins with 'spark.'; got 'mode'", id="a mode on Spark"
        ),
        pytest.param(
            {"on": "local", "interval_s": 1.0}, "interval_s= is not for the local runtime", id="an interval on threads"
        ),
        pytest.param(
            {"on": "local", "journal": "here"},
            "the local runtime binds instances to workers only with a policy; give it one",
            id="a journal of no bindings",
        ),
        pytest.param({"workers": 0}, "number of workers must be at least 1; got 0", id="no workers"),
    ],
)
def test_a_wrong_option_is_refused_and_leaves_nothing_behind(
    options: dict[str, object], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with pytest.raises(ConfigError, match=message):
        start(JOB, **options)  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []
