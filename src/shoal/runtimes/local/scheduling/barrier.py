"""A barrier: all workers stop between two turns, the last one runs an action, and all continue."""

import threading
import time
from collections.abc import Callable


class Barrier:
    """One use of a barrier, which opens when all running workers have arrived."""

    def __init__(self, action: Callable[[], None]) -> None:
        """No worker has arrived yet."""
        self.done = False
        self.began_s = 0.0
        self._action = action
        self._arrived = 0
        self._change = threading.Condition()

    def wait_for_all(self, expected: Callable[[], int]) -> float:
        """Wait for `expected()` workers; the first to see all of them runs the action. Returns the seconds stopped.

        `expected` is asked again after every `recheck`. An action that raises opens the barrier as well.
        """
        began = time.perf_counter()
        with self._change:
            self.began_s = self.began_s or began
            self._arrived += 1
            while not self.done and self._arrived < expected():
                self._change.wait()
            if not self.done:
                try:
                    self._action()
                finally:
                    self.done = True
                    self._change.notify_all()
        return time.perf_counter() - began

    def recheck(self) -> None:
        """Ask `expected` again, since a worker has exited."""
        with self._change:
            self._change.notify_all()
