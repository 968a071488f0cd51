"""Limits of moves: how many bytes of state the links between hosts carry before the hosts that send them are gone."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence

from shoal.mechanisms.shedding.capacity import TransferLink, capacity_bytes
from shoal.mechanisms.transfer import STATIC_BYTES, SharedCapacity
from shoal.model.control.hosts import Hosts
from shoal.model.control.messages import MoveLimit
from shoal.runtimes.simulated.machine.machine import Machine

HostPair = tuple[int, int]
"""The host that state leaves, and the one that it goes to."""


def deadlines_of(pairs: Sequence[HostPair], hosts: Hosts | None, limit: MoveLimit | None, now_s: float) -> list[float]:
    """When each pair of hosts is parted, as far as it is known by now: the limit says so, or an outage is announced."""
    asked_s = math.inf if limit is None or limit.deadline_s is None else limit.deadline_s
    announced = () if hosts is None else hosts.departures
    known = [each for each in announced if each.known_at_s <= now_s < each.at_s]
    return [min([asked_s, *(each.at_s for each in known if each.host in pair)]) for pair in pairs]


def capacities(
    machine: Machine, hosts: Hosts | None, pairs: Sequence[HostPair], limit: MoveLimit | None, now_s: float
) -> Mapping[HostPair, SharedCapacity]:
    """What can be sent between the hosts of every move, by pair of hosts; without those that have all the time.

    Pairs that share a link have an equal part of its bandwidth each. Before any state, all targets are told to wait.
    """
    moves = Counter(pairs)
    users = Counter(link for pair in moves for link in machine.route(*pair))
    found = dict[HostPair, SharedCapacity]()
    for pair, deadline_s in zip(moves, deadlines_of(list(moves), hosts, limit, now_s), strict=True):
        most, drops = math.inf, limit is not None and limit.capacity_bytes is not None
        if limit is not None and limit.capacity_bytes is not None:
            most = limit.capacity_bytes
        path = [_link(machine, link, users[link]) for link in machine.route(*pair)]
        if path and deadline_s < math.inf:
            left_s = max(0.0, deadline_s - now_s)
            most = min(most, capacity_bytes(path, left_s, _setup_s(path, moves[pair])))
        if most < math.inf:
            found[pair] = SharedCapacity(int(most), drops=drops)
    return found


def _setup_s(path: Sequence[TransferLink], instances: int) -> float:
    """The time in which no state is sent: that of the messages that tell the targets to wait."""
    return instances * max(link.seconds(STATIC_BYTES) for link in path)


def _link(machine: Machine, link: int, users: int) -> TransferLink:
    overhead = int(machine.link_overhead[link])
    return TransferLink(
        float(machine.link_bytes_per_s[link]) / users,
        float(machine.link_latency_s[link]),
        int(machine.link_segment[link]) if overhead else None,
        overhead,
    )
