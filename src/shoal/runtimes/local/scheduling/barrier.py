"""Meetings: all workers stop between two turns, one of them does something, and all go on."""

import threading
import time
from collections.abc import Callable


class Meeting:
    """One meeting; it takes place when all who are present have come."""

    def __init__(self, action: Callable[[], None]) -> None:
        """Nobody has come yet."""
        self.over = False
        self.began_s = 0.0
        self._action = action
        self._came = 0
        self._change = threading.Condition()

    def attend(self, present: Callable[[], int]) -> float:
        """Wait for the others; whoever sees that all are there acts for all. Returns how long one stood still."""
        began = time.perf_counter()
        with self._change:
            self.began_s = self.began_s or began
            self._came += 1
            while not self.over and self._came < present():
                self._change.wait()
            if not self.over:
                try:
                    self._action()
                finally:
                    self.over = True
                    self._change.notify_all()
        return time.perf_counter() - began

    def look_again(self) -> None:
        """Somebody has left for good, who need not be waited for."""
        with self._change:
            self._change.notify_all()
