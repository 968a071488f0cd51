"""Queueing at a worker that serves a flow of events and, now and then, many events at once."""

from dataclasses import dataclass

import numpy as np

from shoal.control.twin.profile import Floats


@dataclass(frozen=True, eq=False)
class Backlog:
    """The work that waits at a worker, in seconds, over time.

    `at_s` are the times at which the flow changes; `before_s` and `after_s` the backlog just before each and just
    after, `flow` the events per second from then on, `drift` how fast the backlog grows.
    """

    at_s: Floats
    before_s: Floats
    after_s: Floats
    flow: Floats
    drift: Floats

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
        return cls(times[:-1], before[:-1], before[:-1] + work[:-1], flow, drift)

    def waiting_s(self, bursts: Floats, at_s: Floats, until_s: float, event_s: float, *, random: bool = True) -> float:
        """The summed time that events wait: those of the flow, and those of the bursts behind what was there.

        `random`: events of the flow come at random times rather than regularly.
        """
        length = np.diff(self.at_s, append=until_s)
        falls = self.drift < 0
        empty_s = np.where(falls, self.after_s / np.maximum(-self.drift, 1e-12), length)
        busy_s = np.minimum(length, empty_s)
        area = busy_s * (self.after_s + np.maximum(self.after_s + self.drift * busy_s, 0.0)) / 2
        area += length * self._random_s(length, event_s) if random else 0.0
        inside = (at_s < until_s) & (bursts > 0)
        queued = self.before(at_s[inside]) + bursts[inside] * event_s / 2
        return float(self.flow @ area) + float(bursts[inside] @ queued)

    def _random_s(self, length: Floats, event_s: float) -> Floats:
        """The mean wait because events come at random times, in a queue that was empty at the beginning.

        It approaches that of the queue M/D/1. Before, it is that of a random walk that cannot be negative; with more
        events than can be served, that is in addition to what the flow leaves.
        """
        share = self.flow * event_s
        lasting_s = np.where(share < 1, share * event_s / (2 * np.maximum(1 - share, 1e-9)), np.inf)
        return np.minimum(lasting_s, 2 / 3 * event_s * np.sqrt(2 * self.flow * length / np.pi))

    def before(self, at_s: Floats) -> Floats:
        """The backlog just before some times."""
        place = np.maximum(np.searchsorted(self.at_s, at_s, side="left") - 1, 0)
        return np.maximum(0.0, self.after_s[place] + self.drift[place] * np.maximum(0.0, at_s - self.at_s[place]))
