"""The skew workload as a graph: an instance per cell, and hot ones that a static binding puts on one worker."""

import pytest

from shoal.errors import ConfigError
from shoal.model.control.binding import Binding
from shoal.policies.binding.static import STATIC
from shoal.workloads.skew.events import SkewEvents
from shoal.workloads.skew.queries import SKEW
from shoal.workloads.workload import Amount, Ready


def ready(**settings: str) -> Ready:
    return SKEW.ready(0, Amount(1000), settings)


def share_of_busiest(binding: Binding, at_s: float) -> float:
    """The share of all reports, at an offset of event time, that one worker has."""
    shares = SkewEvents().shares(at_s)
    of_worker = [0.0] * binding.workers
    for instance, worker in binding.worker_of.items():
        of_worker[worker] += float(shares[int(instance.split("/")[1])])
    return max(of_worker) / sum(of_worker)


def test_every_operator_with_state_has_an_instance_per_cell() -> None:
    graph = ready(cells="16", hot="4").job.graph
    stateful = [operator for operator in graph.operators.values() if operator.groups > 1]
    assert [operator.kind for operator in stateful] == ["join", "aggregate", "match", "aggregate"]
    assert len(graph.stateful_instances) == 4 * 16


@pytest.mark.parametrize("policy", STATIC)
@pytest.mark.parametrize("workers", [2, 4])
@pytest.mark.parametrize("at_s", [0.0, 20.0, 50.0])
def test_a_static_binding_has_one_worker_do_most_of_the_work(policy: str, workers: int, at_s: float) -> None:
    binding = STATIC[policy](ready().job.graph, workers)
    assert share_of_busiest(binding, at_s) > 0.8


@pytest.mark.parametrize("policy", STATIC)
def test_with_a_stride_of_one_a_static_binding_would_do(policy: str) -> None:
    binding = STATIC[policy](ready().job.graph, 4)
    shares = SkewEvents(stride=1).shares(0)
    of_worker = [0.0] * 4
    for instance, worker in binding.worker_of.items():
        of_worker[worker] += float(shares[int(instance.split("/")[1])]) / 4
    assert max(of_worker) < 0.3


def test_queries_can_be_chosen() -> None:
    made = ready(queries="function,join")
    assert list(made.job.graph.queries) == ["medians", "encounters"]
    assert list(made.expected(100)) == ["medians", "encounters"]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        pytest.param({"queries": "join,sort"}, "'queries' must be some of join, pattern, function", id="no query"),
        pytest.param({"queries": "join,join"}, "each once; got 'join,join'", id="a query twice"),
        pytest.param({"queries": ""}, "'queries' must be some of", id="no queries"),
        pytest.param({"hot": "30"}, "hot times stride must be at most 64 cells", id="too many hot cells"),
        pytest.param({"reach_m": "-1"}, "reach_m must be a number from 0 to 1000; got -1.0", id="negative reach"),
        pytest.param({"within_s": "0"}, "within_s must be at least a microsecond; got 0.0", id="no time"),
        pytest.param({"profile": "W1"}, "profile must be one of steps, orbit, oscillating", id="no profile"),
        pytest.param({"cells": "many"}, "setting 'cells' must be of type int; got 'many'", id="no number"),
        pytest.param({"regions": "4"}, "has no setting 'regions'; there are queries, cells", id="no setting"),
    ],
)
def test_invalid_settings_are_rejected_by_name(settings: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        ready(**settings)
