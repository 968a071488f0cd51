"""Times of lanes divided among instances, on the driver."""

from typing import Any

import numpy as np
import pytest
from tests.small_city import city

from shoal.compiler.lane import Lane
from shoal.compiler.program import Program, compile_graph
from shoal.model.control.snapshot import InstanceLoad
from shoal.model.query.graph import InstanceId
from shoal.runtimes.spark.driver.instance_costs import Costs
from shoal.runtimes.spark.tasks.reports import Report, lane_report
from shoal.runtimes.spark.tasks.sample import ALONE_S


@pytest.fixture(scope="module")
def program() -> Program:
    return compile_graph(city().job.graph)


@pytest.fixture(scope="module")
def lane(program: Program) -> Lane:
    return next(lane for lane in program.lanes if lane.kernel and len(lane.instances) == 4)


def report(lane: Lane, rows: list[int], *, cost_s: float = 1.0, load_s: float = 0.0, **given: Any) -> Report:
    """A worker's report of one lane of four instances, one second long by default."""
    numbers = np.array(rows)
    zero = np.zeros(4, np.int64)
    values: dict[str, Any] = {
        "events": numbers,
        "rows": numbers,
        "results": zero,
        "state_bytes": zero,
        "carried_bytes": zero,
        "advancing_s": 1.0,
        "emitting_s": 0.0,
        "alone_s": {},
    }
    given = {name: np.array(value) if isinstance(value, list) else value for name, value in given.items()}
    lanes = {lane.number: lane_report(**{**values, **given})}
    return Report(worker=0, executor="", cost_s=cost_s, load_s=load_s, lanes=lanes)


def costs_of(loads: dict[InstanceId, InstanceLoad], lane: Lane) -> list[float]:
    return [round(loads[instance].cost_s, 6) if instance in loads else 0.0 for instance in lane.instances]


def test_without_samples_time_goes_by_rows(program: Program, lane: Lane) -> None:
    loads = Costs().loads(program, [report(lane, [1, 2, 5, 0])])
    assert costs_of(loads, lane) == [0.125, 0.25, 0.625, 0.0]


def test_nothing_waits_behind_an_epoch(program: Program, lane: Lane) -> None:
    loads = Costs().loads(program, [report(lane, [3, 0, 4, 9])])
    assert [load.events for load in loads.values()] == [3, 4, 9]
    assert [load.backlog for load in loads.values()] == [0, 0, 0]


def test_a_sample_is_remembered_when_the_instance_is_elsewhere(program: Program, lane: Lane) -> None:
    costs = Costs()
    costs.loads(program, [report(lane, [10, 10, 0, 0], alone_s={0: 0.9 + ALONE_S, 1: 0.1 + ALONE_S})])
    loads = costs.loads(program, [report(lane, [10, 10, 0, 0])])
    assert costs_of(loads, lane)[:2] == pytest.approx([0.9, 0.1])


def test_an_instance_that_was_never_alone_is_taken_for_others_of_its_size(program: Program, lane: Lane) -> None:
    costs = Costs()
    costs.loads(program, [report(lane, [10, 1000, 0, 0], alone_s={0: 0.01 + ALONE_S, 1: 10 + ALONE_S})])
    loads = costs.loads(program, [report(lane, [10, 1000, 10, 1000])])
    small, large, unknown_small, unknown_large = costs_of(loads, lane)
    assert unknown_small == pytest.approx(small)
    assert unknown_large == pytest.approx(large)
    assert large > 500 * small


def test_results_cost_the_emitter_and_bytes_the_carrier(program: Program, lane: Lane) -> None:
    given = report(
        lane,
        [1, 1, 1, 1],
        cost_s=4.0,
        load_s=1.0,
        emitting_s=1.0,
        results=[0, 1, 3, 0],
        carried_bytes=[0, 0, 100, 300],
    )
    assert costs_of(Costs().loads(program, [given]), lane) == [0.25, 0.5, 1.25, 1.0]


def test_instances_that_are_gone_are_forgotten(program: Program, lane: Lane) -> None:
    costs = Costs()
    costs.loads(program, [report(lane, [10, 10, 0, 0], alone_s={0: 0.9 + ALONE_S, 1: 0.1 + ALONE_S})])
    costs.forget([])
    loads = costs.loads(program, [report(lane, [10, 10, 0, 0])])
    assert costs_of(loads, lane)[:2] == [0.5, 0.5]
