"""Ad events of the `ysb` workload, the Yahoo! Streaming Benchmark: eight 64-bit numbers per event.

An event is a function of its index alone, so a source can be split, replayed and resumed anywhere.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from shoal.kernels.compiled import compiled
from shoal.workloads.limits import PER_S, SEED, START_US, check_limits, check_slice
from shoal.workloads.scatter import below, mix

Ints = npt.NDArray[np.int64]

MICROSECONDS = 1_000_000
VIEW = 0
"""The event type that is counted; the two others are clicks and purchases."""
EVENT_TYPES = 3
AD_TYPES = 5
PEOPLE = 1_000_000
PAGES = 100_000
NAMES = ("user_id", "page_id", "ad_id", "ad_type", "event_type", "event_time", "ip", "spare")
SCHEMA = pa.schema([(name, pa.timestamp("us") if name == "event_time" else pa.int64()) for name in NAMES])
LIMITS = {
    "ads": (1, 1_000_000),
    "campaigns": (1, 1_000_000),
    "per_s": PER_S,
    "seed": SEED,
    "start_us": START_US,
}


@dataclass(frozen=True)
class YsbEvents:
    """An endless stream of ad events, `per_s` for every second of event time, a third of them views.

    >>> events = YsbEvents()
    >>> events.batch(0, 9)["event_type"].to_pylist()
    [0, 2, 2, 0, 1, 1, 2, 0, 2]
    >>> events.batch(5, 9) == events.batch(0, 9).slice(5)
    True
    """

    ads: int = 1000
    campaigns: int = 100
    per_s: int = 1_000_000
    seed: int = 0
    start_us: int = 1_704_067_200_000_000  # 2024-01-01T00:00:00Z

    def __post_init__(self) -> None:
        """Refuse numbers that make no sense."""
        check_limits("ysb", self, LIMITS)

    @staticmethod
    def schema() -> pa.Schema:
        """Columns of every batch.

        >>> YsbEvents.schema().names
        ['user_id', 'page_id', 'ad_id', 'ad_type', 'event_type', 'event_time', 'ip', 'spare']
        """
        return SCHEMA

    def batch(self, start: int, stop: int) -> pa.RecordBatch:
        """Events number `start` up to but without `stop`, whatever else was asked for before."""
        check_slice("ysb", start, stop)
        columns = np.empty((len(NAMES), stop - start), np.int64)
        _fill(columns, start, np.uint64(self.seed), self.ads, self.per_s, self.start_us)
        arrays = [pa.array(column).view(field.type) for column, field in zip(columns, SCHEMA, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)

    def campaign_of_ad(self) -> dict[int, int]:
        """The static table that events are joined with.

        >>> list(YsbEvents(ads=4, campaigns=2).campaign_of_ad().items())
        [(0, 0), (1, 1), (2, 0), (3, 1)]
        """
        return {ad: ad % self.campaigns for ad in range(self.ads)}


@compiled
def _fill(columns: Ints, start: int, seed: np.uint64, ads: int, per_s: int, start_us: int) -> None:
    """Write the events from number `start` on until the columns are full."""
    user_id, page_id, ad_id, ad_type, event_type, event_time, ip, spare = columns
    stream = mix(seed)
    for n in range(columns.shape[1]):
        first = mix(stream ^ np.uint64(start + n))
        other = mix(first)
        event_type[n] = below(EVENT_TYPES, first)
        ad_id[n] = below(ads, first >> np.uint64(32))
        ad_type[n] = ad_id[n] % AD_TYPES
        user_id[n] = below(PEOPLE, other)
        page_id[n] = below(PAGES, other >> np.uint64(32))
        event_time[n] = start_us + (start + n) * MICROSECONDS // per_s
        ip[n] = np.int64(other & np.uint64(0xFFFFFFFF))
        spare[n] = start + n
