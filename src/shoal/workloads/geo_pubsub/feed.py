"""The streams of the `geo-pubsub` workload: what is in them, how much of it, and how fast they are read."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from shoal.connectors.sources.generator import Events, Generator
from shoal.connectors.sources.rate import EventTime
from shoal.workloads.geo_pubsub.cities import SPACE
from shoal.workloads.geo_pubsub.hotspots import Heat
from shoal.workloads.geo_pubsub.oracle import CHANGE_COLUMNS, POINT_COLUMNS, expected
from shoal.workloads.geo_pubsub.points import GeoPoints
from shoal.workloads.geo_pubsub.subscriptions import SubscriptionChanges, Subscriptions
from shoal.workloads.oracle_input import oracle_input
from shoal.workloads.workload import Amount

POINTS, FIRST, CHANGES = "points", "subscriptions", "changes"
MICROSECONDS = 1_000_000
LARGEST_EPOCH = 1 << 22
"""The most subscriptions that are read in one epoch at the start."""


@dataclass(frozen=True)
class GeoFeed:
    """The events of each stream and how many to read of them, in a space.

    `pace`: changes for every point, so many that subscriptions have changed when points of the same time are read.
    """

    space: tuple[float, float, float, float]
    events: Mapping[str, Events]
    rows: Mapping[str, int]
    pace: float = 0.0

    @property
    def changing(self) -> bool:
        """Whether subscriptions change."""
        return self.rows.get(CHANGES, 0) > 0

    def sources(self, amount: Amount) -> dict[str, Generator]:
        """A source for each stream; subscriptions that are there from the start are read at once."""
        rate, at_once = amount.rate, amount.rows_per_epoch
        made = {
            POINTS: Generator(self.events[POINTS], self.rows[POINTS], rate, at_once),
            FIRST: Generator(self.events[FIRST], self.rows[FIRST], None, min(self.rows[FIRST], LARGEST_EPOCH)),
        }
        if self.changing:
            slower = rate if rate is None or isinstance(rate, EventTime) else rate * self.pace
            each = max(1, round(at_once * self.pace))
            made[CHANGES] = Generator(self.events[CHANGES], self.rows[CHANGES], slower, each)
        return made

    def expected(self) -> dict[str, pa.Table]:
        """The expected results of all events."""
        points = oracle_input(self.events[POINTS], self.rows[POINTS], POINT_COLUMNS, None)
        names = [name for name in (FIRST, CHANGES) if name in self.rows]
        tables = [oracle_input(self.events[name], self.rows[name], CHANGE_COLUMNS, None) for name in names]
        return expected(points, pa.concat_tables(tables))


def generated(seed: int, number: int, settings: Mapping[str, Any]) -> GeoFeed:
    """A number of generated points, and all that happens to subscriptions up to the last of them.

    >>> settings = {"scenario": "none", "heat": 0.4, "hot_from_s": 10.0, "hot_s": 20.0, "spread": "uniform"}
    >>> settings |= {"per_s": 1000, "subscriptions": 7, "churn": 2, "hot_subscriptions": 0, "side": 0.1}
    >>> generated(0, 5001, settings).rows
    {'points': 5001, 'subscriptions': 7, 'changes': 10}
    """
    heat = Heat(*(settings[name] for name in ("scenario", "heat", "hot_from_s", "hot_s", "spread")))
    subscriptions, side, per_s = settings["subscriptions"], settings["side"], settings["per_s"]
    points = GeoPoints(heat, per_s, seed)
    first = Subscriptions(heat, subscriptions, side, seed)
    changes = SubscriptionChanges(heat, subscriptions, settings["churn"], settings["hot_subscriptions"], side, seed)
    last_us = max(0, number - 1) * MICROSECONDS // per_s
    rows = {POINTS: number, FIRST: subscriptions, CHANGES: changes.times.before(last_us + 1)}
    pace = changes.times.rate_until(last_us) / per_s
    return GeoFeed(SPACE, {POINTS: points, FIRST: first, CHANGES: changes}, rows, pace)
