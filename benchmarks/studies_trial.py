"""One trial of `studies.py`: a figure's workload on a simulated machine, under one policy.

Both studies replay recorded traffic step by step, 25 steps per second.

Of the study with regions, 001, a run has a hundredth of the vehicles, each with a hundred times the work, so that
kernels process real rows in seconds; the share of every region is the same. The study takes the latency of every query
at every step, and a policy of it is triggered by that. So the windows slide by a step here.

Of the study with copies, 000, all vehicles are simulated by number (`mode=statistical`), and every query has a result
per second.
"""

import json
import math
import tempfile
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from shoal.compiler.program import compile_graph
from shoal.connectors.sources.generator import Generator
from shoal.connectors.sources.rate import Rate
from shoal.control.observation import merged_snapshots
from shoal.control.settings import ControlSettings
from shoal.model.control.binding import Binding
from shoal.model.control.histogram import Histogram, merged
from shoal.model.control.messages import EpochCommitted
from shoal.model.control.snapshot import Snapshot
from shoal.model.query.aggregate import count, mean, top_k
from shoal.model.query.expression import col
from shoal.model.query.graph import Graph, Query
from shoal.model.query.window import hop, tumbling
from shoal.policies.binding.layout import Layout
from shoal.policies.binding.metis import Metis
from shoal.session.job import Job
from shoal.session.run import Run, start
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
PROFILE_S = 2
"""Static METIS binds by a profile of this time, of the beginning."""
BUCKET_S, BUCKETS = 0.01, 10
"""Latencies are counted by 10 ms, those of 90 ms and more together."""
SPEED = {"numa:2x12": 1.0, "numa:2x18": 2.3 / 2.5}
"""Clock of the studies' machines in relation to the first one; both of the second study have the same generation."""

ASKED = {"decision": "always", "window_s": "0.19", "rest_s": "0.19", "most_rest_s": "0.19"}
"""A policy of the studies decides by the latest epoch, and all that it proposes is done at once."""
EVERY_2_S = {**ASKED, "window_s": "1.99", "trigger": "periodic:1.9"}
POLICIES: Mapping[str, Mapping[str, str]] = {
    "single-queue": {},
    "node-queue": {},
    "round-robin": {},
    "partition": {},
    "greedy": EVERY_2_S,
    "metis": {},
    "dynamic-metis": EVERY_2_S,
    "two-level": {**ASKED, "trigger": "latency:0.03"},
    "guarded": {},
}
"""Settings of the controller by policy; `guarded`, Shoal's own, has its defaults."""


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


@dataclass
class Followed:
    """What epochs have shown, up to the end of the input."""

    seconds: int
    warm_up_s: int = 0
    latency: Histogram = field(default_factory=Histogram)
    by_second: dict[int, Histogram] = field(default_factory=dict)
    busy_s: Any = 0.0
    moves: int = 0
    migration_s: float = 0.0
    snapshots: list[Snapshot] = field(default_factory=list)
    binding: Binding | None = None
    """A binding that is put in force after the first epoch."""

    def take(self, run: Run, epoch: EpochCommitted) -> None:
        """Add an epoch."""
        self.snapshots.append(epoch.snapshot)
        if epoch.epoch == 0 and self.binding is not None:
            run.rebind(self.binding)
        if epoch.at_s > self.seconds + EPOCH_S / 2:
            return
        self.busy_s = self.busy_s + np.array(epoch.snapshot.busy_s)
        self.moves += epoch.moves
        self.migration_s += epoch.migration_s
        if epoch.latency is not None:
            second = min(self.seconds - 1, int(epoch.at_s - EPOCH_S / 2))
            self.by_second[second] = merged([self.by_second.get(second, Histogram()), epoch.latency])
            if epoch.at_s > self.warm_up_s + EPOCH_S / 2:
                self.latency = merged([self.latency, epoch.latency])


def run_scenario(scenario: Scenario, policy: str, work: float) -> dict[str, Any]:
    """Run a policy; `work` calibrates the costs."""
    binding = profiled(scenario, work) if policy == "metis" else None
    return follow(scenario, policy, work, Followed(scenario.seconds, scenario.warm_up_s, binding=binding))


def profiled(scenario: Scenario, work: float) -> Binding:
    """The binding of static METIS, by all that the first seconds under round-robin have to compute."""
    followed = Followed(PROFILE_S)
    follow(scenario, "round-robin", work, followed, PROFILE_S)
    whole = merged_snapshots(followed.snapshots)
    assert whole.topology is not None
    assert whole.graph is not None
    return Metis().propose(Layout.of(whole.graph).loads(whole), whole.binding, whole.topology)


def follow(scenario: Scenario, policy: str, work: float, followed: Followed, seconds: int = 0) -> dict[str, Any]:
    """Run a policy, or its first seconds, to the end of its input and until all of that is processed."""
    job = scenario.job(seconds)
    factor = work * scenario.stands_for / SPEED.get(scenario.topology, 1.0)
    conf = {"source": "outside", "arrival": "step", "turn_steps": "1", "step_s": repr(STEP_S), "epoch_s": repr(EPOCH_S)}
    conf |= {"work_factor": repr(factor), "measure_policy": "true", **scenario.settings}
    with tempfile.TemporaryDirectory(prefix="shoal-study-") as directory:
        if scenario.study == "000":
            profile = Path(directory) / "profile.json"
            profile.write_text(json.dumps(costs_by_complexity(job.graph, 1e-9)))
            conf |= {"delay": "traced", "trace": str(profile), "mode": "statistical", "sample_rows": str(SAMPLE_ROWS)}
        control = ControlSettings.of(POLICIES[policy])
        bound = "round-robin" if policy == "metis" else policy
        run = start(job, on="simulated", policy=bound, topology=scenario.topology, conf=conf, control=control)
        tally = run.wait(followed.take)
    counted_s = scenario.seconds - scenario.warm_up_s
    expected = len(scenario.queries) * (counted_s * RESULTS_PER_S[scenario.study] - 2)
    return {
        "scenario": {**asdict(scenario), "name": scenario.name},
        "policy": policy,
        "mean_ms": 1000 * followed.latency.sum_s / max(1, followed.latency.total),
        "p99_ms": 1000 * followed.latency.percentile(99),
        "latency_ms": [_mean_ms(followed.by_second.get(second)) for second in range(scenario.seconds)],
        "shares": shares(followed.latency, expected),
        "moves": followed.moves,
        "compute_s": float(np.sum(followed.busy_s)),
        "migration_s": followed.migration_s,
        "policy_s": tally.policy_s,
        "busy": (np.asarray(followed.busy_s) / scenario.seconds).tolist(),
    }


def shares(latency: Histogram, expected: int) -> list[float]:
    """Shares of queries and steps by latency, in buckets of 10 ms; what has not come in time is in the last one."""
    counts = np.zeros(BUCKETS)
    limits = [_bucket_of(number * BUCKET_S) for number in range(1, BUCKETS)]
    for bucket, times in latency.counts.items():
        counts[bisect_right(limits, bucket)] += times
    counts[-1] += max(0, expected - latency.total)
    return (counts / counts.sum()).tolist()


def _bucket_of(value_s: float) -> int:
    """The bucket of a histogram that a latency is in."""
    one = Histogram()
    one.record(value_s)
    return next(iter(one.counts))


def below(outcome: Mapping[str, Any], milliseconds: int) -> float:
    """The share of queries and steps below a latency, a multiple of 10 ms up to 90."""
    return float(sum(outcome["shares"][: round(milliseconds / 1000 / BUCKET_S)]))


def _mean_ms(latency: Histogram | None) -> float | None:
    return None if latency is None or not latency.total else 1000 * latency.sum_s / latency.total
