"""The `traffic` workload: three queries for each of 100 regions over vehicles that report their positions."""

from collections.abc import Iterator, Mapping
from typing import Any

from shoal.connectors.sources.generator import Generator
from shoal.connectors.sources.source import Source
from shoal.connectors.sources.sumo import Sumo
from shoal.language.python.stream import Stream
from shoal.model.query.aggregate import count, mean, top_k
from shoal.model.query.expression import col
from shoal.model.query.graph import Query
from shoal.model.query.schema import not_null
from shoal.model.query.window import hop
from shoal.session.job import Job
from shoal.workloads.oracle_input import oracle_input
from shoal.workloads.traffic.events import TrafficEvents
from shoal.workloads.traffic.oracle import COLUMNS, expected
from shoal.workloads.traffic.sumo_vehicles import SumoVehicles
from shoal.workloads.workload import Amount, Ready, Workload

STREAM = "vehicles"
SCHEMA = {
    "ts": "timestamp",
    "vehicle": "int64",
    "region": "int64",
    "vehicle_type": "string",
    "speed": "float64",
}


def vehicles(lateness_s: float = 0.0, nullable: bool = False) -> Stream:
    """The stream all traffic queries read."""
    return Stream(STREAM, SCHEMA if nullable else not_null(SCHEMA), time="ts", lateness_s=lateness_s)


def queries(regions: int, lateness_s: float = 0.0, nullable: bool = False) -> Iterator[Query]:
    """Average speed, number of vehicles and top speeds of every region: three queries each.

    Columns that are `nullable` have the same values; that is what nulls cost where there are none.

    >>> from shoal.model.query.graph import Graph
    >>> graph = Graph.of(queries(100))
    >>> len(graph.queries), len(graph.operators)
    (300, 1201)
    """
    stream = vehicles(lateness_s, nullable)
    for region in range(regions):
        part = stream.filter(col("region") == region)
        speeds = part.select("ts", "region", "vehicle_type", "speed").key_by("region", "vehicle_type")
        average = speeds.window(hop(30, 1)).aggregate(avg_speed=mean("speed"))
        number = part.select("ts", "region").key_by("region").window(hop(10, 1)).aggregate(vehicle_count=count())
        fastest = speeds.window(hop(20, 1)).aggregate(top_speed=top_k("speed", 3))
        yield average.sink(f"avg_speed[{region}]", table="avg_speed")
        yield number.sink(f"vehicle_count[{region}]", table="vehicle_count")
        yield fastest.sink(f"top_speed[{region}]", table="top_speed")


def build(seed: int, amount: Amount, settings: Mapping[str, Any], source: Source | None) -> Ready:
    """The job and its oracle, over generated events, files of the same columns or vehicles that SUMO simulates."""
    events = TrafficEvents(
        profile=settings["profile"],
        vehicles=settings["vehicles"],
        regions=settings["regions"],
        seed=seed,
        steps_per_s=settings["steps_per_s"],
        disorder_s=settings["disorder_s"],
        period_s=settings["period_s"],
        step_s=settings["step_s"],
        shift=settings["shift"],
    )
    if isinstance(source, Sumo):
        source = SumoVehicles.of(source, events.regions)
    feed = source or Generator(events, amount.events, amount.rate, amount.rows_per_epoch)
    job = Job.of("traffic", queries(settings["regions"], settings["disorder_s"]), {STREAM: feed})
    return Ready(job, lambda number: expected(oracle_input(events, number, COLUMNS, source)))


TRAFFIC = Workload(
    "traffic",
    "average speed, vehicle count and top speeds of 100 regions: 300 queries, 1,201 operators",
    build,
    {
        "profile": "W1",
        "vehicles": 100_000,
        "regions": 100,
        "steps_per_s": 1,
        "disorder_s": 0.0,
        "period_s": 600,
        "step_s": 1,
        "shift": 1,
    },
    events=6_000_000,
)
