"""Queueing at a worker that serves a flow of events and, now and then, many events at once."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from shoal.control.twin.profile import Floats


@dataclass(frozen=True, eq=False)
class Backlog:
    """The work that waits at a worker, in seconds, over time.

    `at_s` are the times at which the flow changes; `before_s` and `after_s` the backlog just before each and just
    after, `flow` the events per second from then on, `drift` how fast the backlog grows. `event_s` is the work of an
    event, `until_s` the end of what is followed.
    """

    at_s: Floats
    before_s: Floats
    after_s: Floats
    flow: Floats
    drift: Floats
    event_s: float
    until_s: float

    @classmethod
    def of(cls, at_s: Floats, flows: Floats, bursts: Floats, event_s: float, until_s: float) -> "Backlog":
        """The backlog of events that take `event_s` each.

        At each time of `at_s` the flow changes by `flows` events per second and `bursts` events come at once.
        """
        inside = at_s < until_s
        order = np.argsort(at_s[inside], kind="stable")
        times = np.concatenate([[0.0], at_s[inside][order], [until_s]])
        flow = np.maximum(0.0, np.concatenate([[0.0], np.cumsum(flows[inside][order])]))
        work = np.concatenate([[0.0], bursts[inside][order] * event_s, [0.0]])
        drift = flow * event_s - 1
        # reflected at 0: what has come less what was served, less the lowest that this ever was
        ends = np.cumsum(work[:-1] + drift * np.diff(times))
        before = np.concatenate([[0.0], ends - np.minimum(0.0, np.minimum.accumulate(ends))])
        return cls(times[:-1], before[:-1], before[:-1] + work[:-1], flow, drift, event_s, until_s)

    @cached_property
    def _length(self) -> Floats:
        return np.diff(self.at_s, append=self.until_s)

    @cached_property
    def _busy_s(self) -> Floats:
        """For how long of each part there is a backlog."""
        empty_s = np.where(self.drift < 0, self.after_s / np.maximum(-self.drift, 1e-12), self._length)
        return np.minimum(self._length, empty_s)

    @property
    def clear_s(self) -> float:
        """When the last backlog is gone; `until_s` if it is not gone by then."""
        return float((self.at_s + self._busy_s)[self.after_s > 0].max(initial=0.0))

    def waiting_s(self, bursts: Floats, at_s: Floats, *, random: bool = True) -> float:
        """The summed time that events wait: those of the flow, and those of the bursts behind what was there.

        `random`: events of the flow come at random times rather than regularly.
        """
        busy_s = self._busy_s
        area = busy_s * (self.after_s + np.maximum(self.after_s + self.drift * busy_s, 0.0)) / 2
        area += self._length * self._random_s if random else 0.0
        inside = (at_s < self.until_s) & (bursts > 0)
        times, place = np.unique(at_s[inside], return_inverse=True)
        at_once = np.bincount(place, bursts[inside], times.size)  # who comes at the same time queues together
        queued = self.before(times) + at_once * self.event_s / 2
        return float(self.flow @ area) + float(at_once @ queued)

    @cached_property
    def _random_s(self) -> Floats:
        """The mean wait of each part because events come at random times, in a queue that was empty at the beginning.

        It approaches that of the queue M/D/1. Before, it is that of a random walk that cannot be negative; with more
        events than can be served, that is in addition to what the flow leaves.
        """
        share = self.flow * self.event_s
        lasting_s = np.where(share < 1, share * self.event_s / (2 * np.maximum(1 - share, 1e-9)), np.inf)
        begun = np.maximum(0.0, self.at_s - self.at_s[np.argmax(self.flow > 0)])
        ended = begun + np.maximum(self._length, 1e-9)
        root = 2 / 3 * (ended**1.5 - begun**1.5) / (ended - begun)  # the mean of the root of the time since then
        return np.minimum(lasting_s, self.event_s * np.sqrt(2 * self.flow / np.pi) * root)

    def before(self, at_s: Floats) -> Floats:
        """The backlog just before some times."""
        place = np.maximum(np.searchsorted(self.at_s, at_s, side="left") - 1, 0)
        return np.maximum(0.0, self.after_s[place] + self.drift[place] * np.maximum(0.0, at_s - self.at_s[place]))

    def expected(self, at_s: Floats) -> Floats:
        """The backlog just before some times, with what comes of events at random times."""
        place = np.maximum(np.searchsorted(self.at_s, at_s, side="left") - 1, 0)
        return self.before(at_s) + self._random_s[place]
