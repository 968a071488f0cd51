"""Snapshots: what one look at a running job saw, as values a policy can reason about."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from shoal.model.binding import Binding
from shoal.model.graph import Graph, InstanceId
from shoal.model.partitioning import DECLARED, Partitioning
from shoal.model.topology import Topology


@dataclass(frozen=True)
class InstanceLoad:
    """One instance during one epoch: events behind what it received, its time, its answers, its state, what waits."""

    events: int
    cost_s: float
    results: int
    state_bytes: int
    backlog: int = 0


@dataclass(frozen=True)
class Snapshot:
    """All instances during one epoch of so many seconds, with the binding and the topology that were in force.

    `latency_s` is the mean latency of each result table that had rows, `busy_s` the time that each worker worked, and
    `graph` the queries that ran.
    """

    epoch: int
    binding: Binding
    loads: Mapping[InstanceId, InstanceLoad] = field(default_factory=dict)
    watermarks_us: Mapping[str, int] = field(default_factory=dict)
    period_s: float = 0.0
    latency_s: Mapping[str, float] = field(default_factory=dict)
    busy_s: tuple[float, ...] = ()
    topology: Topology | None = None
    graph: Graph | None = None
    partitioning: Partitioning = DECLARED
