"""Runs that are computed by the thread that follows them, one event after another."""

import queue
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator

from shoal.model.control.messages import Command, Drain, Event, RunEnded


class FollowedRun(ABC):
    """Computes each next event in the thread that iterates over `events`; other threads leave commands.

    A subclass sets `_run` when it starts, to all events but `RunEnded`, and reads `_commands` and `_stopping`.
    """

    _run: Iterator[Event]

    def __init__(self) -> None:
        """No command yet."""
        self._commands: queue.SimpleQueue[Command] = queue.SimpleQueue()
        self._stopping = threading.Event()
        self._ended: RunEnded | None = None

    @abstractmethod
    def now_s(self) -> float:
        """The clock of the run."""

    @abstractmethod
    def _close(self) -> None:
        """Release what the run has opened."""

    def _end_s(self) -> float:
        """When the run ended, if nothing failed."""
        return self.now_s()

    def events(self) -> Iterator[Event]:
        """Run; each next event is computed in the calling thread."""
        if self._ended is None:
            try:
                yield from self._run
            except Exception as failure:  # noqa: BLE001  (the session must get every failure)
                self._ended = RunEnded(failure, at_s=self.now_s())
            self._close()
        self._ended = self._ended or RunEnded(at_s=self._end_s())
        yield self._ended

    def apply(self, command: Command) -> None:
        """Request a change before the next epoch."""
        if isinstance(command, Drain):
            self.stop()
        else:
            self._commands.put(command)

    def stop(self) -> None:
        """Read no more input, emit every open window, and end."""
        self._stopping.set()
