"""Bindings that are chosen once: where instances start before anything has been measured.

Each gives every stateful instance a worker; a number of workers below one is for the binding to refuse.
"""

import random
from collections.abc import Callable, Mapping

from shoal.model.binding import Binding
from shoal.model.graph import Graph, InstanceId


def round_robin(graph: Graph, workers: int) -> Binding:
    """Bind instance number k to worker k mod workers."""
    return Binding.of({instance: k % max(1, workers) for k, instance in enumerate(graph.stateful_instances)}, workers)


def partitioned(graph: Graph, workers: int) -> Binding:
    """Keep together what belongs together: the instances of one part share a worker, parts go round-robin.

    The parts are the key groups of `partition_by` and, for queries that select their part with a filter
    directly behind the source (`region == 7`), everything behind the same filter.
    """
    part_of: dict[InstanceId, str] = {}
    for query in graph.queries.values():
        first = query.operators[1]
        for operator in query.operators:
            for group, instance in enumerate(operator.instances):
                part_of.setdefault(instance, f"group {group}" if operator.groups > 1 else first.id)
    parts = dict.fromkeys(part_of[instance] for instance in graph.stateful_instances)
    number_of = {part: number for number, part in enumerate(parts)}
    return Binding.of({i: number_of[part_of[i]] % max(1, workers) for i in graph.stateful_instances}, workers)


def shuffled(graph: Graph, workers: int, seed: int) -> Binding:
    """Bind every instance to a worker drawn at random: what the tests use to show that a binding changes no result."""
    draw = random.Random(seed)
    return Binding.of({instance: draw.randrange(max(1, workers)) for instance in graph.stateful_instances}, workers)


STATIC: Mapping[str, Callable[[Graph, int], Binding]] = {"round-robin": round_robin, "partition": partitioned}
"""Static policies by the names the command line knows."""
