"""Steering: the controller's commands reach the runtime, its entries the journal, and no result changes."""

from functools import partial
from pathlib import Path

import pytest
from tests.small_city import city, result_tables

from shoal.control.journal import Advised, Begun, Decided, Ended, Measured, Refused, Scaled
from shoal.control.settings import ControlSettings
from shoal.errors import ConfigError
from shoal.model.control.messages import EpochCommitted
from shoal.model.query.aggregate import count
from shoal.model.query.window import tumbling
from shoal.session.digest import differences
from shoal.session.journal import read_journal
from shoal.session.run import Run, start
from shoal.workloads.traffic.queries import vehicles
from shoal.workloads.workload import Ready

EAGER = ControlSettings(trigger="imbalance:1.01,periodic:0.05", window_s=0.02, rest_s=0.05, least_gain=0.001, split=0)
"""Costs of such short windows are noise, by which instances would be split that these tests count or wait for."""


def right(run: Run, ready: Ready) -> bool:
    """Whether the results are those of the oracle."""
    return not differences(result_tables(run), ready.expected(run.consumed))


def test_a_run_on_spark_follows_its_policy_and_says_why(spark: object, tmp_path: Path) -> None:
    ready = city("W2", events=20_000, rows_per_epoch=2000)
    run = start(ready.job, workers=3, policy="guarded", spark=spark, checkpoint=str(tmp_path), control=EAGER)
    tally = run.wait()
    entries = read_journal(str(tmp_path))
    assert isinstance(entries[0], Begun)
    assert isinstance(entries[-1], Ended)
    decided = [entry for entry in entries if isinstance(entry, Decided)]
    assert decided
    assert tally.moves >= decided[0].moved > 0
    assert any(isinstance(entry, Measured) for entry in entries)
    assert tally.policy_s > 0
    assert right(run, ready)


def test_workers_come_and_go_by_call_on_spark(spark: object, tmp_path: Path) -> None:
    ready = city("W2", events=24_000, rows_per_epoch=2000)
    numbers, wanted = [], {1: 4, 4: 1, 7: 3}

    def watch(run: Run, done: EpochCommitted) -> None:
        numbers.append(done.snapshot.binding.workers)
        if done.epoch in wanted:
            run.scale(wanted[done.epoch])

    run = start(ready.job, workers=2, spark=spark, checkpoint=str(tmp_path))
    run.wait(watch)
    assert list(dict.fromkeys(numbers)) == [2, 4, 1, 3]
    assert [entry.wanted for entry in read_journal(str(tmp_path)) if isinstance(entry, Scaled)] == [4, 1, 3]
    assert right(run, ready)


def test_queries_may_be_added_while_a_policy_is_followed(spark: object, tmp_path: Path) -> None:
    ready = city("W2", events=24_000, rows_per_epoch=2000)
    busy = vehicles().key_by("region").window(tumbling(1)).aggregate(n=count()).sink("busy")
    bound = []

    def watch(run: Run, done: EpochCommitted) -> None:
        bound.append(len(done.snapshot.binding.worker_of))
        if done.epoch == 2:
            run.add(busy)

    run = start(ready.job, workers=3, policy="guarded", spark=spark, checkpoint=str(tmp_path), control=EAGER)
    run.wait(watch)
    assert sorted(set(bound)) == [12, 13]
    assert run.refused == []
    assert not differences({n: t for n, t in result_tables(run).items() if n != "busy"}, ready.expected(run.consumed))
    assert result_tables(run)["busy"].num_rows > 0


@pytest.mark.parametrize("policy", ["round-robin", "partition", "greedy", "two-level", "guarded"])
def test_a_local_run_follows_every_policy(policy: str, tmp_path: Path) -> None:
    ready = city("W2", events=60_000, rate=100_000)
    run = start(ready.job, on="local", policy=policy, control=EAGER, journal=str(tmp_path))
    run.wait()
    entries = read_journal(str(tmp_path))
    assert isinstance(entries[0], Begun)
    assert isinstance(entries[-1], Ended)
    assert right(run, ready)


def test_workers_come_and_go_by_call_on_the_local_runtime() -> None:
    ready = city("W2", events=100_000, rate=100_000)
    numbers = []

    def watch(run: Run, done: EpochCommitted) -> None:
        numbers.append(done.snapshot.binding.workers)
        if len(numbers) in (3, 6):
            run.scale(3 - numbers[-1])

    run = start(ready.job, on="local", workers=2, policy="round-robin")
    run.wait(watch)
    assert list(dict.fromkeys(numbers)) == [2, 1]
    assert numbers[-1] == 2
    assert right(run, ready)


def test_a_run_without_a_binding_has_no_workers_to_change() -> None:
    ready = city(events=1000)
    run = start(ready.job, on="local")
    with pytest.raises(ConfigError, match="a run that binds no instances cannot change its workers; give it a policy"):
        run.scale(3)
    run.wait()


def test_no_workers_are_refused() -> None:
    ready = city(events=1000)
    run = start(ready.job, on="local", policy="round-robin")
    with pytest.raises(ConfigError, match="number of workers must be at least 1; got 0"):
        run.scale(0)
    run.wait()


@pytest.mark.parametrize(
    ("on", "conf"),
    [("local", {}), ("reference", {}), ("simulated", {}), ("simulated", {"detail": "rows"})],
    ids=["local", "reference", "simulated step by step", "simulated row by row"],
)
def test_the_twin_chooses_a_mechanism_of_the_runtime_and_no_result_changes(
    on: str, conf: dict[str, str], tmp_path: Path
) -> None:
    ready = city("W2", events=12_000, rows_per_epoch=1000)
    control = ControlSettings(trigger="periodic:0.01", window_s=0.01, rest_s=0.01, decision="always", split=0)
    steering = partial(start, policy="greedy", control=control, journal=str(tmp_path), mechanism="auto")
    run = steering(ready.job, on=on, workers=3, conf=conf)
    run.wait()
    tables = [entry for entry in read_journal(str(tmp_path)) if isinstance(entry, Advised)]
    assert run.mechanism == "auto"
    assert {each.mechanism for entry in tables for each in entry.candidates} <= set(run.capabilities.mechanisms)
    assert len(tables) == sum(isinstance(entry, Decided) for entry in read_journal(str(tmp_path)))
    refused = [entry.reason for entry in read_journal(str(tmp_path)) if isinstance(entry, Refused)]
    assert set(refused) <= {"the run has taken in all of its input and is ending"}
    assert right(run, ready)
