"""The machine: hosts, links and outages together, checked, and as arrays for the time plane."""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from shoal.errors import ConfigError, did_you_mean
from shoal.model.control.topology import Topology
from shoal.runtimes.simulated.machine.hosts import Host, Link, Outage, check_amount, check_name, check_size
from shoal.runtimes.simulated.machine.routes import MOST_ROUTED, Numbers, Routes, shortest_routes, star_routes, unjoined

Floats = NDArray[np.float64]
HUB = "hub"
REMOTE_BYTE_S = 0.5e-9
"""Extra seconds per byte that a core reads from another memory node of its host, all cores at work.

Published figures of two-socket Xeons (Intel Memory Latency Checker, reads only, all cores of a socket together): local
113 GB/s and remote 34 GB/s on Cascade Lake, 112 and 34 on Skylake (Xeon Platinum 8160, 24 cores a socket), where a core
loses 24 / 34 - 24 / 112 = 0.49 ns per byte. With 18 cores it is 0.37 ns; a core that waits for each cache line alone
loses (140.4 - 80.8) ns / 64 bytes = 0.93 ns.
"""
QUEUE_S = (0.07e-6, 0.4e-6, 0.45e-6, 0.5e-6, 0.515e-6, 0.53e-6, 0.54e-6, 0.55e-6, 0.555e-6)
"""Seconds per access of a queue with 1 to 9 workers of one memory node on it; workers that come meanwhile wait.

The first two are measured (`experiments/simulator.yaml`, shared-queue), the others extrapolated: see
docs/design/simulated.md.
"""
"""About how many random factors and times are drawn."""
REMOTE_QUEUE_S = 0.35e-6
"""More seconds per access of a queue that workers of several memory nodes share."""


@dataclass(frozen=True)
class Machine:
    """Hosts, what joins them, and what becomes of them.

    Cores are workers, numbered host by host. Memory nodes are numbered the same way. `switches` are ends of links that
    are no hosts. `queue_s`: seconds per access of a queue, by the number of workers on it, beginning with one; beyond
    its end it goes on in a straight line. `remote_queue_s`: what an access takes more if the workers are of several
    memory nodes. `slowdown`: factor of all work on a host, by the number of its workers that are busy, beginning with
    one; beyond its end it stays. `turn_slowdown`: the same of the fixed part of a turn, if it has factors of its own.
    `long_slowdown`: the same of what a turn works beyond `long_s`, if that has factors of its own.
    `wake_ups`: seconds until an idle worker begins a turn, for each of the factors of a fixed part values that occur
    equally often; `pauses`: the same between two turns of a worker that has more to do.
    `spark`: hosts are executors of Spark and cores their slots.

    >>> machine = Machine((Host("a", 2), Host("b", 4, memory_nodes=2)), (Link("a", "b", 1e6), Link("b", "a", 1e6)))
    >>> machine.workers, machine.topology.node_of, machine.route(0, 1)
    (6, (0, 0, 1, 1, 2, 2), (0,))
    """

    hosts: tuple[Host, ...]
    links: tuple[Link, ...] = ()
    outages: tuple[Outage, ...] = ()
    switches: tuple[str, ...] = (HUB,)
    remote_byte_s: float = REMOTE_BYTE_S
    queue_s: tuple[float, ...] = QUEUE_S
    slowdown: tuple[float, ...] = (1.0,)
    spark: bool = False
    remote_queue_s: float = REMOTE_QUEUE_S
    turn_slowdown: tuple[float, ...] = ()
    wake_ups: tuple[tuple[float, ...], ...] = ()
    pauses: tuple[tuple[float, ...], ...] = ()
    long_slowdown: tuple[float, ...] = ()
    long_s: float = math.inf

    def __post_init__(self) -> None:
        """Reject a machine whose parts do not fit together."""
        check_size(len(self.hosts), self.workers)
        for switch in self.switches:
            check_name(switch, "a switch")
        _check_single((*self._names, *self.switches), "hosts and switches must have names of their own")
        self._check_curves()
        self._check_links()
        self._check_outages()

    def _check_curves(self) -> None:
        check_amount(self.remote_byte_s, "remote_byte_s of a machine")
        check_amount(self.remote_queue_s, "remote_queue_s of a machine")
        if not self.queue_s or not self.slowdown:
            raise ConfigError("queue_s and slowdown of a machine must have at least one value each; got none")
        for value in self.queue_s:
            check_amount(value, "every value of queue_s of a machine")
        for factor in (*self.slowdown, *self.turn_slowdown, *self.long_slowdown):
            if not 0 < factor < math.inf:
                raise ConfigError(f"every factor of slowdown must be above 0 and finite; got {factor:g}")
        for name, rows in (("wake_ups", self.wake_ups), ("pauses", self.pauses)):
            if rows and (len({len(each) for each in rows}) > 1 or not rows[0]):
                raise ConfigError(f"{name} of a machine must be rows of equal length, with at least one value")
            if rows and len(rows) != len(self.turn_slowdown):
                raise ConfigError(
                    f"a machine must have {name} for each factor of turn_slowdown; got {len(rows)} and "
                    f"{len(self.turn_slowdown)}"
                )
            for value in (each for row in rows for each in row):
                check_amount(value, f"every value of {name} of a machine")

    def _check_links(self) -> None:
        known = {*self._names, *self.switches}
        for link in self.links:
            for end in (link.source, link.target):
                if end not in known:
                    near = did_you_mean(end, known)
                    raise ConfigError(f"link {link.name} must join hosts or switches; got end {end!r}{near}")
        _check_single([link.name for link in self.links], "there must be one link from an end to another")
        apart = unjoined(self._names, self.links)
        if apart is not None:
            raise ConfigError(f"hosts must be joined by links; no route leads from {apart[0]!r} to {apart[1]!r}")
        if self._star is None and len(known) > MOST_ROUTED:
            raise ConfigError(
                f"a network of more than {MOST_ROUTED} hosts and switches must be a star, with a link from every host "
                f"to one switch and back and no other; got {len(known):,} hosts and switches"
            )

    def _check_outages(self) -> None:
        known = {*self._names, *(link.name for link in self.links)}
        for outage in self.outages:
            if outage.what not in known:
                near = did_you_mean(outage.what, known)
                raise ConfigError(f"an outage must be of a host or of a link; got {outage.what!r}{near}")
        ordered = sorted(self.outages, key=lambda outage: (outage.what, outage.at_s))
        for before, after in pairwise(ordered):
            if before.what == after.what and after.at_s < before.until_s:
                raise ConfigError(
                    f"outages of {after.what!r} must not overlap; got one until {before.until_s:g} s "
                    f"and one from {after.at_s:g} s"
                )

    @cached_property
    def _names(self) -> tuple[str, ...]:
        return tuple(host.name for host in self.hosts)

    @cached_property
    def _star(self) -> Routes | None:
        return star_routes(self._names, self.links)

    @cached_property
    def workers(self) -> int:
        """Number of cores in all."""
        return sum(host.cores for host in self.hosts)

    @cached_property
    def topology(self) -> Topology:
        """The memory node of every worker, as policies see it."""
        return Topology(tuple(self.worker_node.tolist()))

    @cached_property
    def routes(self) -> Routes:
        """The links between all pairs of hosts."""
        return self._star or shortest_routes(self._names, self.switches, self.links)

    def route(self, source: int, target: int) -> tuple[int, ...]:
        """The numbers of the links from one host to another; none to itself."""
        return self.routes.between(source, target)

    @cached_property
    def worker_host(self) -> Numbers:
        """The host of every worker."""
        return _whole(number for number, host in enumerate(self.hosts) for _ in range(host.cores))

    @cached_property
    def worker_node(self) -> Numbers:
        """The memory node of every worker; nodes are numbered through all hosts."""
        before = np.cumsum([0, *(host.memory_nodes for host in self.hosts)]).tolist()
        return _whole(before[number] + node for number, host in enumerate(self.hosts) for node in host.node_of)

    @cached_property
    def node_host(self) -> Numbers:
        """The host of every memory node."""
        return _whole(number for number, host in enumerate(self.hosts) for _ in range(host.memory_nodes))

    @cached_property
    def host_speed(self) -> Floats:
        """The speed of every host."""
        return _real(host.speed for host in self.hosts)

    @cached_property
    def host_busy_w(self) -> Floats:
        """The power of a busy core of every host."""
        return _real(host.busy_w for host in self.hosts)

    @cached_property
    def host_idle_w(self) -> Floats:
        """The power of an idle core of every host."""
        return _real(host.idle_w for host in self.hosts)

    @cached_property
    def host_byte_j(self) -> Floats:
        """The energy per byte that every host sends or receives."""
        return _real(host.byte_j for host in self.hosts)

    @cached_property
    def host_battery_j(self) -> Floats:
        """The energy that every host has, infinite without a battery."""
        return _real(host.battery_j for host in self.hosts)

    @cached_property
    def link_bytes_per_s(self) -> Floats:
        """The bandwidth of every link."""
        return _real(link.bytes_per_s for link in self.links)

    @cached_property
    def link_latency_s(self) -> Floats:
        """The latency of every link."""
        return _real(link.latency_s for link in self.links)

    @cached_property
    def link_segment(self) -> Numbers:
        """The bytes in a full segment of every link."""
        return _whole(link.segment_bytes for link in self.links)

    @cached_property
    def link_overhead(self) -> Numbers:
        """The bytes of headers that a segment of every link has."""
        return _whole(link.overhead_bytes for link in self.links)

    @cached_property
    def host_outages(self) -> tuple[tuple[int, float, float], ...]:
        """Number of the host, begin and end of every time in which a host is down, by begin."""
        return self._outages_of(self._names)

    @cached_property
    def link_outages(self) -> tuple[tuple[int, float, float], ...]:
        """Number of the link, begin and end of every time in which a link is down, by begin."""
        return self._outages_of([link.name for link in self.links])

    def _outages_of(self, names: Sequence[str]) -> tuple[tuple[int, float, float], ...]:
        number = {name: index for index, name in enumerate(names)}
        found = ((number[each.what], each.at_s, each.until_s) for each in self.outages if each.what in number)
        return tuple(sorted(found, key=lambda outage: (outage[1], outage[0])))

    def queue_costs(self, workers: int) -> Floats:
        """Seconds per access of a queue with 1, 2, ... workers on it.

        >>> Machine((Host("a", 8),), queue_s=(1.0, 1.5)).queue_costs(4).tolist()
        [1.0, 1.5, 2.0, 2.5]
        """
        known = self.queue_s[:workers]
        step = max(0.0, self.queue_s[-1] - self.queue_s[-2]) if len(self.queue_s) > 1 else 0.0
        more = (self.queue_s[-1] + step * further for further in range(1, workers - len(known) + 1))
        return _real((*known, *more))

    def waits(self, rows: Sequence[Sequence[float]]) -> Floats:
        """Random seconds as they occur, a row for every factor of a fixed part; none at all without rows."""
        return np.array(rows) if rows else np.zeros((len(self.turn_slowdown or self.slowdown), 1))

    def slowdowns(self, workers: int) -> Floats:
        """Factors of all work on a host with 1, 2, ... busy workers."""
        known = self.slowdown[:workers]
        return _real((*known, *(self.slowdown[-1] for _ in range(workers - len(known)))))


def _check_single(names: Sequence[str], expected: str) -> None:
    name, times = Counter(names).most_common(1)[0] if names else ("", 0)
    if times > 1:
        raise ConfigError(f"{expected}; got {name!r} {times} times")


def _whole(values: Iterable[int]) -> Numbers:
    array = np.fromiter(values, np.int64)
    array.setflags(write=False)
    return array


def _real(values: Iterable[float]) -> Floats:
    array = np.fromiter(values, np.float64)
    array.setflags(write=False)
    return array
