"""How many workers take turns: as few as keep up, and others when these fall behind, are stuck or are lost."""

import threading
from functools import reduce

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.runtimes.local.fragile import losing
from tests.runtimes.local.scheduling.test_worker_pool import PATIENCE_S, WORKERS, Relay, channel_of, linked, run

from shoal.policies.scheduling.catalog import SCHEDULING
from shoal.runtimes.local.scheduling.concurrency import BEHIND, MOST_PATIENCE, PATIENCE, Concurrency
from shoal.runtimes.local.scheduling.scheduler import Scheduler

KEPT_UP, FELL_BEHIND = 0.2, 100 * BEHIND


def after(start: Concurrency, *observations: float) -> Concurrency:
    return reduce(Concurrency.observed, observations, start)


@pytest.mark.parametrize(
    ("start", "observations", "active"),
    [
        pytest.param(1, [FELL_BEHIND], 2, id="twice as many take turns at once when sources are far behind"),
        pytest.param(1, [FELL_BEHIND] * 2, 4, id="and twice as many again while they still are"),
        pytest.param(4, [FELL_BEHIND] * 9, 4, id="but never more than there are"),
        pytest.param(4, [KEPT_UP] * (PATIENCE - 1), 4, id="none stands by after a short calm"),
        pytest.param(4, [KEPT_UP] * PATIENCE, 2, id="half of them stand by after a long one"),
        pytest.param(4, [KEPT_UP] * 9 * PATIENCE, 1, id="one always takes turns"),
        pytest.param(2, [BEHIND * 0.75] * 9 * PATIENCE, 2, id="between both limits all stays as it is"),
    ],
)
def test_workers_follow_how_far_sources_are_behind(start: int, observations: list[float], active: int) -> None:
    assert after(Concurrency(most=4, active=start), *observations).active == active


def test_after_a_failure_it_takes_twice_as_long_until_fewer_are_tried() -> None:
    failed = after(Concurrency(most=2, active=1), FELL_BEHIND)
    assert after(failed, *[KEPT_UP] * (2 * PATIENCE - 1)).active == 2
    assert after(failed, *[KEPT_UP] * 2 * PATIENCE).active == 1


@given(st.lists(st.floats(0, 1000), max_size=300), st.integers(1, 9))
def test_there_is_always_one_and_never_more_than_there_are(observations: list[float], most: int) -> None:
    now = Concurrency(most, most)
    for observation in observations:
        now = now.observed(observation)
        assert 1 <= now.active <= most
        assert PATIENCE <= now.patience <= MOST_PATIENCE


def scheduler(nodes: list[Relay]) -> Scheduler:
    return Scheduler(nodes, SCHEDULING["state-based"], WORKERS, target_s=0.002)


@pytest.fixture
def trusting(monkeypatch: pytest.MonkeyPatch) -> None:
    """No worker counts as stuck, however long the machine leaves its thread waiting."""
    monkeypatch.setattr("shoal.runtimes.local.scheduling.scheduler.STUCK_S", 2 * PATIENCE_S)


def test_one_worker_does_all_the_work_while_it_keeps_up(trusting: None) -> None:
    chain = [Relay(channel_of(*range(200)))]
    chain += [Relay(linked(chain[0]))]
    pool = scheduler(chain)
    run(pool)
    assert [node.observed for node in chain] == [list(range(600))] * 2
    assert chain[0].workers | chain[1].workers == {"shoal-worker-0"}
    assert pool.active_workers == 1


def test_others_take_turns_while_the_only_worker_is_stuck_in_one() -> None:
    released = threading.Event()
    stuck = Relay(channel_of(1), during_turn=lambda: released.wait(PATIENCE_S))
    free = Relay(channel_of(2), during_turn=released.set)
    pool = scheduler([stuck, free])
    run(pool)
    assert pool.error is None
    assert released.is_set()
    assert stuck.observed == free.observed == [0, 1, 2]
    assert not stuck.workers & free.workers


def test_another_worker_takes_the_place_of_one_that_is_lost(trusting: None) -> None:
    chain = [Relay(channel_of(*range(200)))]
    pool = scheduler(chain)
    with losing(Scheduler, {0: 1}, taken=False):
        run(pool)
    assert pool.error is None
    assert [worker for worker, _ in pool.lost] == [0]
    assert chain[0].observed == list(range(600))
