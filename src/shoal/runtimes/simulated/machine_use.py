"""The use of a machine: how busy its hosts were, what links have carried, and the energy that took.

A busy core has the power `busy_w` of its host, any other `idle_w` while the host is up; a byte costs `byte_j` at both
ends of every link. A host whose battery is empty fails, to the accuracy of a hundredth of an epoch.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from shoal.runtimes.simulated.engine.simulation import Simulation
from shoal.runtimes.simulated.machine.machine import Machine

Floats = NDArray[np.float64]
MOST_REPORTED = 100
"""Hosts and links in a report; of more, those that were used most."""


class MachineUse:
    """Counts what the simulations of one run have done, one after another."""

    def __init__(self, machine: Machine) -> None:
        """Nothing was used yet."""
        self.machine = machine
        self.failed: frozenset[int] = frozenset()
        """Hosts whose batteries are empty."""
        self._busy_s, self._up_s = np.zeros(len(machine.hosts)), np.zeros(len(machine.hosts))
        self._carried = np.zeros(len(machine.links))
        self._at_s = 0.0
        number = {host.name: place for place, host in enumerate(machine.hosts)}
        self._ends = [
            np.array([number.get(getattr(link, end), -1) for link in machine.links], np.int64)
            for end in ("source", "target")
        ]
        cores = np.array([host.cores for host in machine.hosts])
        most_w = cores * np.maximum(machine.host_busy_w, machine.host_idle_w)
        most_w = most_w + machine.host_byte_j * sum(self._per_host(end, machine.link_bytes_per_s) for end in self._ends)
        self._cores, self._most_w = cores, most_w
        self._has_battery = bool(np.isfinite(machine.host_battery_j).any())

    def follow(self, simulation: Simulation) -> None:
        """Count what a new simulation does."""
        self._simulation = simulation
        self._worked_before_s, self._carried_before = self._worked_s(), simulation.carried()

    def _worked_s(self) -> Floats:
        machine = self.machine
        return np.bincount(machine.worker_host, self._simulation.worked_s(), len(machine.hosts)).astype(np.float64)

    def _per_host(self, end: NDArray[np.int64], of_links: Floats) -> Floats:
        return np.bincount(end[end >= 0], of_links[end >= 0], len(self.machine.hosts)).astype(np.float64)

    def count(self) -> None:
        """Add what was done since the last call."""
        now_s, worked_s, carried = self._simulation.now_s, self._worked_s(), self._simulation.carried()
        up_s = np.full(len(self._up_s), now_s - self._at_s)
        for host, begin_s, end_s in self.machine.host_outages:
            up_s[host] -= max(0.0, min(now_s, end_s) - max(self._at_s, begin_s))
        up_s[list(self.failed)] = 0.0
        self._busy_s += worked_s - self._worked_before_s
        self._carried += carried - self._carried_before
        self._up_s += up_s
        self._at_s, self._worked_before_s, self._carried_before = now_s, worked_s, carried

    def joules(self) -> Floats:
        """The energy that every host has used."""
        machine = self.machine
        idle_s = np.maximum(0.0, self._cores * self._up_s - self._busy_s)
        moved = sum(self._per_host(end, self._carried) for end in self._ends)
        used: Floats = self._busy_s * machine.host_busy_w + idle_s * machine.host_idle_w + moved * machine.host_byte_j
        return used

    def left_j(self) -> Floats | None:
        """What is left in the batteries, infinite on hosts without one; None if no host has one."""
        return np.maximum(0.0, self.machine.host_battery_j - self.joules()) if self._has_battery else None

    def checked_at_s(self, until_s: float, least_s: float) -> float:
        """When batteries have to be looked at again: before the first can be empty, or soon if that is very soon."""
        if not self._has_battery:
            return until_s
        with np.errstate(divide="ignore"):
            left_s = (self.machine.host_battery_j - self.joules()) / self._most_w
        left_s[list(self.failed)] = np.inf
        return min(until_s, self._at_s + max(least_s, float(left_s.min())))

    def emptied(self) -> list[int]:
        """The hosts whose batteries have become empty since the last call."""
        if not self._has_battery:
            return []
        empty = np.flatnonzero(self.joules() >= self.machine.host_battery_j * (1 - 1e-9)).tolist()
        new = [host for host in empty if host not in self.failed]
        self.failed |= frozenset(new)
        return new

    def report(self) -> dict[str, Any]:
        """Hosts and links as plain data, in the order of the machine."""
        machine, joules = self.machine, self.joules()
        sent, received = (self._per_host(end, self._carried) for end in self._ends)
        share = self._busy_s / np.maximum(self._cores * self._up_s, 1e-12)
        hosts = [
            {
                "name": machine.hosts[at].name,
                "cores": machine.hosts[at].cores,
                "busy_share": round(float(share[at]), 6),
                "bytes_sent": round(float(sent[at])),
                "bytes_received": round(float(received[at])),
                "joules": round(float(joules[at]), 6),
                "battery_left_j": self._left_j(at, float(joules[at])),
                "failed": bool(at in self._simulation_down()),
            }
            for at in _most(share + 1e-18 * (sent + received))
        ]
        could = machine.link_bytes_per_s * max(self._at_s, 1e-12)
        links = [
            {
                "name": machine.links[at].name,
                "bytes": round(float(self._carried[at])),
                "busy_share": round(float(self._carried[at] / could[at]), 6),
            }
            for at in _most(self._carried)
        ]
        return {
            "hosts": hosts,
            "links": links,
            "number_of_hosts": len(machine.hosts),
            "number_of_links": len(machine.links),
            "joules": round(float(joules.sum()), 6),
        }

    def _simulation_down(self) -> set[int]:
        return set(np.flatnonzero(self._simulation.world.hosts["down"] > 0).tolist())

    def _left_j(self, host: int, used_j: float) -> float | None:
        battery_j = self.machine.hosts[host].battery_j
        return None if battery_j == np.inf else round(max(0.0, battery_j - used_j), 6)


def _most(values: Floats) -> list[int]:
    """The places of the largest values, in order of place."""
    if len(values) <= MOST_REPORTED:
        return list(range(len(values)))
    return np.sort(np.argsort(-values, kind="stable")[:MOST_REPORTED]).tolist()
