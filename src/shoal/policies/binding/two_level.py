"""The policy `two-level` of the study: partitions to nodes, then sub-partitions to the workers of each node."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from shoal.model.control.binding import Binding
from shoal.model.control.topology import Topology
from shoal.policies.binding.loads import Floats, Loads, summed
from shoal.policies.binding.refinement import grouped, refined

DELTA_S = 0.030


@dataclass(frozen=True)
class TwoLevel:
    """Does nothing until a query takes longer than `delta_s`; then partitions move first, sub-partitions second.

    Partitions ascending by load go from a node above average to the least loaded node, provisionally to its least
    loaded worker. Inside each node sub-partitions ascending by load go from a worker above average to the least
    loaded one. Loads are updated after every move, averages are computed once.

    The study does not define the node of a partition that is spread over several: here it is the node of most of its
    instances; the same for sub-partitions and workers. The study reads the worker of a sub-partition from before the
    node step, so that it may be on another node; here it is read after that step.
    """

    delta_s: float = DELTA_S

    def propose(self, loads: Loads, binding: Binding, topology: Topology) -> Binding:
        """The binding after both steps, or the same one if every query is fast enough."""
        if all(latency_s <= self.delta_s for latency_s in loads.latency_s.values()):
            return binding
        weights = loads.waiting_s
        placed = loads.placed(binding, topology).tolist()
        _to_nodes(placed, grouped(loads.partition), weights, topology)
        _to_workers(placed, refined(loads), weights, topology)
        return loads.bound(binding, np.array(placed, dtype=np.int64))


def _to_nodes(placed: list[int], partitions: Sequence[Sequence[int]], weights: Floats, topology: Topology) -> None:
    """Move whole partitions from nodes above average."""
    node_of = topology.node_of
    weight_of = weights.tolist()
    load = summed(weights, np.array(placed, dtype=np.int64), topology.workers).tolist()
    node_load = [sum(load[worker] for worker in workers) for workers in topology.workers_of]
    average = sum(node_load) / len(node_load)
    total = [sum(weight_of[place] for place in members) for members in partitions]
    for number in sorted(range(len(partitions)), key=total.__getitem__):
        members = partitions[number]
        if node_load[_most(node_of[placed[place]] for place in members)] <= average:
            continue
        node = node_load.index(min(node_load))
        worker = min(topology.workers_of[node], key=load.__getitem__)
        for place in members:
            node_load[node_of[placed[place]]] -= weight_of[place]
            load[placed[place]] -= weight_of[place]
            placed[place] = worker
        node_load[node] += total[number]
        load[worker] += total[number]


def _to_workers(
    placed: list[int], sub_partitions: Sequence[Sequence[int]], weights: Floats, topology: Topology
) -> None:
    """Move sub-partitions, or their members on a node, from the workers of the node above average."""
    weight_of = weights.tolist()
    load = summed(weights, np.array(placed, dtype=np.int64), topology.workers).tolist()
    here: list[list[tuple[float, list[int]]]] = [[] for _ in topology.workers_of]
    for members in sub_partitions:
        for node, some in _by_node(members, placed, topology):
            here[node].append((sum(weight_of[place] for place in some), some))
    for node, workers in enumerate(topology.workers_of):
        average = sum(load[worker] for worker in workers) / len(workers)
        for weight, members in sorted(here[node], key=lambda one: one[0]):
            if load[_most(placed[place] for place in members)] <= average:
                continue
            least = min(workers, key=load.__getitem__)
            for place in members:
                load[placed[place]] -= weight_of[place]
                placed[place] = least
            load[least] += weight


def _by_node(members: Sequence[int], placed: Sequence[int], topology: Topology) -> Iterable[tuple[int, list[int]]]:
    """The members of a sub-partition by node."""
    some: dict[int, list[int]] = {}
    for place in members:
        some.setdefault(topology.node_of[placed[place]], []).append(place)
    return some.items()


def _most(numbers: Iterable[int]) -> int:
    """The most frequent number; the lowest of equals."""
    several = list(numbers)
    different = sorted(set(several))
    return different[0] if len(different) == 1 else max(different, key=several.count)
