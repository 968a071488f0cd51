"""Random situations for binding policies: whole numbers throughout, so that sums are exact in any order."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib.util import find_spec

import numpy as np
from hypothesis import strategies as st

from shoal.model.control.binding import Binding
from shoal.model.control.costs import LinkCosts
from shoal.model.control.topology import Topology
from shoal.model.query.graph import InstanceId
from shoal.policies.binding.loads import Floats, Ints, Load, Loads, summed
from shoal.policies.binding.paths import Paths
from shoal.policies.catalog import DYNAMIC, GOALS, BindingPolicy
from shoal.runtimes.simulated.machine.hosts import Host, Link
from shoal.runtimes.simulated.machine.known_hosts import known_hosts
from shoal.runtimes.simulated.machine.machine import HUB, Machine

RUNNABLE = sorted(set(DYNAMIC) - (set() if find_spec("pymetis") else {"metis", "dynamic-metis"}))
"""Policies that can run here; METIS comes in an extra."""
BALANCING = [name for name in RUNNABLE if name not in GOALS]
"""Policies that aim at an even load."""
SLOW = {"query": 1.0}
"""A query above every threshold."""


@dataclass(frozen=True)
class Situation:
    """What a policy is asked about."""

    loads: Loads
    binding: Binding
    topology: Topology

    def proposal(self, policy: BindingPolicy) -> Binding:
        return policy.propose(self.loads, self.binding, self.topology)

    def costing(self, costs: LinkCosts) -> "Situation":
        return Situation(replace(self.loads, costs=costs), self.binding, self.topology)

    def then(self, binding: Binding) -> "Situation":
        return Situation(self.loads, binding, self.topology)

    def placed(self, binding: Binding) -> Ints:
        return self.loads.placed(binding, self.topology)

    def moves(self, binding: Binding) -> int:
        return len(list(self.binding.diff(binding)))

    def peak(self, amounts: Floats, binding: Binding) -> float:
        return float(summed(amounts, self.placed(binding), self.topology.workers).max())

    def nodes_of(self, binding: Binding) -> list[set[int]]:
        """The nodes each partition is on."""
        found: list[set[int]] = [set() for _ in range(int(self.loads.partition.max(initial=-1)) + 1)]
        for partition, worker in zip(self.loads.partition.tolist(), self.placed(binding).tolist(), strict=True):
            found[partition].add(self.topology.node_of[worker])
        return found


def named(number: int) -> str:
    return f"i{number}/0"


def situation(
    loads: Mapping[str, tuple[int, Load]],
    topology: Topology,
    edges: Mapping[tuple[str, str], float] | None = None,
    latency_s: Mapping[str, float] = SLOW,
) -> Situation:
    """From a worker and a load for every name."""
    known = Loads.of(
        {InstanceId(name): load for name, (_, load) in loads.items()},
        {(InstanceId(one), InstanceId(other)): amount for (one, other), amount in (edges or {}).items()},
        latency_s,
    )
    binding = Binding.of({InstanceId(name): worker for name, (worker, _) in loads.items()}, topology.workers)
    return Situation(with_paths(known), binding, topology)


def on_hosts(topology: Topology, *, speed: tuple[float, ...] = (1.0,), battery_j: tuple[float, ...] = ()) -> Topology:
    """Every node is a host behind a link to a hub; speeds and batteries are given to hosts in turn."""
    hosts = tuple(
        Host(
            f"h{node}",
            len(workers),
            speed=speed[node % len(speed)],
            busy_w=2.0 + node,
            idle_w=0.5,
            byte_j=1e-6,
            battery_j=battery_j[node % len(battery_j)] if battery_j else np.inf,
        )
        for node, workers in enumerate(topology.workers_of)
    )
    ends = [(host.name, HUB) for host in hosts]
    links = tuple(Link(*pair, 1e6, 0.005) for one, other in ends for pair in ((one, other), (other, one)))
    known = known_hosts(Machine(hosts, links))
    return replace(topology, hosts=replace(known, of_worker=np.array(topology.node_of), source_of={"events": 0}))


@st.composite
def topologies(draw: st.DrawFn) -> Topology:
    nodes = draw(st.integers(1, 3))
    speeds = draw(st.lists(st.sampled_from([0.5, 1.0, 2.0]), min_size=1, max_size=3))
    batteries = draw(st.lists(st.sampled_from([1.0, 1e4, np.inf]), max_size=3))
    topology = Topology.of(nodes, draw(st.integers(nodes, 7)))
    return on_hosts(topology, speed=tuple(speeds), battery_j=tuple(batteries))


def with_paths(loads: Loads, deadline_s: float = 0.05) -> Loads:
    """Events of one stream come to all instances that no other feeds; each of the last ones is a query."""
    count = len(loads.instances)
    first = np.setdiff1d(np.arange(count), loads.edge_target)
    ends = np.setdiff1d(np.arange(count), loads.edge_source).tolist()
    queries = {f"q{end}": (end,) for end in ends}
    late = {f"q{end}": deadline_s * (1 + end % 3) for end in ends} or {"none": deadline_s}
    paths = Paths(("events",), np.zeros(len(first), np.int64), first, np.full(len(first), 50.0), queries, late)
    return replace(loads, paths=paths)


def link_costs(*bytes_per_s: float) -> st.SearchStrategy[LinkCosts]:
    """Some links with one of these bandwidths, the others with 1e9."""
    links = st.tuples(st.integers(0, 2), st.integers(0, 2))
    return st.builds(
        LinkCosts,
        hand_over_s=st.sampled_from([0.0, 0.001, 4.0]),
        link_bytes_per_s=st.dictionaries(links, st.sampled_from(bytes_per_s)),
    )


@st.composite
def situations(draw: st.DrawFn, *, together: bool = False) -> Situation:
    """Up to 24 instances of up to 7 partitions, anywhere or, `together`, those of a partition on one worker."""
    topology = draw(topologies())
    count = draw(st.integers(0, 24))
    partitions = draw(st.lists(st.integers(0, 6), min_size=count, max_size=count))
    some = st.integers(0, topology.workers - 1)
    home = draw(st.lists(some, min_size=7, max_size=7))
    workers = [home[one] for one in partitions] if together else draw(st.lists(some, min_size=count, max_size=count))
    small = st.integers(0, 9)
    loads = {
        named(number): (
            worker,
            Load(
                cost_s=draw(small),
                backlog=draw(small),
                rate_per_s=draw(st.integers(0, 2)),
                busy_s=draw(small),
                state_bytes=draw(st.sampled_from([0, 10**6, 10**9, 10**11])),
                partition=str(partition),
            ),
        )
        for number, (worker, partition) in enumerate(zip(workers, partitions, strict=True))
    }
    pairs = [(one, other) for other in range(count) for one in range(other)]
    edges = draw(st.lists(st.sampled_from(pairs), max_size=30, unique=True)) if pairs else []
    asked = situation(loads, topology, {(named(one), named(other)): draw(small) for one, other in edges})
    # No link is more than twice as fast as another, so that no detour is faster than the direct way.
    return asked.costing(draw(link_costs(5e8, 8e8)))


def skewed_city(seed: int, regions: int = 60) -> Situation:
    """Regions of three queries with three instances each, some regions far busier; by partition on 2 x 4 workers."""
    draw = np.random.default_rng(seed)
    topology = on_hosts(Topology.of(nodes=2, workers=8))
    backlog = 100 * draw.lognormal(0.0, 0.8, regions)
    loads = {}
    for number in range(9 * regions):
        region = number // 9
        cost_s = (0.002, 0.008, 0.001)[number % 3] * draw.uniform(0.5, 2.0)
        load = Load(cost_s, backlog[region], busy_s=cost_s * backlog[region], state_bytes=1e6, partition=str(region))
        loads[named(number)] = (region % topology.workers, load)
    edges = {(named(n), named(n + 1)): 100.0 for n in range(9 * regions) if n % 3 < 2}
    return situation(loads, topology, edges)
