"""Loads: the measured input of the dynamic binding policies, in columns.

A place is a position in the list of instances. Between equals a policy takes the lower place or the lower worker, so
that the same loads always give the same binding.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from shoal.errors import BindingError, ConfigError
from shoal.model.control.binding import Binding, WorkerId
from shoal.model.control.costs import LinkCosts
from shoal.model.control.topology import Topology
from shoal.model.query.graph import InstanceId
from shoal.policies.binding.paths import Paths

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

_AMOUNTS = ("cost_s", "backlog", "rate_per_s", "busy_s", "state_bytes")


@dataclass(frozen=True)
class Load:
    """One instance: time per event, backlog, arrivals, busy time so far, size of its state.

    Instances that name the same partition belong together; without a name an instance is a partition of its own.
    """

    cost_s: float = 0.0
    backlog: float = 0.0
    rate_per_s: float = 0.0
    busy_s: float = 0.0
    state_bytes: float = 0.0
    partition: str | None = None


@dataclass(frozen=True, eq=False)
class Loads:
    """All instances in columns, the bytes that went from one to another, the latency of each query, the cost of moves.

    Edges lead from lower to higher places, as a graph lists operators upstream first. `partition` holds numbers
    from 0 without gaps.

    >>> a, b = InstanceId("a/0"), InstanceId("b/0")
    >>> loads = Loads.of({a: Load(cost_s=0.5, backlog=4), b: Load(cost_s=1.0, rate_per_s=0.25)}, {(a, b): 100})
    >>> loads.waiting_s, loads.work_s(horizon_s=8.0)
    (array([2., 0.]), array([2., 2.]))

    `period_s` is how long the instances were observed. `paths` is what leads to and from them.
    """

    instances: tuple[InstanceId, ...]
    cost_s: Floats
    backlog: Floats
    rate_per_s: Floats
    busy_s: Floats
    state_bytes: Floats
    partition: Ints
    edge_source: Ints
    edge_target: Ints
    edge_bytes: Floats
    latency_s: Mapping[str, float] = field(default_factory=dict)
    costs: LinkCosts = field(default_factory=LinkCosts)
    period_s: float = 0.0
    paths: Paths = field(default_factory=Paths)

    def __post_init__(self) -> None:
        """Reject columns of different lengths, amounts below zero and edges that lead back."""
        for name in (*_AMOUNTS, "edge_bytes"):
            self._freeze(name, np.float64)
            amounts = getattr(self, name)
            if amounts.size and not (amounts.min() >= 0 and np.isfinite(amounts.max())):
                raise ConfigError(f"{name} of every instance must be a number from 0; got {amounts.min()}")
        for name in ("partition", "edge_source", "edge_target"):
            self._freeze(name, np.int64)
        number = len(self.instances)
        for name in (*_AMOUNTS, "partition"):
            if getattr(self, name).shape != (number,):
                raise ConfigError(f"{name} must have one value for each of {number} instances")
        if number and (self.partition.min() < 0 or not np.bincount(self.partition).all()):
            raise ConfigError("partitions must be numbered from 0 without gaps")
        if not self.period_s >= 0:
            raise ConfigError(f"period_s must be 0 or more; got {self.period_s}")
        if not self.edge_source.shape == self.edge_target.shape == self.edge_bytes.shape:
            raise ConfigError("every edge must have a source, a target and an amount of bytes")
        if np.any(self.edge_source < 0) or np.any(self.edge_target >= number):
            raise ConfigError(f"edges must join places 0..{number - 1}")
        if np.any(self.edge_source >= self.edge_target):
            raise ConfigError("edges must lead from an instance to one listed after it")

    def _freeze(self, name: str, kind: type[np.float64] | type[np.int64]) -> None:
        column = np.array(getattr(self, name), dtype=kind)
        column.flags.writeable = False
        object.__setattr__(self, name, column)

    @classmethod
    def of(
        cls,
        loads: Mapping[InstanceId, Load],
        edges: Mapping[tuple[InstanceId, InstanceId], float] | None = None,
        latency_s: Mapping[str, float] | None = None,
    ) -> "Loads":
        """Loads from one value per instance and the bytes of each edge."""
        place_of = {instance: place for place, instance in enumerate(loads)}
        edges = edges or {}
        if unknown := [one for edge in edges for one in edge if one not in place_of]:
            raise ConfigError(f"an edge names instance {unknown[0]!r}, which has no load")
        names = [load.partition if load.partition is not None else (i,) for i, load in loads.items()]
        number_of = {name: number for number, name in enumerate(dict.fromkeys(names))}
        columns = [np.array([getattr(load, name) for load in loads.values()], dtype=float) for name in _AMOUNTS]
        cost_s, backlog, rate_per_s, busy_s, state_bytes = columns
        return cls(
            tuple(loads),
            cost_s,
            backlog,
            rate_per_s,
            busy_s,
            state_bytes,
            partition=np.array([number_of[name] for name in names], dtype=np.int64),
            edge_source=np.array([place_of[source] for source, _ in edges], dtype=np.int64),
            edge_target=np.array([place_of[target] for _, target in edges], dtype=np.int64),
            edge_bytes=np.array(list(edges.values()), dtype=float),
            latency_s=dict(latency_s or {}),
        )

    @property
    def waiting_s(self) -> Floats:
        """The studies' load of an instance: the time its backlog takes.

        If no instance has a backlog, as at the end of an epoch that was processed as a whole, the arrivals of the
        observed period are used instead: in such a runtime all of them waited for the epoch.
        """
        return self.cost_s * (self.backlog if self.backlog.any() else self.rate_per_s * self.period_s)

    def work_s(self, horizon_s: float) -> Floats:
        """The time that backlog and arrivals take until the horizon."""
        return self.cost_s * (self.backlog + self.rate_per_s * horizon_s)

    def placed(self, binding: Binding, topology: Topology) -> Ints:
        """The worker of every instance, by place."""
        if binding.workers != topology.workers:
            raise BindingError(f"the binding is for {binding.workers} workers; the topology has {topology.workers}")
        worker_of = binding.worker_of
        try:
            return np.array([worker_of[instance] for instance in self.instances], dtype=np.int64)
        except KeyError as missing:
            raise BindingError(f"instance {missing} has a load but is bound to no worker") from None

    def part(self, places: Ints) -> "Loads":
        """The loads of some places, ascending, and the edges between them."""
        number = np.full(len(self.instances), -1, np.int64)
        number[places] = np.arange(len(places))
        inside = (number[self.edge_source] >= 0) & (number[self.edge_target] >= 0)
        return replace(
            self,
            instances=tuple(self.instances[place] for place in places.tolist()),
            **{name: getattr(self, name)[places] for name in _AMOUNTS},
            partition=np.unique(self.partition[places], return_inverse=True)[1],
            edge_source=number[self.edge_source[inside]],
            edge_target=number[self.edge_target[inside]],
            edge_bytes=self.edge_bytes[inside],
            paths=self.paths.part(number),
        )

    def bound(self, binding: Binding, placed: Ints) -> Binding:
        """The binding with the instances on other workers; instances without a load stay where they are."""
        changed = dict(binding.worker_of)
        changed.update(zip(self.instances, map(WorkerId, placed.tolist()), strict=True))
        return Binding(changed, binding.workers)


def summed(amounts: Floats, group: Ints, groups: int) -> Floats:
    """Total of each group: the load of every worker, of every partition."""
    return np.bincount(group, weights=amounts, minlength=groups).astype(np.float64, copy=False)


def shared_out(amounts: Floats, workers: int) -> tuple[list[int], float]:
    """The instances too heavy for an even spread, and what every other worker would have.

    An instance as heavy as a worker's share is set aside with a worker to itself; the rest is for the others.

    >>> shared_out(np.array([1.0, 8.0, 1.0, 1.0]), workers=3)
    ([1], 1.5)
    """
    left, number, heavy = float(amounts.sum()), workers, []
    for place in np.argsort(-amounts, kind="stable")[: workers - 1].tolist():
        if left <= 0 or amounts[place] * number < left:
            break
        left, number = left - float(amounts[place]), number - 1
        heavy.append(place)
    return heavy, max(0.0, left) / number
