"""The `ysb` workload, the Yahoo! Streaming Benchmark: views of ads counted per campaign every ten seconds."""

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from shoal.connectors.sources.generator import Generator
from shoal.connectors.sources.source import Source
from shoal.language.python.stream import Stream
from shoal.model.query.aggregate import count
from shoal.model.query.expression import col
from shoal.model.query.graph import Query
from shoal.model.query.lookup import lookup
from shoal.model.query.schema import not_null
from shoal.model.query.window import Clock, tumbling
from shoal.session.job import Job
from shoal.workloads.oracle_input import known_windows, oracle_input
from shoal.workloads.workload import Amount, Ready, Workload
from shoal.workloads.ysb.events import A_THIRD, NAMES, VIEW, YsbEvents
from shoal.workloads.ysb.oracle import COLUMNS, WINDOW_S, expected

STREAM = "ad_events"
SCHEMA = {name: "timestamp" if name == "event_time" else "int64" for name in NAMES}
UNKNOWN = -1
"""Campaign of an ad that is not in the static table."""


def query(
    campaign_of_ad: Mapping[int, int],
    campaigns: int,
    stream: str = STREAM,
    name: str = "views",
    clock: Clock = "event",
    nullable: bool = False,
) -> Query:
    """Filter views, project, join with the static table, count per campaign and window.

    Columns that are `nullable` have the same values; that is what nulls cost where there are none.

    >>> [operator.kind for operator in query({0: 0, 1: 1}, 2).operators]
    ['source', 'filter', 'select', 'filter', 'window', 'aggregate', 'sink']
    """
    columns = SCHEMA if nullable else not_null(SCHEMA)
    views = Stream(stream, columns, time="event_time").filter(col("event_type") == VIEW)
    joined = views.select("event_time", campaign=lookup("ad_id", campaign_of_ad, default=UNKNOWN))
    known = joined.filter(col("campaign") != UNKNOWN).partition_by("campaign", groups=campaigns)
    return known.window(tumbling(WINDOW_S, clock=clock)).aggregate(views=count()).sink(name)


def build(seed: int, amount: Amount, settings: Mapping[str, Any], source: Source | None) -> Ready:
    """The job and its oracle, over generated events or over files of the same columns."""
    events = YsbEvents(settings["ads"], settings["campaigns"], settings["per_s"], seed, views=settings["views"])
    feed = source or Generator(events, amount.events, amount.rate, amount.rows_per_epoch)
    table = events.campaign_of_ad()
    clock = settings["clock"]
    job = Job.of("ysb", [query(table, events.campaigns, clock=clock)], {STREAM: feed})

    def wanted(number: int) -> Mapping[str, pa.Table]:
        known_windows(clock)
        return expected(oracle_input(events, number, COLUMNS, source), table)

    return Ready(job, wanted)


YSB = Workload(
    "ysb",
    "views of 1,000 ads counted per campaign every 10 s: the Yahoo! Streaming Benchmark",
    build,
    {"ads": 1000, "campaigns": 100, "per_s": 1_000_000, "views": A_THIRD, "clock": "event"},
    events=30_000_000,
)
