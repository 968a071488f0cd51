"""Topologies: which workers there are, and the nodes they live on."""

from dataclasses import dataclass, field
from functools import cached_property

from shoal.errors import ConfigError
from shoal.model.control.hosts import Hosts


@dataclass(frozen=True)
class Topology:
    """Worker -> node: a processor's memory node, a Spark executor, a host.

    `shared`: the workers of a node serve one queue, from which each takes the work of any instance, so that none idles
    while work waits there. That is not so if the instances of a worker are run together, as on local. `hosts`: the
    computers that the workers are on, with speed, links and energy; None where the runtime does not know them.

    >>> topology = Topology.of(nodes=2, workers=5)
    >>> topology.node_of
    (0, 0, 0, 1, 1)
    >>> topology.workers_of
    ((0, 1, 2), (3, 4))
    """

    node_of: tuple[int, ...]
    shared: bool = False
    hosts: Hosts | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Reject nodes without workers."""
        if not self.node_of:
            raise ConfigError("a topology needs at least one worker; got none")
        nodes = sorted(set(self.node_of))
        if nodes != list(range(len(nodes))):
            raise ConfigError(f"the nodes of a topology must be numbered from 0 without gaps; got {nodes}")
        if self.hosts is not None and len(self.hosts.of_worker) != len(self.node_of):
            raise ConfigError(
                f"every worker of a topology must have a host; got {len(self.node_of)} workers, "
                f"{len(self.hosts.of_worker)} with hosts"
            )

    @classmethod
    def of(cls, nodes: int, workers: int) -> "Topology":
        """Workers spread over nodes in order; if they do not divide, the first nodes have one more."""
        if not 1 <= nodes <= workers:
            raise ConfigError(f"a topology needs a worker on each of its nodes; got {workers} workers, {nodes} nodes")
        each, more = divmod(workers, nodes)
        return cls(tuple(node for node in range(nodes) for _ in range(each + (node < more))))

    @property
    def workers(self) -> int:
        """Number of workers."""
        return len(self.node_of)

    @property
    def nodes(self) -> int:
        """Number of nodes."""
        return len(self.workers_of)

    @cached_property
    def workers_of(self) -> tuple[tuple[int, ...], ...]:
        """The workers of each node, ascending."""
        found: list[list[int]] = [[] for _ in range(max(self.node_of) + 1)]
        for worker, node in enumerate(self.node_of):
            found[node].append(worker)
        return tuple(map(tuple, found))
