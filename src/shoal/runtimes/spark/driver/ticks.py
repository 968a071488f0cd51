"""Ticks: epochs without rows, so that commands, moves, idle limits and windows by the clock do not wait for rows.

Spark begins an epoch only when the offset of a source changes. The driver therefore leaves a request in the directory
of one source, and the reader of that source, which runs in another process, returns it as a part of its offset.
"""

import time
from collections.abc import Callable, Iterable

from shoal.compiler.program import Program
from shoal.compiler.watermarks import TICK_S, moves_with_time
from shoal.runtimes.spark.driver.position import Position
from shoal.runtimes.spark.tasks.source import TICK
from shoal.storage.directory import Directory


class Ticks:
    """The driver's side: asks for an epoch when none has been committed for a while."""

    def __init__(self, locations: Iterable[str], clock: Callable[[], float] = time.monotonic) -> None:
        """Use the first of the directories of sources; without any, there are no ticks."""
        self._directory = next((Directory(location) for location in locations), None)
        self._clock = clock
        self._asked: int | None = None
        self._last = -1
        self._since_s = clock()
        self.withdraw()

    def ask(self, last: int, reason: Callable[[], bool]) -> None:
        """Called between epochs with the last one committed; `reason` says whether something waits for the next."""
        now_s = self._clock()
        if last != self._last:
            self._last, self._since_s = last, now_s
            if self._asked is not None:
                self.withdraw()
        if self._directory is None or self._asked is not None or now_s < self._since_s + TICK_S:
            return
        self._since_s = now_s
        if reason():
            self._asked = last + 1
            self._directory.write(TICK, str(self._asked).encode())

    def withdraw(self) -> None:
        """Ask for nothing."""
        self._asked = None
        if self._directory is not None:
            self._directory.delete([TICK])


def waits(position: Position, compiled: Program) -> bool:
    """Whether a rebinding is in progress or state is still to be read, or time alone may change state or watermarks."""
    moving = position.rebinding is not None or position.coming is not None or bool(position.closed)
    return (
        moving
        or bool(position.postponed)
        or moves_with_time(compiled, position.watermarks_us, holds_state=bool(position.homes))
    )
