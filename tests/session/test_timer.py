"""Timers: the action comes once or not at all, and no thread is left."""

import threading

import pytest

from shoal.session.timer import calling_after

PATIENCE_S = 30.0


def test_the_action_is_called_after_its_time() -> None:
    called = threading.Event()
    with calling_after(0.0, called.set):
        assert called.wait(PATIENCE_S)


@pytest.mark.parametrize("seconds", [None, 1000.0], ids=["without a time", "before its time"])
def test_the_action_is_not_called_when_the_block_is_left_before(seconds: float | None) -> None:
    called, before = threading.Event(), set(threading.enumerate())
    with pytest.raises(KeyboardInterrupt), calling_after(seconds, called.set):
        raise KeyboardInterrupt
    assert not called.is_set()
    assert set(threading.enumerate()) == before
