"""Loads: columns that fit together."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.errors import BindingError, ConfigError
from shoal.model.control.binding import Binding
from shoal.model.control.topology import Topology
from shoal.model.query.graph import InstanceId
from shoal.policies.binding.loads import Load, Loads, shared_out

A, B, C = InstanceId("a/0"), InstanceId("b/0"), InstanceId("c/0")
AMOUNTS = ("cost_s", "backlog", "rate_per_s", "busy_s", "state_bytes")
ONE, TWO = Topology.of(1, 1), Topology.of(1, 2)


def columns(**changed: Any) -> Loads:
    """Two instances, one edge."""
    pair: dict[str, Any] = {name: [1.0, 2.0] for name in AMOUNTS}
    edge: dict[str, Any] = {"edge_source": [0], "edge_target": [1], "edge_bytes": [8.0]}
    return Loads(**{"instances": (A, B), **pair, "partition": [0, 1], **edge, **changed})


def test_partitions_are_numbered_as_they_come_and_an_instance_without_one_is_alone() -> None:
    loads = Loads.of({A: Load(partition="x"), B: Load(), C: Load(partition="x")})
    assert loads.partition.tolist() == [0, 1, 0]


def test_a_partition_may_be_named_like_an_instance() -> None:
    loads = Loads.of({A: Load(partition="b/0"), B: Load()})
    assert loads.partition.tolist() == [0, 1]


def test_work_is_what_waits_and_what_arrives() -> None:
    loads = Loads.of({A: Load(cost_s=2.0, backlog=3.0, rate_per_s=0.5)})
    assert loads.waiting_s.tolist() == [6.0]
    assert loads.work_s(10.0).tolist() == [16.0]


def test_where_nothing_waits_anywhere_the_arrivals_of_the_period_stand_for_the_backlog() -> None:
    arriving = Load(cost_s=2.0, rate_per_s=3.0)
    observed = replace(Loads.of({A: arriving, B: Load(cost_s=1.0, rate_per_s=0.5)}), period_s=4.0)
    assert observed.waiting_s.tolist() == [24.0, 2.0]
    assert observed.work_s(10.0).tolist() == [60.0, 5.0]  # arrivals count once
    some = replace(Loads.of({A: arriving, B: Load(cost_s=1.0, backlog=1.0)}), period_s=4.0)
    assert some.waiting_s.tolist() == [0.0, 1.0]


def test_columns_cannot_be_changed() -> None:
    given_ = np.array([1.0, 2.0])
    loads = columns(cost_s=given_)
    given_[0] = 9.0
    assert loads.cost_s.tolist() == [1.0, 2.0]
    with pytest.raises(ValueError, match="read-only"):
        loads.cost_s[0] = 9.0


@pytest.mark.parametrize(
    ("changed", "wanted"),
    [
        pytest.param(
            {"cost_s": [1.0, -2.0]}, "cost_s of every instance must be a number from 0; got -2.0", id="below 0"
        ),
        pytest.param({"backlog": [1.0, np.nan]}, "backlog of every instance must be", id="not a number"),
        pytest.param({"backlog": [1.0, np.inf]}, "backlog of every instance must be", id="without end"),
        pytest.param({"busy_s": [1.0]}, "busy_s must have one value for each of 2 instances", id="too short"),
        pytest.param({"partition": [0, 2]}, "partitions must be numbered from 0 without gaps", id="a gap"),
        pytest.param({"edge_bytes": []}, "every edge must have a source, a target and", id="an edge without bytes"),
        pytest.param({"edge_target": [2]}, r"edges must join places 0\.\.1", id="an edge to nowhere"),
        pytest.param({"edge_target": [0]}, "edges must lead from an instance to one", id="an edge to itself"),
    ],
)
def test_columns_that_do_not_fit_are_a_clear_error(changed: dict[str, Any], wanted: str) -> None:
    columns()
    with pytest.raises(ConfigError, match=wanted):
        columns(**changed)


def test_an_edge_of_an_unknown_instance_is_a_clear_error() -> None:
    with pytest.raises(ConfigError, match=r"^an edge names instance 'b/0', which has no load$"):
        Loads.of({A: Load()}, {(A, B): 1.0})


def test_a_load_that_is_not_bound_is_a_clear_error() -> None:
    with pytest.raises(BindingError, match=r"^instance 'b/0' has a load but is bound to no worker$"):
        Loads.of({A: Load(), B: Load()}).placed(Binding.of({A: 0}, 1), ONE)


def test_a_topology_of_another_size_is_a_clear_error() -> None:
    with pytest.raises(BindingError, match=r"^the binding is for 1 workers; the topology has 2$"):
        Loads.of({A: Load()}).placed(Binding.of({A: 0}, 1), TWO)


@settings(deadline=None)
@given(st.lists(st.integers(0, 40), max_size=12), st.integers(1, 6))
def test_no_binding_has_a_lower_peak_than_what_is_shared_out(amounts: list[int], workers: int) -> None:
    heavy, share = shared_out(np.array(amounts, dtype=float), workers)
    assert len(heavy) < workers
    assert all(amounts[place] >= share for place in heavy)
    rest = [amount for place, amount in enumerate(amounts) if place not in heavy]
    assert share == pytest.approx(sum(rest) / (workers - len(heavy)))
    least = [0] * workers
    for amount in sorted(amounts, reverse=True):
        least[least.index(min(least))] += amount
    assert max(least) >= share - 1e-9
