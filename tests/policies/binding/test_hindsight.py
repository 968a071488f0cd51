"""Hindsight: bounds against every schedule of small cases, and the binding by longest work first."""

from collections.abc import Iterator
from itertools import permutations, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.errors import ConfigError
from shoal.policies.binding.hindsight import LatencyBound, Recorded, in_order, longest_first, lower_bound

NO_EDGES = np.zeros((0, 2), np.int64)
SMALL = st.integers(0, 4)


def recorded(work_s: list[list[int]], results: list[list[int]], step_s: float = 1.0) -> Recorded:
    """Steps that begin a second after the one before, and are due half a second earlier."""
    begin_s = step_s * np.arange(len(work_s), dtype=float)
    number = np.where(np.array(work_s) > 0, np.array(results), 0).astype(np.int64)
    return Recorded(begin_s - 0.5, begin_s, np.array(work_s, float), number, NO_EDGES)


def schedules(case: Recorded, workers: int) -> Iterator[LatencyBound]:
    """The latencies of every binding of every task of every step, in every order that keeps a task's steps in order."""
    jobs = list(zip(*np.nonzero(case.work_s), strict=True))
    for order in permutations(jobs):
        if any(order.index((a, t)) > order.index((b, u)) for a, t in jobs for b, u in jobs if t == u and a < b):
            continue
        for placed in product(range(workers), repeat=len(jobs)):
            free_s, last_s = [0.0] * workers, dict[int, float]()
            latencies = list[float]()
            for (step, task), worker in zip(order, placed, strict=True):
                start_s = max(free_s[worker], last_s.get(task, 0.0), float(case.begin_s[step]))
                free_s[worker] = last_s[task] = start_s + float(case.work_s[step, task])
                latencies += [free_s[worker] - float(case.due_s[step])] * int(case.results[step, task])
            ordered = sorted(latencies)
            if ordered:
                place = int(np.searchsorted(np.arange(1, len(ordered) + 1), 0.99 * len(ordered)))
                yield LatencyBound(sum(ordered) / len(ordered), ordered[place])


@given(
    st.lists(st.lists(SMALL, min_size=2, max_size=2), min_size=2, max_size=2),
    st.lists(st.lists(SMALL, min_size=2, max_size=2), min_size=2, max_size=2),
    st.integers(1, 2),
)
def test_no_schedule_of_small_steps_beats_the_lower_bound(
    work_s: list[list[int]], results: list[list[int]], workers: int
) -> None:
    case = recorded(work_s, results)
    bound = lower_bound(case, workers)
    for found in schedules(case, workers):
        assert found.mean_s >= bound.mean_s - 1e-9
        assert found.p99_s >= bound.p99_s - 1e-9


@given(st.lists(SMALL, min_size=1, max_size=4), st.lists(SMALL, min_size=4, max_size=4), st.integers(1, 3))
def test_no_schedule_of_one_step_beats_the_lower_bound(work_s: list[int], results: list[int], workers: int) -> None:
    case = recorded([work_s], [results[: len(work_s)]])
    bound = lower_bound(case, workers)
    for found in schedules(case, workers):
        assert found.mean_s >= bound.mean_s - 1e-9
        assert found.p99_s >= bound.p99_s - 1e-9


def test_one_worker_with_one_task_reaches_both_bounds() -> None:
    case = recorded([[3], [3]], [[1], [1]], step_s=4.0)
    assert lower_bound(case, 1) == in_order(case, 1) == LatencyBound(3.5, 3.5)


def test_work_that_is_left_over_delays_the_next_step_in_order() -> None:
    case = recorded([[3], [3], [3]], [[1], [1], [1]], step_s=1.0)
    assert in_order(case, 1).mean_s == pytest.approx((3.5 + 5.5 + 7.5) / 3)
    assert in_order(case, 1, speed=3.0) == LatencyBound(1.5, 1.5)


def test_a_task_waits_for_the_longest_chain_before_it() -> None:
    begin_s, edges = np.zeros(1), np.array([[0, 2], [1, 2], [2, 3]])
    case = Recorded(begin_s, begin_s, np.array([[1.0, 5.0, 2.0, 0.5]]), np.array([[0, 0, 0, 1]]), edges)
    assert case.alone_s().tolist() == [[1.0, 5.0, 7.0, 7.5]]
    assert lower_bound(case, 4) == LatencyBound(7.5, 7.5)


@given(st.lists(st.integers(0, 9), min_size=1, max_size=6), st.integers(1, 3))
def test_longest_first_is_within_four_thirds_of_the_best_binding(work_s: list[int], workers: int) -> None:
    amounts = np.array(work_s, float)

    def busiest(placed: np.ndarray) -> float:
        return float(np.bincount(placed, weights=amounts, minlength=workers).max())

    best = min(busiest(np.array(placed)) for placed in product(range(workers), repeat=len(work_s)))
    assert busiest(longest_first(amounts, workers)) <= 4 / 3 * best + 1e-9


def test_a_run_without_results_has_no_latency() -> None:
    case = recorded([[1, 2]], [[0, 0]])
    assert lower_bound(case, 2) == in_order(case, 2) == LatencyBound(0.0, 0.0)


def test_a_record_whose_steps_begin_before_they_are_due_is_rejected() -> None:
    with pytest.raises(ConfigError, match="none before it is due"):
        Recorded(np.ones(1), np.zeros(1), np.ones((1, 1)), np.ones((1, 1), np.int64), NO_EDGES)
