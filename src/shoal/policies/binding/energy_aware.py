"""The policy `energy-aware`: instances are where work and bytes take the least power.

1. A worker may be busy for a share of its time at most, and hosts whose batteries are nearly empty get nothing.
2. Instances of workers and hosts that violate this move first, to the host where they take the least power. If there is
   room nowhere, they move to where the share is exceeded least, if that is less than where they are.
3. Then instances and whole partitions move to hosts where they take less power, as long as that saves a little.

The power of an instance is that of its work, more than the core would take idle, and of the bytes that it exchanges
with streams and other instances, on all hosts that these pass. It grows with no move, so the search ends.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from shoal.errors import ConfigError
from shoal.model.control.binding import Binding
from shoal.model.control.topology import Topology
from shoal.policies.binding.demand import Demand
from shoal.policies.binding.goal import Aim
from shoal.policies.binding.loads import Floats, Ints, Loads
from shoal.policies.binding.refinement import grouped

NAME = "energy-aware"
_MARGIN = 1e-9
"""Share of a worker's time, and of all power, that is ignored; sums in another order differ by less."""
_LEAST_W = 1e-12
_LEAVING = 1e9
"""Weight of an instance on a host that dies: more than that of any time above the share."""
_PENALTY = 1000.0
"""How many times the power an instance counts where it must not be."""


@dataclass(frozen=True)
class EnergyAware:
    """Places instances by power; `share` is how busy a worker may be, `reserve_s` how long a battery must last.

    A battery counts as nearly empty if it would not last that long with all cores of its host as busy as allowed. A
    move has to save `least` of all power, so that the binding is kept if it is good enough.
    """

    share: float = 0.8
    reserve_s: float = 60.0
    least: float = 0.002

    measure = "the power of work and links, in watts,"

    def __post_init__(self) -> None:
        """Reject a share of nothing, and a reserve or gain below zero."""
        if not 0 < self.share <= 1:
            raise ConfigError(f"share of the policy {NAME} must be above 0 and at most 1; got {self.share}")
        for name in ("reserve_s", "least"):
            if not getattr(self, name) >= 0:
                raise ConfigError(f"{name} of the policy {NAME} must be 0 or more; got {getattr(self, name)}")

    def propose(self, loads: Loads, binding: Binding, topology: Topology) -> Binding:
        """The binding once no move saves enough power."""
        search = _Search(self, Demand(loads, binding, topology, NAME))
        search.relieve()
        while search.improve():
            pass
        return loads.bound(binding, search.placed) if search.moved else binding

    def judge(self, loads: Loads, binding: Binding, topology: Topology) -> "PowerJudge":
        """Values placements by power."""
        return PowerJudge(self, Demand(loads, binding, topology, NAME))


class PowerJudge:
    """Violation is the square of time above the share, and instances on hosts to be left; the amount is power."""

    def __init__(self, policy: EnergyAware, demand: Demand) -> None:
        """Values placements of the instances of a demand."""
        hosts = demand.hosts
        if not hosts.has_energy:
            raise ConfigError(f"policy {NAME} needs the energy of hosts; the topology has none: give hosts `energy`")
        self.policy, self.demand = policy, demand
        used_w = hosts.cores * (policy.share * hosts.busy_w + (1 - policy.share) * hosts.idle_w)
        self.leaving = hosts.battery_j < policy.reserve_s * used_w
        if self.leaving[demand.host_of].all():
            self.leaving = np.zeros_like(self.leaving)  # there is nowhere else to go

    def aim(self, placed: Ints) -> Aim:
        """How far a placement is from the goal."""
        over = _over(self.demand.utilisation(placed), self.policy.share).sum()
        leaving = self.leaving[self.demand.host_of[placed]].sum()
        return Aim(float(over + _LEAVING * leaving), self.demand.watts(placed))

    def cost(self, placed: Ints, place: int, worker: int) -> float:
        """The power of a place on a worker; many times as much where it must not be."""
        demand = self.demand
        host, busy = int(demand.host_of[worker]), demand.utilisation(placed)
        there = busy[worker] + (demand.work[place] / demand.speed[worker] if placed[place] != worker else 0.0)
        over = max(0.0, float(there) - self.policy.share - _MARGIN) + float(self.leaving[host])
        watts = float(demand.watts_on([place], placed)[host])
        return max(_LEAST_W, watts) * (1 + _PENALTY * over)


def _over(busy: Floats, share: float) -> Floats:
    """By how much workers exceed their share; the square, so that it is less if several exceed it by a little."""
    over: Floats = np.maximum(0.0, busy - share - _MARGIN) ** 2
    return over


class _Search:
    """The search for a placement, and how busy every worker is under it."""

    def __init__(self, policy: EnergyAware, demand: Demand) -> None:
        self._policy, self._demand = policy, demand
        self._leaving = PowerJudge(policy, demand).leaving
        self.placed = demand.placed.copy()
        self.moved = False
        self._busy = demand.utilisation(self.placed)
        self._workers_of = [np.flatnonzero(demand.host_of == host) for host in range(len(demand.hosts.names))]
        self._usable = ~self._leaving & np.array([len(workers) > 0 for workers in self._workers_of])
        singles = [[place] for place in range(len(self.placed))]
        self._units = singles + [members for members in grouped(demand.loads.partition) if len(members) > 1]
        self._least_w = max(policy.least * demand.watts(self.placed), _LEAST_W)

    def relieve(self) -> None:
        """Empty the hosts that are to be left, then relieve the workers that are too busy."""
        demand = self._demand
        for place in np.argsort(-demand.work, kind="stable").tolist():
            if self._leaving[demand.host_of[self.placed[place]]]:
                self._to_cheapest(place, anywhere=True)
        for worker in np.argsort(-self._busy, kind="stable").tolist():
            members = np.flatnonzero(self.placed == worker)
            for place in members[np.argsort(-demand.work[members], kind="stable")].tolist():
                if self._busy[worker] <= self._policy.share + _MARGIN:
                    break
                self._to_cheapest(place, anywhere=False)

    def _to_cheapest(self, place: int, *, anywhere: bool) -> None:
        """Move a place to the host with room where it takes the least power, else to where limits are exceeded least.

        `anywhere`: even if they are then exceeded by more than where it is.
        """
        demand, here = self._demand, int(self.placed[place])
        watts = demand.watts_on([place], self.placed)
        for host in np.argsort(watts, kind="stable").tolist():
            room = self._room([place], host) if self._usable[host] else None
            if room is not None and room[0] != here:
                self._move([place], room)
                return
        share, own = self._policy.share, demand.work[place] / demand.speed
        added = _over(self._busy + own, share) - _over(self._busy, share)
        added[~self._usable[demand.host_of]] = np.inf
        added[here] = np.inf
        target = int(np.lexsort((self._busy + own, added))[0])
        saved = float((_over(self._busy, share) - _over(self._busy - own, share))[here])
        if np.isfinite(added[target]) and (anywhere or added[target] < saved - _MARGIN):
            self._move([place], [target])

    def _room(self, unit: Sequence[int], host: int) -> list[int] | None:
        """A worker of a host for every place of a unit, the least busy first; None if there is no room for all."""
        demand, workers = self._demand, self._workers_of[host]
        busy = self._busy[workers].copy()
        for place in unit:  # those that are on the host already make room for themselves
            own = np.flatnonzero(workers == self.placed[place])
            busy[own] -= demand.work[place] / demand.speed[self.placed[place]]
        found: list[int] = []
        for place in unit:
            at = int(busy.argmin())
            busy[at] += demand.work[place] / demand.speed[workers[at]]
            if busy[at] > self._policy.share + _MARGIN:
                return None
            found.append(int(workers[at]))
        return found

    def improve(self) -> bool:
        """Move every unit once to where it takes less power; returns whether any has moved."""
        moved = False
        for unit in self._units:
            hosts = set(self._demand.host_of[self.placed[unit]].tolist())
            watts = self._demand.watts_on(unit, self.placed)
            now_w = float(watts[hosts.pop()]) if len(hosts) == 1 else self._spread_w(unit)
            for host in np.argsort(watts, kind="stable").tolist():
                if watts[host] > now_w - self._least_w:
                    break
                room = self._room(unit, host) if self._usable[host] else None
                if room is not None:
                    self._move(unit, room)
                    moved = True
                    break
        return moved

    def _spread_w(self, unit: Sequence[int]) -> float:
        """The power of a unit that is on several hosts."""
        apart = self.placed.copy()
        apart[unit] = self._workers_of[int(self._demand.host_of[self.placed[unit[0]]])][0]
        together = float(self._demand.watts_on(unit, apart)[self._demand.host_of[apart[unit[0]]]])
        return together + self._demand.watts(self.placed) - self._demand.watts(apart)

    def _move(self, unit: Sequence[int], workers: Sequence[int]) -> None:
        self.placed[list(unit)] = workers
        self._busy = self._demand.utilisation(self.placed)
        self.moved = True
