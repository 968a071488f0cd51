"""Turns of one group and step: their results leave together, and their work together decides whether they are long."""

import numpy as np
import pytest
from numpy.typing import NDArray

from shoal.runtimes.simulated.engine.simulation import Rules, Simulation, StepInput, Tasks
from shoal.runtimes.simulated.machine.hosts import Host
from shoal.runtimes.simulated.machine.machine import Machine

TASKS = Tasks(
    sources=1,
    unit=np.array([0, 1, 2, 3]),
    group=np.array([0, 1, 1, 1]),
    fixed_s=np.array([0.0, 0.5, 0.5, 0.5]),
    edges=np.array([[0, 1], [0, 2], [0, 3]]),
)
"""A source, and three instances of one lane behind it."""
WORK_S = (1.0, 2.0, 3.0, 4.0)


def started(machine: Machine, rules: Rules) -> Simulation:
    """One step at the beginning; the source and all instances but the last have results."""
    simulation = Simulation(TASKS, machine, [0] * 4, [0], rules)
    results = np.array([1, 1, 1, 0])
    step = StepInput(0, 0.0, 1, np.array(WORK_S), np.zeros(4), np.ones(4, np.int64), results)
    steps = iter([(step, float("inf"))])
    simulation.poll(0, 0.0)
    simulation.advance(5.0, lambda _source, _now_s: next(steps))
    return simulation


def ended(simulation: Simulation) -> NDArray[np.void]:
    """The results of the rest of a run."""
    simulation.advance(100.0, lambda _source, _now_s: (None, float("inf")))
    return simulation.take_results()


PLAIN = Machine((Host("box", 1),), queue_s=(0.0,))


def test_results_of_a_lane_leave_with_the_last_task_of_its_turn_even_if_that_has_none() -> None:
    simulation = started(PLAIN, Rules(by_turn=True))
    early, late = simulation.take_results(), ended(simulation)
    assert early["task"].tolist() == [0]
    assert late["task"].tolist() == [1, 2]
    assert late["at_s"].tolist() == late["latency_s"].tolist() == pytest.approx([1.0 + 0.5 + 2.0 + 3.0 + 4.0] * 2)


def test_without_turns_of_several_tasks_every_result_leaves_with_its_own() -> None:
    simulation = started(PLAIN, Rules())
    assert simulation.take_results()["latency_s"].tolist() == pytest.approx([1.0, 3.5])
    assert ended(simulation)["latency_s"].tolist() == pytest.approx([6.5])


def test_what_a_turn_works_beyond_a_limit_has_another_factor() -> None:
    machine = Machine((Host("box", 1),), queue_s=(0.0,), slowdown=(3.0,), long_slowdown=(1.5,), long_s=4.0)
    found = ended(started(machine, Rules(by_turn=True)))
    turn_s = 0.5 * 3 + 4.0 * 3 + (sum(WORK_S[1:]) - 4.0) * 1.5
    assert found["latency_s"].tolist() == pytest.approx([3.0, 3.0 + turn_s, 3.0 + turn_s])


PAUSED = Machine((Host("box", 1),), queue_s=(0.0,), turn_slowdown=(1.0,), pauses=((0.25,),), wake_ups=((0.125,),))


def test_a_worker_pauses_between_two_turns_but_not_within_one_and_the_pause_is_no_work() -> None:
    simulation = started(PAUSED, Rules(by_turn=True))
    found = ended(simulation)
    began_s = 0.25 + 1.0 + 0.25  # before the source, and before the first instance of the lane
    assert found["latency_s"].tolist() == pytest.approx([0.25 + 1.0] + [began_s + 0.5 + 2.0 + 3.0 + 4.0] * 2)
    assert simulation.worked_s().tolist() == pytest.approx([1.0 + 0.5 + 9.0])


def test_a_worker_that_was_idle_wakes_up_and_takes_what_is_there_by_then() -> None:
    tasks = Tasks(2, np.array([0, 1]), np.array([0, 1]), np.zeros(2), np.zeros((0, 2), np.int64))
    simulation = Simulation(tasks, PAUSED, [0, 0], [0], Rules())
    one = np.ones(2, np.int64)
    steps = {
        source: StepInput(source, at_s, 1, np.full(2, 1.0) * (np.arange(2) == source), np.zeros(2), one, one)
        for source, at_s in ((0, 3.0), (1, 3.0625))
    }
    began = dict[int, float]()

    def read(source: int, now_s: float) -> tuple[StepInput, float]:
        began[source] = now_s
        return steps[source], float("inf")

    simulation.poll(0, 3.0)
    simulation.poll(1, 3.0625)  # while the worker wakes up
    simulation.advance(20.0, read)
    assert sorted(began.values()) == pytest.approx([3.125, 3.125 + 1.0 + 0.25])


def test_the_pauses_of_a_run_are_those_of_its_seed() -> None:
    machine = Machine(
        (Host("box", 1),), queue_s=(0.0,), turn_slowdown=(1.0,), pauses=(tuple(np.arange(64) / 64.0 + 0.01),)
    )
    ends = [ended(started(machine, Rules(by_turn=True, seed=seed)))["at_s"].tolist() for seed in (1, 1, 2)]
    assert ends[0] == ends[1] != ends[2]
