"""Jobs with a load that is known in advance, and the record of what they bring."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from shoal.connectors.sources.generator import Generator
from shoal.connectors.sources.rate import Rate
from shoal.model.query.aggregate import count, mean, top_k
from shoal.model.query.graph import Query
from shoal.model.query.window import hop
from shoal.policies.binding.hindsight import Recorded
from shoal.policies.binding.static import round_robin
from shoal.runtimes.arrangement import Arrangement
from shoal.runtimes.simulated.input.real import RealInput
from shoal.runtimes.simulated.input.task_plan import TaskPlan
from shoal.runtimes.simulated.settings import SimulatedSettings
from shoal.runtimes.simulated.task_costs import TaskCosts
from shoal.session.job import Job
from shoal.workloads.catalog import WORKLOADS
from shoal.workloads.traffic.events import TrafficEvents
from shoal.workloads.traffic.queries import STREAM, vehicles
from shoal.workloads.workload import Amount

SECONDS = 12
PERIOD_S = 24
"""A rush hour comes this often; the first half is simulated, up to its peak and beyond."""
CONF = {"source": "outside"}
"""Events come from a core that is none of the workers, as in the studies."""


@dataclass(frozen=True)
class LoadScenario:
    """A workload by name with settings, and its events per second."""

    name: str
    workload: str
    rate: int
    settings: dict[str, str] = field(default_factory=dict)
    seconds: int = SECONDS
    seed: int = 0

    def job(self) -> Job:
        """The job with its sources; rush hours arrive at the rate of their own event time."""
        if self.workload == "rush":
            return rush_hour(self.rate, self.seconds, self.seed)
        if self.settings.get("profile") == "W3":
            events = TrafficEvents("W3", vehicles=self.rate, period_s=PERIOD_S, seed=self.seed)
            amount = Amount(events.index_at(self.seconds), natural_rate(events, self.seconds))
            settings = {**self.settings, "vehicles": str(self.rate), "period_s": str(PERIOD_S)}
            return WORKLOADS["traffic"].ready(self.seed, amount, settings).job
        amount = Amount(self.rate * self.seconds, float(self.rate))
        return WORKLOADS[self.workload].ready(self.seed, amount, self.settings).job


def natural_rate(events: TrafficEvents, seconds: int) -> Rate:
    """Every second of event time takes a second."""
    at = [events.index_at(second) for second in range(seconds + 1)]
    return Rate(tuple((float(second), float(at[second + 1] - at[second])) for second in range(seconds)))


def rush_queries(copies: int) -> Iterator[Query]:
    """Count, average and top speeds of every region, each several times; every query gets every event.

    Windows differ in length, so that no two queries share an operator.
    """
    for number in range(copies):
        window = vehicles().key_by("region").window(hop(10 + number, 1))
        yield window.aggregate(vehicle_count=count()).sink(f"count[{number}]")
        yield window.aggregate(avg_speed=mean("speed")).sink(f"average[{number}]")
        yield window.aggregate(top_speed=top_k("speed", 3)).sink(f"top[{number}]")


def rush_hour(peak: int, seconds: int, seed: int = 0) -> Job:
    """Twenty copies of three queries over a rush hour."""
    events = TrafficEvents("W3", vehicles=peak, regions=10, period_s=PERIOD_S, seed=seed)
    feed = Generator(events, events.index_at(seconds), natural_rate(events, seconds))
    return Job.of("rush", rush_queries(20), {STREAM: feed})


def scenarios(rate: int, seed: int = 0) -> list[LoadScenario]:
    """The scenarios, each with about so many events per second, with the events of a seed."""
    traffic = {"vehicles": str(rate)}
    return [
        LoadScenario("W1", "traffic", rate, {**traffic, "profile": "W1"}, seed=seed),
        LoadScenario("W2", "traffic", rate, {**traffic, "profile": "W2"}, seed=seed),
        LoadScenario("W3", "traffic", rate, {"profile": "W3"}, seed=seed),
        LoadScenario("rush", "rush", rate // 10, seed=seed),
        LoadScenario("skew", "skew", rate // 5, {"per_s": str(rate // 5), "move_s": "4"}, seed=seed),
    ]


def record(job: Job, conf: dict[str, str]) -> Recorded:
    """What every step of a job brings, and when; results are those that sinks get, as in the latency of a run."""
    settings = SimulatedSettings.of({**CONF, **conf})
    now_s = 0.0
    arrangement = Arrangement(job.graph, round_robin(job.graph, 1))
    source = RealInput(job.sources, lambda: now_s, block_rows=settings.block_rows, step_s=settings.step_s, parks=False)
    plan = TaskPlan(arrangement.program)
    costs = TaskCosts(plan, settings.delays(arrangement.program), settings.seed)
    due_s, begin_s, work_s, results = list[float](), list[float](), list[np.ndarray](), list[np.ndarray]()
    while not source.ended:
        counts, again_s = source.read(plan, 0, arrangement)
        source.taken()
        if counts is not None:
            step = costs.step(counts)
            work = step.work_s + np.where(step.work_s > 0, costs.fixed_s, 0.0)
            work[: len(plan.streams)] = 0.0
            due_s.append(counts.due_s)
            begin_s.append(now_s)
            work_s.append(work)
            results.append(counts.results * plan.sinks)
        now_s = again_s if np.isfinite(again_s) else now_s
    source.close()
    inner = plan.edges[plan.edges[:, 0] >= len(plan.streams)]
    return Recorded(np.array(due_s), np.array(begin_s), np.array(work_s), np.array(results), inner)


def machine_file(nodes: int, cores: int, speed: float, directory: str) -> str:
    """A machine of two sockets or more whose cores have a speed."""
    path = Path(directory) / f"numa-{nodes}x{cores}-{speed:.6g}.yaml"
    path.write_text(f"hosts:\n- {{name: host, cores: {nodes * cores}, memory_nodes: {nodes}, speed: {speed!r}}}\n")
    return str(path)
