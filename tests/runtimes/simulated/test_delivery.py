"""Delivery: by which time the latency of simulated results counts."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from shoal.runtimes.simulated.delivery import Delivery
from shoal.runtimes.simulated.engine.arrays import RESULT

PART_OF = np.array([0, 1, 1, 2])
RESULTS = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 4), st.floats(0, 10)), max_size=40)


def results_of(rows: list[tuple[int, int, float]]) -> NDArray[np.void]:
    results = np.zeros(len(rows), RESULT)
    for number, (task, step, latency_s) in enumerate(rows):
        results[number] = (task, step, 0, 1, step % 3, 0.0, latency_s)
    return results


@given(RESULTS)
def test_results_are_there_at_once_without_a_period_or_parts(rows: list[tuple[int, int, float]]) -> None:
    found = Delivery().latencies(results_of(rows), PART_OF, epoch=0)
    assert found.tolist() == [latency_s for _, _, latency_s in rows]


@given(RESULTS, st.integers(0, 9), st.integers(0, 9))
def test_the_wait_for_the_sink_is_a_part_of_the_period_and_the_same_for_the_same_seed(
    rows: list[tuple[int, int, float]], seed: int, epoch: int
) -> None:
    results, delivery = results_of(rows), Delivery(0.5, seed)
    waited_s = delivery.latencies(results, PART_OF, epoch) - results["latency_s"]
    assert ((waited_s >= 0) & (waited_s <= 0.5 + 1e-12)).all()
    again = Delivery(0.5, seed).latencies(results, PART_OF, epoch)
    assert again.tolist() == delivery.latencies(results, PART_OF, epoch).tolist()


def test_measured_waits_are_drawn_by_the_number_of_other_busy_workers() -> None:
    results = results_of([(0, step, 1.0) for step in range(3000)])
    measured_s = ((0.0, 0.0), (0.5, 1.5))
    waited_s = Delivery(measured_s=measured_s).latencies(results, PART_OF, epoch=0) - 1.0
    assert set(waited_s[results["others"] == 0].tolist()) == {0.0}
    assert set(waited_s[results["others"] > 0].tolist()) == {0.5, 1.5}
    assert waited_s[results["others"] > 0].mean() == pytest.approx(1.0, abs=0.05)


def test_the_mean_wait_for_the_sink_is_half_of_the_period() -> None:
    results = results_of([(0, step, 1.0) for step in range(5000)])
    assert Delivery(0.2).latencies(results, PART_OF, epoch=3).mean() == pytest.approx(1.1, abs=0.005)
