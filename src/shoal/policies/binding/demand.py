"""Demand: what instances need on any host, and what that comes to where they are: utilisation, power and latency.

The work of an instance is the share of its time that it would take of a worker of speed 1. It was measured on the host
that the instance is on, so it is scaled by the speed of that host.
"""

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from shoal.errors import ConfigError
from shoal.model.control.binding import Binding
from shoal.model.control.hosts import Hosts, Legs
from shoal.model.control.topology import Topology
from shoal.policies.binding.loads import Floats, Ints, Loads, summed

HORIZON_S = 10.0
"""The time within which a backlog is to be worked off, beside what arrives."""
FULLEST = 0.99
"""Utilisation above which a queue counts as growing."""
OVERLOAD_S = 10.0
"""How long a queue is taken to grow on a worker that has more work than time."""
ROW_BYTES = 64.0
"""Size of a row whose transmission counts in a latency."""


def hosts_known(topology: Topology, policy: str) -> Hosts:
    """The hosts of a topology; a policy that needs them refuses one without."""
    if topology.hosts is None:
        raise ConfigError(
            f"policy {policy} needs the hosts of the workers and the links between them; the topology has none"
        )
    return topology.hosts


class Demand:
    """All instances under any placement: the worker of every place."""

    def __init__(self, loads: Loads, binding: Binding, topology: Topology, policy: str) -> None:
        """Measured under a binding; `policy` is named if the topology does not say enough."""
        self.placed = loads.placed(binding, topology)
        self.hosts = hosts = hosts_known(topology, policy)
        self.topology, self.loads = topology, loads
        self.host_of = hosts.of_worker
        self.speed = hosts.speed[self.host_of]
        here = self.speed[self.placed]
        self.work = loads.work_s(HORIZON_S) / HORIZON_S * here
        self.service = loads.cost_s * here
        self._period_s = loads.period_s or 1.0
        self._legs: dict[tuple[int, bool], Legs] = {}

    def onward(self, host: int) -> Legs:
        """The ways from a host to every host."""
        return self._leg(host, onward=True)

    def back(self, host: int) -> Legs:
        """The ways from every host to a host."""
        return self._leg(host, onward=False)

    def _leg(self, host: int, *, onward: bool) -> Legs:
        known = self._legs.get((host, onward))
        if known is None:
            ways = self.hosts.ways
            known = self._legs[host, onward] = ways.onward(host) if onward else ways.back(host)
        return known

    def utilisation(self, placed: Ints) -> Floats:
        """The share of its time that every worker is busy, above 1 if it has more work than time."""
        return summed(self.work, placed, len(self.speed)) / self.speed

    @cached_property
    def edge_bytes_per_s(self) -> Floats:
        """Bytes per second from instance to instance, edge by edge."""
        rate: Floats = self.loads.edge_bytes / self._period_s
        return rate

    @cached_property
    def inlets(self) -> tuple[Ints, Ints, Floats]:
        """Host, place and bytes per second of all that is read on a host of the machine."""
        paths = self.loads.paths
        hosts = np.array([self.hosts.source_of.get(stream, -1) for stream in paths.streams], np.int64)
        from_host = hosts[paths.inlet_stream] if len(hosts) else paths.inlet_stream
        inside = from_host >= 0
        return from_host[inside], paths.inlet_place[inside], paths.inlet_bytes[inside] / self._period_s

    @cached_property
    def _neighbours(self) -> list[list[tuple[int, float, bool]]]:
        """For every place the others that it exchanges bytes with: place, bytes per second, whether it sends them."""
        found: list[list[tuple[int, float, bool]]] = [[] for _ in self.loads.instances]
        loads = self.loads
        edges = zip(loads.edge_source.tolist(), loads.edge_target.tolist(), self.edge_bytes_per_s.tolist(), strict=True)
        for source, target, rate in edges:
            found[source].append((target, rate, True))
            found[target].append((source, rate, False))
        return found

    @cached_property
    def _read(self) -> list[list[tuple[int, float]]]:
        """For every place the hosts that read its streams, with bytes per second."""
        found: list[list[tuple[int, float]]] = [[] for _ in self.loads.instances]
        for host, place, rate in zip(*(column.tolist() for column in self.inlets), strict=True):
            found[place].append((host, rate))
        return found

    def watts_on(self, unit: Sequence[int], placed: Ints) -> Floats:
        """The power that some places take on every host, all of them there: work, and bytes from and to all others."""
        hosts = self.hosts
        work = float(self.work[list(unit)].sum())
        watts: Floats = work * (hosts.busy_w - hosts.idle_w) / hosts.speed
        members = set(unit)
        for place in unit:
            for other, rate, sends in self._neighbours[place]:
                if other not in members:
                    host = int(self.host_of[placed[other]])
                    watts = watts + rate * (self.back(host) if sends else self.onward(host)).byte_j
            for host, rate in self._read[place]:
                watts = watts + rate * self.onward(host).byte_j
        return watts

    def traffic(self, placed: Ints) -> tuple[Ints, Ints, Floats]:
        """All that goes from one host to another: hosts that send and receive, and bytes per second."""
        host, loads, (from_host, place, read) = self.host_of[placed], self.loads, self.inlets
        here = np.concatenate((host[loads.edge_source], from_host))
        there = np.concatenate((host[loads.edge_target], host[place]))
        rate = np.concatenate((self.edge_bytes_per_s, read))
        apart = here != there
        return here[apart], there[apart], rate[apart]

    def working_w(self, placed: Ints) -> Floats:
        """The power that work takes on every host beyond that of idle cores, which is the same wherever work is."""
        hosts = self.hosts
        work = summed(self.work, self.host_of[placed], len(hosts.names))
        return work * (hosts.busy_w - hosts.idle_w) / hosts.speed

    def watts(self, placed: Ints) -> float:
        """The power of work and of bytes on their way, on all hosts; that of idle cores is not in it."""
        here, there, rate = self.traffic(placed)
        return float(self.working_w(placed).sum() + (rate * self._between(here, there)[2]).sum())

    def _between(self, here: Ints, there: Ints) -> tuple[Floats, Floats, Floats]:
        """Latency, bandwidth and joules per byte of the way from each host to the other."""
        latency_s, byte_j = np.zeros(len(here)), np.zeros(len(here))
        bytes_per_s = np.full(len(here), np.inf)
        for host in np.unique(here).tolist():
            those, legs = np.flatnonzero(here == host), self.onward(host)
            latency_s[those], byte_j[those] = legs.latency_s[there[those]], legs.byte_j[there[those]]
            bytes_per_s[those] = legs.bytes_per_s[there[those]]
        return latency_s, bytes_per_s, byte_j

    def _hops_s(self, here: Ints, there: Ints) -> Floats:
        """The time of a row from each host to the other."""
        latency_s, bytes_per_s, _ = self._between(here, there)
        return latency_s + ROW_BYTES / bytes_per_s

    def waiting_s(self, placed: Ints) -> Floats:
        """How long an event waits for every worker, as in a queue with random arrivals and times of service.

        A queue that grows has the wait of one that is nearly full, and half of what it has grown to after a while.
        """
        busy, number = self.utilisation(placed), len(self.speed)
        weighed = summed(self.work * self.service, placed, number) / self.speed
        total = summed(self.work, placed, number)
        mean_s = np.divide(weighed, total, out=np.zeros(number), where=total > 0)
        full = np.minimum(busy, FULLEST)
        waits: Floats = mean_s * full / (1 - full) + np.maximum(0.0, busy - FULLEST) * OVERLOAD_S / 2
        return waits

    @cached_property
    def _levels(self) -> list[Ints]:
        """The edges in an order in which whatever leads to their sources comes before them."""
        depth = [0] * len(self.loads.instances)
        edges = list(zip(self.loads.edge_source.tolist(), self.loads.edge_target.tolist(), strict=True))
        for source, target in sorted(edges, key=lambda edge: edge[1]):
            depth[target] = max(depth[target], depth[source] + 1)
        level = np.array([depth[target] for _, target in edges], np.int64)
        return [np.flatnonzero(level == each) for each in range(1, int(level.max(initial=0)) + 1)]

    def latency_s(self, placed: Ints) -> Floats:
        """The expected time from the stream to the result of every place, over the slowest of its inputs."""
        host, loads = self.host_of[placed], self.loads
        own_s = self.waiting_s(placed)[placed] + self.service / self.speed[placed]
        reached_s = np.zeros(len(own_s))
        from_host, place, _ = self.inlets
        np.maximum.at(reached_s, place, self._hops_s(from_host, host[place]))
        for edges in self._levels:
            source, target = loads.edge_source[edges], loads.edge_target[edges]
            hops_s = self._hops_s(host[source], host[target])
            np.maximum.at(reached_s, target, reached_s[source] + own_s[source] + hops_s)
        latency_s: Floats = reached_s + own_s
        return latency_s
