"""Timers: an action after some time, if a run has not ended before."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def calling_after(seconds: float | None, action: Callable[[], None]) -> Iterator[None]:
    """Call the action after some seconds, unless the block is left before; its thread has exited when it is left.

    None means never.
    """
    if seconds is None:
        yield
        return
    timer = threading.Timer(seconds, action)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()
