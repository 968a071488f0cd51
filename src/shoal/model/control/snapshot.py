"""Snapshots: one observation of a running job, as values that a policy can reason about."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from shoal.model.control.binding import Binding
from shoal.model.control.partitioning import DECLARED, Partitioning
from shoal.model.control.topology import Topology
from shoal.model.query.graph import Graph, InstanceId, OperatorId
from shoal.model.spatial.arrivals import TileArrivals

Arrivals = Mapping[OperatorId, tuple[TileArrivals, ...]]
"""What came to the tiles of spatial operators."""


@dataclass(frozen=True)
class InstanceLoad:
    """What one instance did during one period, and its state at the end; the same on every runtime.

    Of the period:
    - `events`: events that the instance processed, from streams and from other operators; where it received panes or
      other partial results, the events behind them. Its rate is `events` over the period.
    - `cost_s`: time of the worker that the instance took, reading of moved state excluded. The cost of an event is
      `cost_s` over `events`.
    - `results`: rows that it emitted.

    At its end:
    - `state_bytes`: size of its state.
    - `backlog`: events that were accepted for it and not processed yet. An event that is read and not routed to an
      instance yet counts for none. A runtime that processes whole epochs has nothing left at the end of one: 0.

    So `events` and `backlog` have no event in common, and backlog plus arrivals is all there is to do.
    """

    events: int
    cost_s: float
    results: int
    state_bytes: int
    backlog: int = 0


@dataclass(frozen=True)
class Snapshot:
    """All instances during one epoch of `period_s` seconds, with the binding and topology in force.

    `latency_s` is the mean latency of each result table that had rows, or of each query if the runtime tells queries
    apart; `busy_s` is the time that each worker worked, and `graph` the queries that ran. `arrivals` are counted by the
    workers in the tiles that were in force there; results never depend on them.
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
    arrivals: Arrivals = field(default_factory=dict)
