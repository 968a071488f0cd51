"""The `skew` workload: costly operators on road segments; a few have most of the work, and the hot ones change."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from shoal.connectors.sources.generator import Generator
from shoal.connectors.sources.source import Source
from shoal.errors import ConfigError
from shoal.language.python.stream import Stream
from shoal.model.query.aggregate import count, min_, user_aggregate
from shoal.model.query.duration import MICROSECONDS
from shoal.model.query.expression import col
from shoal.model.query.graph import Query
from shoal.model.query.schema import not_null
from shoal.model.query.window import tumbling
from shoal.session.job import Job
from shoal.workloads.limits import check_limits
from shoal.workloads.oracle_input import oracle_input
from shoal.workloads.skew.events import SkewEvents
from shoal.workloads.skew.median import MedianBound
from shoal.workloads.skew.oracle import BRAKES, COLUMNS, FAST, STANDS, WINDOW_S, expected
from shoal.workloads.workload import Amount, Ready, Workload

STREAM = "reports"
SCHEMA = {"ts": "timestamp", **dict.fromkeys(COLUMNS[1:], "int64")}
DECIMETRES = 10
LIMITS = {"cells": (1, 4096), "reach_m": (0, 1000), "within_s": (0, 3600)}


@dataclass(frozen=True)
class Roads:
    """The stream of reports, how many cells there are, and what counts as near in space and time."""

    cells: int = 64
    reach_m: float = 30.0
    within_s: float = 1.0

    def __post_init__(self) -> None:
        """Reject distances and times beyond their limits."""
        check_limits("skew", self, LIMITS, ("reach_m", "within_s"))
        if not round(self.within_s * MICROSECONDS):
            raise ConfigError(f"skew within_s must be at least a microsecond; got {self.within_s}")

    @property
    def reach_dm(self) -> int:
        """The distance in the unit of the stream."""
        return round(self.reach_m * DECIMETRES)

    @property
    def reports(self) -> Stream:
        """Position, speed and braking of vehicles."""
        return Stream(STREAM, not_null(SCHEMA), time="ts")


def join(roads: Roads) -> Query:
    """Encounters per cell and second, and the closest: a vehicle near a position that another had shortly before.

    >>> [operator.kind for operator in join(Roads()).operators]
    ['source', 'select', 'select', 'join', 'select', 'window', 'aggregate', 'sink']
    """
    before = roads.reports.select("ts", "cell", "vehicle", "x", "y")
    after = roads.reports.select("ts", "cell", other=col("vehicle"), other_x=col("x"), other_y=col("y"))
    along, across = col("other_x") - col("x"), col("other_y") - col("y")
    apart, reach = along * along + across * across, roads.reach_dm
    pairs = before.join(
        after,
        on="cell",
        within_s=(0, roads.within_s),
        band=("x", "other_x", -reach, reach),
        where=(apart <= reach * reach) & (col("vehicle") != col("other")),
        groups=roads.cells,
    )
    by_cell = pairs.select("cell", apart=apart).partition_by("cell", groups=roads.cells)
    return by_cell.window(tumbling(WINDOW_S)).aggregate(encounters=count(), closest=min_("apart")).sink("encounters")


def pattern(roads: Roads) -> Query:
    """A fast vehicle, then one that brakes hard, then one that stands, all in one cell; matches may overlap.

    >>> pattern(Roads()).columns
    {'cell': 'int64', 'first_ts': 'timestamp', 'last_ts': 'timestamp', 'fast': 'int64', 'standing': 'int64'}
    """
    by_cell = roads.reports.partition_by("cell", groups=roads.cells)
    return by_cell.match(
        "A B C",
        within_s=roads.within_s,
        selection="next",
        after="next_row",
        define={"A": col("speed") > FAST, "B": col("braking") >= BRAKES, "C": col("speed") == STANDS},
        measures={
            "first_ts": "first(A.ts)",
            "last_ts": "last(C.ts)",
            "fast": "first(A.vehicle)",
            "standing": "last(C.vehicle)",
        },
    ).sink("hazards")


def function(roads: Roads) -> Query:
    """The upper bound of the median speed at 95 % confidence, per cell and second, by the bootstrap."""
    by_cell = roads.reports.partition_by("cell", groups=roads.cells)
    bounded = by_cell.window(tumbling(WINDOW_S)).aggregate(bound=user_aggregate(MedianBound, "speed", "int64"))
    return bounded.sink("medians")


QUERIES: Mapping[str, Callable[[Roads], Query]] = {"join": join, "pattern": pattern, "function": function}
TABLES = {"join": "encounters", "pattern": "hazards", "function": "medians"}


def chosen(text: str) -> list[str]:
    """The names of the queries in a setting.

    >>> chosen("function, join")
    ['function', 'join']
    """
    names = [name.strip() for name in text.split(",")]
    if not set(names) <= set(QUERIES) or len(set(names)) < len(names):
        raise ConfigError(f"setting 'queries' must be some of {', '.join(QUERIES)}, each once; got {text!r}")
    return names


def build(seed: int, amount: Amount, settings: Mapping[str, Any], source: Source | None) -> Ready:
    """The job and its oracle, over generated events or over files of the same columns."""
    names = chosen(settings["queries"])
    of_events = ("cells", "per_s", "hot", "heat", "skew", "stride", "profile", "move_s", "drift")
    events = SkewEvents(**{name: settings[name] for name in of_events}, seed=seed)
    roads = Roads(settings["cells"], settings["reach_m"], settings["within_s"])
    feed = source or Generator(events, amount.events, amount.rate, amount.rows_per_epoch)
    tables = [TABLES[name] for name in names]
    return Ready(
        Job.of("skew", [QUERIES[name](roads) for name in names], {STREAM: feed}),
        lambda number: expected(tables, oracle_input(events, number, COLUMNS, source), roads.reach_dm, roads.within_s),
    )


SKEW = Workload(
    "skew",
    "a range join, a pattern and a costly function per road segment, with hot segments that move",
    build,
    {
        "queries": ",".join(QUERIES),
        "cells": 64,
        "per_s": 20_000,
        "hot": 12,
        "heat": 0.8,
        "skew": 0.25,
        "stride": 4,
        "profile": "steps",
        "move_s": 20.0,
        "drift": 1,
        "reach_m": 30.0,
        "within_s": 1.0,
    },
    events=1_000_000,
    rows_per_epoch=40_000,
)
