"""Refinement of partitions by their costliest path."""

from itertools import pairwise

from hypothesis import given, settings
from tests.policies.binding.random_loads import Situation, situation, situations

from shoal.model.control.topology import Topology
from shoal.policies.binding.loads import Load, Loads
from shoal.policies.binding.refinement import grouped, refined


def inner_edges(loads: Loads) -> set[tuple[int, int]]:
    edges = zip(loads.edge_source.tolist(), loads.edge_target.tolist(), strict=True)
    return {(one, other) for one, other in edges if loads.partition[one] == loads.partition[other]}


def costliest(loads: Loads, members: list[int]) -> float:
    """Over all paths, one by one."""
    edges = inner_edges(loads)

    def from_(place: int) -> float:
        behind = [from_(other) for one, other in edges if one == place]
        return float(loads.cost_s[place]) + max(behind, default=0.0)

    return max(from_(place) for place in members)


def connected(some: set[int], edges: set[tuple[int, int]]) -> set[int]:
    """What of some places is connected with the lowest of them."""
    found = {min(some)}
    while more := {b for a, b in edges | {(b, a) for a, b in edges} if a in found and b in some} - found:
        found |= more
    return found


@settings(deadline=None)
@given(situations())
def test_sub_partitions_are_a_costliest_path_and_the_components_left(asked: Situation) -> None:
    loads = asked.loads
    edges = inner_edges(loads)
    left = refined(loads)
    for members in grouped(loads.partition):
        path = left.pop(0)
        assert all(step in edges for step in pairwise(path))
        assert sum(loads.cost_s[path].tolist()) == costliest(loads, members)
        rest = set(members) - set(path)
        assert len(rest) == len(members) - len(path)
        while rest:
            component = connected(rest, edges)
            assert left.pop(0) == sorted(component)
            rest -= component
    assert not left


def test_a_region_of_three_queries_becomes_its_costliest_query_and_the_rest() -> None:
    costs = {"filter": 1.0, "speeds": 2.0, "average": 5.0, "fastest": 9.0, "places": 1.0, "number": 3.0, "sink": 1.0}
    edges = {
        ("filter", "speeds"): 0.0,
        ("speeds", "average"): 0.0,
        ("speeds", "fastest"): 0.0,
        ("filter", "places"): 0.0,
        ("places", "number"): 0.0,
        ("number", "sink"): 0.0,
    }
    loads = {name: (0, Load(cost_s=cost_s, partition="region")) for name, cost_s in costs.items()}
    known = situation(loads, Topology.of(1, 1), edges).loads
    names = [[list(costs)[place] for place in members] for members in refined(known)]
    assert names == [["filter", "speeds", "fastest"], ["average"], ["places", "number", "sink"]]


def test_an_edge_between_partitions_does_not_count() -> None:
    loads = {name: (0, Load(cost_s=1.0, partition=name)) for name in ("a", "b")}
    assert refined(situation(loads, Topology.of(1, 1), {("a", "b"): 1.0}).loads) == [[0], [1]]


def test_without_instances_there_is_nothing() -> None:
    assert refined(Loads.of({})) == []
