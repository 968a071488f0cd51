"""The catalog of binding policies: where instances start, and where they go while a job runs."""

from collections.abc import Mapping
from typing import Protocol

from shoal.model.binding import Binding
from shoal.model.topology import Topology
from shoal.policies.greedy import Greedy
from shoal.policies.guarded import Guarded
from shoal.policies.loads import Loads
from shoal.policies.metis import DynamicMetis, Metis
from shoal.policies.two_level import TwoLevel


class BindingPolicy(Protocol):
    """Proposes a binding; the same values give the same answer."""

    def propose(self, loads: Loads, binding: Binding, topology: Topology) -> Binding:
        """The binding it wants instead, for the same instances and workers; the same one where it wants no change."""


DYNAMIC: Mapping[str, BindingPolicy] = {
    "greedy": Greedy(),
    "two-level": TwoLevel(),
    "metis": Metis(),
    "dynamic-metis": DynamicMetis(),
    "guarded": Guarded(),
}
"""Policies that decide by what was measured, with their usual settings."""

ASKED_ONCE = frozenset({"metis"})
"""Those of them that are asked once, after a profile, and not again."""

SUMMARIES: Mapping[str, str] = {
    "round-robin": "instance k on worker k modulo workers; nothing moves",
    "partition": "the instances of a region or key group on one worker, partitions in turn; nothing moves",
    "greedy": "instances by backlog, the lightest first, from workers above average to the least loaded one",
    "two-level": "once a query is slow: partitions between nodes, then their paths between the workers of a node",
    "metis": "a balanced cut of the graph with few bytes across, once, by a profile",
    "dynamic-metis": "a new cut each time, its parts named after the workers that have most of them",
    "guarded": "moves that pay for their state and lost locality; never raises the peak, rests when balanced",
}
"""Every binding policy in one line, the static ones first."""
