"""When subscriptions of the `geo-pubsub` workload change: at a steady rate, and in bursts with every hotspot.

A stretch of event time has either the steady changes alone, or bursts evenly among them. All its changes have times of
their own, so that the order of two changes of a subscription is never in doubt.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from shoal.errors import ConfigError
from shoal.workloads.geo_pubsub.hotspots import Heat

MICROSECONDS = 1_000_000
BURST_US = 60 * MICROSECONDS
"""A hotspot's subscriptions come within a minute of its start, and go within a minute of its end."""
ENDLESS = 1 << 62


@dataclass(frozen=True)
class Stretch:
    """Changes from `start_us` on: number k, from 0, comes `(k + 1) * num // den` microseconds later.

    Bursts are hotspots whose subscriptions come (2 * number) or go (2 * number + 1), `hot` changes in all.
    """

    start_us: int
    changes: int
    num: int
    den: int
    hot: int = 0
    bursts: tuple[int, ...] = ()

    def before(self, offset_us: int) -> int:
        """How many of its changes come before an offset of event time."""
        elapsed = max(0, offset_us - self.start_us)
        return min(self.changes, max(0, -(-elapsed * self.den // self.num) - 1))


@dataclass(frozen=True)
class ChangeTimes:
    """The times of all changes: `per_s` steady ones, and `hot` subscriptions that come and go with every hotspot.

    >>> times = ChangeTimes(Heat(hot_from_s=1, hot_s=2), per_s=2, hot=4)
    >>> [times.offset_us(index) / 1_000_000 for index in range(9)]
    [0.5, 1.0, 1.166666, 1.333333, 1.5, 1.666666, 1.833333, 2.0, 2.5]
    >>> times.before(2_000_000)
    7
    """

    heat: Heat
    per_s: int
    hot: int

    def __post_init__(self) -> None:
        """Reject more changes than microseconds."""
        for stretch in self.stretches:
            if stretch.den > stretch.num:
                raise ConfigError(
                    f"geo-pubsub subscriptions must not change more than once a microsecond; "
                    f"got churn {self.per_s} per second and {self.hot} subscriptions of a hotspot"
                )

    @cached_property
    def stretches(self) -> tuple[Stretch, ...]:
        """The stretches that have changes, in order; the last one ends never if there are steady changes."""
        return tuple(stretch for stretch in self._all() if stretch.changes)

    @cached_property
    def firsts(self) -> tuple[int, ...]:
        """The index of the first change of every stretch, and of the one behind the last."""
        found = [0]
        for stretch in self.stretches:
            found.append(found[-1] + stretch.changes)
        return tuple(found)

    @property
    def total(self) -> int | None:
        """How many changes there are; None if they never end."""
        return None if self.firsts[-1] >= ENDLESS else self.firsts[-1]

    def before(self, offset_us: int) -> int:
        """How many changes come before an offset of event time from the start."""
        return sum(stretch.before(offset_us) for stretch in self.stretches)

    def offset_us(self, index: int) -> int:
        """The offset of event time of a change."""
        at = int(np.searchsorted(self.firsts, index, side="right")) - 1
        if at == len(self.stretches):
            raise ConfigError(f"geo-pubsub has {self.firsts[-1]} changes of subscriptions; got number {index}")
        stretch = self.stretches[at]
        return stretch.start_us + (index - self.firsts[at] + 1) * stretch.num // stretch.den

    def rate_until(self, offset_us: int) -> float:
        """The least steady rate, in changes per second, that keeps up with them up to an offset of event time.

        >>> ChangeTimes(Heat(hot_from_s=1, hot_s=2), per_s=2, hot=4).rate_until(10_000_000)
        4.0
        """
        ends = [stretch.start_us + stretch.num for stretch in self.stretches if stretch.bursts]
        moments = [end for end in (*ends, offset_us) if 0 < end <= offset_us]
        return max((self.before(at + 1) / at * MICROSECONDS for at in moments), default=0.0)

    def table(self) -> npt.NDArray[np.int64]:
        """A row per stretch for compiled loops: first change, first steady one, start, num, den, hot, bursts, two."""
        rows, steady = [], 0
        for first, stretch in zip(self.firsts, self.stretches, strict=False):
            bursts = (*stretch.bursts, 0, 0)[:2]
            fixed = (stretch.start_us, stretch.num, stretch.den, stretch.hot)
            rows.append((first, steady, *fixed, len(stretch.bursts), *bursts))
            steady += stretch.changes - stretch.hot
        return np.array(rows, np.int64).reshape(len(rows), 9)

    def _all(self) -> Iterator[Stretch]:
        """Steady stretches and those with bursts by turns."""
        now_us = 0
        for start_us, bursts in self._bursts().items():
            yield Stretch(now_us, (start_us - now_us) * self.per_s // MICROSECONDS, MICROSECONDS, self.per_s)
            hot = self.hot * len(bursts)
            changes = hot + self.per_s * self._burst_us // MICROSECONDS
            yield Stretch(start_us, changes, self._burst_us, changes, hot, tuple(bursts))
            now_us = start_us + self._burst_us
        yield Stretch(now_us, ENDLESS if self.per_s else 0, MICROSECONDS, self.per_s)

    def _bursts(self) -> dict[int, list[int]]:
        """When bursts begin, and what they are."""
        found: dict[int, list[int]] = {}
        if self.hot:
            for number, hotspot in enumerate(self.heat.hotspots):
                found.setdefault(hotspot.from_us, []).append(2 * number)
                found.setdefault(hotspot.until_us, []).append(2 * number + 1)
        return dict(sorted(found.items()))

    @cached_property
    def _burst_us(self) -> int:
        """How long a burst takes: a minute, or half of the shortest hotspot, so that no two bursts overlap in part."""
        lengths = [hotspot.until_us - hotspot.from_us for hotspot in self.heat.hotspots]
        return max(1, min([BURST_US, *(length // 2 for length in lengths)]))
