"""Timer slack is that of the thread that asks for it."""

import ctypes
import sys
import threading

import pytest

from shoal.runtimes.local.scheduling.timer_slack import SLACK_NS, exact_timers


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no timer slack")
def test_a_thread_has_exact_timers_and_the_one_that_started_it_has_not() -> None:
    slacks: list[int] = []

    def ask() -> None:
        assert exact_timers()
        slacks.append(_slack_ns())

    before_ns = _slack_ns()
    thread = threading.Thread(target=ask)
    thread.start()
    thread.join()
    assert slacks == [SLACK_NS]
    assert _slack_ns() == before_ns != SLACK_NS


def test_without_a_c_library_that_has_it_nothing_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ctypes.CDLL", lambda _name: object())
    assert not exact_timers()


def _slack_ns() -> int:
    return int(ctypes.CDLL(None).prctl(30, 0, 0, 0, 0))
