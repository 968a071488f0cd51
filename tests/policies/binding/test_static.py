"""Static bindings: where instances start."""

from collections import Counter

import pytest

from shoal.errors import BindingError
from shoal.language.python.stream import Stream
from shoal.model.control.binding import Binding
from shoal.model.query.aggregate import count, max_
from shoal.model.query.expression import col
from shoal.model.query.graph import Graph
from shoal.model.query.window import tumbling
from shoal.policies.binding.static import STATIC, partitioned, round_robin, shuffled

CARS = Stream("cars", {"ts": "timestamp", "region": "int64", "speed": "float64"}, time="ts")
REGIONS = 7


def regional() -> Graph:
    """Two queries for each region, all behind the region's own filter."""
    parts = [(region, CARS.filter(col("region") == region)) for region in range(REGIONS)]
    counts = [part.window(tumbling(1)).aggregate(n=count()).sink(f"n[{r}]") for r, part in parts]
    fastest = [part.window(tumbling(2)).aggregate(top=max_("speed")).sink(f"top[{r}]") for r, part in parts]
    return Graph.of([*counts, *fastest])


def grouped() -> Graph:
    """Two queries over the same key groups, and one without any."""
    flow = CARS.partition_by("region", groups=REGIONS)
    return Graph.of(
        [
            flow.window(tumbling(1)).aggregate(n=count()).sink("n"),
            flow.window(tumbling(2)).aggregate(top=max_("speed")).sink("top"),
            CARS.window(tumbling(1)).aggregate(n=count()).sink("all"),
        ]
    )


def at_random(graph: Graph, workers: int) -> Binding:
    return shuffled(graph, workers, seed=1)


@pytest.mark.parametrize("graph", [regional(), grouped()], ids=["filters", "key groups"])
@pytest.mark.parametrize("workers", [1, 3, 50])
def test_every_static_policy_binds_every_stateful_instance_and_no_other(graph: Graph, workers: int) -> None:
    for policy in (*STATIC.values(), at_random):
        binding = policy(graph, workers)
        assert set(binding.worker_of) == set(graph.stateful_instances)
        assert binding.workers == workers
        assert policy(graph, workers) == binding


def test_round_robin_deals_instances_out_one_by_one() -> None:
    graph = regional()
    binding = round_robin(graph, 4)
    assert [binding.worker_of[instance] for instance in graph.stateful_instances] == [k % 4 for k in range(2 * REGIONS)]


def test_partitioned_keeps_what_is_behind_one_filter_on_one_worker() -> None:
    graph = regional()
    binding = partitioned(graph, 3)
    workers = {name: binding.worker_of[next(query.operators[-2].instances)] for name, query in graph.queries.items()}
    assert all(workers[f"n[{region}]"] == workers[f"top[{region}]"] == region % 3 for region in range(REGIONS))


def test_partitioned_keeps_equal_key_groups_on_one_worker() -> None:
    graph = grouped()
    binding = partitioned(graph, 3)
    counts, tops, everything = (query.operators[-2] for query in graph.queries.values())
    for group, (one, other) in enumerate(zip(counts.instances, tops.instances, strict=True)):
        assert binding.worker_of[one] == binding.worker_of[other] == group % 3
    assert binding.worker_of[next(everything.instances)] == REGIONS % 3


def test_partitioned_spreads_parts_evenly() -> None:
    graph = grouped()
    parts = Counter(
        partitioned(graph, 4).worker_of[i] for i in next(iter(graph.queries.values())).operators[-2].instances
    )
    assert sorted(parts.values()) == [1, 2, 2, 2]


def test_shuffled_depends_on_its_seed_alone() -> None:
    graph = regional()
    assert shuffled(graph, 4, seed=1) == shuffled(graph, 4, seed=1)
    assert shuffled(graph, 4, seed=1) != shuffled(graph, 4, seed=2)
    assert len(set(shuffled(graph, 4, seed=1).worker_of.values())) > 1


@pytest.mark.parametrize("name", [*STATIC, "shuffled"])
def test_no_workers_is_a_clear_error(name: str) -> None:
    policy = STATIC.get(name, at_random)
    for graph in (regional(), Graph()):
        with pytest.raises(BindingError, match=r"^a binding needs at least one worker; got 0$"):
            policy(graph, 0)
