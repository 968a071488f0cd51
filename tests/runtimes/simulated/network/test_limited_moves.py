"""Moves with a deadline or a capacity: what is sent first, what is dropped, and what results are missing."""

from pathlib import Path

from tests.runtimes.simulated.network.test_lost_host import THREE_HOSTS, losses, wrong_queries
from tests.small_city import city

from shoal.model.control.binding import Binding
from shoal.model.control.messages import EpochCommitted, MoveReport, MovesFinished
from shoal.session.run import Run, start

OUTAGE = "outages:\n- {{host: b, at: 1.5 s{announced}}}\n"


def moved(
    tmp_path: Path,
    *,
    bandwidth: str = "40kbit",
    selection: str = "greedy",
    outage: str = "",
    mechanism: str = "lazy-utility",
    within_s: float | None = None,
    most_bytes: int | None = None,
) -> Run:
    """A run in which all instances leave the second host after 1 s."""
    machine = tmp_path / "machine.yaml"
    machine.write_text(THREE_HOSTS.format(bandwidth=bandwidth) + outage)
    given = {"detail": "rows", "topology": str(machine), "step_s": "0.05", "source": "outside", "selection": selection}
    ready = city(events=1_200, rate=600.0)
    run = start(ready.job, on="simulated", workers=2, policy="round-robin", mechanism=mechanism, conf=given)

    def act(run: Run, event: EpochCommitted) -> None:
        if abs(event.at_s - 1.0) < 1e-6:
            worker_of = dict.fromkeys(run.job.graph.stateful_instances, 0)
            run.rebind(Binding.of(worker_of, 2), within_s=within_s, most_bytes=most_bytes)

    run.wait(act)
    return run


def made(run: Run) -> tuple[MovesFinished, list[MoveReport]]:
    [event] = [each for each in run.finished if each.rebind == "request 1"]
    return event, list(event.moves)


def kept(run: Run) -> float:
    """The share of the utility that arrived, over all moves of the rebinding."""
    return 1 - sum(move.lost.share for move in made(run)[1] if move.lost is not None) / len(made(run)[1])


def test_a_move_ends_at_its_deadline_and_only_reported_queries_have_other_results(tmp_path: Path) -> None:
    run = moved(tmp_path, within_s=0.5)
    _, moves = made(run)
    lost = losses(run)
    assert lost
    assert all(move.seconds is not None and move.seconds <= 0.51 for move in moves)
    assert sum(move.state_bytes for move in moves) < 0.5 * 40_000 / 8 * 1.05
    reported = {query.query for move in lost for query in (move.lost.queries if move.lost else ())}
    assert wrong_queries(run) <= reported
    assert run.refused == []


def test_a_deadline_that_is_far_away_costs_nothing(tmp_path: Path) -> None:
    run = moved(tmp_path, bandwidth="100Mbit", within_s=1.0)
    assert made(run)[1]
    assert losses(run) == []
    assert wrong_queries(run) == set()


def test_no_more_bytes_than_the_capacity_are_sent(tmp_path: Path) -> None:
    run = moved(tmp_path, most_bytes=2_000)
    _, moves = made(run)
    lost = sum(move.lost.state_bytes for move in moves if move.lost is not None)
    overhead = 3 * 100 * len(moves)  # messages that tell targets to wait, and to go on
    assert lost
    assert sum(move.state_bytes for move in moves) <= 2_000 + overhead
    reported = {query.query for move in losses(run) for query in (move.lost.queries if move.lost else ())}
    assert wrong_queries(run) <= reported


def test_an_announced_outage_limits_what_is_sent_first(tmp_path: Path) -> None:
    """With the time known, an optimal choice keeps at least as much as the greedy one, and both more than chance."""
    outage = OUTAGE.format(announced=", announced: 1 s")
    names = ("greedy", "optimal", "random")
    found = {name: kept(moved(tmp_path, bandwidth="20kbit", selection=name, outage=outage)) for name in names}
    assert 0 < found["random"] < found["greedy"] < 1
    assert found["optimal"] > found["random"]


def test_other_mechanisms_drop_nothing_at_a_deadline(tmp_path: Path) -> None:
    run = moved(tmp_path, mechanism="megaphone", within_s=0.1)
    [refused] = run.refused
    assert "a move with a deadline or a capacity is by lazy-utility" in refused.reason
    assert losses(run) == []
