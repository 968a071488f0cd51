"""The geo-pubsub queries on the runtimes of one process, against the oracle, in every scenario."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

import pytest
from tests.small_city import result_tables

from shoal.errors import ConfigError, ShoalError
from shoal.session.digest import differences
from shoal.session.run import start
from shoal.workloads.catalog import WORKLOADS
from shoal.workloads.geo_pubsub.hotspots import Scenario
from shoal.workloads.workload import Amount, Ready

GEOLIFE = Path(os.environ.get("SHOAL_GEOLIFE", "geolife_sample.txt.gz"))
"""Real points, which do not come with Shoal."""
SMALL = {
    "per_s": "500", "subscriptions": "200", "side": "0.03", "churn": "20", "hot_subscriptions": "50",
    "hot_from_s": "1", "hot_s": "4", "partitions": "6", "cells": "20",
}  # fmt: skip


def ready(settings: Mapping[str, str], events: int = 3_000, seed: int = 0) -> Ready:
    return WORKLOADS["geo-pubsub"].ready(seed, Amount(events, None, 700), {**SMALL, **settings})


def assert_right(made: Ready, on: Any, tables: tuple[str, ...] = ("matches", "alerts")) -> None:
    run = start(made.job, on=on)
    run.wait()
    expected = made.expected(run.consumed)
    assert set(expected) == set(tables)
    assert all(table.num_rows for table in expected.values())
    assert run.tally.dead_letters == 0
    assert differences(result_tables(run), expected) == []


@pytest.mark.parametrize("scenario", get_args(Scenario))
def test_matches_equal_the_oracle_in_every_scenario(scenario: str) -> None:
    assert_right(ready({"scenario": scenario}), "reference")


@pytest.mark.parametrize(
    "settings", [{}, {"scenario": "moving", "spread": "normal"}, {"churn": "0", "scenario": "none"}]
)
def test_matches_equal_the_oracle_with_threads(settings: dict[str, str]) -> None:
    assert_right(ready(settings, seed=1), "local")


def test_matches_equal_the_oracle_in_simulation() -> None:
    assert_right(ready({"queries": "alerts"}, 1_500), "simulated", ("alerts",))


@pytest.mark.parametrize("on", ["reference", "local"])
def test_visits_of_real_places_equal_the_oracle(on: str) -> None:
    if not GEOLIFE.is_file():
        pytest.skip("needs points of GeoLife; SHOAL_GEOLIFE names the file")
    assert_right(ready({"points": str(GEOLIFE)}, 20_000), on)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"queries": "matches,matches"}, "setting 'queries' must be some of matches, alerts, each once"),
        ({"scenario": "sudden"}, "geo-pubsub scenario must be one of none, step"),
        ({"points": "nowhere.csv"}, "geo-pubsub points must be a CSV file"),
    ],
)
def test_settings_that_make_no_sense_are_rejected(settings: dict[str, str], message: str) -> None:
    with pytest.raises(ShoalError, match=message):
        ready(settings)


def test_it_needs_a_number_of_points_and_its_own_streams() -> None:
    with pytest.raises(ConfigError, match="geo-pubsub needs --events"):
        WORKLOADS["geo-pubsub"].ready(0, Amount(None), {})
    with pytest.raises(ConfigError, match="several streams"):
        WORKLOADS["geo-pubsub"].ready(0, Amount(5), {}, source=object())  # type: ignore[arg-type]


def test_an_oracle_of_a_part_of_the_events_is_refused() -> None:
    with pytest.raises(ConfigError, match="needs all events"):
        ready({}).expected(10)
