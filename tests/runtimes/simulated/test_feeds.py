"""Feeds apart: the steps from a stream to a lane as tasks of the source's worker; and workers that sleep."""

import math

import numpy as np
import pytest
from tests.small_city import city

from shoal.compiler.program import compile_graph
from shoal.policies.binding.static import round_robin
from shoal.runtimes.simulated.engine.simulation import Rules, Simulation, StepInput, Tasks
from shoal.runtimes.simulated.input.task_plan import TaskPlan
from shoal.runtimes.simulated.machine.hosts import Host
from shoal.runtimes.simulated.machine.machine import Machine
from shoal.workloads.catalog import workload
from shoal.workloads.workload import Amount


@pytest.mark.parametrize("name", ["traffic", "nexmark", "skew", "ysb"])
def test_every_lane_with_state_gets_the_rows_of_a_stream_by_a_task_on_the_worker_of_the_source(name: str) -> None:
    graph = workload(name).ready(0, Amount(10), {}).job.graph
    program = compile_graph(graph)
    plain, apart = TaskPlan(program), TaskPlan(program, feeds_apart=True)
    assert apart.number == plain.number + len(apart.feeds) > plain.number
    owner_of = np.array(apart.owners(round_robin(graph, 2), outside=False))[apart.unit]
    edges = set(map(tuple, apart.edges.tolist()))
    for (stream, lane), task in zip(apart.feeds, apart.feed_tasks.tolist(), strict=True):
        source = apart.streams.index(stream)
        assert owner_of[task] == owner_of[source]
        assert (source, task) in edges
        for target in range(apart.places(lane).start, apart.places(lane).stop):
            assert (task, target) in edges
            assert (source, target) not in edges
        assert (apart.order[task] < apart.order[apart.places(lane)]).all()
    assert len(set(apart.group[apart.feed_tasks]) | set(apart.group[: apart.feed_tasks[0]])) == len(set(apart.group))


def test_without_feeds_apart_nothing_has_an_order() -> None:
    plan = TaskPlan(compile_graph(city().job.graph))
    assert not plan.feeds
    assert not plan.order.any()


def turns_of(polls_s: list[float], turns_s: float, wake_s: float) -> list[tuple[float, float]]:
    """When a source is read that is polled at these times, and begins its turn; one worker, which may have to wake."""
    tasks = Tasks(1, np.array([0]), np.array([0]), np.zeros(1), np.zeros((0, 2), np.int64))
    machine = Machine((Host("box", 1),), queue_s=(0.0,), turn_slowdown=(1.0,), wake_ups=((wake_s,),))
    simulation = Simulation(tasks, machine, [0], [0], Rules(traced=True))
    one, read = np.ones(1, int), list[float]()

    def step(_source: int, now_s: float) -> tuple[StepInput | None, float]:
        read.append(now_s)
        again_s = polls_s[len(read)] if len(read) < len(polls_s) else math.inf
        return StepInput(0, now_s, 1, np.array([turns_s]), np.zeros(1), one, 0 * one), again_s

    simulation.poll(0, polls_s[0])
    simulation.advance(100.0, step)
    return list(zip(read, simulation.take_trace()["began_s"].tolist(), strict=True))


def test_a_worker_without_work_wakes_up_for_the_next_poll_of_its_source() -> None:
    assert turns_of([1.0, 2.25], 0.5, 0.0) == [(1.0, 1.0), (2.25, 2.25)]
    assert turns_of([1.0, 2.25], 0.5, 0.125) == [(1.125, 1.125), (2.375, 2.375)]


def test_a_source_that_is_due_before_its_worker_is_free_is_read_when_it_is_without_waking_it() -> None:
    assert turns_of([1.0, 1.25], 0.5, 0.125) == [(1.125, 1.125), (1.625, 1.625)]
