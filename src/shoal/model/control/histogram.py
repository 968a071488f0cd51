"""Latency histograms in the style of HDR: the width of a bucket is a fixed share of its value.

Recording is one addition, merging adds bucket to bucket, and any percentile is right to within 1 %.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

SUB_BUCKETS = 128
"""Buckets per doubling of the value."""
SMALLEST_S = 1e-6
LARGEST_S = 3600.0
BUCKETS = SUB_BUCKETS * math.ceil(math.log2(LARGEST_S / SMALLEST_S))
PERCENTILES = {"p50": 50.0, "p95": 95.0, "p99": 99.0}


@dataclass
class Histogram:
    """How often each latency was observed.

    >>> observed = Histogram()
    >>> for milliseconds in range(1, 101):
    ...     observed.record(milliseconds / 1000)
    >>> round(observed.percentile(50) * 1000), round(observed.percentile(99) * 1000), observed.summary_ms()["mean"]
    (50, 99, 50.5)
    """

    counts: dict[int, int] = field(default_factory=dict)
    total: int = 0
    sum_s: float = 0.0
    max_s: float = 0.0

    def record(self, value_s: float, times: int = 1) -> None:
        """Count a latency; a negative one, from a clock that went back, counts as 0."""
        value_s = max(value_s, 0.0)
        bucket = _bucket(value_s)
        self.counts[bucket] = self.counts.get(bucket, 0) + times
        self.total += times
        self.sum_s += value_s * times
        self.max_s = max(self.max_s, value_s)

    def record_all(self, values_s: NDArray[np.float64], times: NDArray[np.int64]) -> None:
        """Count many latencies, each a number of times.

        >>> one, other = Histogram(), Histogram()
        >>> one.record_all(np.array([0.001, 0.1]), np.array([3, 1]))
        >>> other.record(0.001, times=3)
        >>> other.record(0.1)
        >>> one == other
        True
        """
        if not len(values_s):
            return
        values_s = np.maximum(values_s, 0.0)
        above = np.log2(np.maximum(values_s, SMALLEST_S) / SMALLEST_S) * SUB_BUCKETS
        buckets = np.where(values_s <= SMALLEST_S, 0, np.minimum(BUCKETS, 1 + above.astype(np.int64)))
        numbers = np.bincount(buckets, weights=times)
        for bucket in np.flatnonzero(numbers).tolist():
            self.counts[bucket] = self.counts.get(bucket, 0) + int(numbers[bucket])
        self.total += int(times.sum())
        self.sum_s += float((values_s * times).sum())
        self.max_s = max(self.max_s, float(values_s.max()))

    def percentile(self, percent: float) -> float:
        """The latency in seconds that `percent` of all values do not exceed; 0 if there are none."""
        wanted = percent / 100 * self.total
        counted = 0
        for bucket in sorted(self.counts):
            counted += self.counts[bucket]
            if counted >= wanted:
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
    """Several histograms as one.

    >>> one, other = Histogram(), Histogram()
    >>> one.record(0.001, times=3)
    >>> other.record(0.1)
    >>> both = merged([one, other])
    >>> both.total, both.max_s
    (4, 0.1)
    """
    whole = Histogram()
    for each in histograms:
        for bucket, count in list(each.counts.items()):
            whole.counts[bucket] = whole.counts.get(bucket, 0) + count
        whole.total += each.total
        whole.sum_s += each.sum_s
        whole.max_s = max(whole.max_s, each.max_s)
    return whole


def _bucket(value_s: float) -> int:
    if value_s <= SMALLEST_S:
        return 0
    return min(BUCKETS, 1 + int(math.log2(value_s / SMALLEST_S) * SUB_BUCKETS))


def _middle(bucket: int) -> float:
    return SMALLEST_S if bucket == 0 else SMALLEST_S * 2.0 ** ((bucket - 0.5) / SUB_BUCKETS)
