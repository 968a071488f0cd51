"""What is expected of tasks, by what they took and brought before."""

import numpy as np

from shoal.compiler.program import compile_graph
from shoal.model.query.aggregate import count, sum_
from shoal.model.query.graph import Graph
from shoal.model.query.window import hop, tumbling
from shoal.runtimes.simulated.engine.arrays import TASK
from shoal.runtimes.simulated.engine.simulation import StepInput
from shoal.runtimes.simulated.expectations import Expectations
from shoal.runtimes.simulated.input.task_plan import Counts, TaskPlan
from shoal.workloads.traffic.queries import vehicles


def plan_of(*sizes_s: int) -> TaskPlan:
    """A plan of one instance per window."""
    by_type = vehicles().key_by("vehicle_type")
    queries = [by_type.window(hop(size, 1)).aggregate(n=count()).sink(f"n[{size}]") for size in sizes_s]
    return TaskPlan(compile_graph(Graph.of(queries)))


def served(plan: TaskPlan, turns: list[dict[str, list[float]]], events: list[int], occasions: list[int]) -> StepInput:
    """The last of some steps; before each, tasks have done what a turn says, in addition to those before it."""
    expectations, tasks = Expectations(plan), np.zeros(plan.number, TASK)
    of_step, nothing = np.array([0, *events]), np.zeros(plan.number)
    counts = Counts(0, 0.0, 1, of_step, of_step, np.zeros(len(plan.instances)), occasions=np.array([1, *occasions]))
    step = StepInput(0, 0.0, 1, nothing, nothing, of_step, of_step)
    found = expectations.served(step, tasks, counts, workers=1)
    for turn in turns:
        for name, values in turn.items():
            tasks[name][1:] += np.array(values, tasks[name].dtype)
        found = expectations.served(step, tasks, counts, workers=1)
    return found


def places(step: StepInput) -> list[int]:
    assert step.places is not None
    return step.places[1:].tolist()


PLAIN: dict[str, list[float]] = {
    "busy_s": [0.1, 0.1, 0.1],
    "processed": [10, 10, 10],
    "occasions": [0, 0, 0],
    "results": [0, 0, 0],
}
CLOSING: dict[str, list[float]] = {
    "busy_s": [0.2, 0.2, 0.2],
    "processed": [10, 10, 10],
    "occasions": [1, 1, 1],
    "results": [4, 4, 4],
}


def test_the_task_of_which_most_windows_close_comes_first_among_those_of_one_rate() -> None:
    step = served(plan_of(5, 10, 20), [PLAIN, CLOSING], events=[0, 0, 0], occasions=[5, 10, 20])
    assert places(step) == [2, 1, 0]


def test_a_task_that_brings_the_same_results_in_a_fourth_of_the_time_comes_first() -> None:
    closing = {**CLOSING, "busy_s": [0.5, 0.2, 0.5]}
    step = served(plan_of(5, 10, 20), [PLAIN, closing], events=[0, 0, 0], occasions=[1, 1, 1])
    assert places(step) == [1, 0, 2]


def test_where_no_window_closes_the_task_with_most_work_comes_first_and_turns_go_on() -> None:
    plain = {**PLAIN, "busy_s": [0.1, 0.3, 0.2]}
    step = served(plan_of(5, 10, 20), [plain, CLOSING], events=[10, 10, 10], occasions=[0, 0, 0])
    assert places(step) == [2, 0, 1]
    assert step.ends is not None
    assert step.ends.tolist() == [False] * 4


def test_turns_end_where_windows_close_even_if_none_has_closed_before() -> None:
    step = served(plan_of(5, 10, 20), [], events=[1, 1, 1], occasions=[1, 0, 3])
    assert step.ends is not None
    assert step.ends.tolist() == [False, True, False, True]


def test_a_task_counts_the_results_of_the_task_that_waits_for_it() -> None:
    first = vehicles().key_by("vehicle_type").window(tumbling(1)).aggregate(n=count())
    behind = first.key_by("vehicle_type").window(tumbling(1)).aggregate(total=sum_("n")).sink("total")
    alone = vehicles().key_by("vehicle_type").window(tumbling(2)).aggregate(n=count()).sink("alone")
    plan = TaskPlan(compile_graph(Graph.of([behind, alone])))
    ((feeding, waiting),) = (plan.edges[plan.edges[:, 0] >= 1] - 1).tolist()
    other = ({0, 1, 2} - {feeding, waiting}).pop()
    slow = [2.0 if task == other else 0.2 for task in range(3)]
    turns = [PLAIN, {**CLOSING, "busy_s": slow}]
    closes = served(plan, turns, events=[0, 0, 0], occasions=[1, 1, 1])
    does_not = served(plan, turns, events=[0, 0, 0], occasions=[int(task != waiting) for task in range(3)])
    assert places(closes)[feeding] < places(closes)[other]
    assert places(does_not)[feeding] > places(does_not)[other]
    assert closes.ends is not None
    assert does_not.ends is not None
    assert (bool(closes.ends[1 + feeding]), bool(does_not.ends[1 + feeding])) == (True, False)
