"""The calendar: what happens when; what happens at the same time, in the order in which it was planned."""

import heapq
from collections.abc import Callable
from itertools import count

Action = Callable[[], None]


class Calendar:
    """Actions by time.

    >>> calendar, seen = Calendar(), []
    >>> calendar.add(2.0, lambda: seen.append("b"))
    >>> calendar.add(1.0, lambda: seen.append("a"))
    >>> calendar.run(1.5)
    >>> seen, calendar.now_s
    (['a'], 1.5)
    """

    def __init__(self) -> None:
        """Nothing is planned; it is 0."""
        self.now_s = 0.0
        self._planned: list[tuple[float, int, Action]] = []
        self._order = count()

    def add(self, at_s: float, action: Action) -> None:
        """Plan an action; one in the past happens now."""
        heapq.heappush(self._planned, (max(at_s, self.now_s), next(self._order), action))

    def run(self, until_s: float) -> None:
        """Do everything that is planned up to a time, and let that time come."""
        while self._planned and self._planned[0][0] <= until_s:
            self.now_s, _, action = heapq.heappop(self._planned)
            action()
        self.now_s = max(self.now_s, until_s)

    @property
    def empty(self) -> bool:
        """Whether nothing is planned."""
        return not self._planned
