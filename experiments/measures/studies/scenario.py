"""Points of the studies' figures: their workloads on simulated machines.

Both studies replay recorded traffic step by step, 25 steps per second.

Of the study with regions, 001, a run has a hundredth of the vehicles, each with a hundred times the work, so that
kernels process real rows in seconds; the share of every region is the same. The study takes the latency of every query
at every step, and a policy of it is triggered by that. So the windows slide by a step here.

Of the study with copies, 000, all vehicles are simulated by number (`mode=statistical`), and every query has a result
per second.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from shoal.compiler.program import compile_graph
from shoal.connectors.sources.generator import Generator
from shoal.connectors.sources.rate import Rate
from shoal.model.query.aggregate import count, mean, top_k
from shoal.model.query.expression import col
from shoal.model.query.graph import Graph, Query
from shoal.model.query.window import hop, tumbling
from shoal.session.job import Job
from shoal.workloads.traffic.events import Profile, TrafficEvents
from shoal.workloads.traffic.queries import STREAM, vehicles

STEPS_PER_S = 25
STEP_S = 1 / STEPS_PER_S
EPOCH_S = 0.2
SCALE = {"000": 1, "001": 100}
"""Vehicles for which one vehicle of a run stands."""
RESULTS_PER_S = {"000": 1, "001": STEPS_PER_S}
"""Results of a query per second."""
SAMPLE_ROWS = 2000
REGIONS, ROADS, COPIES = 100, 100, 50
SPEED = {"numa:2x12": 1.0, "numa:2x18": 2.3 / 2.5}
"""Clock of the studies' machines in relation to the first one; both of the second study have the same generation."""


@dataclass(frozen=True)
class Scenario:
    """A point of a figure: a workload on a machine, with as many vehicles as it has at most.

    The load of W2 moves on by one region per second; the study does not say how long its time step is.
    """

    study: str
    figure: str
    profile: Profile
    topology: str
    vehicles: int
    seconds: int = 30
    warm_up_s: int = 0
    """Seconds at the beginning whose latencies are not counted, only shown over time."""
    scale: int = 0
    """Vehicles for which one of a run stands; 0: by the study."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """Settings of the simulated runtime that differ."""

    @property
    def name(self) -> str:
        """Study, figure, workload and vehicles."""
        return f"{self.study} fig {self.figure}: {self.profile}, {self.topology}, {self.vehicles // 1000}k"

    @property
    def events(self) -> TrafficEvents:
        """The vehicles of the run; a rush hour has its peak at two thirds of it."""
        regions = REGIONS if self.study == "001" else ROADS
        period_s = max(1, round(self.seconds * 4 / 3))
        number = max(1, self.vehicles // self.stands_for)
        return TrafficEvents(self.profile, number, regions, steps_per_s=STEPS_PER_S, period_s=period_s)

    @property
    def stands_for(self) -> int:
        """Vehicles for which one of a run stands."""
        return self.scale or SCALE[self.study]

    @property
    def queries(self) -> list[Query]:
        """The queries of the study."""
        return list(by_region() if self.study == "001" else by_copy())

    def job(self, seconds: int = 0) -> Job:
        """The queries over the vehicles, in event time; `seconds`: of the beginning only."""
        events = self.events
        starts = [events.index_at(second) for second in range(self.seconds + 1)]
        rate = Rate(tuple((float(n), float(starts[n + 1] - starts[n])) for n in range(self.seconds)))
        return Job.of("study", self.queries, {STREAM: Generator(events, starts[seconds or self.seconds], rate)})


def by_region() -> Iterator[Query]:
    """Mean speed, vehicles and top speeds of every region, over windows of 15, 5 and 10 steps.

    The windows of the study have 30, 10 and 20 s. An aggregate costs in proportion to the windows that an event lies
    in, so the costs of the three queries have the same relation.
    """
    stream = vehicles()
    for region in range(REGIONS):
        part = stream.filter(col("region") == region).select("ts", "region", "speed").key_by("region")
        average = part.window(hop(15 * STEP_S, STEP_S)).aggregate(avg_speed=mean("speed"))
        number = part.window(hop(5 * STEP_S, STEP_S)).aggregate(vehicle_count=count())
        fastest = part.window(hop(10 * STEP_S, STEP_S)).aggregate(top_speed=top_k("speed", 3))
        yield average.sink(f"avg_speed[{region}]", table="avg_speed")
        yield number.sink(f"vehicle_count[{region}]", table="vehicle_count")
        yield fastest.sink(f"top_speed[{region}]", table="top_speed")


def by_copy() -> Iterator[Query]:
    """Vehicles, mean speed and top speeds per road, 50 copies of each over all events: two operators per query.

    Copies differ in a filter that all events pass; equal queries would be computed once.
    """
    stream = vehicles()
    for copy in range(COPIES):
        part = stream.filter(col("speed") >= -1.0 - copy).select("ts", "region", "speed").key_by("region")
        roads = part.window(tumbling(1))
        for name, aggregate in (("count", count()), ("mean", mean("speed")), ("top", top_k("speed", 3))):
            per_road = roads.aggregate(value=aggregate)
            city = per_road.key_by().window(tumbling(1)).aggregate(roads=count())
            yield city.sink(f"{name}[{copy}]", table=name)


def costs_by_complexity(graph: Graph, event_s: float) -> dict[str, Any]:
    """A profile of `by_copy`: one unit per event and road for a mean, log2 n units for top speeds, none for counts.

    The study says that its queries take constant time (count, kept up to date), linear time, and n log n; n is the
    number of events of a step with 220,000 vehicles.
    """
    factor = {"count": 0.0, "mean": 1.0, "top": math.log2(220_000)}
    program = compile_graph(graph)
    readers = {feed.origin: lane for lane in program.lanes for feed in lane.feeds}
    nodes: list[dict[str, Any]] = []
    for stream in program.inputs:
        nodes.append({"name": f"source {stream}", "kind": "source", "inputs": [], "turns": 1, "events_in": 1})
        nodes[-1] |= {"events_out": 1, "cost": asdict_cost(0.0)}
    for lane in program.lanes:
        table = (lane if lane.outlets else readers[lane.number]).outlets[0].table
        own_s = event_s * (1.0 if lane.outlets else factor[table])
        operators = sorted({str(instance).rpartition("/")[0] for instance in lane.instances})
        nodes.append({"name": f"lane {lane.number}", "kind": "lane", "lane": lane.number, "operators": operators})
        nodes[-1] |= {"inputs": [], "turns": 1, "events_in": 1, "events_out": 1, "selectivity": 1.0}
        nodes[-1] |= {"cost": asdict_cost(own_s)}
    return {"simulator": {"nodes": nodes, "worker": {"decision_s": 0.0}}}


def asdict_cost(event_s: float) -> dict[str, float]:
    """A cost per event, as profiles have it."""
    names = ("fixed_s", "result_s", "state_byte_s", "merged_row_s", "merged_event_s", "pair_s", "spread")
    return {"event_s": event_s, **dict.fromkeys(names, 0.0)}
