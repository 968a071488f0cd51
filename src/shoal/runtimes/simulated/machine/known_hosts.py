"""Known hosts: what policies are told of a machine, and which hosts an announced outage takes away."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from shoal.model.control.hosts import HostDeparture, Hosts, Legs
from shoal.runtimes.simulated.machine.machine import Floats, Machine
from shoal.runtimes.simulated.machine.routes import Numbers

FAILS, CUT_OFF = "is expected to fail", "is expected to lose its link"


@dataclass(frozen=True, eq=False)
class MachineWays:
    """The ways over the routes of a machine; those of a star are computed when asked for, others all at once."""

    machine: Machine

    @cached_property
    def _of_links(self) -> tuple[Floats, Floats, Floats]:
        """Latency, bandwidth without headers and energy per byte of every link."""
        machine = self.machine
        number = {host.name: place for place, host in enumerate(machine.hosts)}
        headers = 1 + machine.link_overhead / machine.link_segment
        joules = np.array(
            [
                sum(machine.hosts[number[end]].byte_j for end in (link.source, link.target) if end in number)
                for link in machine.links
            ],
            np.float64,
        )
        return machine.link_latency_s, machine.link_bytes_per_s / headers, joules * headers

    @cached_property
    def _square(self) -> Legs:
        """All pairs of hosts of a network that is no star, with a row for each that sends."""
        routes, (latency_s, bytes_per_s, byte_j) = self.machine.routes, self._of_links
        shape = routes.hosts, routes.hosts
        pair = np.repeat(np.arange(routes.hosts**2), np.diff(routes.start))
        narrowest = np.full(routes.hosts**2, np.inf)
        np.minimum.at(narrowest, pair, bytes_per_s[routes.link])
        sums = (np.bincount(pair, each[routes.link], routes.hosts**2) for each in (latency_s, byte_j))
        added_s, added_j = (each.astype(np.float64).reshape(shape) for each in sums)
        return Legs(added_s, narrowest.reshape(shape), added_j)

    def onward(self, host: int) -> Legs:
        """From a host to every host."""
        routes = self.machine.routes
        if routes.is_star:
            return self._by_hub(host, int(routes.uplink[host]), routes.downlink)
        square = self._square
        return Legs(square.latency_s[host], square.bytes_per_s[host], square.byte_j[host])

    def back(self, host: int) -> Legs:
        """From every host to a host."""
        routes = self.machine.routes
        if routes.is_star:
            return self._by_hub(host, int(routes.downlink[host]), routes.uplink)
        square = self._square
        return Legs(square.latency_s[:, host], square.bytes_per_s[:, host], square.byte_j[:, host])

    def _by_hub(self, host: int, own: int, others: Numbers) -> Legs:
        latency_s, bytes_per_s, byte_j = self._of_links
        found = Legs(
            latency_s[own] + latency_s[others],
            np.minimum(bytes_per_s[own], bytes_per_s[others]),
            byte_j[own] + byte_j[others],
        )
        found.latency_s[host], found.bytes_per_s[host], found.byte_j[host] = 0.0, np.inf, 0.0
        return found


def known_hosts(machine: Machine) -> Hosts:
    """All that policies may know of a machine: every core is a worker, and no stream is read yet."""
    return Hosts(
        tuple(host.name for host in machine.hosts),
        machine.worker_host,
        np.array([host.cores for host in machine.hosts], np.int64),
        machine.host_speed,
        machine.host_busy_w,
        machine.host_idle_w,
        machine.host_byte_j,
        machine.host_battery_j,
        MachineWays(machine),
        departures=tuple(_departures(machine)),
    )


def _departures(machine: Machine) -> Iterator[HostDeparture]:
    """The hosts that announced outages take away, by the time at which they go."""
    found: dict[tuple[int, float], HostDeparture] = {}
    names = {host.name: number for number, host in enumerate(machine.hosts)}
    links = {link.name: number for number, link in enumerate(machine.links)}
    for outage in sorted(machine.outages, key=lambda each: (each.at_s, each.what)):
        if not outage.announced_s:
            continue
        fails = outage.what in names
        gone = [names[outage.what]] if fails else _cut_off(machine, links[outage.what], outage.at_s)
        for host in gone:
            event = FAILS if fails else CUT_OFF
            new = HostDeparture(host, outage.at_s, outage.until_s, outage.at_s - outage.announced_s, event)
            old = found.get((host, outage.at_s))
            found[host, outage.at_s] = new if old is None else _both(old, new)
    yield from found.values()


def _both(one: HostDeparture, other: HostDeparture) -> HostDeparture:
    """Two departures of a host at one time; a failure counts more than a lost link."""
    return replace(
        one,
        until_s=max(one.until_s, other.until_s),
        known_at_s=min(one.known_at_s, other.known_at_s),
        event=FAILS if FAILS in (one.event, other.event) else CUT_OFF,
    )


def _cut_off(machine: Machine, link: int, at_s: float) -> list[int]:
    """The hosts that are apart from the others when a link goes down, with all links that are down by then.

    Routes do not change, so two hosts are apart if a route between them has a link that is down. Those stay together
    that have most cores; of equals, those with the first host.
    """
    down = {number for number, begin_s, end_s in machine.link_outages if begin_s <= at_s < end_s} | {link}
    routes, cores = machine.routes, np.array([host.cores for host in machine.hosts])
    if routes.is_star:
        lost = np.isin(routes.uplink, list(down)) | np.isin(routes.downlink, list(down))
        stays = ~lost if cores[~lost].sum() >= cores[lost].max(initial=0) else np.arange(len(cores)) == cores.argmax()
        return np.flatnonzero(~stays).tolist()
    pair = np.repeat(np.arange(routes.hosts**2), np.diff(routes.start))
    broken = np.bincount(pair, np.isin(routes.link, list(down)), routes.hosts**2).reshape(routes.hosts, -1) > 0
    joined = ~(broken | broken.T)
    stays = joined[int((joined * cores).sum(axis=1).argmax())]
    return np.flatnonzero(~stays).tolist()
