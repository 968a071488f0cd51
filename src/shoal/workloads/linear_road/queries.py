"""The `linear-road` workload: tolls that depend on speed, traffic and accidents, per segment and minute."""

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from shoal.connectors.sources.generator import Generator
from shoal.connectors.sources.source import Source
from shoal.language.python.flow import Flow
from shoal.language.python.stream import Stream
from shoal.model.query.aggregate import count, count_distinct, max_, mean
from shoal.model.query.expression import col
from shoal.model.query.functions import if_
from shoal.model.query.graph import Query
from shoal.model.query.schema import not_null
from shoal.model.query.window import Clock, hop, tumbling
from shoal.session.job import Job
from shoal.workloads.linear_road.events import LinearRoadEvents
from shoal.workloads.linear_road.oracle import COLUMNS, expected
from shoal.workloads.oracle_input import known_windows, oracle_input
from shoal.workloads.workload import Amount, Ready, Workload

STREAM = "reports"
SCHEMA = {
    "ts": "timestamp",
    **dict.fromkeys(("type", "vid", "speed", "xway", "lane", "dir", "seg", "pos"), "int64"),
}
SEGMENT = ("xway", "dir", "seg")
FEET = 5280
REACH = 4
"""Segments upstream of an accident that pay no toll, besides its own."""


def queries(groups: int, stream: str = STREAM, suffix: str = "", clock: Clock = "event") -> list[Query]:
    """Tolls and accidents; by the clock are the windows over reports, which the times of the others follow.

    >>> [query.name for query in queries(4)]
    ['tolls', 'accidents']
    """
    reports = Stream(stream, not_null(SCHEMA), time="ts").filter(col("type") == 0)
    crashes = accidents(reports, groups, clock)
    return [tolls(reports, crashes, groups, clock).sink(f"tolls{suffix}"), crashes.sink(f"accidents{suffix}")]


def accidents(reports: Flow, groups: int, clock: Clock = "event") -> Flow:
    """Positions where at least two vehicles have reported the same position four times within two minutes."""
    travelling = reports.filter((col("lane") >= 1) & (col("lane") <= 3)).partition_by("vid", groups=groups)
    position = ("xway", "lane", "dir", "pos")
    reported = travelling.key_by("vid", *position).window(hop(120, 30, clock=clock)).aggregate(reports=count())
    stopped = reported.filter(col("reports") >= 4).key_by(*position).window(tumbling(30)).aggregate(vehicles=count())
    crashed = stopped.filter(col("vehicles") >= 2).with_columns(seg=col("pos") // FEET)
    return crashed.select("xway", "dir", "seg", "window_end", "vehicles")


def tolls(reports: Flow, crashes: Flow, groups: int, clock: Clock = "event") -> Flow:
    """Toll per segment and minute: by the speed of five minutes and the cars of one, none near an accident."""
    parts = reports.partition_by(*SEGMENT, groups=groups)
    of_vehicle = parts.key_by("vid").window(tumbling(60, clock=clock)).aggregate(speed=mean("speed"))
    of_minute = of_vehicle.key_by(*SEGMENT).window(tumbling(60)).aggregate(speed=mean("speed"))
    lav = of_minute.key_by(*SEGMENT).window(hop(300, 60)).aggregate(lav=mean("speed"))
    cars = parts.window(tumbling(60, clock=clock)).aggregate(cars=count_distinct("vid"))
    joined = lav.join(cars, on=(*SEGMENT, "window_end"), within_s=(0, 0), groups=groups)
    excess = col("cars") - 50
    due = if_((col("lav") < 40) & (col("cars") > 50), excess * excess * 2, 0)
    priced = joined.select(*SEGMENT, "lav", "cars", toll=due)
    near = [
        crashes.select("xway", "dir", seg=if_(col("dir") == 0, col("seg") - away, col("seg") + away))
        for away in range(REACH + 1)
    ]
    both = priced.cogroup(
        near[0].union(*near[1:]),
        tumbling(60),
        on=SEGMENT,
        left={"lav": max_("lav"), "cars": max_("cars"), "toll": max_("toll")},
        right={"accidents": count()},
        groups=groups,
    )
    paid = if_(col("accidents") > 0, 0, col("toll"))
    return both.filter(col("has_left")).select(
        *SEGMENT, "window_end", "lav", "cars", toll=paid, accidents=col("accidents")
    )


def build(seed: int, amount: Amount, settings: Mapping[str, Any], source: Source | None) -> Ready:
    """The job and its oracle, over generated events or over files of the same columns."""
    events = LinearRoadEvents(settings["expressways"], settings["vehicles"], seed)
    feed = source or Generator(events, amount.events, amount.rate, amount.rows_per_epoch)
    clock = settings["clock"]
    job = Job.of("linear-road", queries(settings["groups"], clock=clock), {STREAM: feed})

    def wanted(number: int) -> Mapping[str, pa.Table]:
        known_windows(clock)
        return expected(oracle_input(events, number, COLUMNS, source))

    return Ready(job, wanted)


LINEAR_ROAD = Workload(
    "linear-road",
    "tolls by speed, traffic and accidents per segment and minute: six operators one behind another",
    build,
    {"expressways": 2, "vehicles": 3000, "groups": 8, "clock": "event"},
    events=400_000,
)
