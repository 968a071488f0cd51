"""Observations: several snapshots merged into one, in the form that policies and triggers use."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from shoal.model.control.binding import Binding
from shoal.model.control.load_columns import LoadColumns
from shoal.model.control.snapshot import Snapshot
from shoal.model.control.topology import Topology
from shoal.policies.binding.loads import Floats, Ints, Loads, summed


def merged_snapshots(snapshots: Sequence[Snapshot]) -> Snapshot:
    """Consecutive snapshots as one: counts and times are summed, backlog and state are the newest."""
    if len(snapshots) == 1:
        return snapshots[0]
    return replace(
        snapshots[-1],
        loads=LoadColumns.merged([snapshot.loads for snapshot in snapshots]),
        period_s=sum(snapshot.period_s for snapshot in snapshots),
        latency_s=_mean([snapshot.latency_s for snapshot in snapshots]),
        busy_s=_added([snapshot.busy_s for snapshot in snapshots]),
    )


def _mean(several: Sequence[Mapping[str, float]]) -> dict[str, float]:
    names = dict.fromkeys(name for one in several for name in one)
    found = {name: [one[name] for one in several if name in one] for name in names}
    return {name: sum(values) / len(values) for name, values in found.items()}


def _added(several: Sequence[tuple[float, ...]]) -> tuple[float, ...]:
    """Sums by worker, over the snapshots that have as many workers as the newest."""
    same = [one for one in several if len(one) == len(several[-1])]
    return tuple(map(sum, zip(*same, strict=True)))


@dataclass(frozen=True, eq=False)
class Observation:
    """Loads under a binding, and the work of every worker until the horizon."""

    loads: Loads
    binding: Binding
    topology: Topology
    horizon_s: float
    busy: float = 0.0
    """Utilisation: the share of their time that all workers were busy."""
    numbers: tuple[int, ...] = ()
    """The numbers by which others know the workers; empty if they are the same."""

    @classmethod
    def of(cls, loads: Loads, snapshot: Snapshot, horizon_s: float) -> "Observation":
        """The observation of a snapshot, with its own loads or those of a forecast."""
        binding = snapshot.binding
        topology = snapshot.topology
        if topology is None or topology.workers != binding.workers:
            topology = Topology.of(1, binding.workers)
        time_s = snapshot.period_s * binding.workers
        return cls(loads, binding, topology, horizon_s, sum(snapshot.busy_s) / time_s if time_s else 0.0)

    @property
    def latency_s(self) -> Mapping[str, float]:
        """Mean latency of every result table that had rows."""
        return self.loads.latency_s

    @cached_property
    def work_s(self) -> Floats:
        """Work of every instance until the horizon."""
        return self.loads.work_s(self.horizon_s)

    @cached_property
    def placed(self) -> Ints:
        """The worker of every instance."""
        return self.loads.placed(self.binding, self.topology)

    @cached_property
    def worker_s(self) -> Floats:
        """Work of every worker until the horizon."""
        return self.under(self.binding)

    def under(self, binding: Binding) -> Floats:
        """Work of every worker under another binding, which may have more or fewer of them."""
        return summed(self.work_s, self.placed_by(binding), binding.workers)

    def placed_by(self, binding: Binding) -> Ints:
        """The worker of every instance under another binding."""
        return np.array([binding.worker_of[instance] for instance in self.loads.instances], dtype=np.int64)

    def moving_s(self, state_bytes: float, source: int, target: int) -> float:
        """How long a move takes: as learned, and no less than the link between the hosts needs, where that is known."""
        topology = self.topology
        learned_s = self.loads.costs.seconds(state_bytes, topology.node_of[source], topology.node_of[target])
        if topology.hosts is None:
            return learned_s
        here, there = topology.hosts.of_worker[[source, target]].tolist()
        way = topology.hosts.ways.onward(here)
        return max(learned_s, float(way.latency_s[there]) + state_bytes / float(way.bytes_per_s[there]))

    def host_of(self, worker: int) -> str:
        """The name of the host of a worker; empty where the runtime does not know."""
        hosts = self.topology.hosts
        return "" if hosts is None else hosts.names[int(hosts.of_worker[worker])]

    @property
    def busiest(self) -> int:
        """The worker with most work."""
        worker = int(self.worker_s.argmax())
        return self.numbers[worker] if self.numbers else worker

    @property
    def peak(self) -> float:
        """Work of the busiest worker over the mean of all; 1 if there is no work."""
        return peak(self.worker_s)

    @property
    def slowest_s(self) -> float:
        """Latency of the slowest result table; 0 if none had rows."""
        return max(self.latency_s.values(), default=0.0)


def peak(worker_s: Floats) -> float:
    """The largest over the mean.

    >>> peak(np.array([1.0, 3.0])), peak(np.zeros(2))
    (1.5, 1.0)
    """
    mean = float(worker_s.mean())
    return float(worker_s.max()) / mean if mean > 0 else 1.0
