"""Operators by the names of queries, random changes of a partitioning, and the slots of instances."""

import random
from collections.abc import Iterator, Sequence

from shoal.compiler.program import compile_graph
from shoal.errors import PartitioningError
from shoal.model.control.partitioning import Change, Cut, Merge, Partitioning, Regroup, Split, number_of
from shoal.model.query.graph import STATEFUL, Graph, InstanceId, OperatorId
from shoal.model.spatial.tiles import Axis, Tile

MOST_RANDOM_PARTS = 4
MOST_RANDOM_GROUPS = 6


def operator_named(graph: Graph, name: str) -> OperatorId:
    """The operator with this id, or the last stateful operator of the query of this name."""
    if name in graph.operators:
        return OperatorId(name)
    if name not in graph.queries:
        raise PartitioningError(f"{name!r} is neither an operator nor a query; there are {', '.join(graph.queries)}")
    stateful = [operator for operator in graph.queries[name].operators if operator.kind in STATEFUL]
    if not stateful:
        raise PartitioningError(f"query {name!r} has no operator that holds state")
    return stateful[-1].id


def random_changes(graph: Graph, partitioning: Partitioning, draw: random.Random) -> tuple[Change, ...]:
    """Random splits, merges and regroupings of about half of the operators; all of them are valid."""
    found: list[Change] = []
    for operator in graph.operators.values():
        if operator.kind not in STATEFUL or draw.random() < 0.5:
            continue
        instances = partitioning.instances_of(operator)
        change = _drawn(operator.id, instances, draw)
        if operator.grid and draw.random() < 0.5:
            instance = draw.choice(instances)
            change = _cut(instance, partitioning.tiles(operator)[number_of(instance)], draw)
        try:
            after = partitioning.after(change, graph)
            compile_graph(graph, after)
        except PartitioningError:  # an operator without keys, or with one key per instance
            continue
        partitioning = after
        found.append(change)
    return tuple(found)


def _drawn(operator: OperatorId, instances: Sequence[InstanceId], draw: random.Random) -> Change:
    kind = draw.choice(("split", "merge", "regroup"))
    if kind == "merge" and len(instances) > 1:
        return Merge(tuple(draw.sample(instances, draw.randint(2, min(3, len(instances))))))
    if kind == "regroup":
        return Regroup(operator, draw.randint(1, MOST_RANDOM_GROUPS))
    return Split(draw.choice(instances), draw.randint(2, MOST_RANDOM_PARTS))


def _cut(instance: InstanceId, tile: Tile, draw: random.Random) -> Cut:
    """A cut somewhere across a rectangle, which is impossible if that has one cell."""
    axis: Axis = "row" if tile.columns == 1 or (tile.rows > 1 and draw.random() < 0.5) else "column"
    first, last = (tile.left, tile.right) if axis == "column" else (tile.top, tile.bottom)
    return Cut(instance, axis, draw.randint(first + 1, max(first + 1, last - 1)), keeps_last=draw.random() < 0.5)


def changed(partitioning: Partitioning, changes: Sequence[Change], graph: Graph) -> Partitioning:
    """The partitioning after some changes."""
    for change in changes:
        partitioning = partitioning.after(change, graph)
    return partitioning


def instances_on(graph: Graph, partitioning: Partitioning) -> Iterator[tuple[InstanceId, int]]:
    """Every instance that holds state, with the number of slots it has."""
    for operator in graph.operators.values():
        if operator.kind in STATEFUL:
            table = partitioning.table(operator)
            for instance in partitioning.instances_of(operator):
                yield instance, table.count(int(instance.rpartition("/")[2]))
