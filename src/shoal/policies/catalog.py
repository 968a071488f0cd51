"""The catalog of binding policies, static and dynamic."""

from collections.abc import Mapping
from typing import Protocol

from shoal.errors import ConfigError
from shoal.model.control.binding import Binding
from shoal.model.control.topology import Topology
from shoal.model.query.graph import Graph
from shoal.policies.binding.deadline_aware import DeadlineAware
from shoal.policies.binding.energy_aware import EnergyAware
from shoal.policies.binding.goal import PlacementGoal
from shoal.policies.binding.greedy import Greedy
from shoal.policies.binding.guarded import Guarded
from shoal.policies.binding.loads import Loads
from shoal.policies.binding.metis import DynamicMetis, Metis, required
from shoal.policies.binding.two_level import TwoLevel
from shoal.policies.partitioning.replication import REPLICATED, replicated
from shoal.policies.scheduling.serving import RESULTS_FIRST

FIRST = {"two-level": "partition"}
"""The static policy that binds instances before the first measurement; round-robin for all others."""


class BindingPolicy(Protocol):
    """Proposes a binding; pure, the same values give the same proposal."""

    def propose(self, loads: Loads, binding: Binding, topology: Topology) -> Binding:
        """Called when a trigger fires; returns a binding of the same instances and workers, `binding` for no change."""


_ENERGY, _DEADLINE = EnergyAware(), DeadlineAware()
DYNAMIC: Mapping[str, BindingPolicy] = {
    "greedy": Greedy(),
    "two-level": TwoLevel(),
    "metis": Metis(),
    "dynamic-metis": DynamicMetis(),
    "guarded": Guarded(),
    "energy-aware": _ENERGY,
    "deadline-aware": _DEADLINE,
}
"""Policies that decide by measured loads, with their default settings."""

ASKED_ONCE = frozenset({"metis"})
"""Dynamic policies that are asked only once, after a profile."""

GOALS: Mapping[str, PlacementGoal] = {"energy-aware": _ENERGY, "deadline-aware": _DEADLINE}
"""Dynamic policies whose moves are judged by a goal of their own, not by the load of the busiest worker."""

NEED_HOSTS = frozenset(GOALS)
"""Policies for runtimes that know hosts and links."""

USUAL_TRIGGER = "imbalance:1.2"
TRIGGERS: Mapping[str, str] = dict.fromkeys(GOALS, "periodic:1")
"""When policies are asked that do not wait for an uneven load, unless the user says otherwise."""

SPLITTING = frozenset({"guarded"})
"""Dynamic policies that also split instances that are too large for a worker, and merge idle parts."""

SPATIAL_POLICIES = (REPLICATED, "uniform-grid", "history-grid", "swarm")
"""Policies for operators that go by place: which rectangles of the plane instances have, and on which workers."""

QUEUED = ("single-queue", "node-queue")
"""Policies without a binding: several workers serve one queue, on the local and the simulated runtime."""

QUEUES_OF: Mapping[str, str] = {"guarded": "node-queue"}
"""The queues of policies that do not have one queue per worker, where workers of a node can share one."""

SERVING_OF: Mapping[str, str] = {"guarded": RESULTS_FIRST}
"""How queues are served under policies that do not leave it to age, where the runtime knows what to expect of tasks."""

SUMMARIES: Mapping[str, str] = {
    "round-robin": "instance k on worker k modulo workers; nothing moves",
    "partition": "the instances of a region or key group on one worker, partitions in turn; nothing moves",
    "greedy": "instances by backlog, the lightest first, from workers above average to the least loaded one",
    "two-level": "once a query is slow: partitions between nodes, then their paths between the workers of a node",
    "metis": "a balanced cut of the graph with few bytes across, once, by a profile",
    "dynamic-metis": "a new cut each time, its parts assigned to the workers that have most of them",
    "guarded": "moves that pay for their state and lost locality; never raises the peak; splits what exceeds a worker",
    "energy-aware": "least power for work and links, no worker over its share; nearly empty batteries are left first",
    "deadline-aware": "every query within its deadline by hops, queues and work, the tightest first",
    REPLICATED: "every worker has all ranges, points are spread; for operators that go by place",
    "uniform-grid": "the plane in halves until each worker has a rectangle; nothing changes",
    "history-grid": "rectangles by the cost of a sample, decided once; for operators that go by place",
    "swarm": "moves, splits and merges rectangles of the plane by their cost while throughput rises",
    "single-queue": "no binding: one queue for all workers, in the order of event time; not on Spark",
    "node-queue": "no binding: a queue per processor node, idle workers take from others; not on Spark",
}
"""Every policy in one line."""


def graph_for(policy: str | None, graph: Graph, workers: int) -> Graph:
    """The graph that runs under a policy; all but one leave it as it is."""
    return replicated(graph, workers) if policy == REPLICATED else graph


def check_policy(name: str) -> None:
    """Reject an unknown name, and a policy whose package is not installed."""
    if name not in SUMMARIES:
        raise ConfigError(f"policy must be one of {', '.join(SUMMARIES)}; got {name!r}")
    if isinstance(DYNAMIC.get(name), Metis | DynamicMetis):
        required()
