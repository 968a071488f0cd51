"""Replicas at a standby host: what they save when instances move there, what they cost, and what a lost host leaves."""

from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest
from tests.runtimes.simulated.network.test_lost_host import losses, run_with, wrong_queries
from tests.small_city import city, result_tables

from shoal.errors import ConfigError
from shoal.mechanisms.checkpoint_assisted import NO_REPLICA
from shoal.model.control.binding import Binding
from shoal.model.control.messages import EpochCommitted, MoveReport
from shoal.session.digest import differences
from shoal.session.run import Run, start

STAR = "star:3x1@4Mbit,5ms"
STANDBY = "host-3"


@dataclass(frozen=True)
class Moved:
    """The moves of a run, the bytes that were replicated, and when it ended."""

    moves: tuple[MoveReport, ...]
    replicated: int
    ended_s: float

    @property
    def sent(self) -> int:
        return sum(move.state_bytes for move in self.moves)

    @property
    def seconds(self) -> float:
        return max(move.seconds or 0.0 for move in self.moves)

    @property
    def notes(self) -> set[str]:
        return {move.note for move in self.moves}


@cache
def moved(mechanism: str, target: int, period_s: str = "", topology: str = STAR) -> Moved:
    """A run in which all instances of worker 0 move to another one at 1.5 s; with a period, host 3 has replicas."""
    ready = city(events=1_200, rate=600.0)
    given = {"detail": "rows", "topology": topology, "step_s": "0.1"}
    given |= {"standby": STANDBY, "replication_s": period_s} if period_s else {}
    run = start(ready.job, on="simulated", workers=3, policy="round-robin", mechanism=mechanism, conf=given)
    replicated = ended_s = 0.0

    def act(run: Run, event: EpochCommitted) -> None:
        nonlocal replicated, ended_s
        replicated, ended_s = replicated + event.state_bytes_ahead, event.at_s
        if abs(event.at_s - 1.5) < 1e-6:
            assert run.binding is not None
            here = run.binding.worker_of
            run.rebind(Binding.of({i: target if worker == 0 else int(worker) for i, worker in here.items()}, 3))

    run.wait(act)
    assert differences(result_tables(run), ready.expected(run.consumed)) == []
    (finished,) = run.finished
    return Moved(finished.moves, int(replicated), ended_s)


def test_a_move_to_the_standby_host_sends_only_what_has_changed_since() -> None:
    copied, assisted = moved("rhino", 2), moved("checkpoint-assisted", 2, "0.4")
    assert copied.replicated == 0 < assisted.replicated
    assert assisted.notes == {""}
    assert assisted.sent < copied.sent / 2
    assert assisted.seconds < copied.seconds


def test_a_move_to_another_host_copies_first_as_rhino_and_says_so() -> None:
    copied, assisted = moved("rhino", 1), moved("checkpoint-assisted", 1, "0.4")
    assert assisted.notes == {NO_REPLICA}
    assert assisted.sent == pytest.approx(copied.sent, rel=0.1)  # replication takes bandwidth, so that more has changed


def test_without_a_standby_host_every_move_copies_first() -> None:
    copied, assisted = moved("rhino", 2), moved("checkpoint-assisted", 2)
    assert assisted.notes == {NO_REPLICA}
    assert (assisted.sent, assisted.seconds, assisted.replicated) == (copied.sent, copied.seconds, 0)


def test_an_older_replica_leaves_more_to_send() -> None:
    new, old = moved("checkpoint-assisted", 2, "0.4"), moved("checkpoint-assisted", 2, "0.9")
    assert new.sent < old.sent  # the last copies were made at 1.2 and 0.9 s


def test_a_copy_that_takes_longer_than_its_period_does_not_queue_up() -> None:
    run = moved("checkpoint-assisted", 2, "0.02", "star:3x1@400kbit,5ms")
    hosts, bytes_per_s = 2, 400e3 / 8
    assert run.replicated < hosts * bytes_per_s * run.ended_s


def test_instances_of_a_lost_host_go_on_with_their_replicas(tmp_path: Path) -> None:
    run = run_with(tmp_path, None, standby="a", replication_s="0.5")
    lost = [move.lost for move in losses(run) if move.lost is not None]
    assert lost
    assert all(each.share < 1 for each in lost)
    assert wrong_queries(run) <= {query.query for each in lost for query in each.queries}


@pytest.mark.slow
def test_replicas_are_gone_with_their_host(tmp_path: Path) -> None:
    run = run_with(tmp_path, None, standby="b", replication_s="0.5")
    lost = [move.lost for move in losses(run) if move.lost is not None]
    assert lost
    assert all(each.share == 1.0 for each in lost)


@pytest.mark.parametrize(
    ("conf", "message"),
    [
        pytest.param({"standby": "host-9", "detail": "rows"}, "standby must be a host", id="no such host"),
        pytest.param({"standby": STANDBY}, "with detail=rows only", id="steps"),
        pytest.param({"replication_s": "2", "detail": "rows"}, "needs standby=HOST", id="a period alone"),
        pytest.param({"standby": STANDBY, "replication_s": "0", "detail": "rows"}, "more than 0", id="no period"),
    ],
)
def test_settings_that_make_no_sense_are_refused(conf: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        start(city().job, on="simulated", workers=2, conf={"topology": STAR, **conf})
