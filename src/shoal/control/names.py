"""Readable names of instances and times."""

from shoal.model.control.partitioning import DECLARED, Partitioning, number_of
from shoal.model.query.graph import Graph, InstanceId


def instance_names(graph: Graph, partitioning: Partitioning = DECLARED) -> dict[InstanceId, str]:
    """A name for every instance: the kind of its operator and the first query that uses it.

    >>> from shoal.workloads.traffic.queries import queries
    >>> graph = Graph.of(queries(2))
    >>> instance_names(graph)[graph.stateful_instances[-1]]
    'aggregate of top_speed[1]'
    """
    names: dict[InstanceId, str] = {}
    for query in graph.queries.values():
        for operator in query.operators:
            instances = partitioning.instances_of(operator)
            for instance in instances:
                part = f", instance {number_of(instance)}" if len(instances) > 1 else ""
                names.setdefault(instance, f"{operator.kind} of {query.name}{part}")
    return names


def readable(seconds: float) -> str:
    """A time in the unit that fits.

    >>> readable(2.5), readable(0.0304)
    ('2.5 s', '30.4 ms')
    """
    return f"{seconds:.3g} s" if seconds >= 1 else f"{seconds * 1000:.3g} ms"


def readable_bytes(number: float) -> str:
    """A size in the unit that fits.

    >>> readable_bytes(2_500_000), readable_bytes(16)
    ('2.5 MB', '16 bytes')
    """
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if number >= size:
            return f"{number / size:.3g} {unit}"
    return f"{number:.0f} bytes"
