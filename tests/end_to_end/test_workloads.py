"""Every workload against its oracle, with all state on the move: no binding and no number of workers shows."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest
from tests.small_city import digest, result_tables

from shoal.model.control.messages import EpochCommitted
from shoal.policies.binding.static import shuffled
from shoal.session.digest import differences
from shoal.session.run import Run, start
from shoal.workloads.catalog import WORKLOADS
from shoal.workloads.nexmark.queries import QUERIES
from shoal.workloads.workload import Amount, Ready

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SEEDS = (0, 1, 2)
WORKERS = 4


@dataclass(frozen=True)
class Small:
    """A workload in small: many windows of event time in a few thousand events, and several epochs."""

    name: str
    events: int
    rows_per_epoch: int
    settings: dict[str, str] = field(default_factory=dict)

    def ready(self, seed: int, **settings: str) -> Ready:
        amount = Amount(self.events, None, self.rows_per_epoch)
        return WORKLOADS[self.name].ready(seed, amount, {**self.settings, **settings})


SMALL = {
    small.name: small
    for small in (
        Small("traffic", 6_000, 1_500, {"vehicles": "200", "regions": "4"}),
        Small("ysb", 10_000, 2_000, {"per_s": "200", "ads": "40", "campaigns": "10"}),
        Small("nyt", 10_000, 2_000, {"per_s": "800", "groups": "6"}),
        Small("linear-road", 6_000, 1_200, {"expressways": "1", "vehicles": "100", "groups": "3"}),
        Small("nexmark", 10_000, 2_500, {"per_s": "200", "within_s": "10", "groups": "3"}),
        Small("bikes", 6_000, 1_000, {"bikes": "80", "per_day": "800", "groups": "6"}),
        Small("buses", 6_000, 1_000, {"vehicles": "60", "per_s": "1", "groups": "4"}),
        Small("mixed", 9_000, 3_000),
        Small("skew", 6_000, 1_500, {"cells": "8", "hot": "2", "per_s": "500", "move_s": "3"}),
        Small(
            "geo-pubsub",
            6_000,
            1_500,
            {
                "per_s": "500",
                "subscriptions": "200",
                "side": "0.03",
                "churn": "20",
                "hot_subscriptions": "50",
                "hot_from_s": "3",
                "hot_s": "6",
                "partitions": "6",
            },
        ),
    )
}


class OnTheMove:
    """Binds every instance to a random worker before every epoch."""

    def __init__(self) -> None:
        self.moves: list[int] = []

    def __call__(self, run: Run, event: EpochCommitted) -> None:
        self.moves.append(event.moves)
        run.rebind(shuffled(run.job.graph, run.workers, 1_000_003 + event.epoch))


def assert_right(run: Run, ready: Ready) -> None:
    expected = ready.expected(run.consumed)
    assert sum(table.num_rows for table in expected.values()) > 0
    assert run.tally.dead_letters == 0
    assert differences(result_tables(run), expected) == []


LONG = ("mixed", "geo-pubsub", "linear-road", "buses", "bikes", "nyt")
"""Workloads that take long on Spark, or that resemble a shorter one."""


def test_every_workload_is_here() -> None:
    assert set(SMALL) == set(WORKLOADS)


@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.slow] if n in LONG else []) for n in SMALL])
def test_a_workload_equals_its_oracle_while_all_its_state_moves(name: str, spark: "SparkSession") -> None:
    ready = SMALL[name].ready(seed=0)
    run = start(ready.job, spark=spark, workers=WORKERS)
    watcher = OnTheMove()
    run.wait(watcher)
    assert sum(moves > 0 for moves in watcher.moves) >= 2
    assert_right(run, ready)


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", SMALL)
def test_a_workload_has_one_digest_for_all_bindings_and_workers(name: str, seed: int, spark: "SparkSession") -> None:
    digests = set()
    for workers in (1, WORKERS):
        for watcher in (None, OnTheMove()):
            ready = SMALL[name].ready(seed)
            run = start(ready.job, spark=spark, workers=workers)
            run.wait(watcher)
            assert_right(run, ready)
            digests.add(digest(run))
    assert len(digests) == 1


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("number", range(len(QUERIES)))
def test_a_nexmark_query_alone_equals_its_oracle(number: int, seed: int, spark: "SparkSession") -> None:
    digests = set()
    for workers in (1, WORKERS):
        ready = SMALL["nexmark"].ready(seed, queries=str(number))
        run = start(ready.job, spark=spark, workers=workers)
        run.wait(OnTheMove())
        assert_right(run, ready)
        digests.add(digest(run))
    assert len(digests) == 1
