"""Scheduling policies in simulated time: the order of queues by measured costs, and what the literature says of it."""

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.runtimes.simulated.engine.scenario import Script

from shoal.connectors.sources.generator import Generator
from shoal.model.query.aggregate import count, max_
from shoal.model.query.window import hop, tumbling
from shoal.runtimes.simulated.engine.simulation import Rules, Simulation, StepInput, Tasks
from shoal.runtimes.simulated.machine.hosts import Host
from shoal.runtimes.simulated.machine.machine import Machine
from shoal.session.job import Job
from shoal.session.run import Run, start
from shoal.workloads.traffic.events import TrafficEvents
from shoal.workloads.traffic.queries import STREAM, vehicles

VEHICLES, STEPS_PER_S = 60, 5


def mean_latency_s(costs_s: list[float], ranks: list[float]) -> float:
    """Of one step that all tasks take part in, on one worker."""
    number = len(costs_s) + 1
    edges = np.array([(0, task) for task in range(1, number)])
    tasks = Tasks(1, np.array([number - 1, *range(number - 1)]), np.arange(number), np.zeros(number), edges)
    machine = Machine((Host("box", 1),))
    simulation = Simulation(tasks, machine, [0] * (number - 1) + [-1], [0], Rules(order="priority"))
    simulation.set_ranks(np.array([0.0, *ranks]))
    counts = np.ones(number, int)
    step = StepInput(0, 0.0, 1, np.array([1e-9, *costs_s]), np.zeros(number), counts, np.array([0, *counts[1:]]))
    simulation.poll(0, 0.0)
    simulation.advance(1000.0, Script([[(0.0, step)]]).read)
    return float(simulation.take_results()["latency_s"].mean())


@given(st.lists(st.floats(0.01, 10.0), min_size=2, max_size=4))
@settings(max_examples=40, deadline=None)
def test_of_all_orders_the_shortest_task_first_has_the_smallest_mean_latency(costs_s: list[float]) -> None:
    shortest_first = mean_latency_s(costs_s, [1 / cost_s for cost_s in costs_s])
    for ranks in permutations(range(len(costs_s))):
        assert shortest_first <= mean_latency_s(costs_s, [float(rank) for rank in ranks]) + 1e-9


def run_two_queries(scheduling: str) -> Run:
    """An expensive query and a cheap one of the same events, on one core; the expensive one comes first."""
    typed = vehicles().key_by("vehicle_type")
    expensive = typed.window(hop(30, 1)).aggregate(n=count()).sink("expensive")
    cheap = typed.window(tumbling(1)).aggregate(fastest=max_("speed")).sink("cheap")
    events = TrafficEvents(vehicles=VEHICLES, regions=1, steps_per_s=STEPS_PER_S)
    feed = Generator(events, 6 * STEPS_PER_S * VEHICLES, STEPS_PER_S * VEHICLES)
    conf = {"source": "outside", "arrival": "step", "step_s": "1", "epoch_s": "1", "work_factor": "2000"}
    conf |= {"delay": "state-dependent", "scheduling": scheduling}
    job = Job.of("two", [expensive, cheap], {STREAM: feed})
    run = start(
        job, on="simulated", topology="cores:1", conf={**conf, "delay": "state-dependent", "scheduling": scheduling}
    )
    run.wait()
    return run


@pytest.mark.parametrize("scheduling", ["min-latency", "highest-rate", "state-based"])
def test_policies_by_measured_cost_let_the_cheap_query_first(scheduling: str) -> None:
    in_turn, by_cost = run_two_queries("fcfs"), run_two_queries(scheduling)
    assert in_turn.tally.results == by_cost.tally.results
    assert by_cost.tally.latency_ms()["mean"] < in_turn.tally.latency_ms()["mean"]
