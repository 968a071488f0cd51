"""Moves with a limit between threads: all else is dropped at a barrier, and exactly that is reported."""

import pytest
from tests.runtimes.simulated.network.test_lost_host import losses, wrong_queries
from tests.small_city import city

from shoal.model.control.binding import Binding
from shoal.model.control.messages import EpochCommitted
from shoal.session.run import Run, start


def moved(mechanism: str = "lazy-utility", conf: dict[str, str] | None = None, **limit: float) -> Run:
    """A run in which all instances go to the first worker, once a tenth of the events are read."""
    ready = city(events=3_000, rate=3_000.0)
    run = start(ready.job, on="local", workers=2, policy="round-robin", mechanism=mechanism, conf=conf or {})
    asked = list[str]()

    def act(run: Run, event: EpochCommitted) -> None:
        if run.consumed > 300 and not asked:
            worker_of = dict.fromkeys(run.job.graph.stateful_instances, 0)
            asked.append(run.rebind(Binding.of(worker_of, 2), **limit))  # type: ignore[arg-type]

    run.wait(act)
    assert asked
    return run


def reported(run: Run) -> set[str]:
    return {query.query for move in losses(run) for query in (move.lost.queries if move.lost else ())}


@pytest.mark.parametrize("selection", ["greedy", "optimal"])
def test_only_queries_with_a_reported_loss_have_other_results(selection: str) -> None:
    run = moved(conf={"selection": selection}, most_bytes=500)
    assert run.refused == []
    moves = [move for event in run.finished for move in event.moves]
    assert [move.aborted for move in moves] == [""] * len(moves), "the run must not end before it is asked to move"
    assert losses(run)
    assert wrong_queries(run) <= reported(run)
    assert sum(move.state_bytes for move in moves) <= 500 * 1.5  # tables have more bytes than their rows need


def test_a_capacity_for_all_state_loses_nothing() -> None:
    run = moved(most_bytes=1_000_000_000)
    assert run.refused == []
    assert losses(run) == []
    assert wrong_queries(run) == set()


def test_a_deadline_is_a_capacity_by_the_given_bandwidth() -> None:
    few, many = (moved(conf={"bytes_per_s": speed}, within_s=0.5) for speed in ("500", "1e9"))
    assert losses(few)
    assert wrong_queries(few) <= reported(few)
    assert losses(many) == []
    assert wrong_queries(many) == set()


@pytest.mark.parametrize(
    ("mechanism", "limit", "message"),
    [
        pytest.param("lazy-utility", {"within_s": 1.0}, "needs a bandwidth; set bytes_per_s", id="no bandwidth"),
        pytest.param("rhino", {"most_bytes": 9}, "is by lazy-utility, which chooses the state", id="no choice"),
    ],
)
def test_a_limit_that_cannot_be_kept_is_refused(mechanism: str, limit: dict[str, float], message: str) -> None:
    run = moved(mechanism, None, **limit)
    [refused] = run.refused
    assert message in refused.reason
    assert losses(run) == []
    assert wrong_queries(run) == set()
