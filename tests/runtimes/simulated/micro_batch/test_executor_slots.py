"""Slots of executors: list scheduling, and where workers are."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.runtimes.simulated.machine.hosts import Host, Link, Outage
from shoal.runtimes.simulated.machine.machine import HUB, Machine
from shoal.runtimes.simulated.machine.notation import machine_named
from shoal.runtimes.simulated.micro_batch.executor_slots import ExecutorSlots


def test_a_task_takes_the_slot_that_is_free_first() -> None:
    done = ExecutorSlots(machine_named("spark:1x2")).scheduled(np.array([3.0, 1.0, 1.0, 1.0, 1.0]), 10.0)
    assert done.end_s.tolist() == [13.0, 11.0, 12.0, 13.0, 14.0]
    assert done.last_s == 14.0


def test_free_slots_are_taken_from_executor_to_executor() -> None:
    done = ExecutorSlots(machine_named("spark:3x2")).scheduled(np.ones(5), 0.0)
    assert done.executor.tolist() == [0, 1, 2, 0, 1]


def test_a_slow_executor_takes_longer_for_the_same_work() -> None:
    machine = Machine(
        (Host("fast", 1, speed=2.0), Host("slow", 1)), (Link("fast", "slow", 1.0), Link("slow", "fast", 1.0))
    )
    done = ExecutorSlots(machine).pinned(np.array([4.0, 4.0]), np.array([0, 1]), 0.0)
    assert done.end_s.tolist() == [2.0, 4.0]


@given(st.lists(st.floats(0.0, 10.0), max_size=40), st.integers(1, 5), st.integers(1, 4))
def test_a_stage_takes_at_most_twice_the_least_possible(work: list[float], executors: int, slots: int) -> None:
    done = ExecutorSlots(machine_named(f"spark:{executors}x{slots}")).scheduled(np.array(work), 0.0)
    least = max([0.0, *work, sum(work) / (executors * slots)])
    assert least - 1e-9 <= max(0.0, done.last_s) <= 2 * least + 1e-9  # Graham's bound
    assert done.took_s.sum() == pytest.approx(sum(work))


def test_workers_of_an_executor_that_is_down_go_where_the_fewest_are() -> None:
    machine = machine_named("spark:3x2")
    slots = ExecutorSlots(machine, frozenset({1}))
    assert slots.homes(range(6)).tolist() == [0, 0, 0, 2, 2, 2]
    assert slots.homes([0, 1, 2]).tolist() == [0, 0, 2]
    assert slots.number == 4


def test_an_executor_is_down_from_begin_to_end_of_its_outage() -> None:
    hosts = (Host("a", 2), Host("b", 2))
    links = tuple(Link(*ends, 1e9) for host in "ab" for ends in ((host, HUB), (HUB, host)))
    machine = Machine(hosts, links, (Outage(1.0, "b", 2.0),), spark=True)
    assert [ExecutorSlots.at(machine, at_s).executors for at_s in (0.9, 1.0, 1.9, 2.0)] == [(0, 1), (0,), (0,), (0, 1)]
