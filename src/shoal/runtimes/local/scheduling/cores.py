"""Machines: the cores that this process may use, and their memory nodes, as the operating system reports them."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from shoal.errors import ConfigError
from shoal.model.control.topology import Topology

NODES = Path("/sys/devices/system/node")
PINNINGS = ("none", "node", "core")
"""What worker threads are pinned to: nothing, the cores of their memory node, or one core."""


@dataclass(frozen=True)
class Machine:
    """The usable cores by memory node; nodes without any are left out.

    Worker w gets the w-th core, node by node. So a few workers are close to each other, and adding one does not move
    the others. With more workers than cores, cores are shared.

    >>> machine = Machine(((0, 1), (4, 5)))
    >>> [machine.core_of(worker) for worker in range(5)]
    [0, 1, 4, 5, 0]
    >>> machine.topology(3).node_of
    (0, 0, 1)
    """

    cores_of: tuple[tuple[int, ...], ...]

    @classmethod
    def here(cls, nodes: Path = NODES) -> "Machine":
        """This machine; if it does not report memory nodes, it is one node."""
        usable = _usable()
        found = [
            tuple(sorted(core for core in cores_in(path.read_text()) if core in usable))
            for path in sorted(nodes.glob("node[0-9]*/cpulist"), key=lambda path: int(path.parent.name[4:]))
        ]
        known = {core for cores in found for core in cores}
        if known != usable:
            return cls((tuple(sorted(usable)),))
        return cls(tuple(cores for cores in found if cores))

    @property
    def cores(self) -> int:
        """The number of usable cores."""
        return sum(map(len, self.cores_of))

    def core_of(self, worker: int) -> int:
        """The core of a worker."""
        return [core for cores in self.cores_of for core in cores][worker % self.cores]

    def pin(self, pinning: str) -> Callable[[int], None]:
        """A function that pins the calling thread, given the number of its worker."""
        if pinning == "none":
            return lambda _worker: None
        if not hasattr(os, "sched_setaffinity"):
            raise ConfigError(f"threads cannot be pinned on this system; leave pinning={pinning} out")
        return lambda worker: os.sched_setaffinity(0, self.cores_for(worker, pinning))

    def cores_for(self, worker: int, pinning: str) -> set[int]:
        """The cores that a worker may run on.

        >>> machine = Machine(((0, 1), (4, 5)))
        >>> machine.cores_for(2, "core"), machine.cores_for(2, "node")
        ({4}, {4, 5})
        """
        core = self.core_of(worker)
        return {core} if pinning == "core" else set(next(cores for cores in self.cores_of if core in cores))

    def topology(self, workers: int) -> Topology:
        """The memory nodes of a number of workers."""
        nodes = [node for node, cores in enumerate(self.cores_of) for _ in cores]
        return Topology(tuple(nodes[worker % len(nodes)] for worker in range(workers)))


def cores_in(text: str) -> set[int]:
    """Parse a list of cores as Linux writes it.

    >>> sorted(cores_in("0-3,8,10-11"))
    [0, 1, 2, 3, 8, 10, 11]
    """
    cores: set[int] = set()
    for part in text.strip().split(","):
        first, _, last = part.partition("-")
        if first:
            cores.update(range(int(first), int(last or first) + 1))
    return cores


def _usable() -> set[int]:
    """The cores that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return set(os.sched_getaffinity(0))
    return set(range(os.cpu_count() or 1))
