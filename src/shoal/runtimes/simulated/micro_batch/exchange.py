"""Exchanges: how long bytes between executors take, with links that all of them share."""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from shoal.errors import RunError
from shoal.runtimes.simulated.machine.machine import Machine

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def between_hosts(sources: Ints, targets: Ints, sizes: Floats, hosts: int) -> Floats:
    """Bytes from every host to every other."""
    found = np.zeros((hosts, hosts))
    np.add.at(found, (sources, targets), sizes)
    np.fill_diagonal(found, 0.0)
    return found


def exchanged_s(machine: Machine, sent: Floats, begin_s: float) -> float:
    """When the last byte has arrived, if all are sent at the same time.

    Flows share links fairly, so the link with the most to carry for its bandwidth is the last to finish. A link that is
    down carries nothing meanwhile. `sent` holds the bytes from every host to every other.
    """
    if not machine.links or not sent.any():
        return begin_s
    load, latency_s = _link_loads(machine, sent)
    used = np.flatnonzero(load)
    carry_s = load[used] * (1 + machine.link_overhead[used] / machine.link_segment[used])
    carry_s /= machine.link_bytes_per_s[used]
    ends = (
        _end_s(machine, link, begin_s, each_s) for link, each_s in zip(used.tolist(), carry_s.tolist(), strict=True)
    )
    return max(ends, default=begin_s) + latency_s


def _link_loads(machine: Machine, sent: Floats) -> tuple[Floats, float]:
    """The bytes on every link, and the longest latency of a route that is used."""
    load, routes = np.zeros(len(machine.links)), machine.routes
    if routes.is_star:
        up, down = sent.sum(axis=1), sent.sum(axis=0)
        load[routes.uplink] = up
        load[routes.downlink] = down
        latencies = machine.link_latency_s
        return load, float(latencies[routes.uplink][up > 0].max() + latencies[routes.downlink][down > 0].max())
    longest_s = 0.0
    for source, target in zip(*(each.tolist() for each in np.nonzero(sent)), strict=True):
        route = list(routes.between(source, target))
        load[route] += sent[source, target]
        longest_s = max(longest_s, float(machine.link_latency_s[route].sum()))
    return load, longest_s


def _end_s(machine: Machine, link: int, begin_s: float, carry_s: float) -> float:
    """When a link has carried what takes it so long, with the times in which it is down."""
    end_s = begin_s + carry_s
    for down_s, up_s in _outages(machine, link):
        if up_s <= begin_s:
            continue
        if down_s >= end_s:
            break
        if up_s == float("inf"):
            raise RunError(f"the simulated run cannot go on: link {machine.links[link].name} does not return")
        end_s += up_s - max(down_s, begin_s)
    return end_s


def _outages(machine: Machine, link: int) -> Iterable[tuple[float, float]]:
    return ((begin_s, end_s) for each, begin_s, end_s in machine.link_outages if each == link)


def collected_s(machine: Machine, size: float) -> float:
    """How long results take to the driver, whose link is like that of the first executor."""
    if not machine.links or not size:
        return 0.0
    link = machine.links[0]
    return size * (1 + link.overhead_bytes / link.segment_bytes) / link.bytes_per_s + link.latency_s
