"""Static policies: bindings that need no measurement, as every run has at its start.

Each binds every stateful instance; `Binding` rejects a number of workers below one.
"""

import random
from collections.abc import Callable, Mapping

from shoal.model.control.binding import Binding
from shoal.model.control.partitioning import DECLARED, Partitioning
from shoal.model.query.graph import Graph, InstanceId


def round_robin(graph: Graph, workers: int) -> Binding:
    """Bind instance number k to worker k mod workers."""
    return Binding.of({instance: k % max(1, workers) for k, instance in enumerate(graph.stateful_instances)}, workers)


def partition_names(graph: Graph, partitioning: Partitioning = DECLARED) -> dict[InstanceId, str]:
    """The partition of every instance.

    Partitions are the key groups of `partition_by` and, for queries that select their region with a filter directly
    after the source (`region == 7`), everything downstream of the same filter. A source is a partition by itself, and
    so is an instance that was split off, since it should go to another worker.
    """
    partition_of: dict[InstanceId, str] = {}
    for query in graph.queries.values():
        first = query.operators[1]
        for operator in query.operators:
            name = operator.id if operator.kind == "source" else first.id
            for group, instance in enumerate(operator.instances):
                partition_of.setdefault(instance, f"group {group}" if operator.groups > 1 else name)
            for instance in partitioning.instances_of(operator):
                partition_of.setdefault(instance, f"instance {instance}")
    return partition_of


def partitioned(graph: Graph, workers: int) -> Binding:
    """Bind all instances of a partition to one worker, partitions round-robin."""
    names = partition_names(graph)
    partitions = dict.fromkeys(names[instance] for instance in graph.stateful_instances)
    number_of = {name: number for number, name in enumerate(partitions)}
    return Binding.of({i: number_of[names[i]] % max(1, workers) for i in graph.stateful_instances}, workers)


def shuffled(graph: Graph, workers: int, seed: int, partitioning: Partitioning = DECLARED) -> Binding:
    """Bind every instance to a random worker; used to show that a binding changes no result."""
    draw = random.Random(seed)
    instances = partitioning.instances(graph)
    return Binding.of({instance: draw.randrange(max(1, workers)) for instance in instances}, workers)


STATIC: Mapping[str, Callable[[Graph, int], Binding]] = {"round-robin": round_robin, "partition": partitioned}
"""Static policies by the names the command line knows."""
