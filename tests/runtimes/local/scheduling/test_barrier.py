"""Barriers: no worker continues before all have arrived and one has run the action."""

import threading

import pytest
from tests.runtimes.local.scheduling.test_worker_pool import PATIENCE_S, Relay, bound, channel_of, run

from shoal.runtimes.local.scheduling.barrier import Barrier
from shoal.runtimes.local.scheduling.bound_pool import QUEUES


def fail() -> None:
    raise LookupError("the action has a mistake")


def test_one_acts_while_all_others_wait() -> None:
    acted: list[str] = []
    barrier = Barrier(lambda: acted.append(threading.current_thread().name))
    observed: list[int] = []

    def wait_for_all() -> None:
        assert barrier.wait_for_all(lambda: 4) >= 0.0
        observed.append(len(acted))

    threads = [threading.Thread(target=wait_for_all) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert len(acted) == 1
    assert observed == [1] * 4
    assert barrier.done


def test_a_worker_that_has_exited_is_not_waited_for() -> None:
    running = 2
    acted = threading.Event()
    barrier = Barrier(acted.set)
    thread = threading.Thread(target=barrier.wait_for_all, args=(lambda: running,))
    thread.start()
    assert not acted.is_set()
    running = 1
    while thread.is_alive():
        barrier.recheck()
        thread.join(0.001)
    assert acted.is_set()


def test_a_barrier_whose_action_fails_releases_all() -> None:
    barrier = Barrier(fail)
    with pytest.raises(LookupError, match="has a mistake"):
        barrier.wait_for_all(lambda: 1)
    assert barrier.wait_for_all(lambda: 1) >= 0.0


@pytest.mark.parametrize("design", QUEUES)
def test_no_node_runs_while_the_world_is_stopped(design: str) -> None:
    ran: list[bool] = []
    nodes = [Relay(channel_of(*range(300)), index % 3, lambda: pool.stop_the_world(observe)) for index in range(6)]
    pool = bound(nodes, design)

    def observe() -> None:
        ran.append(any(pool.running))

    pool.stop_the_world(observe)
    run(pool)
    assert pool.error is None
    assert ran
    assert not any(ran)
    assert all(node.observed == list(range(900)) for node in nodes)
    assert sum(pool.stopped_s) > 0


def test_an_action_that_fails_ends_the_work_with_its_error() -> None:
    pool = bound([Relay(channel_of(*range(300)))], "single-queue")
    pool.stop_the_world(fail)
    run(pool)
    assert isinstance(pool.error, LookupError)
