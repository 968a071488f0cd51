"""How queues by event time are served: never a younger task before an older one, equally old ones by their places."""

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.runtimes.simulated.engine.scenario import Script

from shoal.runtimes.simulated.engine.simulation import Rules, Simulation, StepInput, Tasks
from shoal.runtimes.simulated.machine.hosts import Host
from shoal.runtimes.simulated.machine.machine import Machine

EVERY_S = 1.0
Turn = tuple[float, int, list[int]]
"""When it began, its task and its steps."""


def turns_of(steps: list[StepInput], turn_steps: int = 64) -> list[Turn]:
    """Of independent tasks on one worker, whose steps come from outside a second after each other."""
    number = len(steps[0].work_s)
    edges = np.array([(0, task) for task in range(1, number)])
    tasks = Tasks(1, np.array([number - 1, *range(number - 1)]), np.arange(number), np.zeros(number), edges)
    rules = Rules(queues="node-queue", turn_steps=turn_steps, traced=True)
    simulation = Simulation(tasks, Machine((Host("box", 1),)), [0] * (number - 1) + [-1], [0], rules)
    simulation.poll(0, 0.0)
    simulation.advance(1e6, Script([[(EVERY_S, step) for step in steps]]).read)
    assert simulation.live == 0
    done = {(int(each["task"]), int(each["step"])): float(each["at_s"]) for each in simulation.take_results()}
    found = []
    for turn in simulation.take_trace():
        task, ended_s = int(turn["task"]), float(turn["ended_s"])
        taken = [step for (of, step), at_s in done.items() if of == task and abs(at_s - ended_s) < 1e-9]
        found.append((float(turn["began_s"]), task, sorted(taken)))
    return found


def step_of(work_s: list[float], places: list[int] | None, ends: list[bool] | None) -> StepInput:
    ones = np.ones(len(work_s) + 1, int)
    return StepInput(
        0,
        0.0,
        1,
        np.array([1e-9, *work_s]),
        np.zeros(len(work_s) + 1),
        ones,
        ones,
        places=None if places is None else np.array([0, *places]),
        ends=None if ends is None else np.array([False, *ends]),
    )


@st.composite
def several_steps(draw: st.DrawFn) -> list[StepInput]:
    number = draw(st.integers(1, 5))

    def column(values: st.SearchStrategy[Any]) -> list[Any]:
        return draw(st.lists(values, min_size=number, max_size=number))

    return [
        step_of(column(st.floats(0.01, 0.7)), column(st.integers(0, 3)), column(st.booleans()))
        for _ in range(draw(st.integers(1, 6)))
    ]


@given(several_steps(), st.integers(1, 4))
@settings(max_examples=60, deadline=None)
def test_no_task_comes_before_an_older_one_nor_before_an_equally_old_one_with_a_smaller_place(
    steps: list[StepInput], turn_steps: int
) -> None:
    number, next_of = len(steps[0].work_s), dict[int, int]()
    for began_s, task, taken in turns_of(steps, turn_steps):
        there = sum(step * EVERY_S <= began_s + 1e-9 for step in range(len(steps)))
        waiting = {each: next_of.get(each, 0) for each in range(1, number) if next_of.get(each, 0) < there}
        chosen = taken[0]
        assert chosen == min(waiting.values())
        places = steps[chosen].places
        assert places is not None
        assert places[task] == min(places[each] for each, step in waiting.items() if step == chosen)
        next_of[task] = taken[-1] + 1


@given(several_steps(), st.integers(1, 4))
@settings(max_examples=60, deadline=None)
def test_a_turn_takes_no_step_after_one_that_ends_it(steps: list[StepInput], turn_steps: int) -> None:
    for _, task, taken in turns_of(steps, turn_steps):
        assert taken == list(range(taken[0], taken[0] + len(taken)))
        assert len(taken) <= turn_steps
        ends = [steps[step].ends for step in taken[:-1]]
        assert not any(each is not None and each[task] for each in ends)


def test_equally_old_tasks_without_places_come_in_the_order_of_tasks() -> None:
    assert [task for _, task, _ in turns_of([step_of([0.3, 0.1, 0.2], None, None)])] == [1, 2, 3]


def test_equal_places_are_served_in_the_order_of_tasks() -> None:
    assert [task for _, task, _ in turns_of([step_of([0.1] * 4, [2, 1, 1, 0], None)])] == [4, 2, 3, 1]


def test_results_of_the_first_of_two_steps_that_wait_need_not_wait_for_the_second() -> None:
    def taken(ends: list[bool] | None) -> list[list[int]]:
        return [steps for _, _, steps in turns_of([step_of([each], None, ends) for each in (2.5, 0.1, 0.1)])]

    assert taken(None) == [[0], [1, 2]]
    assert taken([True]) == [[0], [1], [2]]
