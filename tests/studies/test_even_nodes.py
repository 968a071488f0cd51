"""Bindings drawn among even ones, and the results until the input ends, beside which `guarded` is measured."""

import numpy as np
import pytest

from measures.control.guarded import LoadedMachine, Placed, latency
from measures.control.load_scenarios import scenarios
from shoal.compiler.program import compile_graph
from shoal.model.query.graph import InstanceId
from shoal.runtimes.simulated.input.task_plan import TaskPlan

MACHINE, RATE = "numa:2x12", 2000


@pytest.fixture(scope="module")
def loaded() -> LoadedMachine:
    return LoadedMachine.of(MACHINE, next(each for each in scenarios(RATE) if each.name == "W2"), 0.9)


def nodes_of(loaded: LoadedMachine, draw: int) -> dict[InstanceId, int]:
    binding = Placed(loaded, TaskPlan(compile_graph(loaded.scenario.job().graph)), draw).binding
    return {instance: worker // 12 for instance, worker in binding.worker_of.items()}


def test_a_drawn_binding_gives_both_nodes_the_same_work(loaded: LoadedMachine) -> None:
    plan = TaskPlan(compile_graph(loaded.scenario.job().graph))
    work_s = loaded.recorded.work_s[:, plan.instance_tasks].sum(axis=0)
    nodes = nodes_of(loaded, draw=0)
    of_node = np.bincount([nodes[instance] for instance in plan.instances], weights=work_s)
    assert of_node.max() == pytest.approx(of_node.min(), rel=0.01)


def test_draws_differ_and_are_the_same_again(loaded: LoadedMachine) -> None:
    assert nodes_of(loaded, draw=0) == nodes_of(loaded, draw=0) != nodes_of(loaded, draw=1)


def test_results_before_the_input_ends_are_faster_than_those_of_all_windows_that_close_then() -> None:
    found = latency(MACHINE, "W2", 0.9, "even-nodes", rate=RATE).metrics
    assert 0 < found["open_ms.mean"] < found["latency_ms.mean"]
    assert found["open_ms.max"] <= found["latency_ms.max"]
