"""Topologies: workers on nodes."""

import pytest

from shoal.errors import ConfigError
from shoal.model.control.topology import Topology


def test_neighbours_share_a_node() -> None:
    topology = Topology.of(nodes=2, workers=4)
    assert topology.node_of == (0, 0, 1, 1)
    assert topology.workers_of == ((0, 1), (2, 3))
    assert (topology.nodes, topology.workers) == (2, 4)


@pytest.mark.parametrize(("nodes", "workers"), [(1, 1), (3, 3), (3, 7), (2, 36), (5, 9)])
def test_nodes_differ_by_one_worker_at_most(nodes: int, workers: int) -> None:
    topology = Topology.of(nodes, workers)
    sizes = [len(one) for one in topology.workers_of]
    assert len(sizes) == nodes
    assert sum(sizes) == workers
    assert max(sizes) - min(sizes) <= 1


def test_workers_may_be_listed_in_any_order() -> None:
    assert Topology((1, 0, 1)).workers_of == ((1,), (0, 2))


@pytest.mark.parametrize(("nodes", "workers"), [(0, 1), (2, 1), (-1, 4), (1, 0)])
def test_a_node_without_a_worker_is_a_clear_error(nodes: int, workers: int) -> None:
    wanted = rf"^a topology needs a worker on each of its nodes; got {workers} workers, {nodes} nodes$"
    with pytest.raises(ConfigError, match=wanted):
        Topology.of(nodes, workers)


@pytest.mark.parametrize("node_of", [(), (0, 2), (1,), (-1, 0)])
def test_gaps_between_nodes_are_a_clear_error(node_of: tuple[int, ...]) -> None:
    with pytest.raises(ConfigError, match=r"^(a topology needs at least one worker|the nodes of a topology must)"):
        Topology(node_of)
