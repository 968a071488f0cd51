"""The `geo-pubsub` workload: points that stream past standing range queries, which come and go."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from shoal.connectors.sources.source import Source
from shoal.errors import ConfigError
from shoal.language.python.flow import Flow
from shoal.language.python.stream import Stream
from shoal.model.query.expression import col
from shoal.model.query.graph import Query
from shoal.model.query.schema import not_null
from shoal.model.spatial.grid import Grid
from shoal.model.spatial.shape import rectangle
from shoal.session.job import Job
from shoal.workloads.geo_pubsub.cities import SPACE
from shoal.workloads.geo_pubsub.feed import CHANGES, FIRST, POINTS, generated
from shoal.workloads.geo_pubsub.geolife import geolife
from shoal.workloads.geo_pubsub.subscriptions import BOX
from shoal.workloads.workload import Amount, Ready, Workload

POINT = {"ts": "timestamp", "point": "int64", "x": "float64", "y": "float64", "value": "int64"}
CHANGE = {
    "ts": "timestamp",
    "subscription": "int64",
    "action": "string",
    **dict.fromkeys(BOX, "float64"),
    "least": "int64",
}
QUERIES = ("matches", "alerts")
GENERATED = "generated"


@dataclass(frozen=True)
class PubSub:
    """A publish/subscribe service: its grid, how many rectangles divide it, and whether subscriptions change."""

    space: tuple[float, float, float, float] = SPACE
    cells: int = 100
    partitions: int = 16
    changing: bool = True

    @property
    def subscriptions(self) -> Flow:
        """All rows about subscriptions: those of the start, and their changes."""
        first = Stream(FIRST, not_null(CHANGE), time="ts")
        return first.union(Stream(CHANGES, not_null(CHANGE), time="ts")) if self.changing else first

    def query(self, name: str) -> Query:
        """Every match of a point and a subscription, or those whose value is as large as the subscription wants.

        >>> PubSub().query("alerts").columns
        {'ts': 'timestamp', 'point': 'int64', 'subscription': 'int64'}
        """
        found = Stream(POINTS, not_null(POINT), time="ts").match_ranges(
            self.subscriptions,
            rectangle(*BOX),
            grid=Grid(self.space, self.cells, self.cells, "degrees"),
            id="subscription",
            action="action",
            where=col("value") >= col("least") if name == "alerts" else None,
            partitions=self.partitions,
        )
        return found.select("ts", "point", "subscription").sink(name)


def chosen(text: str) -> list[str]:
    """The names of the queries in a setting.

    >>> chosen("alerts, matches")
    ['alerts', 'matches']
    """
    names = [name.strip() for name in text.split(",")]
    if not set(names) <= set(QUERIES) or len(set(names)) < len(names):
        raise ConfigError(f"setting 'queries' must be some of {', '.join(QUERIES)}, each once; got {text!r}")
    return names


def build(seed: int, amount: Amount, settings: Mapping[str, Any], source: Source | None) -> Ready:
    """The job and its oracle, over generated events or over the points of a file in the format of GeoLife."""
    if source is not None:
        raise ConfigError("geo-pubsub has several streams; --source cannot replace them")
    if amount.events is None:
        raise ConfigError("geo-pubsub needs --events, the number of points")
    names = chosen(settings["queries"])
    if settings["points"] == GENERATED:
        feed = generated(seed, amount.events, settings)
    else:
        feed = geolife(settings["points"], amount.events, settings["places"])
    service = PubSub(feed.space, settings["cells"], settings["partitions"], feed.changing)

    def expected_tables(number: int) -> dict[str, pa.Table]:
        if number != sum(feed.rows.values()):
            raise ConfigError("geo-pubsub's oracle needs all events; leave --seconds out or --check")
        found = feed.expected()
        return {name: found[name] for name in names}

    return Ready(Job.of("geo-pubsub", map(service.query, names), feed.sources(amount)), expected_tables)


GEO_PUBSUB = Workload(
    "geo-pubsub",
    "points that stream past standing range queries, with hotspots that come, go and move",
    build,
    {
        "queries": ",".join(QUERIES),
        "scenario": "step",
        "spread": "uniform",
        "heat": 0.4,
        "hot_from_s": 10.0,
        "hot_s": 20.0,
        "per_s": 10_000,
        "subscriptions": 20_000,
        "side": 0.0016,
        "churn": 100,
        "hot_subscriptions": 2_000,
        "cells": 100,
        "partitions": 16,
        "points": GENERATED,
        "places": 50,
    },
    events=400_000,
    rows_per_epoch=20_000,
)
