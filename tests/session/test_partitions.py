"""Partitionings by name and at random."""

import random

import pytest

from shoal.compiler.program import compile_graph
from shoal.errors import PartitioningError
from shoal.language.python.stream import Stream
from shoal.model.control.partitioning import DECLARED, Merge, Regroup, Split
from shoal.model.query.aggregate import count
from shoal.model.query.expression import col
from shoal.model.query.graph import Graph
from shoal.model.query.window import tumbling
from shoal.session.partitions import changed, instances_on, operator_named, random_changes

CARS = Stream("cars", {"ts": "timestamp", "road": "int64", "speed": "float64"}, time="ts")
COUNTED = CARS.partition_by("road", groups=3).window(tumbling(1)).aggregate(n=count())
GRAPH = Graph.of(
    [
        COUNTED.sink("counts"),
        COUNTED.key_by("road").window(tumbling(2)).aggregate(m=count()).sink("twice"),
        CARS.window(tumbling(1)).aggregate(n=count()).sink("all"),
        CARS.filter(col("road") == 1).key_by("road").window(tumbling(1)).aggregate(n=count()).sink("one"),
        CARS.filter(col("speed") > 3).select("ts").sink("fast"),
    ]
)


def test_a_query_stands_for_its_last_operator_with_state() -> None:
    assert operator_named(GRAPH, "twice") == GRAPH.queries["twice"].operators[-2].id
    assert operator_named(GRAPH, GRAPH.queries["counts"].operators[-2].id) == operator_named(GRAPH, "counts")


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        pytest.param("nobody", "'nobody' is neither an operator nor a query", id="an unknown name"),
        pytest.param("fast", "query 'fast' has no operator that holds state", id="a query without state"),
    ],
)
def test_a_name_that_stands_for_no_state_is_rejected(name: str, reason: str) -> None:
    with pytest.raises(PartitioningError, match=reason):
        operator_named(GRAPH, name)


def test_random_changes_are_of_all_kinds_and_can_all_be_made() -> None:
    draw, partitioning = random.Random(0), DECLARED
    kinds: set[type] = set()
    for _ in range(20):
        changes = random_changes(GRAPH, partitioning, draw)
        kinds |= {type(change) for change in changes}
        partitioning = changed(partitioning, changes, GRAPH)
        compile_graph(GRAPH, partitioning)
    assert kinds == {Split, Merge, Regroup}
    counted = dict(instances_on(GRAPH, partitioning))
    assert set(counted) == set(partitioning.instances(GRAPH))
    assert all(counted.values())
