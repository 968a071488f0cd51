"""Meetings: nobody goes on before all have come and one has acted."""

import threading

import pytest
from tests.runtimes.local.scheduling.test_worker_pool import PATIENCE_S, Relay, bound, channel_of, run

from shoal.runtimes.local.scheduling.barrier import Meeting
from shoal.runtimes.local.scheduling.bound_pool import QUEUES


def fail() -> None:
    raise LookupError("the action has a mistake")


def test_one_acts_while_all_others_wait() -> None:
    acted: list[str] = []
    meeting = Meeting(lambda: acted.append(threading.current_thread().name))
    seen: list[int] = []

    def attend() -> None:
        assert meeting.attend(lambda: 4) >= 0.0
        seen.append(len(acted))

    threads = [threading.Thread(target=attend) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert len(acted) == 1
    assert seen == [1] * 4
    assert meeting.over


def test_who_has_left_is_not_waited_for() -> None:
    present = 2
    acted = threading.Event()
    meeting = Meeting(acted.set)
    thread = threading.Thread(target=meeting.attend, args=(lambda: present,))
    thread.start()
    assert not acted.is_set()
    present = 1
    while thread.is_alive():
        meeting.look_again()
        thread.join(0.001)
    assert acted.is_set()


def test_a_meeting_whose_action_fails_lets_all_go() -> None:
    meeting = Meeting(fail)
    with pytest.raises(LookupError, match="has a mistake"):
        meeting.attend(lambda: 1)
    assert meeting.attend(lambda: 1) >= 0.0


@pytest.mark.parametrize("design", QUEUES)
def test_no_node_runs_while_a_crew_meets(design: str) -> None:
    ran: list[bool] = []
    nodes = [Relay(channel_of(*range(300)), place % 3, lambda: crew.meet(look)) for place in range(6)]
    crew = bound(nodes, design)

    def look() -> None:
        ran.append(any(crew.running))

    crew.meet(look)
    run(crew)
    assert crew.error is None
    assert ran
    assert not any(ran)
    assert all(node.seen == list(range(900)) for node in nodes)
    assert sum(crew.stood_s) > 0


def test_an_action_that_fails_ends_the_work_with_its_error() -> None:
    crew = bound([Relay(channel_of(*range(300)))], "single-queue")
    crew.meet(fail)
    run(crew)
    assert isinstance(crew.error, LookupError)
