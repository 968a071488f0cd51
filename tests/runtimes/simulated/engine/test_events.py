"""The compiled event loop against a second, naive implementation of the same model, and what must always hold."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.runtimes.simulated.engine.naive_events import NaiveSimulation
from tests.runtimes.simulated.engine.scenario import Scenario, Script, scenarios

from shoal.runtimes.simulated.engine import arrays as a
from shoal.runtimes.simulated.engine.simulation import Simulation

END_S = 2000.0
"""A time at which every scenario is over."""


def naive(scenario: Scenario) -> NaiveSimulation:
    simulation = NaiveSimulation(
        scenario.tasks, scenario.machine, scenario.owner, scenario.cores, scenario.rules, scenario.ranks
    )
    for unit, size in zip(simulation.units, scenario.state_bytes, strict=False):
        unit.state_bytes = size
    for source in range(scenario.tasks.sources):
        simulation.poll(source, 0.0)
    scenario.run(simulation, END_S)
    return simulation


def latencies(simulation: Simulation) -> list[tuple[int, int, float]]:
    """How long every task and step took, by the engine."""
    return [(int(r["task"]), int(r["step"]), float(r["latency_s"])) for r in simulation.take_results()]


def assert_equal(scenario: Scenario, room: int | None = None) -> Simulation:
    slow, simulation = naive(scenario), scenario.simulation(room)
    scenario.run(simulation, END_S)
    assert simulation.live == 0
    assert len(slow.steps) == scenario.number_of_steps
    found, wanted = sorted(latencies(simulation)), sorted(slow.results)
    assert [each[:2] for each in found] == [each[:2] for each in wanted]
    np.testing.assert_allclose([each[2] for each in found], [each[2] for each in wanted], rtol=1e-9, atol=1e-9)
    tasks, workers = simulation.world.tasks, simulation.world.workers
    np.testing.assert_allclose(tasks["busy_s"], [task.busy_s for task in slow.tasks], rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(workers["worked_s"], [each.worked_s for each in slow.workers], rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(simulation.world.core["remote_bytes"][0], slow.remote_bytes, rtol=1e-5)
    moves = [tuple(float(value) for value in each) for each in simulation.take_moves()]
    assert [each[:3] for each in moves] == [each[:3] for each in slow.moves]
    np.testing.assert_allclose(np.array(moves), np.array(slow.moves), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(simulation.carried(), slow.network.carried, rtol=1e-6, atol=1e-6)
    return simulation


@given(scenarios())
@settings(max_examples=70, deadline=None)
def test_the_engine_equals_the_naive_model_on_one_host(scenario: Scenario) -> None:
    assert_equal(scenario)


@given(scenarios(network=True))
@settings(max_examples=70, deadline=None)
def test_the_engine_equals_the_naive_model_on_a_network(scenario: Scenario) -> None:
    assert_equal(scenario)


@given(scenarios(network=True, outages=True))
@settings(max_examples=70, deadline=None)
def test_the_engine_equals_the_naive_model_while_hosts_and_links_fail_and_return(scenario: Scenario) -> None:
    assert_equal(scenario)


@given(scenarios(network=True, outages=True), st.integers(1, 3))
@settings(max_examples=30, deadline=None)
def test_arrays_that_have_to_grow_lose_nothing(scenario: Scenario, room: int) -> None:
    assert_equal(scenario, room)


@pytest.mark.slow
@given(scenarios(network=True, outages=True))
@settings(max_examples=2000, deadline=None)
def test_the_engine_equals_the_naive_model_in_many_more_cases(scenario: Scenario) -> None:
    assert_equal(scenario, 1)


@given(scenarios(network=True, outages=True), st.integers(0, 2**32 - 1))
@settings(max_examples=70, deadline=None)
def test_at_any_time_no_worker_is_idle_beside_work_and_no_task_runs_twice(scenario: Scenario, seed: int) -> None:
    scenario = replace(scenario, rules=replace(scenario.rules, by_turn=False))
    simulation, script = scenario.simulation(), Script(scenario.steps)
    times = np.sort(np.random.default_rng(seed).uniform(0, 12, 40)).tolist()
    found = list[tuple[int, int, float]]()
    for time_s in (*times, END_S):
        simulation.advance(time_s, script.read)
        for result in simulation.take_results():
            step = int(result["step"])
            found.append((int(result["task"]), step, float(result["latency_s"]) + script.arrivals[step]))
        check_workers(simulation)
    for task in range(scenario.tasks.number):
        steps = [step for number, step, _ in found if number == task]
        assert steps == sorted(set(steps))
    ends = [end_s for _, _, end_s in found]
    assert all(later >= earlier - 1e-9 for earlier, later in pairwise(ends))
    check_end(simulation)


def check_workers(simulation: Simulation) -> None:
    world, design = simulation.world, int(simulation.world.core["design"][0])
    workers, tasks, units = world.workers, world.tasks, world.units
    running = workers["task"][workers["task"] >= 0]
    assert len(set(running.tolist())) == len(running)
    assert set(running.tolist()) == set(np.flatnonzero(tasks["status"] == a.RUNNING).tolist())
    queued = np.flatnonzero(tasks["status"] == a.QUEUED)
    owners = units["owner"][tasks["unit"][queued]]
    assert not units["frozen"][tasks["unit"][queued]].any()
    assert workers["up"][owners].all()
    assert not ((workers["starting"] > 0) & ((workers["task"] >= 0) | (workers["up"] == 0))).any()
    idle = np.flatnonzero((workers["task"] < 0) & (workers["up"] > 0) & (workers["starting"] == 0))
    assert int(world.core["idle"][0]) == len(idle)
    if design == a.WORKER_QUEUE:
        assert not set(owners.tolist()) & set(idle.tolist())
        return
    of_host = len(world.hosts)
    waiting = np.bincount(workers["host"][owners], minlength=of_host)  # for each, a worker may be on its way
    coming = np.bincount(workers["host"][workers["starting"] > 0], minlength=of_host)
    assert (waiting <= coming)[workers["host"][idle]].all()


def check_end(simulation: Simulation) -> None:
    core = simulation.world.core[0]
    assert (core["live"], core["in_flight"], core["flows"], core["turns"]) == (0, 0, 0, 0)
    assert (simulation.world.tasks["status"] == a.WAITING).all()
    assert (simulation.world.links["flows"] == 0).all()
    assert not simulation.is_moving
