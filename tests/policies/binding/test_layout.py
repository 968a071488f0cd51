"""Layouts: what policies see of a graph, and loads from snapshots."""

import pytest

from shoal.errors import ConfigError
from shoal.language.python.stream import Stream
from shoal.model.control.binding import Binding
from shoal.model.control.snapshot import InstanceLoad, Snapshot
from shoal.model.query.aggregate import count, max_
from shoal.model.query.expression import col
from shoal.model.query.graph import OPERATOR_KINDS, Graph
from shoal.model.query.window import tumbling
from shoal.policies.binding.layout import ROW_BYTES, Layout
from shoal.policies.binding.static import partition_names, partitioned, round_robin
from shoal.workloads.traffic.queries import queries

CARS = Stream("cars", {"ts": "timestamp", "region": "int64", "speed": "float64"}, time="ts")


def two_steps(groups: int) -> Graph:
    """Counts per region in key groups, and behind a filter the largest of all."""
    counts = CARS.partition_by("region", groups=groups).key_by("region").window(tumbling(1)).aggregate(n=count())
    return Graph.of([counts.filter(col("n") > 3).window(tumbling(10)).aggregate(most=max_("n")).sink("most")])


def test_the_layout_has_what_a_binding_has() -> None:
    graph = Graph.of(queries(5))
    layout = Layout.of(graph)
    assert layout.instances == graph.stateful_instances
    assert layout.partition.tolist() == [region for region in range(5) for _ in range(3)]
    assert layout.edge_source.size == 0


def test_partitions_are_those_of_the_static_policy() -> None:
    for graph in (Graph.of(queries(5)), two_steps(4)):
        layout = Layout.of(graph)
        binding = partitioned(graph, 3)
        assert [binding.worker_of[i] for i in layout.instances] == [number % 3 for number in layout.partition.tolist()]


def test_a_layout_of_all_operators_has_the_study_s_1201_instances() -> None:
    graph = Graph.of(queries(100))
    layout = Layout.of(graph, OPERATOR_KINDS)
    assert layout.instances == graph.instances
    assert len(layout.instances) == 1201
    assert int(layout.partition.max()) == 100
    inputs = sum(len(operator.inputs) for operator in graph.operators.values())
    assert layout.edge_source.size == inputs
    assert (layout.edge_source < layout.edge_target).all()


def test_a_shared_source_is_a_partition_of_its_own() -> None:
    graph = Graph.of(queries(2))
    names = partition_names(graph)
    source = next(iter(graph.operators.values()))
    assert [instance for instance, name in names.items() if name == names[next(source.instances)]] == [
        *source.instances
    ]


def test_operators_that_are_not_bound_are_passed_through() -> None:
    layout = Layout.of(two_steps(3))
    assert [*zip(layout.edge_source.tolist(), layout.edge_target.tolist(), strict=True)] == [(0, 3), (1, 3), (2, 3)]


def test_a_snapshot_gives_costs_rates_and_bytes() -> None:
    graph = two_steps(2)
    layout = Layout.of(graph)
    first, second, last = layout.instances
    snapshot = Snapshot(
        7,
        round_robin(graph, 2),
        {
            first: InstanceLoad(100, 0.5, 40, 9000),
            second: InstanceLoad(0, 0.0, 0, 0, backlog=12),
            last: InstanceLoad(0, 0.25, 1, 10),
        },
        period_s=2.0,
        latency_s={"most": 0.04},
    )
    loads = layout.loads(snapshot)
    assert loads.cost_s.tolist() == [0.005, 0.005, 0.25]
    assert loads.rate_per_s.tolist() == [50.0, 0.0, 0.5]
    assert loads.busy_s.tolist() == [0.5, 0.0, 0.25]
    assert loads.backlog.tolist() == [0.0, 12.0, 0.0]
    assert loads.state_bytes.tolist() == [9000.0, 0.0, 10.0]
    assert loads.edge_bytes.tolist() == [40.0 * ROW_BYTES, 0.0]
    assert loads.latency_s == {"most": 0.04}


def test_an_instance_without_a_turn_has_its_last_known_cost() -> None:
    graph = two_steps(2)
    layout = Layout.of(graph)
    first, second, _ = layout.instances
    begun = {first: InstanceLoad(100, 0.5, 0, 0), second: InstanceLoad(10, 0.2, 0, 0)}
    before = layout.loads(Snapshot(0, round_robin(graph, 2), begun, period_s=1.0))
    starved = {first: InstanceLoad(100, 0.5, 0, 0), second: InstanceLoad(0, 0.0, 0, 0, backlog=50)}
    after = layout.loads(Snapshot(1, round_robin(graph, 2), starved, period_s=1.0), before)
    assert after.cost_s.tolist() == [0.005, 0.02, 0.0]
    assert after.work_s(1.0).tolist() == pytest.approx([0.5, 1.0, 0.0])


def test_an_epoch_s_work_is_the_same_as_rate_times_cost() -> None:
    graph = two_steps(2)
    layout = Layout.of(graph)
    observed = {instance: InstanceLoad(n, 0.125 * n, 1, 1) for n, instance in enumerate(layout.instances)}
    loads = layout.loads(Snapshot(1, round_robin(graph, 2), observed, period_s=4.0))
    assert loads.work_s(4.0) == pytest.approx(loads.busy_s)


def test_a_snapshot_of_no_time_is_a_clear_error() -> None:
    with pytest.raises(ConfigError, match=r"^a snapshot must be of more than 0 seconds; got 0.0$"):
        Layout.of(Graph()).loads(Snapshot(0, Binding.of({}, 1)))
