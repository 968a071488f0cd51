"""Contention: how much slower workers are that work at the same time."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.runtimes.local.contention import contention, factors
from shoal.workloads.catalog import workload
from shoal.workloads.workload import Amount


@given(st.floats(1, 5), st.floats(1, 5), st.floats(0.05, 1))
def test_the_factor_of_two_workers_explains_the_mean_with_one_and_two_busy_workers(
    alone: float, more: float, share: float
) -> None:
    both = alone * more
    mean = alone + share * (both - alone)
    assert factors([(alone, 0.0), (mean, share)]) == pytest.approx([alone, both], abs=2e-5)


@given(st.lists(st.tuples(st.floats(0.9, 10), st.floats(0, 8)), min_size=1, max_size=6))
def test_work_is_never_faster_with_more_busy_workers_nor_than_on_the_processor(
    measured: list[tuple[float, float]],
) -> None:
    found = factors(measured)
    assert len(found) == len(measured)
    assert found == sorted(found)
    assert found[0] >= 1.0


def test_workers_that_were_hardly_busy_together_say_nothing_about_contention() -> None:
    assert factors([(1.5, 0.0), (9.0, 0.001)]) == [1.5, 1.5]


def test_contention_is_measured_at_a_rate_and_as_fast_as_possible() -> None:
    job = workload("ysb").ready(0, Amount(20_000), {"per_s": "1000"}).job
    found = contention(job.graph, job.sources, event_s=1e-6)
    assert set(found) == {"at_rate", "as_fast_as_possible"}
    assert len(found["at_rate"]) == len(found["as_fast_as_possible"]) >= 1
    assert min(found["at_rate"] + found["as_fast_as_possible"]) >= 1.0
