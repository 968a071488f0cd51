"""Histograms of latencies in the manner of HDR: buckets as wide as a fixed share of their value.

Recording is one addition, merging adds bucket to bucket, and any percentile is right to within 1 %.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

SUB_BUCKETS = 128
"""Buckets per doubling of the value; half of that is what a bucket can be wrong by, as a share."""
SMALLEST_S = 1e-6
LARGEST_S = 3600.0
BUCKETS = SUB_BUCKETS * math.ceil(math.log2(LARGEST_S / SMALLEST_S))
PERCENTILES = {"p50": 50.0, "p95": 95.0, "p99": 99.0}


@dataclass
class Histogram:
    """How often each latency was seen.

    >>> seen = Histogram()
    >>> for milliseconds in range(1, 101):
    ...     seen.record(milliseconds / 1000)
    >>> round(seen.percentile(50) * 1000), round(seen.percentile(99) * 1000), seen.summary_ms()["mean"]
    (50, 99, 50.5)
    """

    counts: dict[int, int] = field(default_factory=dict)
    total: int = 0
    sum_s: float = 0.0
    max_s: float = 0.0

    def record(self, value_s: float, times: int = 1) -> None:
        """Count a latency; a clock that went back counts as none."""
        value_s = max(value_s, 0.0)
        bucket = _bucket(value_s)
        self.counts[bucket] = self.counts.get(bucket, 0) + times
        self.total += times
        self.sum_s += value_s * times
        self.max_s = max(self.max_s, value_s)

    def percentile(self, percent: float) -> float:
        """The latency that so many percent do not exceed, in seconds; 0 where nothing was seen."""
        wanted = percent / 100 * self.total
        seen = 0
        for bucket in sorted(self.counts):
            seen += self.counts[bucket]
            if seen >= wanted:
                return min(_middle(bucket), self.max_s)
        return 0.0

    def summary_ms(self) -> dict[str, float]:
        """Mean, percentiles and maximum in milliseconds."""
        numbers = {
            "mean": self.sum_s / self.total if self.total else 0.0,
            **{name: self.percentile(percent) for name, percent in PERCENTILES.items()},
            "max": self.max_s,
        }
        return {name: round(value * 1000, 3) for name, value in numbers.items()}


def merged(histograms: Iterable[Histogram]) -> Histogram:
    """All of several histograms in one.

    >>> one, other = Histogram(), Histogram()
    >>> one.record(0.001, times=3)
    >>> other.record(0.1)
    >>> both = merged([one, other])
    >>> both.total, both.max_s
    (4, 0.1)
    """
    together = Histogram()
    for each in histograms:
        for bucket, count in list(each.counts.items()):
            together.counts[bucket] = together.counts.get(bucket, 0) + count
        together.total += each.total
        together.sum_s += each.sum_s
        together.max_s = max(together.max_s, each.max_s)
    return together


def _bucket(value_s: float) -> int:
    if value_s <= SMALLEST_S:
        return 0
    return min(BUCKETS, 1 + int(math.log2(value_s / SMALLEST_S) * SUB_BUCKETS))


def _middle(bucket: int) -> float:
    return SMALLEST_S if bucket == 0 else SMALLEST_S * 2.0 ** ((bucket - 0.5) / SUB_BUCKETS)
