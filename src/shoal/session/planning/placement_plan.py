"""Plans: what would run where, why, and what the other policies would do.

1. The job is simulated round-robin for a short time, which gives the load of every instance.
2. Every policy that can run on the machine proposes a binding for these loads; the one of the user is chosen.
3. All bindings are valued by the same model: how busy workers are, power, and the latency of queries.
4. The job is simulated once more under the chosen binding. What hosts and links do comes from there.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from importlib.util import find_spec
from typing import Any

import numpy as np

from shoal.control.names import instance_names
from shoal.control.settings import deadlines_of
from shoal.errors import ConfigError
from shoal.model.control.binding import Binding
from shoal.model.control.topology import Topology
from shoal.policies.binding.deadline_aware import NAME as DEADLINE_AWARE
from shoal.policies.binding.demand import Demand
from shoal.policies.binding.layout import Layout
from shoal.policies.binding.loads import Floats, Loads
from shoal.policies.binding.static import STATIC
from shoal.policies.catalog import DYNAMIC, GOALS, QUEUED, SUMMARIES
from shoal.session.planning.short_run import ShortRun, ShortRuns

FULL = 0.95
"""Share of its time from which on a worker counts as over capacity, and of its bandwidth a link as too slow."""
HOUR_S = 3600.0


@dataclass(frozen=True)
class HostPlan:
    """One host: its instances, how busy it is, bytes per second, joules per hour, and when its battery is empty."""

    name: str
    cores: int
    instances: tuple[str, ...]
    busy: float
    busiest_core: float
    bytes_in_per_s: float
    bytes_out_per_s: float
    joules_per_hour: float
    battery_end_s: float | None


@dataclass(frozen=True)
class QueryPlan:
    """One query: the hosts that its events pass, and its latency as expected and as simulated.

    Expected are hops, queues and work under the binding, and what the first run had beyond that, such as the wait for a
    batch of input.
    """

    name: str
    path: tuple[tuple[str, ...], ...]
    expected_s: float
    simulated_s: float | None
    deadline_s: float | None


@dataclass(frozen=True)
class CandidatePlan:
    """What a policy would do: the busiest worker, the power of work and links, the slowest query, instances moved."""

    policy: str
    chosen: bool
    busiest: float
    watts: float
    slowest_s: float
    differs: int
    score: float


@dataclass(frozen=True)
class PlacementPlan:
    """What would run where, and why."""

    policy: str
    why: str
    score: str
    workers: int
    seconds: float
    hosts: tuple[HostPlan, ...]
    queries: tuple[QueryPlan, ...]
    candidates: tuple[CandidatePlan, ...]
    refused: Mapping[str, str]
    warnings: tuple[str, ...]

    def data(self) -> dict[str, Any]:
        """As plain data."""
        return asdict(self)


def planned(runs: ShortRuns, deadline_ms: str = "", horizon_s: float = HOUR_S) -> PlacementPlan:
    """The plan for a job on a machine, by the policy of the runs."""
    job, policy = runs.job, runs.policy
    if policy in QUEUED:
        raise ConfigError(f"a plan needs a policy that binds instances to workers; got {policy}")
    deadlines = deadlines_of(deadline_ms)
    deadlines.check_names(job.graph.queries)
    if policy == DEADLINE_AWARE and not deadline_ms:
        raise ConfigError(f"policy {policy} needs deadlines; add --deadline-ms, e.g. --deadline-ms 50")
    start = STATIC["round-robin"](job.graph, runs.workers)
    first = replace(runs, policy="round-robin").under(start)
    layout = Layout.of(job.graph)
    timed = replace(layout, paths=replace(layout.paths, deadline_s=deadlines.of(job.graph.queries)))
    valued = _Valued(timed.loads(first.snapshot), first.snapshot.binding, _topology(first))
    found, refused = valued.bindings(job.graph, runs.workers)
    if policy in refused:
        raise ConfigError(refused[policy])
    run = runs.under(found[policy])
    report = _Report(runs, valued, run, found[policy], horizon_s)
    return PlacementPlan(
        policy,
        SUMMARIES[policy],
        valued.score_name(policy),
        runs.workers,
        round(run.seconds, 3),
        report.hosts(),
        report.queries(),
        tuple(valued.candidate(name, found, policy) for name in found),
        refused,
        tuple(report.warnings()),
    )


def _topology(run: ShortRun) -> Topology:
    topology = run.snapshot.topology
    if topology is None or topology.hosts is None or topology.workers != run.snapshot.binding.workers:
        raise ConfigError("a plan needs a machine whose hosts are known, and none of them lost from the beginning")
    return topology


class _Valued:
    """The loads of all instances, and what bindings for them are worth."""

    def __init__(self, loads: Loads, binding: Binding, topology: Topology) -> None:
        self.loads, self.binding, self.topology = loads, binding, topology
        self.demand = Demand(loads, binding, topology, "plan")

    def bindings(self, graph: Any, workers: int) -> tuple[dict[str, Binding], dict[str, str]]:
        """The binding of every policy, and why others have none."""
        found = {name: static(graph, workers) for name, static in STATIC.items()}
        refused: dict[str, str] = {}
        for name, policy in DYNAMIC.items():
            if "metis" in name and find_spec("pymetis") is None:
                refused[name] = f"policy {name} needs the package pymetis; pip install 'shoal[metis]'"
                continue
            try:
                found[name] = policy.propose(self.loads, self.binding, self.topology)
            except ConfigError as error:
                refused[name] = str(error)
        return found, refused

    def score_name(self, policy: str) -> str:
        """What candidates are compared by; less is better."""
        return GOALS[policy].measure.rstrip(",") if policy in GOALS else "the utilisation of the busiest worker"

    def candidate(self, name: str, found: Mapping[str, Binding], chosen: str) -> CandidatePlan:
        """A policy with what its binding is worth, by the goal of the chosen policy."""
        placed = self.loads.placed(found[name], self.topology)
        busiest = float(self.demand.utilisation(placed).max())
        score = busiest
        if chosen in GOALS:
            score = GOALS[chosen].judge(self.loads, self.binding, self.topology).aim(placed).amount
        return CandidatePlan(
            name,
            name == chosen,
            round(busiest, 6),
            round(self.demand.watts(placed), 6),
            round(float(self.demand.latency_s(placed).max(initial=0.0)), 6),
            sum(1 for _ in found[chosen].diff(found[name])),
            round(score, 6),
        )


@dataclass(frozen=True, eq=False)
class _Report:
    """The chosen binding in detail, by the simulated run under it."""

    runs: ShortRuns
    valued: _Valued
    run: ShortRun
    binding: Binding
    horizon_s: float

    def hosts(self) -> tuple[HostPlan, ...]:
        """Hosts as the machine reports them."""
        demand, known = self.valued.demand, self.valued.demand.hosts
        placed = self.valued.loads.placed(self.binding, self.valued.topology)
        names = instance_names(self.runs.job.graph)
        on: dict[str, list[str]] = {}
        for instance, host in zip(self.valued.loads.instances, known.of_worker[placed].tolist(), strict=True):
            on.setdefault(known.names[host], []).append(names[instance])
        busiest = dict.fromkeys(known.names, 0.0)
        for worker, busy in enumerate(self._busy(demand.utilisation(placed))):
            name = known.names[int(known.of_worker[worker])]
            busiest[name] = max(busiest[name], busy)
        return tuple(self._host(each, on.get(each["name"], []), busiest[each["name"]]) for each in self._reported)

    def _busy(self, expected: Floats) -> list[float]:
        """How busy every worker is: as simulated, with all that it reads, or as its instances need if that is more."""
        snapshot = self.run.snapshot
        simulated = np.array(snapshot.busy_s) / snapshot.period_s
        same = len(simulated) == len(expected)
        return [float(each) for each in (np.maximum(simulated, expected) if same else expected)]

    @property
    def _reported(self) -> list[Mapping[str, Any]]:
        return list(self.run.machine.get("hosts", ()))

    def _host(self, used: Mapping[str, Any], instances: list[str], busiest: float) -> HostPlan:
        seconds = self.run.seconds
        watts, left_j = used["joules"] / seconds, used["battery_left_j"]
        return HostPlan(
            used["name"],
            used["cores"],
            tuple(instances),
            used["busy_share"],
            round(busiest, 6),
            round(used["bytes_received"] / seconds, 1),
            round(used["bytes_sent"] / seconds, 1),
            round(watts * HOUR_S, 3),
            None if left_j is None or not watts > 0 else round(seconds + left_j / watts, 1),
        )

    def queries(self) -> tuple[QueryPlan, ...]:
        """Queries, the slowest by simulation first."""
        loads, demand = self.valued.loads, self.valued.demand
        placed = loads.placed(self.binding, self.valued.topology)
        before, after, host_of = demand.latency_s(demand.placed), demand.latency_s(placed), demand.host_of[placed]
        found = []
        for query, ends in loads.paths.ends.items():
            measured = self._latency_s(query, loads.latency_s)
            simulated = self._latency_s(query, self.run.snapshot.latency_s)
            beyond_s = 0.0 if measured is None else max(0.0, measured - float(before[list(ends)].max()))
            found.append(
                QueryPlan(
                    query,
                    self._path(query, ends, host_of),
                    round(float(after[list(ends)].max()) + beyond_s, 6),
                    None if simulated is None else round(simulated, 6),
                    loads.paths.deadline_s.get(query),
                )
            )
        return tuple(sorted(found, key=lambda each: (-(each.simulated_s or 0.0), -each.expected_s, each.name)))

    def _latency_s(self, query: str, known: Mapping[str, float]) -> float | None:
        """The latency of a query, or of its table if queries are not told apart."""
        return known.get(query, known.get(self.runs.job.graph.queries[query].table))

    def _path(self, query: str, ends: tuple[int, ...], host_of: Any) -> tuple[tuple[str, ...], ...]:
        """The hosts of its streams, then those of each of its operators in turn."""
        loads, hosts = self.valued.loads, self.valued.demand.hosts
        streams = self.runs.job.graph.queries[query].streams
        stages = [{hosts.source_of[stream] for stream in streams if stream in hosts.source_of}]
        stage, behind = set(ends), list[set[int]]()
        while stage:
            behind.append({int(host_of[place]) for place in stage})
            feeding = np.isin(loads.edge_target, list(stage))
            stage = set(loads.edge_source[feeding].tolist())
        stages += reversed(behind)
        return tuple(tuple(hosts.names[host] for host in sorted(each)) or ("outside",) for each in stages)

    def warnings(self) -> list[str]:
        """What would not work."""
        found = [f"{reason} during the simulated run" for reason in dict.fromkeys(self.run.lost)]
        for host in self.hosts():
            if max(host.busy, host.busiest_core) >= FULL:
                most = max(host.busy, host.busiest_core)
                found.append(f"host {host.name} is over capacity: a core has work for {most:.0%} of its time")
            if host.battery_end_s is not None and host.battery_end_s < self.horizon_s:
                found.append(
                    f"the battery of host {host.name} is empty after {host.battery_end_s:,.0f} s, "
                    f"before the horizon of {self.horizon_s:,.0f} s"
                )
        found += [
            f"link {link['name']} is too slow: it was busy for {link['busy_share']:.0%} of the time"
            for link in self.run.machine.get("links", ())
            if link["busy_share"] >= FULL
        ]
        for query in self.queries():
            late_s = query.simulated_s if query.simulated_s is not None else query.expected_s
            if query.deadline_s is not None and late_s > query.deadline_s:
                late, wanted = late_s * 1000, query.deadline_s * 1000
                found.append(f"query {query.name} is late: {late:.0f} ms, its deadline is {wanted:g} ms")
        return found
