"""Numbered workers: which cores of the machine are the workers 0, 1, ... of a binding."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from shoal.errors import BindingError, ConfigError
from shoal.model.control.hosts import Hosts
from shoal.model.control.topology import Topology
from shoal.runtimes.simulated.machine.known_hosts import known_hosts
from shoal.runtimes.simulated.machine.machine import Floats, Machine


@dataclass(frozen=True)
class Workers:
    """The cores in use, by number of the worker, the cores that are lost, and whether those of a node share a queue.

    `known` is what policies are told of the hosts; nothing by default.
    """

    machine: Machine
    cores: tuple[int, ...]
    lost: frozenset[int] = frozenset()
    shared: bool = False
    known: Hosts | None = field(default=None, repr=False, compare=False)

    @classmethod
    def first(cls, machine: Machine, number: int, *, shared: bool = False) -> "Workers":
        """The first cores of a machine."""
        if number > machine.workers:
            raise ConfigError(
                f"number of workers must be at most {machine.workers:,}, the cores of the topology; got {number:,}"
            )
        return cls(machine, (), shared=shared, known=known_hosts(machine)).of_number(number)

    def of_number(self, number: int) -> "Workers":
        """As many workers on cores that are not lost; those in use come first, and keep their numbers if they can."""
        used = {core for core in self.cores if core not in self.lost}
        others = (core for core in range(self.machine.workers) if core not in self.lost and core not in used)
        kept = {place: core for place, core in enumerate(self.cores[:number]) if core in used}
        spare = [core for core in self.cores[number:] if core in used] + list(others)
        if number > len(kept) + len(spare):
            left = len(kept) + len(spare)
            raise BindingError(f"the machine has {left} cores that work; the binding needs {number} workers")
        free = iter(spare)
        cores = tuple(kept[place] if place in kept else next(free) for place in range(number))
        return replace(self, cores=cores)

    def without(self, cores: frozenset[int]) -> "Workers":
        """The same numbers, with some of their cores lost."""
        return replace(self, lost=self.lost | cores)

    def returned(self, cores: frozenset[int]) -> "Workers":
        """The same numbers, with some lost cores at work again."""
        return replace(self, lost=self.lost - cores)

    @cached_property
    def number_of(self) -> NDArray[np.int64]:
        """The worker on every core; -1 where there is none."""
        found = np.full(self.machine.workers, -1, np.int64)
        found[list(self.cores)] = np.arange(len(self.cores))
        return found

    @cached_property
    def topology(self) -> Topology:
        """The memory nodes of the workers, numbered without gaps, and their hosts."""
        nodes = self.machine.worker_node[list(self.cores)]
        hosts = None if self.known is None else replace(self.known, of_worker=self.known.of_worker[list(self.cores)])
        return Topology(tuple(np.unique(nodes, return_inverse=True)[1].tolist()), self.shared, hosts)

    def topology_with(self, source_of: Mapping[str, int], battery_j: Floats | None) -> Topology:
        """The topology with the hosts that read the streams, and what is left in batteries if there are any."""
        topology = self.topology
        if topology.hosts is None:
            return topology
        left_j = topology.hosts.battery_j if battery_j is None else battery_j
        return replace(topology, hosts=replace(topology.hosts, source_of=source_of, battery_j=left_j))
