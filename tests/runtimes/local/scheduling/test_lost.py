"""Lost workers: the others take over their work, no row is lost, and the session gets a report."""

import threading
from unittest.mock import ANY

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.random_graphs import cases
from tests.runtimes.local import witness
from tests.runtimes.local.controlled import Rows
from tests.runtimes.local.fragile import Mishap, losing
from tests.runtimes.local.migration.test_rebinding import KINDS, resize, shuffle
from tests.runtimes.local.nudged import Nudged
from tests.runtimes.local.scheduling.test_worker_pool import POOLS, Relay, Spring, channel_of, linked, run
from tests.runtimes.local.witness import Witness

from shoal.errors import RunError
from shoal.model.control.messages import Rebind, RunEnded, WorkersLost
from shoal.model.query.graph import Graph
from shoal.policies.binding.static import round_robin
from shoal.runtimes.local.runtime import LocalRuntime
from shoal.runtimes.local.scheduling.bound_pool import QUEUES, BoundPool


def rest(nudged: Nudged) -> None:
    pass


class Restless(Spring):
    """A source that is always ready."""

    @property
    def waiting(self) -> bool:
        return True


def losses(nudged: Nudged) -> list[WorkersLost]:
    return [event for event in nudged.events if isinstance(event, WorkersLost)]


@pytest.mark.parametrize("taken", [False, True], ids=["between two turns", "with a turn in hand"])
@pytest.mark.parametrize("kind", [kind for kind in POOLS if kind != "threads"])
def test_others_do_what_a_lost_worker_would_have_done(kind: str, taken: bool) -> None:
    chain: list[Relay] = [Relay(channel_of(*range(200)))]
    for home in (1, 2, 0, 1, 2):
        chain.append(Relay(linked(chain[-1]), home))
    pool = POOLS[kind](chain)
    with losing(type(pool), {1: 3, 2: 5}, taken=taken):
        run(pool)
    assert pool.error is None
    assert pool.finished()
    assert sorted(worker for worker, _ in pool.lost) in ([1, 2], [1], [2], [])  # one may have asked less often
    for node in chain:
        assert node.overlaps == 0
        assert node.observed == list(range(600))
    assert not any(pool.running)


def test_a_thread_of_its_own_that_is_lost_ends_the_work() -> None:
    pool = POOLS["threads"]([Restless("spring"), Relay(channel_of(1))])
    with losing(type(pool), {0: 2}):
        run(pool)
    assert isinstance(pool.error, RunError)
    assert isinstance(pool.error.__cause__, Mishap)


@pytest.mark.parametrize("kind", [kind for kind in POOLS if kind != "threads"])
def test_when_all_are_lost_the_work_ends_with_an_error(kind: str) -> None:
    pool = POOLS[kind]([Restless("spring", home=home) for home in range(3)])
    with losing(type(pool), {0: 2, 1: 3, 2: 4}):
        run(pool)
    assert sorted(worker for worker, _ in pool.lost) == [0, 1, 2]
    assert isinstance(pool.error, RunError)
    assert "no worker is left; worker" in str(pool.error)
    assert "Mishap: worker" in str(pool.error)


@pytest.mark.parametrize("taken", [False, True], ids=["between two turns", "with a turn in hand"])
@pytest.mark.parametrize("design", QUEUES)
@pytest.mark.parametrize("kind", KINDS)
def test_a_run_that_loses_workers_goes_on_whatever_moves(kind: str, design: str, taken: bool) -> None:
    rows, observed = witness.numbered(400), Witness()
    options = {"queues": design, **KINDS[kind].options}
    nudged = Nudged(witness.graph(), rows, 3, KINDS[kind].nudge, 5, options)
    with observed.watching(), losing(BoundPool, {0: 20, 2: 30}, taken=taken, last=False):
        nudged.run()
    nudged.assert_right()
    observed.assert_in_order(rows)
    lost = losses(nudged)
    assert {loss.workers for loss in lost} >= {(0,)}
    assert lost[0].reason.startswith("Mishap: worker")


@settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck))
@given(cases(), st.integers(2, 4), st.sampled_from(sorted(QUEUES)), st.integers(1, 30), st.integers(0, 2**32))
def test_no_result_of_any_graph_changes(
    case: tuple[Graph, Rows], workers: int, design: str, at: int, seed: int
) -> None:
    with losing(BoundPool, {seed % workers: at}, taken=bool(seed & 64)):
        nudged = Nudged(*case, workers, shuffle, seed, {"queues": design}).run()
    nudged.assert_right()


def test_a_run_that_loses_all_workers_ends_with_an_error() -> None:
    with losing(BoundPool, {0: 10, 1: 12}):
        nudged = Nudged(witness.graph(), witness.numbered(2_000), 2, rest).run()
    ended = nudged.events[-1]
    assert isinstance(ended, RunEnded)
    assert isinstance(ended.error, RunError)
    assert sorted(loss.workers for loss in losses(nudged)) == [(0,), (1,)]


def test_instances_of_a_lost_worker_can_be_bound_elsewhere_and_a_new_worker_takes_its_place() -> None:
    graph = witness.graph()
    asked: list[int] = []

    def heal(nudged: Nudged) -> None:
        """Rebind as a controller would: without the lost worker first, with it again later."""
        runtime = nudged.runtime
        present = _running_threads(runtime)
        if not asked and len(present) == 1:
            asked.append(1)
            runtime.apply(Rebind(round_robin(graph, 1)))
        elif asked == [1] and present == {0}:
            asked.append(2)
            runtime.apply(Rebind(round_robin(graph, 2)))

    with losing(BoundPool, {0: 10}):
        nudged = Nudged(graph, witness.numbered(1_500), 2, heal).run()
    nudged.assert_right()
    assert losses(nudged) == [WorkersLost((0,), "Mishap: worker 0 stumbled", at_s=ANY)]
    assert asked == [1, 2]
    assert nudged.reports[-1].snapshot.binding == round_robin(graph, 2)


def _running_threads(runtime: LocalRuntime) -> set[int]:
    return set(runtime.pool._running_threads)


def test_the_error_of_an_operator_is_not_a_lost_worker() -> None:
    def fail(nudged: Nudged) -> None:
        raise LookupError("the source has a mistake")

    nudged = Nudged(witness.graph(), witness.numbered(10), 2, fail).run()
    ended = nudged.events[-1]
    assert isinstance(ended, RunEnded)
    assert isinstance(ended.error, LookupError)
    assert losses(nudged) == []


def test_an_operator_that_tries_to_end_its_thread_ends_the_run() -> None:
    def leave(nudged: Nudged) -> None:
        raise SystemExit("enough")

    nudged = Nudged(witness.graph(), witness.numbered(10), 2, leave).run()
    ended = nudged.events[-1]
    assert isinstance(ended, RunEnded)
    assert isinstance(ended.error, RunError)
    assert "ended with SystemExit: enough" in str(ended.error)


@pytest.mark.parametrize("seed", range(5))
def test_workers_may_be_lost_while_they_come_and_go(seed: int) -> None:
    with losing(BoundPool, {1: 5, 2: 4, 3: 2}):  # worker 0 always runs
        nudged = Nudged(witness.graph(), witness.numbered(400), 2, resize, seed, {"most_workers": 5}).run()
    nudged.assert_right()


@pytest.mark.parametrize("seed", range(5))
def test_a_run_that_loses_its_last_worker_while_others_come_and_go_never_ends_as_if_it_were_done(seed: int) -> None:
    with losing(BoundPool, {0: 15, 1: 5, 3: 2}):
        nudged = Nudged(witness.graph(), witness.numbered(400), 2, resize, seed, {"most_workers": 5}).run()
    ended = nudged.events[-1]
    assert isinstance(ended, RunEnded)
    if ended.error is None:
        nudged.assert_right()
    else:
        assert "no worker is left; worker" in str(ended.error)


def test_a_worker_that_is_about_to_leave_does_not_replace_a_lost_one() -> None:
    pool = BoundPool([Restless("spring"), Relay(channel_of(1))], "worker-queue", [0, 0])
    pool._running_threads = {worker: threading.Thread() for worker in range(2)}
    pool.threads = 1  # worker 1 exits after its turn
    pool._lose(0, Mishap("stumbled"))
    assert isinstance(pool.error, RunError)
    assert "no worker is left; worker 0 was lost" in str(pool.error)
